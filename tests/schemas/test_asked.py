"""Beside other fields a limit is known by its name: as people write limits, and not as they name anything else."""

import pytest

from schemas.asked import asks_for_limit
from schemas.limits import Limits
from schemas.node import UpdateRequest
from schemas.resources import ValidateRequest

LIMITS = """
cpu cpus cores mem memory CPU_LIMIT cpuLimit cpu-limit cpulimit max_cpu limit_memory max_memory_mb memory_mib

NanoCpus CpuQuota CpuPeriod CpusetMems Memory MemorySwap MemoryReservation MemorySwappiness PidsLimit BlkioWeight
BlkioDeviceReadBps BlkioDeviceWriteIOps Ulimits ShmSize OomScoreAdj mem_limit memswap_limit mem_reservation mems
cpu_quota pids_limit shm_size blkio_weight ulimits sysctls rlimits storage_opt

limits resources limits.cpu nvidia.com/gpu hugepages-2Mi ephemeral-storage

CPUQuota CPUWeight AllowedCPUs AllowedMemoryNodes MemoryMax MemoryHigh MemorySwapMax TasksMax IOWeight LimitNOFILE

cpu.max cpu.weight memory.high memory.low pids.max io.max hugetlb.2MB.max cpuset.mems cfs_quota_us nice numa_node

swap swap_mib shares hugetlb bandwidth max_bandwidth disk disk_quota gpu gpus gpu0 gpu_memory vram huge_pages io
network net_limit time_limit

requested_cpu requested_gpu requested_storage requested_anything requestedGpu
"""
"""As we would be misspelt, and as Docker, Kubernetes, systemd, the kernel and people call limits."""

FIELDS = """
comment note requested requested_by requested_at requestedBy requested_via trace_id traceparent correlation_id
limits_note limitation unlimited priority user source_ip reason timeout_ms retries_max max_attempts dry_run
client_version process_name device_id tags metadata labels annotations episode member memo ion weighted_by ratio
number percent m b ms _ 7 한국어 __
"""


@pytest.mark.parametrize("name", LIMITS.split())
def test_a_limit_is_known_by_its_name(name: str) -> None:
    assert asks_for_limit(name)


@pytest.mark.parametrize("name", [*FIELDS.split(), ""])
def test_any_other_name_is_left_to_the_future(name: str) -> None:
    assert not asks_for_limit(name)


def test_what_can_be_asked_for_is_known_as_a_limit_everywhere() -> None:
    """Or a limit that a message does not carry would be ignored there."""
    ours = [*Limits.model_fields, "requested_cpu", "requested_memory"]
    assert [name for name in ours if not asks_for_limit(name)] == []


def test_the_other_fields_of_these_messages_keep_to_the_rule_that_senders_are_told() -> None:
    """A field like `cpu_note` would be refused by every receiver of before."""
    others = {*UpdateRequest.model_fields, *ValidateRequest.model_fields} - {*Limits.model_fields}
    assert {name for name in others if asks_for_limit(name)} == {"requested_cpu", "requested_memory"}
