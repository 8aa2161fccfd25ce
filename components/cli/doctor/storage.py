"""Whether the databases can be written."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from components.cli.doctor.finding import Finding, ok, wrong
from components.settings import Settings, state_directory

AREA: Final = "storage"
FREE_MIB_MIN: Final = 64
"""Less than this free is a full disk: the next write may fail, and then nothing is granted."""


def directories(settings: Settings) -> list[Path]:
    """Where components keep files, each once."""
    return list(dict.fromkeys(_directories(settings)))


def _directories(settings: Settings) -> Iterator[Path]:
    sections = (settings.resource_manager, settings.action_controller, settings.policy_manager)
    for database in (section.database for section in sections):
        yield database.absolute().parent if database else state_directory()
    yield (settings.node_agent.state_dir or state_directory()).absolute()
    if settings.broker.url is None:
        yield (settings.broker.data_dir or state_directory()).absolute()


def check_storage(settings: Settings, free_mib_min: int = FREE_MIB_MIN) -> list[Finding]:
    """Permission and room, for every directory."""
    return [_check(directory, free_mib_min) for directory in directories(settings)]


def _check(directory: Path, free_mib_min: int) -> Finding:
    existing = next(one for one in (directory, *directory.parents) if _seen(one))
    if not existing.is_dir():
        return wrong(AREA, f"{existing} is no directory", f"remove it, or name another place than {directory}")
    usage = os.statvfs(existing)
    if usage.f_flag & os.ST_RDONLY:
        remedy = f"mount -o remount,rw {_mount_point(existing)}, or name another place than {directory}"
        return wrong(AREA, f"{existing} is mounted read-only", remedy)
    if not os.access(existing, os.W_OK | os.X_OK):
        remedy = f"run as another user, or: install -d -o {_user()} {directory}"
        return wrong(AREA, f"{existing} cannot be written by this user", remedy)
    free_mib = usage.f_bavail * usage.f_frsize // 2**20
    if free_mib < free_mib_min or (usage.f_files and not usage.f_favail):
        what = f"{free_mib} MiB" if usage.f_favail or not usage.f_files else "no inode"
        return wrong(AREA, f"disk full: {what} free for {directory}", f"free at least {free_mib_min} MiB there")
    return ok(AREA, f"{directory} can be written, {free_mib} MiB free")


def _mount_point(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.is_mount())


def _seen(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return False


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
