"""The trials of a cell while they are gathered and compared: in memory, or in a file that is mapped into memory.

Many trials take no memory of their own: the system writes the pages of the file to disk and drops them as it needs to.
The file has no name, so it is private and gone when the process ends, however it ends.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import jax
import numpy as np

from jatpo import disk
from jatpo.evaluate.trials import Trials

MAPPED = 1 << 22  # bytes of a cell from which on they are in a file
ALIGNED = 64


class Gathered:
    """The trials of a cell, filled in chunk by chunk."""

    def __init__(self, trials: int, size: int, folder: Path | None = None) -> None:
        """For `trials` trials in chunks of `size`; `folder` is where the file is made (default: the system's)."""
        self._trials, self._size, self._folder = trials, size, folder
        self._whole: Trials | None = None
        self._done = np.zeros(-(-trials // size), bool)

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return int(self._done.sum())

    def missing(self) -> list[int]:
        """The numbers of the chunks that are not there."""
        return np.flatnonzero(~self._done).tolist()

    def put(self, chunk: int, trials: Trials) -> None:
        """Fill in a chunk; trials beyond those wanted are dropped."""
        first = chunk * self._size
        left = min(self._size, self._trials - first)
        if self._whole is None:
            self._whole = self._room(trials)

        def fill(whole: np.ndarray, part: np.ndarray) -> None:
            whole[first : first + left] = part[:left]

        jax.tree.map(fill, self._whole, trials)
        self._done[chunk] = True

    def trials(self) -> Trials:
        """All of them."""
        assert self._whole is not None  # there is at least one trial
        return self._whole

    def _room(self, like: Trials) -> Trials:
        """Arrays for all trials, each of the kind of those in `like`."""
        leaves, structure = jax.tree.flatten(like)
        shapes = [(self._trials, *leaf.shape[1:]) for leaf in leaves]
        sizes = [math.prod(shape) * leaf.dtype.itemsize for shape, leaf in zip(shapes, leaves, strict=True)]
        starts = np.cumsum([0, *(-(-size // ALIGNED) * ALIGNED for size in sizes)]).tolist()
        if starts[-1] < MAPPED:
            made = [np.empty(shape, leaf.dtype) for shape, leaf in zip(shapes, leaves, strict=True)]
        else:
            file = disk.mapped(starts[-1], self._folder or Path(tempfile.gettempdir()))
            made = [
                np.ndarray(shape, leaf.dtype, file, start)
                for shape, leaf, start in zip(shapes, leaves, starts, strict=False)
            ]
        return jax.tree.unflatten(structure, made)
