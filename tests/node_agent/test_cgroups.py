"""What the kernel enforces is read right from every layout of cgroups, here imitated by trees of files."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from components.node_agent.podman.kernel import KernelReader
from components.node_agent.runtime import Container, ContainerState, NotRunningError, QueryFailedError
from schemas.limits import Amount

ID = "0123456789abcdef" * 4
PID = 4242
MIB = 1024 * 1024
UNLIMITED_V1 = "9223372036854771712"

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNTS = "\n".join(
    [
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd",
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    ]
)
SYSTEMD = f"machine.slice/libpod-{ID}.scope"


class Tree:
    """A tree of files like those of the kernel."""

    def __init__(self, root: Path, mounts: str, membership: str) -> None:
        self.root = root
        self.write("proc/self/mountinfo", mounts)
        self.write(f"proc/{PID}/cgroup", membership)
        self.write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:        1 kB\n")
        self.write("sys/devices/system/cpu/online", "0-7\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def cgroup(self, path: str, **files: str) -> None:
        """Files of one cgroup; `_` stands for the dot in a file's name."""
        for name, text in files.items():
            self.write(f"sys/fs/cgroup/{path}/{name.replace('__', '.')}", f"{text}\n")

    def reader(self) -> KernelReader:
        return KernelReader(self.root)


CONTAINER = Container("app", ID, ContainerState.RUNNING, pid=PID)

V2_USE = {
    "memory__current": str(100 * MIB),
    "memory__stat": f"anon 1\nfile 2\nactive_file 7\ninactive_file {30 * MIB}",
    "cpu__stat": "usage_usec 5000000\nuser_usec 1",
}
V2_FREE = {"cpu__max": "max 100000", "memory__max": "max", "cpu__weight": "100", "cpuset__cpus": ""}
V2_ALL = {"cpuset__cpus__effective": "0-7"}


def unified(root: Path, path: str) -> Tree:
    return Tree(root, V2_MOUNT, f"0::/{path}\n")


def crun_with_systemd(root: Path, scope: Mapping[str, str], inner: Mapping[str, str]) -> Tree:
    tree = unified(root, f"{SYSTEMD}/container")
    tree.cgroup("", **V2_ALL)
    tree.cgroup("machine.slice", **V2_FREE, **V2_ALL)
    tree.cgroup(SYSTEMD, **{**V2_FREE, **V2_USE, **V2_ALL, **scope})
    tree.cgroup(f"{SYSTEMD}/container", **{**V2_FREE, **V2_ALL, **inner})
    return tree


