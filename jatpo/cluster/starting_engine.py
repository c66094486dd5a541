"""An engine whose workers start while the command reads and prepares; whoever needs them first waits for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from jatpo.cluster.dask_engine import DaskEngine, local_workers
from jatpo.engine import Answer, Unit
from jatpo.events import OnEvent, ignore


class StartingEngine:
    """Stands for an engine that is being made by another thread."""

    common_files = True

    def __init__(self, starting: Future[DaskEngine]) -> None:
        self._starting = starting

    @property
    def slots(self) -> int:
        return self._starting.result().slots

    @property
    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """Host, versions and devices of each worker that has answered, by name."""
        return self._starting.result().workers

    def share(self, value: Any) -> Any:
        """As `DaskEngine.share`."""
        return self._starting.result().share(value)

    def run(self, units: Iterable[Unit]) -> Iterator[Answer]:
        """As `DaskEngine.run`."""
        yield from self._starting.result().run(units)

    def figures(self) -> Mapping[str, Any]:
        """Workers present and lost, units that failed."""
        return self._starting.result().figures()


@contextlib.contextmanager
def starting_workers(count: int, *, on_event: OnEvent = ignore) -> Iterator[StartingEngine]:
    """As `local_workers`, without waiting for them; they end with the block."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1, "start") as thread:
        starting = thread.submit(stack.enter_context, local_workers(count, on_event=on_event))
        try:
            yield StartingEngine(starting)
        finally:
            starting.exception()  # waits: what has been started can be ended
