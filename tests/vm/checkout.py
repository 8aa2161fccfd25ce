"""What the machine gets of ours: a disk with this checkout, and the packages it needs for the guest's Python."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
PARTS: Final = ("schemas", "broker", "components", "tests", "pyproject.toml")
MANYLINUX: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
INSTALL_TIMEOUT_S: Final = 600


def cache() -> Path:
    """Where images and packages are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "piriscale-vm"


def packages(python: str) -> Path:
    """The folder with our dependencies for a Python such as "3.13", made if it is not in the cache."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted: list[str] = project["dependencies"]
    key = hashlib.sha256("\n".join([python, *MANYLINUX, *wanted]).encode()).hexdigest()[:16]
    folder = cache() / f"python{python}-{key}"
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "packages.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # machines are prepared side by side
        if not folder.exists():
            fetch(python, wanted, folder)
    return folder


def fetch(python: str, wanted: list[str], folder: Path) -> None:
    """Install packages into a new folder, which takes the place of those for the same Python."""
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished.", dir=cache()))
    platforms = [f"--platform={name}_x86_64" for name in MANYLINUX]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    command += ["--only-binary=:all:", f"--python-version={python}", *platforms, f"--target={unfinished}", *wanted]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"pip could not fetch packages for Python {python}:\n{done.stdout}{done.stderr}")
        for old in cache().glob(f"python{python}-*"):
            shutil.rmtree(old)
        unfinished.chmod(0o755)  # rootless users read it too
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def disk(python: str, scratch: Path) -> Path:
    """An ext4 image labelled "checkout", in the folder `scratch`."""
    content = scratch / "checkout"
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, content / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, content / part)
    shutil.copytree(packages(python), content / "packages")
    image = scratch / "checkout.ext4"
    command = ["mkfs.ext4", "-q", "-L", "checkout", "-O", "^has_journal", "-d", str(content), str(image), "256M"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    shutil.rmtree(content)
    return image
