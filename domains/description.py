"""A POMDP in plain NumPy: what a builder returns, exact computations read, and `to_pomdp` turns into JAX arrays.

Shapes: A actions, X states, Z observations, B actions of the teammate. P[a, x, y], O[a, y, z], R[x, a].
The two kernels are coordinate lists, so that no X x X array is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jatpo import validate

if TYPE_CHECKING:
    from jatpo.model import POMDP

Coordinates = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def from_array(kernel: np.ndarray) -> Coordinates:
    """The coordinate list of a dense kernel [., ., .]."""
    kernel = np.asarray(kernel, np.float64)
    first, middle, last = np.nonzero(kernel)
    return first, middle, last, kernel[first, middle, last]


def every_action(sensor: np.ndarray, num_actions: int) -> Coordinates:
    """O[a, y, z] for a sensor [X, Z] that does not depend on the action."""
    states, readings = np.nonzero(sensor)
    actions = np.repeat(np.arange(num_actions), len(states))
    probabilities = np.tile(sensor[states, readings], num_actions)
    return actions, np.tile(states, num_actions), np.tile(readings, num_actions), probabilities


@dataclass(frozen=True, eq=False)
class Description:
    """One POMDP in NumPy float64. `teammate` [A, X, B] is the teammate's policy; zero rows: no action."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    transition: Coordinates
    observation: Coordinates
    reward: np.ndarray
    initial: np.ndarray
    discount: float
    teammate: np.ndarray | None = None
    teammate_actions: tuple[str, ...] = ()
    is_checked: bool = field(
        default=False, init=False
    )  # by `checked`; a changed copy has to be checked again

    @classmethod
    def from_dense(
        cls,
        transition: Any,
        observation: Any,
        reward: Any,
        initial: Any,
        discount: float,
        *,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
    ) -> Description:
        """From arrays P[A, X, X], O[A, X, Z], R[X, A] and a start distribution [X]; numbers stand in for names."""
        transition, observation = np.asarray(transition, np.float64), np.asarray(observation, np.float64)
        num_actions, num_states, num_observations = validate.dense_shapes(transition, observation)

        def named(kind: str, names: Sequence[str] | None, size: int) -> tuple[str, ...]:
            return validate.names_of(kind, names, size) or tuple(map(str, range(size)))

        return cls(
            states=named("states", states, num_states),
            actions=named("actions", actions, num_actions),
            observations=named("observations", observations, num_observations),
            transition=from_array(transition),
            observation=from_array(observation),
            reward=np.asarray(reward, np.float64),
            initial=np.asarray(initial, np.float64),
            discount=float(discount),
        )

    @classmethod
    def from_pomdp(cls, model: POMDP) -> Description:
        """The NumPy description of a JAX model; numbers stand in for names it does not have."""
        transition, observation, reward, initial, discount = model.to_sparse()
        names = model.states, model.actions, model.observations
        return cls(*names, transition, observation, reward, initial, discount)

    @property
    def num_states(self) -> int:
        return len(self.states)

    @property
    def num_actions(self) -> int:
        return len(self.actions)

    @property
    def num_observations(self) -> int:
        return len(self.observations)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in (*self.transition, *self.observation, self.reward, self.initial))

    def checked(self) -> Description:
        """The same POMDP, validated, with sorted kernels that hold every entry once; errors name the row."""
        if self.is_checked:
            return self
        actions, states, readings = self.num_actions, self.num_states, self.num_observations
        validate.counts(states, actions, readings)
        for kind in ("states", "actions", "observations"):
            validate.names_of(kind, getattr(self, kind), len(getattr(self, kind)))
        names = self.actions, self.states
        moves, views = (actions, states, states), (actions, states, readings)
        made = replace(
            self,
            transition=validate.rows("transition", self.transition, moves, "xy", *names),
            observation=validate.rows("observation", self.observation, views, "yz", *names),
            reward=validate.reward(self.reward, states, actions, self.states, self.actions),
            initial=validate.distribution("initial", self.initial, states, self.states),
            discount=validate.discount(self.discount),
        )
        object.__setattr__(made, "is_checked", True)
        return made
