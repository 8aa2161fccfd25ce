"""How each example is started inside a container that has no more than a busybox of its own."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.requirements import require

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "compose" / "examples"
C_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
HEADER_PROBE = "#include <mosquitto.h>\n"


def headers_of_mosquitto() -> bool:
    """Whether a C compiler finds them."""
    if shutil.which("gcc") is None:
        return False
    command = ["gcc", "-E", "-x", "c", "-"]
    return subprocess.run(command, input=HEADER_PROBE, text=True, capture_output=True, check=False).returncode == 0


def build_c(folder: Path) -> Path:
    """Compile the example in C; the program."""
    require(headers_of_mosquitto(), "gcc and libmosquitto-dev (apt-get install gcc libc6-dev libmosquitto-dev)")
    program = folder / "ecu"
    command = ["gcc", *C_FLAGS, "-o", str(program), str(EXAMPLES / "ecu.c"), "-lmosquitto"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return program


@dataclass(frozen=True)
class Ecu:
    """One example: the words that start it, and the CPUs it begins with."""

    words: tuple[str, ...]
    cpus: float

    def shell(self, port: int, node: str, workload: str) -> str:
        """The command inside the container."""
        return "exec " + shlex.join([*self.words, "127.0.0.1", str(port), node, workload])


def ecus(folder: Path) -> Mapping[str, Ecu]:
    """The examples by language; C is built in `folder` when it is asked for."""
    require(shutil.which("mosquitto_pub") is not None, "mosquitto_pub (apt-get install mosquitto-clients)")
    return {
        "python": Ecu((sys.executable, str(EXAMPLES / "ecu.py")), 0.2),
        "c": Ecu((str(build_c(folder)),), 0.2),
        "shell": Ecu(("/usr/bin/sh", str(EXAMPLES / "ecu.sh")), 0.2),
    }


def options(folder: Path) -> list[str]:
    """The host's programs, read-only, and its network inside a container."""
    mounted = {
        Path("/usr"),
        Path("/lib"),
        Path("/lib64"),
        EXAMPLES,
        folder,
        Path(sys.prefix),
        Path(sys.base_prefix),
    }
    found = ["--network=host", "--env", "PATH=/usr/bin:/bin"]
    for path in sorted(path for path in mounted if path.exists()):
        if path == Path("/usr") or not path.is_relative_to("/usr"):
            found += ["--volume", f"{path}:{path}:ro"]
    return found
