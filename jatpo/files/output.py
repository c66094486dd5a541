"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from jatpo.errors import JatpoError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A text file that takes the place of `path` when the block ends well, and leaves no trace otherwise."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise JatpoError(f"{path} is a directory: name a file in it")
    if not target.parent.is_dir():
        raise JatpoError(f"there is no directory {target.parent}: make it first")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "w", encoding="ascii", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
