"""How many processor cores this process may use, and making each of them a device of JAX.

A container often sees every core of its machine and may use the time of a few: the quotas of the process' control group
and of all groups around it count as well.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from jatpo.limits import CONTROL_GROUPS, PROCESS, UNLIMITED, groups

DEVICES = "JAX_NUM_CPU_DEVICES"
THREADS = "PJRT_NPROC"  # of XLA within one program; default: the cores of the machine
FORCED = "xla_force_host_platform_device_count"


def usable_cores(root: Path = CONTROL_GROUPS, process: Path = PROCESS) -> int:
    """Cores that this process may run on, or those worth of time that its control groups have, if fewer."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min([cores, *map(_quota, groups("cpu", root, process))]))


def _quota(group: Path) -> int:
    """Cores worth of processor time that a control group has, rounded up; a large number without a limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            limit, period = (word for name in names for word in (group / name).read_text().split())
            if limit not in ("max", "-1"):
                return -(-int(limit) // int(period))
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return UNLIMITED


def every_core_a_device(environment: MutableMapping[str, str]) -> None:
    """Ask JAX for one device for every usable core of a CPU, unless `environment` says how many.

    It must run before jax is imported; accelerators are not concerned.
    """
    if DEVICES not in environment and FORCED not in environment.get("XLA_FLAGS", ""):
        environment[DEVICES] = str(usable_cores())
