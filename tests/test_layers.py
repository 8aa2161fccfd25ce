"""The shape of the code: imports go one way, foreign libraries have one home, nothing happens at import."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
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

PICTURE = "components.overview"
"""Shared by all that show the system; folds messages, and knows nothing but them."""

HOMES = {"paho": "broker", "podman": "components.node_agent.podman"}
"""Libraries that one place hides from all others."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names of all that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def top(module: str) -> str:
    return module.partition(".")[0]


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def part_of(module: str) -> str | None:
    """The component that a module belongs to; None: none."""
    levels = module.split(".")
    return levels[1] if len(levels) > 1 and levels[0] == "components" and levels[1] in PARTS else None


CODE = sources("schemas", "broker", "components")
EVERYTHING = [*CODE, *sources("tests")]


def strays(allowed: Callable[[str, str], bool]) -> list[str]:
    """Every import that is not allowed, as "who imports what"."""
    return [
        f"{module_of(path)} imports {name}"
        for path in CODE
        for name in imports(path)
        if not allowed(module_of(path), name)
    ]


def test_imports_go_one_way() -> None:
    ours = {*LOWER_LAYERS, "tests", "compose"}

    def allowed(module: str, name: str) -> bool:
        layer, imported = top(module), top(name)
        return imported not in ours or imported == layer or imported in LOWER_LAYERS[layer]

    assert strays(allowed) == []


def test_components_speak_through_messages_and_do_not_know_each_other() -> None:
    assert strays(lambda module, name: within(module, ASSEMBLY) or part_of(name) in (None, part_of(module))) == []


def test_a_component_knows_neither_its_shell_nor_the_command_line() -> None:
    def allowed(module: str, name: str) -> bool:
        return part_of(module) is None or not (within(name, SHELL) or within(name, ASSEMBLY))

    assert strays(allowed) == []


def test_the_picture_of_the_system_is_folded_from_messages_alone() -> None:
    pure = (PICTURE, "components.aliases", "components.pauses", "components.presence", "schemas")

    def allowed(module: str, name: str) -> bool:
        foreign = top(name) not in {*LOWER_LAYERS, "rich", "sqlite3", "socket", "subprocess", "pathlib", "time"}
        return not within(module, PICTURE) or foreign or any(within(name, one) for one in pure)

    assert strays(allowed) == []


@pytest.mark.parametrize(("library", "home"), HOMES.items())
def test_a_foreign_library_has_one_home(library: str, home: str) -> None:
    assert strays(lambda module, name: not within(name, library) or within(module, home)) == []


def test_every_component_is_judged() -> None:
    components = set(Role) - {Role.CLI, Role.APPLICATION, Role.ANYONE}
    assert components == PARTS
    assert strays(lambda _, name: not within(name, "schemas")) != [], "imports are found at all"


def test_a_file_can_be_read_in_one_go() -> None:
    lines = {module_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in EVERYTHING}
    assert {module: count for module, count in lines.items() if count >= LINES_MAX} == {}


def test_a_file_says_what_belongs_in_it() -> None:
    assert [module_of(path) for path in CODE if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


WATCHED = """
import importlib, sys, threading

DONE = []
ACTS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec",
        "os.fork", "sqlite3.connect", "os.mkdir", "os.remove", "os.rename", "os.putenv", "signal.signal")

def probing(frame):
    # urllib3, below the Podman library, binds a socket of its own to see whether there is IPv6.
    while frame is not None and frame.f_globals.get("__name__") != "urllib3.util.connection":
        frame = frame.f_back
    return frame is not None

def watch(event, args):
    written = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
    if (event in ACTS or written) and not probing(sys._getframe()):
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
