"""Two nodes on one machine: a network namespace each, and a cable from it to the broker's address."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

# 198.18.0.0/15 is set aside for benchmarks (RFC 2544), so it is no network that a bench is in.
_PREFIX: Final = f"198.18.{os.getpid() % 250 + 1}"
BROKER_ADDRESS: Final = f"{_PREFIX}.1"


class NetworkError(Exception):
    """The network cannot be made; the text says why."""


@dataclass(frozen=True)
class Cable:
    """One node's namespace while used as a context manager."""

    node: str
    number: int

    @property
    def namespace(self) -> str:
        """As `ip netns` knows it."""
        return f"piriscale-{os.getpid()}-{self.node}"

    @property
    def address(self) -> str:
        """The node's."""
        return f"{_PREFIX}.{10 + self.number}"

    @property
    def inside(self) -> list[str]:
        """Words before a command that is to run on the node.

        Not `ip netns exec`, which mounts /sys anew, without the cgroups that an agent reads.
        """
        return ["nsenter", f"--net=/run/netns/{self.namespace}"]

    def __enter__(self) -> Self:
        """Lay it. Raises NetworkError."""
        ours, theirs = f"ps{os.getpid()}-{self.number}", "node0"
        _ip("netns", "add", self.namespace)
        try:
            _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", self.namespace)
            _ip("address", "add", BROKER_ADDRESS, "peer", self.address, "dev", ours)
            _ip("link", "set", ours, "up")
            _ip("-n", self.namespace, "address", "add", self.address, "peer", BROKER_ADDRESS, "dev", theirs)
            for link in ("lo", theirs):
                _ip("-n", self.namespace, "link", "set", link, "up")
        except NetworkError:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove it."""
        self._remove()

    def _remove(self) -> None:
        _ip("netns", "delete", self.namespace)


def lacking() -> str | None:
    """What this machine lacks for network namespaces, in words; None: nothing."""
    if os.geteuid() != 0:
        return "root, for network namespaces"
    if shutil.which("ip") is None or shutil.which("nsenter") is None:
        return "ip and nsenter (apt-get install iproute2 util-linux)"
    return None


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise NetworkError(f"ip {' '.join(words)}: {done.stderr.strip()}")
