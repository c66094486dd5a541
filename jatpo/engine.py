"""Where independent pieces of work are computed: a protocol, so that drivers know no cluster.

A driver makes a `Unit` of each piece and takes the `Answer`s as they come, in any order. What an engine computes must
not depend on where or in which order. `jatpo.cluster` has the engines; a driver without one computes in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from jatpo.errors import JatpoError

SHOWN = 3  # failures that an error names


class Unit(NamedTuple):
    """One piece of work: `function(*arguments)`, where what `Engine.share` returned stands for the shared value."""

    label: str
    function: Callable[..., Any]  # of a module, so that another process finds it by its name
    arguments: tuple[Any, ...]


class Answer(NamedTuple):
    """The value of unit `number`, and which worker computed it."""

    number: int
    value: Any
    worker: str


class Failure(NamedTuple):
    """A unit that could not be computed, with its error in words."""

    label: str
    error: str


class Engine(Protocol):
    """Computes units on other processes, devices or machines."""

    common_files: bool  # whether workers read and write the same files as this process

    @property
    def slots(self) -> int:
        """How many units are computed at once."""
        ...

    @property
    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """Host, versions and devices of each worker that has answered, by name."""
        ...

    def share(self, value: Any) -> Any:
        """Something that stands for `value` in the arguments of many units."""
        ...

    def run(self, units: Iterable[Unit]) -> Iterator[Answer]:
        """Compute all units; when some fail, the others first, then `UnitsFailed`."""
        ...

    def figures(self) -> Mapping[str, Any]:
        """What progress shows of the engine, such as workers and failures."""
        ...


class Rate:
    """How much of something is computed in a second, since this was made."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._began = clock()

    def figures(self, done: float) -> Mapping[str, float]:
        """What progress shows, where `done` of it is computed: ``{"models/s": 2.5}``."""
        rate = done / max(self._clock() - self._began, 1e-3)
        return {f"{self._what}/s": float(f"{rate:.2g}") if rate < 100 else round(rate)}


class UnitsFailed(JatpoError):
    """Some units could not be computed; the others are finished and kept."""


def failed(failures: Sequence[Failure], finished: int) -> UnitsFailed:
    """The error for units that could not be computed."""
    named = "; ".join(f"{each.label}: {each.error}" for each in failures[:SHOWN])
    more = f"; and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
    return UnitsFailed(
        f"{len(failures)} of {finished + len(failures)} units of work failed ({named}{more}); the others are "
        "finished and kept: remove the cause and give the same command again"
    )
