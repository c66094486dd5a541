"""What a solver is: the protocol, when it stops, and how it reports.

A solver is a frozen dataclass whose fields are its options. The driver (`jatpo.solve.driver`) knows only this module:
it calls `init` once and `step` until the solver's `Info` or the `Stop` gives a `Status`, and then `solution`. So a new
solver is a module of its own and one line of registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.evidence import Evidence
from jatpo.solve.clock import Clock
from jatpo.solve.stopping import LIMITS, Info, Stop

if TYPE_CHECKING:
    from jatpo.solve.problem import Problem
    from jatpo.solve.solution import Solution

Room = tuple[str, int, int, str]  # what for, how many, bytes of each, the option that sets how many or ""


@runtime_checkable
class Solver(Protocol):
    """Inherit from this class to get its defaults: `init`, `step` and `solution` are left to write."""

    name: ClassVar[str]
    limits: ClassVar[tuple[str, ...]] = LIMITS  # the fields of `Stop` that it honours
    every_state: ClassVar[bool] = False  # whether its problems keep states that cannot be reached
    planned: ClassVar[bool] = True  # whether its problems have a plan for backups, which reads every row of O

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

    def step_within(self, problem: Problem, key: Array, state: Any, clock: Clock) -> tuple[Any, Info]:
        """The same; a solver whose steps are long turns back when `clock` says so."""
        del clock
        return self.step(problem, key, state)

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
