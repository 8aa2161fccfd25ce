"""Telling a limit nobody here can set from a field of a later version, by its name.

Some messages carry limits flat, beside other fields. There an unknown field is ignored, so that the format can
grow, but not an unknown limit: whoever asks for it must hear that it was not done. A name asks for a limit when

- one of its words names a resource: `swap`, `gpu_count`, `max_memory_mb`, `cpu.max`, `MemoryHigh`;
- its last word is, or ends in, a kind of limit: `device-weight`, `rlimits`, `timeLimit`;
- it begins with `requested`, and does not go on as `requested_by` or `requested_at` do.

Fields that are added to such a message must not be called so, or receivers of before would refuse them.
"""

import re
from typing import Any, Final

from pydantic_core import PydanticCustomError

KEY_SHOWN_MAX: Final = 64

_RESOURCE_WORDS: Final = """
cpu cpus cpuset vcpu vcpus cores millicores nanocpus cfs uclamp nice numa
memory mem mems memsw memswap ram swap swappiness oom huge hugepage hugepages hugetlb shm tmpfs memlock
gpu gpus npu npus tpu tpus vram accelerator accelerators
io blkio blockio iops bps disk storage network net bandwidth rdma rdt
pids tasks threads processes nproc nofile kernel sysctl sysctls resources
"""
_RESOURCES: Final = frozenset(_RESOURCE_WORDS.split())
_KINDS: Final = frozenset({"weight", "weights", "reservation", "burst", "affinity", "throttle", "throttling"})
_KIND_ENDINGS: Final = ("limit", "limits", "quota", "quotas", "shares")
_OF_THE_REQUEST: Final = frozenset({"by", "at", "from", "for", "via", "on", "with", "in", "through", "because"})
_WORD: Final = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+")


def refuse_unknown_limits(body: Any, known: frozenset[str], supported: tuple[str, ...]) -> Any:
    """The body as it is, unless one of its keys that are not `known` asks for a limit.

    Raises PydanticCustomError `unsupported_limit` with the `key`, and the limits `supported` in its place.
    """
    if isinstance(body, dict):
        for key in body:
            if key not in known and isinstance(key, str) and asks_for_limit(key):
                told = {"key": key[:KEY_SHOWN_MAX], "supported": supported}
                raise PydanticCustomError("unsupported_limit", "{key} is no known limit", told)
    return body


def asks_for_limit(name: str) -> bool:
    """Whether a person would mean a limit by a field of this name; a name of ours, or anybody's."""
    words = [word.lower() for word in _WORD.findall(name)]
    if words[:1] == ["requested"] and len(words) > 1:
        return words[1] not in _OF_THE_REQUEST
    last = words[-1] if words else ""
    return not _RESOURCES.isdisjoint(words) or last in _KINDS or last.endswith(_KIND_ENDINGS)
