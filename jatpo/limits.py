"""Limits that this process has beside those of the machine: its control group (a container) and its resource limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None

CONTROL_GROUPS = Path("/sys/fs/cgroup")
PROCESS = Path("/proc/self")
UNLIMITED = 1 << 60  # limits from here on are none


def groups(controller: str, root: Path = CONTROL_GROUPS, process: Path = PROCESS) -> Iterator[Path]:
    """The folders of the control groups that this process is in, the innermost first; all of them limit it.

    The second version has one tree for everything, the first one tree for each controller or several (`cpu,cpuacct`).
    Inside a container the path
    of a group is often that of the machine: then its folder is missing, and the container's own is the root.
    """
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:
        lines = ["0::/", f"1:{controller}:/"]
    for line in lines:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        for folder in dict.fromkeys((controller, names)) if names else ("",):
            base = root / folder
            place = base / path.strip("/")
            while place != base and base in place.parents:
                yield place
                place = place.parent
            yield base


def memory_left(root: Path = CONTROL_GROUPS, process: Path = PROCESS) -> int:
    """Bytes that control groups and resource limits let this process allocate; `UNLIMITED` where nothing does."""
    found = [_left_in(group) for group in groups("memory", root, process)]
    return max(min([UNLIMITED, *found, *_resources_left(process)]), 0)


def _left_in(group: Path) -> int:
    """The limit of a group less what it uses; files that were read can be dropped and do not count."""
    limit = _number(group / "memory.max", group / "memory.limit_in_bytes")
    used = _number(group / "memory.current", group / "memory.usage_in_bytes")
    if limit is None or limit >= UNLIMITED or used is None:
        return UNLIMITED
    return limit - used + _inactive_files(group / "memory.stat")


def _inactive_files(statistics: Path) -> int:
    try:
        fields = dict(line.split() for line in statistics.read_text().splitlines())
        return int(fields.get("total_inactive_file", fields.get("inactive_file", 0)))
    except (OSError, ValueError):
        return 0


def _resources_left(process: Path) -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave."""
    if resource is None:
        return
    for kind, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit not in (resource.RLIM_INFINITY, -1):
            yield limit - _used(process, field)


def _used(process: Path, field: str) -> int:
    try:
        for line in (process / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _number(*places: Path) -> int | None:
    """The number in the first of these files; None without any, or where it says that there is no limit."""
    for place in places:
        try:
            return int(place.read_text())
        except (OSError, ValueError):
            continue
    return None
