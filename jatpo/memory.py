"""How much memory an array would take, and a refusal before the machine runs out of it."""

from __future__ import annotations

import os

from jatpo import limits
from jatpo.errors import JatpoError

SHARE = 0.8  # of the free memory that one allocation may take


def free_bytes() -> int:
    """Bytes that this process may still allocate: what the machine has free and what its own limits leave."""
    return min(_free_here(), limits.memory_left())


def _free_here() -> int:
    """Free memory of this machine in bytes; a large number where the system does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 1 << 62


def dense_bytes(num_states: int, num_actions: int, num_observations: int, itemsize: int = 4) -> int:
    """Bytes of P[a, x, y] and O[a, y, z] as dense arrays."""
    return num_actions * num_states * (num_states + num_observations) * itemsize


def readable(count: float) -> str:
    """`1234567` as ``1.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def require(count: int, what: str, remedy: str) -> None:
    """Refuse an allocation of `count` bytes that would not fit."""
    free = free_bytes()
    if count > SHARE * free:
        raise JatpoError(f"{what} needs {readable(count)} of memory and {readable(free)} are free: {remedy}")
