"""CPU in millicores, memory in MiB: reading what people write, and writing it for people."""

import re
from typing import Final

MILLICORES_PER_CPU: Final = 1000
BYTES_PER_MIB: Final = 1024 * 1024

_CPU = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,18})?)(?P<unit>m?)")
_MEMORY = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,18})?)(?P<unit>Ki|Mi|Gi|Ti|k|M|G|T|)")
_BYTES_PER_UNIT: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def parse_cpu(text: str) -> int:
    """Millicores of a CPU quantity as Kubernetes writes it: "2" and "2000m" are both 2000.

    Raises ValueError when the text is no quantity or finer than a millicore.
    """
    match = _CPU.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no CPU quantity; write CPUs (2, 0.5) or millicores (500m)")
    scale = 1 if match["unit"] else MILLICORES_PER_CPU
    millicores = float(match["number"]) * scale
    if abs(millicores - round(millicores)) > 1e-6:
        raise ValueError(f"{text!r} is finer than a millicore")
    return round(millicores)


def parse_memory(text: str) -> int:
    """MiB of a memory quantity: "2Gi" is 2048, "512Mi" is 512; a bare number counts bytes, as in Kubernetes.

    Rounded down to the MiB. Raises ValueError when the text is no quantity or less than 1 MiB.
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no memory quantity; write 512Mi, 2Gi, 500M or bytes")
    mib = int(float(match["number"]) * _BYTES_PER_UNIT[match["unit"]]) // BYTES_PER_MIB
    if mib < 1:
        raise ValueError(f"{text!r} is less than 1 MiB; write 512Mi, 2Gi, 500M or bytes")
    return mib


def format_cpu(millicores: int | None) -> str:
    """Write millicores as "1500m"; None is "unlimited"."""
    return "unlimited" if millicores is None else f"{millicores}m"


def format_memory(mib: int | None) -> str:
    """Write MiB as "512Mi"; None is "unlimited"."""
    return "unlimited" if mib is None else f"{mib}Mi"
