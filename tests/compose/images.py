"""The images of compose/Containerfile, really built, where no registry is within reach.

The base is made from Debian's packages and gets the name that the Containerfile pins; Python packages come from a
folder that pip fills beforehand, however pip is configured on this machine.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from components.node_agent.podman.private import PrivatePodman, missing
from tests.requirements import require

ROOT: Final = Path(__file__).parents[2]
CONTAINERFILE: Final = ROOT / "compose" / "Containerfile"
BASE: Final = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[0]
SUITE: Final = re.findall(r"debian:([a-z]+)-", BASE)[0]
PYTHON_OF: Final = {"bookworm": "3.11", "trixie": "3.13"}
MANYLINUX: Final = ("2_17", "2_28", "2_34")
PIRISCALE: Final = "localhost/piriscale:0.1.0"
BROKER: Final = "localhost/piriscale-broker:0.1.0"
BUILD_WITHIN_S: Final = 900.0


def require_tools() -> None:
    """Skip, or fail in CI, without what it takes to build and run images."""
    require(missing() is None, missing() or "")
    require(shutil.which("mmdebstrap") is not None, "mmdebstrap (apt-get install mmdebstrap)")
    require(Path("/usr/lib/podman/netavark").exists(), "netavark (apt-get install netavark aardvark-dns iptables)")


def build(podman: PrivatePodman, folder: Path) -> None:
    """Import the base and build both images."""
    podman.command("import", "--quiet", str(_base()), BASE, timeout_s=BUILD_WITHIN_S)
    wheels = _wheels(folder / "wheels")
    for target, tag in (("piriscale", PIRISCALE), ("broker", BROKER)):
        podman.command(
            *("build", "--format", "docker", "--layers=false", "--network", "host", "--pull=never"),
            *("--volume", f"{wheels}:/wheels:ro", "--build-arg", "PIP_NO_INDEX=1"),
            *("--build-arg", "PIP_FIND_LINKS=/wheels", "--target", target, "--tag", tag),
            *("--ignorefile", str(CONTAINERFILE.with_name("Containerfile.containerignore"))),
            *("--file", str(CONTAINERFILE), str(ROOT)),
            timeout_s=BUILD_WITHIN_S,
        )


def _base() -> Path:
    """A minimal Debian as an archive; made once, since that takes minutes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "piriscale-images"
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"{SUITE}-{platform.machine()}.tar"
    if not archive.exists():
        making = archive.with_suffix(f".{os.getpid()}.tar")
        command = [
            "mmdebstrap",
            "--variant=minbase",
            "--include=ca-certificates",
            SUITE,
            str(making),
            debian_mirror(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_WITHIN_S)
        assert done.returncode == 0, done.stderr
        making.rename(archive)
    return archive


def debian_mirror() -> str:
    """Where this machine gets its own Debian packages from."""
    form = "$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.rpartition(" ")[2] for line in lines if line.startswith("Debian Debian main ")]
    require(bool(found), "an apt with a Debian archive among its sources")
    return found[0]


def _wheels(folder: Path) -> Path:
    """What pip would fetch for the image's Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    platforms = [f"--platform=manylinux_{version}_{platform.machine()}" for version in MANYLINUX]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), "--only-binary=:all:"]
    done = subprocess.run(
        [*command, f"--python-version={PYTHON_OF[SUITE]}", "--implementation=cp", *platforms, *wanted],
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    return folder
