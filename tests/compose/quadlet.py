"""Podman's generator of units from quadlets, which Debian 12's Podman lacks: fetched from Debian 13."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.compose.images import debian_mirror
from tests.requirements import require

INSTALLED: Final = Path("/usr/libexec/podman/quadlet")
SUITE: Final = "trixie"
KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_WITHIN_S: Final = 600.0


def quadlet(folder: Path) -> Path:
    """The program: this machine's, or one unpacked in `folder` and not installed."""
    if INSTALLED.exists():
        return INSTALLED
    require(os.geteuid() == 0 and KEYS.exists(), "root and debian-archive-keyring, to fetch Podman of Debian 13")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYS}] {debian_mirror()} {SUITE} main\n")
    own = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in own.items())]
    _run([*apt, "update"], folder)
    _run([*apt, "download", "podman"], folder)
    (package,) = folder.glob("podman_*.deb")
    _run(["dpkg-deb", "--extract", str(package), "unpacked"], folder)
    return folder / "unpacked" / str(INSTALLED).lstrip("/")


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_WITHIN_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def units_of(program: Path, quadlets: Path) -> dict[str, str]:
    """What it makes of the files in a folder: texts by the names of units. Fails when it complains of anything."""
    done = subprocess.run(
        [str(program), "-dryrun"],
        env={**os.environ, "QUADLET_UNIT_DIRS": str(quadlets)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "Loading source" not in line]
    assert complaints == [], done.stderr
    parts = re.split(r"^---(.+)---$", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
