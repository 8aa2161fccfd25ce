"""The columns of the table: which Podman, on which machine, for whom, with which cgroup manager."""

from dataclasses import dataclass
from typing import Final

CGROUP_V1: Final = "systemd.unified_cgroup_hierarchy=0"
USER: Final = "driver"
UID: Final = 1000


@dataclass(frozen=True)
class Boot:
    """A machine, as it is started."""

    suite: str
    """The Debian release its packages come from."""
    python: str
    kernel_arguments: str = ""


@dataclass(frozen=True)
class Column:
    """One Podman service."""

    name: str
    """Also the name of the file in results/."""
    boot: Boot
    rootless: bool
    manager: str
    """"systemd" or "cgroupfs"."""

    @property
    def user(self) -> str:
        """Who runs Podman, containers and the agent."""
        return USER if self.rootless else "root"

    @property
    def socket(self) -> str:
        """Where the service listens: where a distribution puts it, or beside that."""
        folder = f"/run/user/{UID}" if self.rootless else "/run"
        return f"{folder}/{'podman/podman' if self.manager == 'systemd' else 'podman-cgroupfs'}.sock"

    @property
    def url(self) -> str:
        """The same for clients."""
        return f"unix://{self.socket}"

    @property
    def command(self) -> list[str]:
        """Podman's command line for the same containers."""
        return ["podman"] if self.manager == "systemd" else ["podman", "--cgroup-manager=cgroupfs"]

    @property
    def start(self) -> list[str]:
        """Starts the service: as a distribution does it, or by hand for a manager that is not the default."""
        scope = ["--user"] if self.rootless else []
        if self.manager == "systemd":
            return ["systemctl", *scope, "start", "podman.socket"]
        unit = ["--unit=podman-cgroupfs", "--property=Delegate=yes"]
        return ["systemd-run", *scope, *unit, *self.command, "system", "service", "--time=0", self.url]


DEBIAN_12: Final = Boot("bookworm", "3.11")
DEBIAN_12_V1: Final = Boot("bookworm", "3.11", CGROUP_V1)
DEBIAN_13: Final = Boot("trixie", "3.13")

COLUMNS: Final = (
    Column("podman43-v1-rootful-systemd", DEBIAN_12_V1, rootless=False, manager="systemd"),
    Column("podman43-v1-rootless-cgroupfs", DEBIAN_12_V1, rootless=True, manager="cgroupfs"),
    Column("podman43-v2-rootful-systemd", DEBIAN_12, rootless=False, manager="systemd"),
    Column("podman43-v2-rootless-systemd", DEBIAN_12, rootless=True, manager="systemd"),
    Column("podman54-v2-rootful-systemd", DEBIAN_13, rootless=False, manager="systemd"),
    Column("podman54-v2-rootful-cgroupfs", DEBIAN_13, rootless=False, manager="cgroupfs"),
    Column("podman54-v2-rootless-systemd", DEBIAN_13, rootless=True, manager="systemd"),
    Column("podman54-v2-rootless-cgroupfs", DEBIAN_13, rootless=True, manager="cgroupfs"),
)
