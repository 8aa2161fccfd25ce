"""A pod with its infra container, for tests."""

from typing import Self

from components.node_agent.podman.private import IMAGE, PrivatePodman
from tests.fixtures.podman import Box

MIB = 1024 * 1024


class Pod:
    """One pod, with room for one member."""

    def __init__(self, podman: PrivatePodman) -> None:
        self._podman = podman
        self.infra = ""

    def __enter__(self) -> Self:
        # The usual infra container would need a program that not every machine has.
        infra = ("--infra-image", IMAGE, "--infra-command", "/bin/busybox sleep 1000000")
        self._podman.command("pod", "create", "--name", "pod", "--network", "none", *infra)
        self._podman.command("pod", "start", "pod")
        infra_id = self._podman.command("pod", "inspect", "pod", "--format", "{{.InfraContainerID}}")
        self.infra = self._podman.command("inspect", infra_id, "--format", "{{.Name}}")
        return self

    def member(self, *, cpus: float, memory_mib: int) -> Box:
        identity = self._podman.run("pod-member", cpus=cpus, memory_mib=memory_mib, options=["--pod", "pod"])
        return Box(self._podman, "pod-member", identity)

    @staticmethod
    def limit(member: Box, *, cpu_millicores: int, memory_mib: int) -> None:
        """Give the pod's cgroup limits, as an administrator or systemd would."""
        member.write_cpu(cpu_millicores * 100, above=1)
        member.write_memory(memory_mib * MIB, above=1)

    def __exit__(self, *_: object) -> None:
        self._podman.command("pod", "rm", "--force", "--time", "0", "pod")