class TestUnified:
    """cgroup v2."""

    @pytest.mark.parametrize("where", ["scope", "inner", "both"])
    def test_crun_with_systemd_may_write_into_the_scope_or_below_it(self, tmp_path: Path, where: str) -> None:
        limits = {"cpu__max": "150000 100000", "memory__max": str(256 * MIB)}
        scope = limits if where in ("scope", "both") else {}
        inner = limits if where in ("inner", "both") else {}
        enforced = crun_with_systemd(tmp_path, scope, inner).reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit) == (1500, 256)
        assert (enforced.parents.cpu_limit, enforced.parents.memory_limit) == (None, None)

    def test_what_was_written_is_found_wherever_crun_wrote_it(self, tmp_path: Path) -> None:
        limits = {"cpu__max": "20000 50000", "memory__max": str(256 * MIB), "memory__swap__max": str(64 * MIB)}
        own = crun_with_systemd(tmp_path, limits, {"memory__swap__max": "max"}).reader().own_values(CONTAINER)
        assert (own.quota_us, own.period_us) == (20_000, 50_000)
        assert (own.memory, own.swap, own.swap_known) == (256 * MIB, 320 * MIB, True)

    def test_systemd_inside_the_container_moves_its_process_deeper(self, tmp_path: Path) -> None:
        """Limits the workload gives itself are not the container's."""
        tree = crun_with_systemd(tmp_path, {}, {"cpu__max": "200000 100000"})
        tree.write(f"proc/{PID}/cgroup", f"0::/{SYSTEMD}/container/init.scope\n")
        tree.cgroup(f"{SYSTEMD}/container/init.scope", cpu__max="1000 100000", memory__max=str(MIB))
        enforced = tree.reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit) == (2000, None)

    def test_runc_with_systemd(self, tmp_path: Path) -> None:
        tree = unified(tmp_path, SYSTEMD)
        tree.cgroup(SYSTEMD, **{**V2_FREE, **V2_ALL, "cpu__max": "50000 100000", "memory__max": str(64 * MIB)})
        enforced = tree.reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit) == (500, 64)

    def test_a_quadlet_unit_with_split_cgroups(self, tmp_path: Path) -> None:
        path = f"system.slice/app.service/libpod-payload-{ID}"
        tree = unified(tmp_path, path)
        tree.cgroup(path, **{**V2_FREE, **V2_ALL, "cpu__max": "50000 100000"})
        tree.cgroup("system.slice/app.service", **{**V2_FREE, **V2_ALL, "memory__max": str(512 * MIB)})
        enforced = tree.reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit) == (500, 512)
        assert enforced.parents.memory_limit == 512

    def test_the_lowest_of_all_levels_binds(self, tmp_path: Path) -> None:
        pod = "machine.slice/machine-libpod_pod_x.slice"
        path = f"{pod}/libpod-{ID}.scope"
        tree = unified(tmp_path, path)
        tree.cgroup("machine.slice", **{**V2_FREE, **V2_ALL, "memory__max": str(100 * MIB)})
        tree.cgroup(pod, **{**V2_FREE, "cpuset__cpus__effective": "0-3", "cpu__max": "80000 100000"})
        own = {"cpu__max": "200000 100000", "memory__max": str(256 * MIB), "cpuset__cpus__effective": "1-2"}
        tree.cgroup(path, **{**V2_FREE, **own})
        enforced = tree.reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit) == (800, 100)
        assert (enforced.parents.cpu_limit, enforced.parents.memory_limit) == (800, 100)
        assert (enforced.limits.cpuset_cpus, enforced.parents.cpuset_cpus) == ("1-2", "0-3")

    def test_use_leaves_out_the_page_cache_that_can_be_dropped(self, tmp_path: Path) -> None:
        enforced = crun_with_systemd(tmp_path, {}, {}).reader().read(CONTAINER)
        assert (enforced.memory_bytes, enforced.memory_used) == (70 * MIB, 70)
        assert enforced.cpu_time_us == 5_000_000

    def test_the_most_that_was_in_use_before_the_first_look_is_needed(self, tmp_path: Path) -> None:
        reader = crun_with_systemd(tmp_path, {"memory__peak": str(200 * MIB)}, {}).reader()
        assert reader.read(CONTAINER).memory_needed == 200 - 30

    def test_max_is_unlimited(self, tmp_path: Path) -> None:
        limits = crun_with_systemd(tmp_path, {}, {}).reader().read(CONTAINER).limits
        assert (limits.cpu_limit, limits.memory_limit) == (None, None)

    def test_memory_is_rounded_down_and_quota_to_the_millicore(self, tmp_path: Path) -> None:
        odd = {"cpu__max": "33333 100000", "memory__max": str(64 * MIB - 4096)}
        limits = crun_with_systemd(tmp_path, odd, {}).reader().read(CONTAINER).limits
        assert (limits.cpu_limit, limits.memory_limit) == (333, 63)

    def test_the_containers_period_is_told(self, tmp_path: Path) -> None:
        enforced = crun_with_systemd(tmp_path, {}, {"cpu__max": "10000 20000"}).reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.period_us) == (500, 20_000)

    def test_a_controller_that_is_not_delegated_is_told_with_the_remedy(self, tmp_path: Path) -> None:
        """Rootless Podman has no cpuset by default, and older systems not even cpu."""
        path = f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container"
        tree = unified(tmp_path, path)
        tree.cgroup(path, memory__max=str(64 * MIB), memory__current="1")
        enforced = tree.reader().read(CONTAINER)
        assert set(enforced.unchangeable) == {"cpu_limit", "cpu_shares", "cpuset_cpus"}
        assert "Delegate=cpu" in enforced.unchangeable["cpu_limit"]

    def test_a_container_without_a_cgroup_of_its_own_can_only_be_read(self, tmp_path: Path) -> None:
        tree = unified(tmp_path, "user.slice/session-1.scope")
        tree.cgroup("user.slice/session-1.scope", **V2_FREE, **V2_ALL)
        tree.cgroup("user.slice", **{**V2_FREE, **V2_ALL, "memory__max": str(900 * MIB)})
        enforced = tree.reader().read(CONTAINER)
        assert enforced.limits.memory_limit == 900
        assert "--cgroups=disabled" in enforced.unchangeable["memory_limit"]

    def test_a_kernel_that_does_not_account_for_swap(self, tmp_path: Path) -> None:
        own = crun_with_systemd(tmp_path, {"memory__max": str(64 * MIB)}, {}).reader().own_values(CONTAINER)
        assert not own.swap_known

    def test_a_cgroup_that_has_just_gone_is_not_unlimited(self, tmp_path: Path) -> None:
        reader = unified(tmp_path, SYSTEMD).reader()
        with pytest.raises(NotRunningError):
            reader.read(CONTAINER)

    def test_a_pid_that_another_process_has_now_is_not_the_container(self, tmp_path: Path) -> None:
        tree = crun_with_systemd(tmp_path, {}, {})
        reader = tree.reader()
        assert reader.alive(CONTAINER)
        tree.write(f"proc/{PID}/cgroup", "0::/system.slice/cron.service\n")
        assert not reader.alive(CONTAINER)

    def test_from_inside_another_cgroup_namespace_the_remedy_is_told(self, tmp_path: Path) -> None:
        tree = unified(tmp_path, f"../../{SYSTEMD}")
        with pytest.raises(QueryFailedError, match="--cgroupns=host"):
            tree.reader().read(CONTAINER)

    def test_mounted_from_below_the_root(self, tmp_path: Path) -> None:
        """As in a container that sees only its own part of the hierarchy."""
        tree = Tree(tmp_path, V2_MOUNT.replace(" / /sys", " /outer /sys"), f"0::/outer/{SYSTEMD}\n")
        tree.cgroup(SYSTEMD, **{**V2_FREE, **V2_ALL, "memory__max": str(64 * MIB)})
        assert tree.reader().read(CONTAINER).limits.memory_limit == 64

    def test_the_machine(self, tmp_path: Path) -> None:
        tree = crun_with_systemd(tmp_path, {}, {})
        tree.cgroup("", cpuset__cpus__effective="0-3")
        host = tree.reader().host()
        assert (host.total, host.cpus) == (Amount(cpu=4000, memory=16_384), frozenset({0, 1, 2, 3}))


