"""Where compiled kernels are kept: whole, with the digests of their files, or not at all.

Numba reads them by pickle and runs what it finds, so they are read only from the user's own cache directory and only as
they were written. They are compiled into a draft that is renamed; damaged ones are compiled again; where the directory
is full or cannot be written they last as long as the process needs to load them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from jatpo.disk import is_sealed, seal
from jatpo.drafts import draft_name, remove
from jatpo.user_cache import user_cache

SOURCES = (
    *(f"compiled_{name}.py" for name in ("above", "below", "graph", "round", "state")),
    "belief_graph.py",
    "clock.py",
    "plain_rounds.py",
)
ROOM = 1 << 24  # bytes that must be free: several times what the kernels take


@cache
def directory() -> Path:
    """The place of the kernels of these sources, as installed here, with this Numba: all that it looks at itself."""
    here = Path(__file__).parent
    state = os.stat(here / "compiled_round.py")
    parts = [(here / name).read_bytes() for name in SOURCES]
    parts += [repr((str(here), state.st_mtime_ns, state.st_size, version("numba"))).encode()]
    given = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(given) if given else user_cache() / f"kernels-{platform.node() or 'here'}"
    return root / hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@contextlib.contextmanager
def kept() -> Iterator[Path]:
    """The directory to load the kernels from, or one to compile them into, which then takes its place."""
    target = directory()
    if is_sealed(target):
        yield target
        return
    draft = _draft(target)
    if draft is None:
        with tempfile.TemporaryDirectory() as place:
            yield Path(place)
        return
    try:
        yield draft
        seal(draft)
        remove(target)  # damaged
        with contextlib.suppress(OSError):  # another process was first, or the disk is full by now
            os.rename(draft, target)
    finally:
        remove(draft)


def _draft(target: Path) -> Path | None:
    """A new directory beside `target`; None where nothing can be kept."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(target.parent).free < ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target.parent))
        draft = draft_name(target)
        draft.mkdir()
    except OSError:
        return None
    return draft
