"""Names of drafts, which say whose they are, the removal of drafts that a killed process left, and a lock.

A draft is called .draft-MACHINE-PID-START-RANDOM. MACHINE stands for the host, its current boot and the space of its
process numbers, START for the time at which that process began: no other process is ever taken for the owner. A draft
of this machine is stale when its owner has ended and it is a minute old; one of another machine when it is a week old.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

PREFIX = ".draft-"
LOCK = ".lock"
STALE = 60.0  # seconds
ELSEWHERE = 7 * 86400.0
PATIENCE = 10.0  # seconds that a lock is waited for: its owner may have been stopped
NAME = re.compile(r"\.draft-(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d+)-")
_swept: set[str] = set()


def draft_name(target: Path) -> Path:
    """A name beside `target` for a draft of this process; the first in a directory removes stale ones there."""
    sweep_once(target.parent)
    pid = os.getpid()
    return target.with_name(f"{PREFIX}{machine()}-{pid}-{_start_of(pid) or 0}-{uuid.uuid4().hex[:16]}")


def discard(draft: Path) -> None:
    """Remove a draft, file or directory, and what a library may have left under names that begin with its own.

    It reads the whole directory, so it is for writes that failed.
    """
    with contextlib.suppress(OSError):
        for path in list(draft.parent.glob(f"{draft.name}*")):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sweep_once(directory: Path) -> None:
    """`sweep`, if this process has not done so."""
    if str(directory) not in _swept:
        _swept.add(str(directory))
        sweep(directory)


def sweep(directory: Path, stale: float = STALE) -> list[Path]:
    """Remove the stale drafts in a directory; what was removed."""
    with contextlib.suppress(OSError):
        with os.scandir(directory) as entries:
            found = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
        removed = [path for path in found if is_stale(path, stale)]
        for path in removed:
            remove(path)
        return removed
    return []


def sweep_tree(directory: Path) -> None:
    """`sweep_once` in a directory and all below it."""
    for place, folders, _ in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(PREFIX)]
        sweep_once(Path(place))


def is_stale(path: Path, stale: float = STALE) -> bool:
    """Whether nobody can be writing the draft at `path`."""
    try:
        age = time.time() - path.lstat().st_mtime
    except OSError:
        return False
    parts = NAME.match(path.name)
    if parts is None or parts["machine"] != machine():
        return age > ELSEWHERE
    return age > stale and not _alive(int(parts["pid"]), int(parts["start"]))


@cache
def machine() -> str:
    """Eight digits for this host, its boot and its space of process numbers."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _alive(pid: int, start: int) -> bool:
    now = _start_of(pid)
    if now is not None:
        return now == start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return start == 0  # the system does not report when processes began


def _start_of(pid: int) -> int | None:
    """When a process began, in ticks since the boot; None where there is no such process or no such report."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


@contextlib.contextmanager
def locked(directory: Path, clock: Callable[[], float] = time.monotonic) -> Iterator[bool]:
    """A block that one process at a time is in, for one directory; whether it is, or has only waited `PATIENCE`.

    A process that was stopped inside delays the others, it does not hold them up. File systems without locks have none.
    """
    if fcntl is None:
        yield False
        return
    handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        until, own = clock() + PATIENCE, False
        while not own:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                own = True
            except BlockingIOError:
                if clock() > until:
                    break
                time.sleep(0.02)
            except OSError:
                break
        yield own
    finally:
        os.close(handle)
