"""Point-based backups for large models: rounds that are one compiled program each (`jatpo.solve.device_rounds`).

It uses the storage protocol only and makes no array of states by observations, by states or by points. The upper bound
is that of the MDP beneath: loose where the state is hidden for long, cheap at any size. Both bounds have their rounding
taken off. `graph` and `anytime` give nearer bounds on models that they can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.beliefs import Dense, Representation, Support
from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.solve import bounds, device_rounds
from jatpo.solve.base import Room, Solver
from jatpo.solve.device_rounds import Bank
from jatpo.solve.policy import Policy
from jatpo.solve.problem import Problem
from jatpo.solve.solution import Solution
from jatpo.solve.stopping import Info, Stop

LISTED = 10  # states for each place of a list, from which lists cost less than all states


class SparseState(NamedTuple):
    """A solve between two rounds."""

    bank: Bank
    q: Array  # [X, A], the upper bound of the MDP
    lower: float
    upper: float
    largest: float  # size of values
    stages: int
    backups: int


@partial(jax.jit, static_argnames="capacity")
def _begin(
    model: POMDP, tolerance: float, sweeps: Array, capacity: int
) -> tuple[Bank, Array, Array, Array, Array]:
    """The blind policies, the bound of the MDP, and at the initial belief both bounds and the size of values."""
    blind = bounds.blind(model)
    bank = device_rounds.empty_bank(blind, max(capacity, 2 * model.num_actions))
    q, _ = device_rounds.observed_bound(model, tolerance)
    largest = jnp.maximum(jnp.max(jnp.abs(q)), jnp.max(jnp.abs(blind)))
    informed = bounds.informed(model, q.T, 0.0, sweeps)
    upper = jnp.max(informed @ model.initial)
    return bank, q, jnp.max(blind @ model.initial), upper, largest


_round = jax.jit(device_rounds.play_round, static_argnames=("steps", "capacity", "belief"))
_margin = jax.jit(device_rounds.margin)


@dataclass(frozen=True)
class Sparse(Solver):
    """Walks and backups on the device, for models of 10,000 to some millions of states."""

    steps: int = 100  # of a round's walk, and backups of a round
    support: int = 512  # states of a belief point
    capacity: int = 256  # vectors
    tolerance: float = 1e-3  # of the MDP's value iteration
    sweeps: int = 0  # of the fast informed bound, which lower that of the MDP
    name: ClassVar[str] = "sparse"
    every_state: ClassVar[bool] = True
    planned: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("steps", "support", "capacity"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.sweeps < 0:
            raise JatpoError(f"sweeps must be 0 or more, got {self.sweeps}")
        if not self.tolerance > 0:
            raise JatpoError(f"tolerance must be above 0, got {self.tolerance}")

    def check(self, stop: Stop) -> None:
        """Refuse to run forever."""
        if not stop.given:
            raise JatpoError(
                "nothing would stop the sparse solver: give seconds, a gap or a number of stages"
            )

    def reserve(self, num_states: int, num_actions: int, itemsize: int) -> Sequence[Room]:
        """Vectors, old and new, and points."""
        each = num_states * itemsize
        return (
            ("alpha vectors, old and new", self.capacity, 2 * each, "--set capacity"),
            ("belief points", self.steps, self.support * (itemsize + 4), "--set steps"),
            ("values of the MDP and a belief", 1, (3 * num_actions + 8) * each, ""),
        )

    def representation(self, model: POMDP) -> Representation:
        """Lists of states in walks whose first belief fits one with room to spare, else all states."""
        first = int(np.count_nonzero(np.asarray(model.initial)))
        short = LISTED * max(first, self.support) <= model.num_states and first <= self.support
        return Support(self.support) if short and model.transition.lists_successors else Dense()

    def init(self, problem: Problem, key: Array) -> SparseState:
        """The blind policies and the bound of the MDP."""
        del key
        bank, q, lower, upper, largest = _begin(
            problem.model, self.tolerance, np.int32(self.sweeps), self.capacity
        )
        size = float(largest)
        less = float(_margin(problem.model, largest))
        return SparseState(bank, q, float(lower) - less, float(upper) + less, size, 0, 0)

    def step(self, problem: Problem, key: Array, state: SparseState) -> tuple[SparseState, Info]:
        """One round."""
        own = jax.random.fold_in(key, state.stages)
        walk = own, problem.model, state.q, state.bank, np.int32(state.stages)
        held = self.representation(problem.model)
        bank, found = _round(*walk, steps=self.steps, capacity=self.support, belief=held)
        less = float(_margin(problem.model, np.asarray(state.largest, problem.model.dtype)))
        lower = max(state.lower, float(found.value) - less)
        after = state._replace(
            bank=bank, lower=lower, stages=state.stages + 1, backups=state.backups + self.steps
        )
        return after, Info(after.stages, after.backups, int(bank.count), lower, after.upper)

    def solution(self, problem: Problem, state: SparseState) -> Solution:
        """The vectors over the states of the original model."""
        count = int(state.bank.count)
        vectors = np.asarray(state.bank.alpha)[:count, : problem.num_states]
        actions = np.asarray(state.bank.action)[:count]
        return Solution(Policy(*jax.device_put((vectors, actions))), lower=state.lower, upper=state.upper)

    def pack(self, state: SparseState) -> dict[str, np.ndarray]:
        """The vectors in use and the numbers; the bound of the MDP is computed anew."""
        count = int(state.bank.count)
        numbers = np.array([state.lower, state.upper, state.stages, state.backups], np.float64)
        kept = {name: np.asarray(getattr(state.bank, name)[:count]) for name in ("alpha", "action", "used")}
        return {**kept, "numbers": numbers}

    def unpack(self, problem: Problem, key: Array, arrays: dict[str, np.ndarray]) -> SparseState:
        """The state that was packed."""
        state = self.init(problem, key)
        count = len(arrays["alpha"])
        alpha, action, used = (
            getattr(state.bank, name).at[:count].set(arrays[name]) for name in ("alpha", "action", "used")
        )
        lower, upper, stages, backups = arrays["numbers"].tolist()
        bank = Bank(alpha, action, used, jnp.int32(count))
        return state._replace(bank=bank, lower=lower, upper=upper, stages=int(stages), backups=int(backups))
