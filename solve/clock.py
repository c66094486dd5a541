"""The time that a step may take: a solver whose steps are long looks at it within a step.

A step that turns back keeps what it has: bounds hold after every backup. Without a limit nobody looks at the time, so
that the result for a number of stages is the same everywhere.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator

import numpy as np

ON, BACK, END = range(3)  # what `Clock.hand` shows: go on, turn back, stop at once


class Clock:
    """The `seconds` that are left to a step; half of them may be used before it turns back."""

    def __init__(self, seconds: float = math.inf, apart: bool = False) -> None:
        self._end = time.perf_counter() + seconds
        self._apart = apart
        self.hand = np.zeros(1, np.int64)  # read by compiled code

    def add(self, compiling: float) -> None:
        """Put the time off by what compiling took, if that is counted apart."""
        self._end += compiling if self._apart else 0.0

    @property
    def up(self) -> bool:
        """Whether no time is left."""
        return bool(self.hand[0] == END)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The block, while `hand` is moved by a thread."""
        left = self._end - time.perf_counter()
        if left == math.inf:
            yield
            return
        if left <= 0:
            self.hand[0] = END
            yield
            return
        done = threading.Event()
        thread = threading.Thread(target=self._move, args=(done, left), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _move(self, done: threading.Event, left: float) -> None:
        """Move the hand at half time and at the end, unless the step is done before."""
        for place in (BACK, END):
            if done.wait(left / 2):
                return
            self.hand[0] = place
