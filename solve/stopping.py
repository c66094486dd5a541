"""When a solver stops and why, what it reports after a step, and what a user asked for. Imports no jax."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jatpo.errors import JatpoError, shown
from jatpo.solve.clock import Clock

LIMITS = ("seconds", "gap", "stages")
SECONDS, GAP = 10.0, 0.01  # of a solve, unless the user says otherwise
LONG = 20.0  # seconds of a limit from which on compiling counts too
Settings = Mapping[str, float | str]  # the options of a solver, by name


class Info(NamedTuple):
    """What a solver reports after a step: totals so far, bounds at the initial belief, a status if it is the last.

    `note` is a sentence that the driver passes on to the user.
    """

    stages: int
    backups: int
    vectors: int
    lower: float
    upper: float
    status: Status | None = None
    note: str = ""
    apart: float = 0.0  # seconds of the step that went into compiling, once on a machine


class Status(enum.Enum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    GAP_REACHED = "gap reached"
    STAGES_DONE = "stages done"
    SWEEPS_DONE = "sweep limit reached"
    TIME_UP = "time limit reached"
    CAPACITY_REACHED = "capacity reached"
    MEMORY_FULL = "memory limit reached"
    INTERRUPTED = "interrupted"

    @property
    def complete(self) -> bool:
        """Whether the solver stopped as it was asked to, and not for lack of room or sweeps or by an interruption."""
        return not self.remedy

    @property
    def remedy(self) -> str:
        """What to do for a complete solution; empty where it is complete."""
        return _REMEDIES.get(self, "")


_REMEDIES = {
    Status.SWEEPS_DONE: "raise the number of sweeps of the solver (--set sweeps=N)",
    Status.CAPACITY_REACHED: "raise the capacity of the solver (--set capacity=N)",
    Status.MEMORY_FULL: "the bounds hold; for nearer ones use a machine with more free memory",
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

    def counted(self, seconds: float, apart: float) -> float:
        """What counts of a step of `seconds`, of which `apart` went into compiling: all where the limit is long."""
        return seconds if self.seconds >= LONG else seconds - apart

    def clock(self, seconds: float) -> Clock:
        """What is left of the time after `seconds`."""
        left = self.seconds - seconds if self.seconds > 0 else math.inf
        return Clock(left, apart=self.seconds < LONG)

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


@dataclass(frozen=True)
class Request:
    """What a user asked for; None and {} leave it to the defaults. `settings` are fields of the solver."""

    solver: str | None = None
    seconds: float | None = None
    gap: float | None = None
    stages: int | None = None
    settings: Settings = field(default_factory=dict)


def stop_of(request: Request, seconds: float = SECONDS) -> Stop:
    """When a solver stops that honours all limits: after `seconds` or at the usual gap, but for what was asked for."""
    stop = Stop(0.0 if request.stages is not None else seconds, GAP)
    asked = {name: getattr(request, name) for name in LIMITS}
    return dataclasses.replace(stop, **{name: value for name, value in asked.items() if value is not None})


def parse_settings(texts: Sequence[str]) -> Settings:
    """Options of a solver written as `name=number`, one text each."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = None
        if not sign or number is None:
            raise JatpoError(
                f"'{shown(text)}' is not an option of a solver: write name=number, as in capacity=16384"
            )
        found[name.strip().replace("-", "_")] = (
            int(number) if number.is_integer() and "." not in value else number
        )
    return found
