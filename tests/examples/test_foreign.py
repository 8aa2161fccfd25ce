"""The examples know nothing of piriscale but topics and JSON, and build without a warning."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

from tests.examples.ecus import C_FLAGS, EXAMPLES, build_c, headers_of_mosquitto
from tests.requirements import require

OURS = {"schemas", "broker", "components", "tests"}


def test_the_python_example_imports_paho_and_the_standard_library_only() -> None:
    found = set()
    for node in ast.walk(ast.parse((EXAMPLES / "ecu.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    assert "paho" in found
    assert not found & OURS


def test_the_c_example_includes_mosquitto_and_the_c_library_only() -> None:
    included = re.findall(r'#include ([<"].+[>"])', (EXAMPLES / "ecu.c").read_text(encoding="utf-8"))
    assert "<mosquitto.h>" in included
    assert [one for one in included if one.startswith('"')] == []


def test_the_c_example_builds_without_a_warning(tmp_path: Path) -> None:
    assert "-Werror" in C_FLAGS
    assert build_c(tmp_path).exists()


def test_the_c_example_says_how_it_is_called(tmp_path: Path) -> None:
    result = subprocess.run([build_c(tmp_path)], check=False, capture_output=True, text=True)
    assert (result.returncode, "usage" in result.stderr) == (2, True)


def test_without_a_broker_the_c_example_ends_with_its_reason(tmp_path: Path) -> None:
    result = subprocess.run(
        [build_c(tmp_path), "127.0.0.1", "1", "n", "w"], check=False, capture_output=True, text=True, timeout=20
    )
    assert result.returncode == 1
    assert "refused" in result.stderr


def test_the_shell_example_is_one_line_without_a_complaint() -> None:
    script = EXAMPLES / "ecu.sh"
    code = [line for line in script.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert len(code) == 1
    require(shutil.which("shellcheck") is not None, "shellcheck (apt-get install shellcheck)")
    result = subprocess.run(["shellcheck", script], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_the_headers_that_the_readme_asks_for_are_those_that_are_needed() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert "libmosquitto-dev" in readme
    require(headers_of_mosquitto(), "libmosquitto-dev (apt-get install libmosquitto-dev)")
