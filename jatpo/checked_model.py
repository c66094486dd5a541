"""A model as plain NumPy: its numbers in float64, checked, and its names. It imports no jax: small files are read fast.

Index order as everywhere: P[a, x, y], O[a, y, z] (z is seen on arriving in y), R[x, a].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jatpo import validate
from jatpo.errors import JatpoError


class Sparse(NamedTuple):
    """A model with P and O as sorted coordinates, NumPy float64."""

    transition: validate.Coordinates  # a, x, y, p
    observation: validate.Coordinates  # a, y, z, p
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float


class Names(NamedTuple):
    """Names for people; None stands for numbers."""

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    observations: tuple[str, ...] | None = None


UNNAMED = Names()


class Checked(NamedTuple):
    """What was validated: sorted coordinates, each entry once, every row a distribution."""

    sparse: Sparse
    num_observations: int
    names: Names = UNNAMED


def checked(
    transition: validate.Coordinates,
    observation: validate.Coordinates,
    reward: np.ndarray,
    initial: np.ndarray,
    discount: float,
    *,
    num_states: int | None = None,
    num_actions: int | None = None,
    num_observations: int | None = None,
    names: tuple[Sequence[str] | None, ...] = (None, None, None),
) -> Checked:
    """The numbers of a model, validated, and its `names` (states, actions, observations); see `POMDP.from_sparse`."""
    reward = np.asarray(reward)
    if reward.ndim != 2:
        raise JatpoError(f"reward has shape {reward.shape}, expected R[x, a]: one row per state")
    num_states = num_states if num_states is not None else int(reward.shape[0])
    num_actions = num_actions if num_actions is not None else int(reward.shape[1])
    if num_observations is None:
        largest = int(np.max(observation[2], initial=-1)) + 1
        num_observations = len(names[2]) if names[2] is not None else largest
    validate.counts(num_states, num_actions, num_observations)
    counts = num_states, num_actions, num_observations
    kinds = "states", "actions", "observations"
    called = Names(*map(validate.names_of, kinds, names, counts))
    sizes = (num_actions, num_states, num_states)
    sparse = Sparse(
        validate.rows("transition", transition, sizes, "xy", called.actions, called.states),
        validate.rows(
            "observation", observation, (*sizes[:2], num_observations), "yz", called.actions, called.states
        ),
        validate.reward(reward, num_states, num_actions, called.states, called.actions),
        validate.distribution("initial", initial, num_states, called.states),
        validate.discount(discount),
    )
    return Checked(sparse, num_observations, called)


def reachable_states(model: Sparse) -> np.ndarray:
    """The states that can follow the initial belief under some actions: their numbers in order."""
    _, x, y, _ = model.transition
    reached = model.initial > 0
    count = 0
    while count != (count := int(reached.sum())):
        reached[y[reached[x]]] = True
    return np.flatnonzero(reached)


def restricted(model: Sparse, states: np.ndarray) -> Sparse:
    """`model` with only `states`, a set that no transition leaves."""
    place = np.full(len(model.initial), -1)
    place[states] = np.arange(len(states))
    a, x, y, p = (part[place[model.transition[1]] >= 0] for part in model.transition)
    oa, oy, oz, op = (part[place[model.observation[1]] >= 0] for part in model.observation)
    return Sparse(
        (a, place[x], place[y], p),
        (oa, place[oy], oz, op),
        model.reward[states],
        model.initial[states],
        model.discount,
    )
