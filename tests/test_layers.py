"""The shape of the code: imports go one way, foreign libraries have one home, nothing happens at import."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.topics import Role

ROOT = Path(__file__).parent.parent
LINES_MAX = 350

LOWER_LAYERS = {"schemas": set[str](), "broker": {"schemas"}, "components": {"schemas", "broker"}}
"""What each layer may import of ours, besides itself."""

PARTS = {role.value for role in Role if role is not Role.CLI} & {
    path.name for path in (ROOT / "components").iterdir() if path.is_dir()
}
"""The components proper; what else lies in components/ is shared by them, or puts them together."""

ASSEMBLY = "components.cli"
"""The one place that knows all components: it puts them together."""

SHELL = "components.shell"
"""Runs a component without knowing which."""

HOMES = {"paho": "broker", "podman": "components.node_agent.podman"}
"""Libraries that one place hides from all others."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def part_of(module: str) -> str | None:
    """The component that a module belongs to; None: none."""
    levels = module.split(".")
    return levels[1] if len(levels) > 1 and levels[0] == "components" and levels[1] in PARTS else None


CODE = sources("schemas", "broker", "components")


@pytest.mark.parametrize("path", CODE, ids=module_of)
def test_imports_go_one_way(path: Path) -> None:
    layer = module_of(path).split(".")[0]
    ours = {name.split(".")[0] for name in imports(path)} & {*LOWER_LAYERS, "tests", "compose"}
    assert ours <= LOWER_LAYERS[layer] | {layer}


@pytest.mark.parametrize("path", CODE, ids=module_of)
def test_components_do_not_know_each_other(path: Path) -> None:
    module = module_of(path)
    if within(module, ASSEMBLY):
        return
    foreign = {name for name in imports(path) if part_of(name) not in (None, part_of(module))}
    assert not foreign, "components speak through messages, and only the command line puts them together"


@pytest.mark.parametrize("path", [path for path in CODE if part_of(module_of(path))], ids=module_of)
def test_a_component_knows_neither_its_shell_nor_the_command_line(path: Path) -> None:
    assert not [name for name in imports(path) if within(name, SHELL) or within(name, ASSEMBLY)]


@pytest.mark.parametrize("path", CODE, ids=module_of)
def test_a_foreign_library_has_one_home(path: Path) -> None:
    module = module_of(path)
    strays = [
        name
        for name in imports(path)
        for library, home in HOMES.items()
        if within(name, library) and not within(module, home)
    ]
    assert not strays


def test_every_component_is_judged() -> None:
    assert {"monitoring_server", "policy_manager"} <= PARTS
    assert len(CODE) > 20


@pytest.mark.parametrize("path", [*CODE, *sources("tests")], ids=module_of)
def test_a_file_can_be_read_in_one_go(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < LINES_MAX


@pytest.mark.parametrize("path", CODE, ids=module_of)
def test_a_file_says_what_belongs_in_it(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


WATCHED = """
import importlib, sys, threading

DONE = []
ACTS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec",
        "os.fork", "sqlite3.connect", "os.mkdir", "os.remove", "os.rename", "os.putenv", "signal.signal")

def watch(event, args):
    written = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
    if event in ACTS or written:
        DONE.append((event, args[:2]))

modules = sys.argv[1:]
sys.addaudithook(watch)
for module in modules:
    importlib.import_module(module)
if threading.active_count() > 1:
    DONE.append(("threads", [thread.name for thread in threading.enumerate()]))
sys.exit(f"done at import: {DONE}" if DONE else 0)
"""


def test_nothing_happens_at_import() -> None:
    modules = [module_of(path) for path in CODE if path.stem != "__main__"]
    result = subprocess.run(
        [sys.executable, "-c", WATCHED, *modules],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