def hybrid(root: Path, path: str = f"libpod_parent/libpod-{ID}") -> Tree:
    lines = [f"4:memory:/{path}", f"3:cpuset:/{path}", f"2:cpu,cpuacct:/{path}", "1:name=systemd:/x", "0::/y"]
    tree = Tree(root, V1_MOUNTS, "\n".join(lines) + "\n")
    for part in ("", "libpod_parent", path):
        tree.cgroup(f"cpu,cpuacct/{part}", **V1_CPU)
        tree.cgroup(f"memory/{part}", **V1_MEMORY)
        tree.cgroup(f"cpuset/{part}", cpuset__cpus="0-7", cpuset__effective_cpus="0-7")
    return tree


V1_CPU = {
    "cpu__cfs_quota_us": "-1",
    "cpu__cfs_period_us": "100000",
    "cpu__shares": "1024",
    "cpuacct__usage": "7000000000",
}
V1_MEMORY = {
    "memory__limit_in_bytes": UNLIMITED_V1,
    "memory__memsw__limit_in_bytes": UNLIMITED_V1,
    "memory__usage_in_bytes": str(100 * MIB),
    "memory__stat": f"inactive_file 1\ntotal_inactive_file {40 * MIB}",
}


class TestHybrid:
    """cgroup v1, with v2 mounted beside it for systemd only."""

    PATH = f"libpod_parent/libpod-{ID}"

    def test_it_counts_as_version_1_and_its_huge_number_as_unlimited(self, tmp_path: Path) -> None:
        reader = hybrid(tmp_path).reader()
        enforced = reader.read(CONTAINER)
        assert reader.version == 1
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit) == (None, None)
        assert (enforced.limits.cpu_shares, enforced.limits.cpuset_cpus) == (1024, "0-7")

    def test_limits_and_use(self, tmp_path: Path) -> None:
        tree = hybrid(tmp_path)
        tree.cgroup(f"cpu,cpuacct/{self.PATH}", cpu__cfs_quota_us="75000", cpu__cfs_period_us="50000")
        tree.cgroup(f"memory/{self.PATH}", memory__limit_in_bytes=str(128 * MIB))
        enforced = tree.reader().read(CONTAINER)
        assert (enforced.limits.cpu_limit, enforced.limits.memory_limit, enforced.period_us) == (1500, 128, 50_000)
        assert (enforced.memory_used, enforced.cpu_time_us) == (60, 7_000_000)

    def test_the_most_that_was_in_use_before_the_first_look_is_needed(self, tmp_path: Path) -> None:
        tree = hybrid(tmp_path)
        tree.cgroup(f"memory/{self.PATH}", memory__max_usage_in_bytes=str(200 * MIB))
        assert tree.reader().read(CONTAINER).memory_needed == 200 - 40

    def test_the_lowest_of_all_levels_binds(self, tmp_path: Path) -> None:
        tree = hybrid(tmp_path)
        tree.cgroup("cpu,cpuacct/libpod_parent", cpu__cfs_quota_us="40000")
        tree.cgroup("memory/libpod_parent", memory__limit_in_bytes=str(32 * MIB))
        limits = tree.reader().read(CONTAINER).limits
        assert (limits.cpu_limit, limits.memory_limit) == (400, 32)

    def test_without_swap_accounting(self, tmp_path: Path) -> None:
        tree = hybrid(tmp_path)
        (tmp_path / "sys/fs/cgroup/memory" / self.PATH / "memory.memsw.limit_in_bytes").unlink()
        assert not tree.reader().own_values(CONTAINER).swap_known

    def test_without_bandwidth_control_in_the_kernel(self, tmp_path: Path) -> None:
        tree = hybrid(tmp_path)
        for part in ("", "libpod_parent", self.PATH):
            (tmp_path / "sys/fs/cgroup/cpu,cpuacct" / part / "cpu.cfs_quota_us").unlink()
        enforced = tree.reader().read(CONTAINER)
        assert enforced.limits.cpu_limit is None
        assert "cpu_limit" in enforced.unchangeable

    def test_a_cgroup_that_has_just_gone(self, tmp_path: Path) -> None:
        tree = hybrid(tmp_path)
        (tmp_path / "sys/fs/cgroup/memory" / self.PATH / "memory.usage_in_bytes").unlink()
        with pytest.raises(NotRunningError):
            tree.reader().read(CONTAINER)


def test_no_cgroups_at_all_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(QueryFailedError, match="mount /sys/fs/cgroup"):
        Tree(tmp_path, "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw", "").reader()


def test_a_container_without_a_process(tmp_path: Path) -> None:
    reader = unified(tmp_path, SYSTEMD).reader()
    with pytest.raises(NotRunningError, match="start it first"):
        reader.read(Container("app", ID, ContainerState.STOPPED))
    with pytest.raises(NotRunningError, match="is gone"):
        reader.read(Container("app", ID, ContainerState.RUNNING, pid=1))
