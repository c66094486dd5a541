"""Files that are written while the next ones are computed.

A disk takes milliseconds to confirm a file, and confirms several in the time of one. So a few threads write, and only
so many files wait as are lost without harm if the process is killed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

THREADS = 4
WAITING = 32  # writes under way at most


class BackgroundWrites:
    """Calls of a block that run on threads. Leaving the block waits for all of them and raises the first error."""

    def __init__(self, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._pool, self._waiting = ThreadPoolExecutor(threads, "write"), waiting
        self._under_way: deque[Future[Any]] = deque()

    def __enter__(self) -> BackgroundWrites:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._pool.shutdown(wait=True)
        if kind is None:
            self._finish(0)

    def put(self, write: Callable[..., Any], *arguments: Any) -> None:
        """Call `write(*arguments)` soon; raises what an earlier call raised."""
        self._finish(self._waiting - 1)
        self._under_way.append(self._pool.submit(write, *arguments))

    def _finish(self, most: int) -> None:
        """Wait until at most `most` calls are under way."""
        while self._under_way and (len(self._under_way) > most or self._under_way[0].done()):
            self._under_way.popleft().result()
