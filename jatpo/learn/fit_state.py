"""The state of a fit between two steps, in memory and on disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import jax

from jatpo.disk import Arrays, Checkpoints, digest, digest_json, from_arrays, to_arrays
from jatpo.events import OnEvent

FORMAT = 2
ARRAYS = ("params", "moments", "best")


class Record(TypedDict):
    """The fields of a `FitState` that are not arrays."""

    best_score: float
    waited: int
    steps: int
    stopped: str
    seconds: float
    curve: list[dict[str, float]]


@dataclass
class FitState:
    """Parameters, Adam's moments, the best parameters so far, and the record of the fit."""

    params: Any
    moments: Any
    best: Any
    best_score: float
    waited: int = 0
    steps: int = 0
    stopped: str = ""
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """All that is not an array."""
        return Record(
            best_score=self.best_score,
            waited=self.waited,
            steps=self.steps,
            stopped=self.stopped,
            seconds=self.seconds,
            curve=self.curve,
        )

    @property
    def arrays(self) -> list[Any]:
        return [getattr(self, name) for name in ARRAYS]


class SavedFit:
    """The checkpoints of one fit in a directory: of its parametrisation, histories, settings and seed."""

    def __init__(
        self,
        directory: str | Path,
        parametrisation: Any,
        histories: Any,
        settings: Any,
        seed: int,
        on_event: OnEvent,
    ) -> None:
        data = digest(jax.tree.leaves((parametrisation, histories)))
        parts = [FORMAT, type(parametrisation).__name__, data, dataclasses.asdict(settings), seed]
        key = digest_json(parts)[:24]
        self._checkpoints = Checkpoints(Path(directory) / f"fit-{key}", {"key": key}, on_event)

    def save(self, state: FitState) -> None:
        """Save the state; older ones are removed."""
        self._checkpoints.save_newest("step-", state.steps, state.record, to_arrays(state.arrays))

    def load(self, start: FitState) -> FitState:
        """The newest saved state, or `start`."""

        def read(record: Mapping[str, Any], arrays: Arrays) -> FitState:
            return FitState(*from_arrays(arrays, start.arrays), **record)

        return self._checkpoints.load_newest("step-", read) or start
