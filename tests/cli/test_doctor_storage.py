"""`doctor` on disks: full, without inodes, read-only. Each is a real mount of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.cli.doctor.finding import Finding
from components.cli.doctor.storage import FREE_MIB_MIN, check_storage, directories
from components.settings import BrokerSettings, NodeAgentSettings, ResourceManagerSettings, Settings
from tests.cli.findings import only_wrong
from tests.requirements import require


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory, while used as a context manager."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    require(result.returncode == 0, f"root, to mount a disk that is full ({result.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def check(directory: Path) -> list[Finding]:
    """Of the places in the settings, the one in question."""
    settings = Settings(
        resource_manager=ResourceManagerSettings(database=directory / "rm.sqlite3"),
        node_agent=NodeAgentSettings(state_dir=directory),
    )
    return [finding for finding in check_storage(settings) if str(directory) in finding.text + finding.remedy]


def test_a_disk_on_which_nothing_can_be_written_any_more(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        with pytest.raises(OSError, match="No space left"):
            (disk / "log").write_bytes(b"x" * 2 * 2**20)
        found = only_wrong(check(disk))

    assert "disk full: 0 MiB free" in found.text
    assert f"free at least {FREE_MIB_MIN} MiB" in found.remedy


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    """The next write of a database may fail, and then nothing is granted."""
    with mounted(tmp_path / "disk", f"size={FREE_MIB_MIN + 8}m") as disk:
        (disk / "few").write_bytes(b"x" * 2**20)
        assert [finding.level for finding in check(disk)] == ["ok"]
        (disk / "more").write_bytes(b"x" * 12 * 2**20)
        assert f"{FREE_MIB_MIN - 5} MiB free" in only_wrong(check(disk)).text


def test_a_disk_that_has_room_but_no_place_for_another_file(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", f"size={2 * FREE_MIB_MIN}m,nr_inodes=3") as disk:
        for name in ("a", "b"):
            (disk / name).touch()
        assert "no inode free" in only_wrong(check(disk)).text


def test_a_disk_that_was_mounted_read_only(tmp_path: Path) -> None:
    """As a kernel does after errors on it."""
    with mounted(tmp_path / "disk", "size=80m,ro") as disk:
        found = only_wrong(check(disk / "piriscale"))

    assert "is mounted read-only" in found.text
    assert f"remount,rw {disk}" in found.remedy


@pytest.mark.parametrize("section", ["broker", "node_agent"])
def test_a_relative_folder_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    """Without that a relative one on a read-only disk had no mount point."""
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        broker=BrokerSettings(data_dir=Path("broker")), node_agent=NodeAgentSettings(state_dir=Path("node_agent"))
    )

    assert tmp_path / section in directories(settings)
