"""What a solver is: the protocol, when it stops, and how it reports.

A solver is a frozen dataclass whose fields are its options. The driver (`jatpo.solve.driver`) knows only this module:
it calls `init` once and `step` until the solver's `Info` or the `Stop` gives a `Status`, and then `solution`. So a new
solver is a module of its own and one line of registration.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.evidence import Evidence

if TYPE_CHECKING:
    from jatpo.solve.problem import Problem
    from jatpo.solve.solution import Solution

LIMITS = ("seconds", "gap", "stages")
Settings = Mapping[str, float | str]  # the options of a solver, by name
Room = tuple[str, int, int, str]  # what for, how many, bytes of each, the option that sets how many or ""


class Status(enum.Enum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    GAP_REACHED = "gap reached"
    STAGES_DONE = "stages done"
    TIME_UP = "time limit reached"
    CAPACITY_REACHED = "capacity reached"
    INTERRUPTED = "interrupted"

    @property
    def complete(self) -> bool:
        """Whether the solver stopped as it was asked to, and not for lack of room or by an interruption."""
        return self not in (Status.CAPACITY_REACHED, Status.INTERRUPTED)

    @property
    def remedy(self) -> str:
        """What to do for a complete solution; empty where it is complete."""
        return _REMEDIES.get(self, "")


_REMEDIES = {
    Status.CAPACITY_REACHED: "raise the capacity of the solver (--set capacity=N)",
    Status.INTERRUPTED: "give the same command again to resume",
}


@dataclass(frozen=True)
class Stop:
    """Stop at whichever limit comes first; 0 means that there is no such limit.

    `seconds` are those of one model, `gap` is upper - lower bound at the initial belief, `stages` are stages or rounds.
    """

    seconds: float = 0.0
    gap: float = 0.0
    stages: int = 0

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0):
                raise JatpoError(f"{name} must be a finite number of at least 0 (0: no limit), got {value}")
        if self.stages != int(self.stages):
            raise JatpoError(f"stages must be a whole number, got {self.stages}")

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the limits that are set."""
        return tuple(name for name in LIMITS if getattr(self, name) > 0)

    def reached(self, info: Info, seconds: float) -> Status | None:
        """The status of a solver that has come as far as `info` in `seconds`; None while it may continue."""
        if self.gap > 0 and info.upper - info.lower <= self.gap:
            return Status.GAP_REACHED
        if self.stages and info.stages >= self.stages:
            return Status.STAGES_DONE
        if self.seconds > 0 and seconds >= self.seconds:
            return Status.TIME_UP
        return None


class Info(NamedTuple):
    """What a solver reports after a step: totals so far, bounds at the initial belief, a status if it is the last."""

    stages: int
    backups: int
    vectors: int
    lower: float
    upper: float
    status: Status | None = None


@runtime_checkable
class Solver(Protocol):
    """Inherit from this class to get its defaults: `init`, `step` and `solution` are left to write."""

    name: ClassVar[str]
    limits: ClassVar[tuple[str, ...]] = LIMITS  # the fields of `Stop` that it honours
    every_state: ClassVar[bool] = False  # whether its problems keep states that cannot be reached

    def check(self, stop: Stop) -> None:
        """Refuse a `Stop` that does not fit this solver."""
        for name in stop.given:
            if name not in self.limits:
                others = f"it honours {' and '.join(self.limits)}" if self.limits else "it needs no limit"
                raise JatpoError(
                    f"solver '{self.name}' cannot stop by {name} ({name} = {getattr(stop, name):g}): {others}; "
                    "or choose --solver graph or anytime"
                )

    def reserve(self, num_states: int, num_actions: int, itemsize: int) -> Sequence[Room]:
        """What a solve of one model takes of memory besides the model; empty where that is not known before."""
        del num_states, num_actions, itemsize
        return ()

    def init(self, problem: Problem, key: Array) -> Any:
        """The state before the first step, a pytree."""
        ...

    def step(self, problem: Problem, key: Array, state: Any) -> tuple[Any, Info]:
        """The state after one stage or round, and a report of it."""
        ...

    def solution(self, problem: Problem, state: Any) -> Solution:
        """Policy and bounds; the driver adds status, seconds, seed and settings."""
        ...

    def evidence(self, problem: Problem, state: Any) -> Evidence | None:
        """What proves the bounds to `jatpo.certify`, over the states of `problem.part`; None if it kept nothing."""
        del problem, state
        return None

    def pack(self, state: Any) -> dict[str, np.ndarray]:
        """What is to be kept of `state` on disk, as arrays."""
        return {f"leaf-{number:03d}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(state))}

    def unpack(self, problem: Problem, key: Array, arrays: dict[str, np.ndarray]) -> Any:
        """The state that was packed into `arrays`."""
        structure = jax.tree.structure(self.init(problem, key))
        return jax.tree.unflatten(structure, [arrays[name] for name in sorted(arrays)])
