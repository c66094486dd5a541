"""Seeded random models in plain NumPy, with the structures that break kernels.

`CASES` maps a name to a function of a seed; `example(name, seed)` draws one. Most cases have 5 states, 3
actions and 4 observations, so that programs compiled for one serve the others.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jatpo.model import POMDP


class Example(NamedTuple):
    """P[a, x, y], O[a, y, z], R[x, a], the initial belief [X] and the discount."""

    transition: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    initial: np.ndarray
    discount: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        """A, X, Z."""
        return self.observation.shape


def rows(random: np.random.Generator, *shape: int, zeros: float = 0.0) -> np.ndarray:
    """Random distributions along the last axis; a share of the entries is exactly 0, never all of a row."""
    weights = random.gamma(0.7, size=shape) + 1e-3
    kept = random.random(shape) >= zeros
    sure = random.integers(shape[-1], size=(*shape[:-1], 1))
    weights *= kept | (np.arange(shape[-1]) == sure)
    return weights / weights.sum(axis=-1, keepdims=True)


def one_hot(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random deterministic rows."""
    return np.eye(shape[-1])[random.integers(shape[-1], size=shape[:-1])]


def plain(
    random: np.random.Generator,
    states: int = 5,
    actions: int = 3,
    observations: int = 4,
    zeros: float = 0.0,
    discount: float = 0.9,
) -> Example:
    """Random rows everywhere, a share `zeros` of the entries hard zeros."""
    return Example(
        rows(random, actions, states, states, zeros=zeros),
        rows(random, actions, states, observations, zeros=zeros),
        random.normal(scale=3.0, size=(states, actions)),
        rows(random, states, zeros=zeros),
        discount,
    )


def _absorbing(random: np.random.Generator) -> Example:
    """The last state is never left, is worth nothing and looks like no other."""
    model = plain(random, zeros=0.5)
    model.transition[:, -1] = np.eye(5)[-1]
    model.reward[-1] = 0
    model.observation[:, :-1, -1] = 0
    model.observation[:, :-1, 0] += 1e-3
    model.observation[:] /= model.observation.sum(axis=2, keepdims=True)
    model.observation[:, -1] = np.eye(4)[-1]
    return model


def _unreachable(random: np.random.Generator) -> Example:
    """State 2 has no predecessor and no share of the initial belief."""
    model = plain(random, zeros=0.3)
    model.transition[:, :, 2] = 0
    model.transition[:, :, 0] += 1e-2
    model.initial[2] = 0
    model.initial[0] += 0.1
    transition = model.transition / model.transition.sum(axis=2, keepdims=True)
    return model._replace(transition=transition, initial=model.initial / model.initial.sum())


def _hub(random: np.random.Generator) -> Example:
    """A ring of 8 states from which every state also falls into states 3 and 6."""
    states = 8
    ring = np.roll(np.eye(states), 1, axis=1)
    fall = np.zeros((2, states, states))
    fall[:, :, [3, 6]] = rows(random, 2, states, 2)
    return plain(random, states, 2, 3, zeros=0.4)._replace(transition=0.6 * ring + 0.4 * fall)


def _all_hubs(random: np.random.Generator) -> Example:
    """Every row leads to states 0 and 1 only: they have all the predecessors, the others none."""
    states = 6
    transition = np.zeros((2, states, states))
    transition[:, :, :2] = rows(random, 2, states, 2)
    return plain(random, states, 2, 3)._replace(transition=transition)


def _same_observation(random: np.random.Generator) -> Example:
    """O does not depend on the action and has two distinct rows."""
    kinds = rows(random, 2, 4, zeros=0.4)
    sensor = kinds[np.array([0, 1, 0, 0, 1])]
    return plain(random, zeros=0.4)._replace(observation=np.repeat(sensor[None], 3, axis=0))


def _deterministic(random: np.random.Generator) -> Example:
    """One successor and one observation for every state and action."""
    model = plain(random)
    return model._replace(transition=one_hot(random, 3, 5, 5), observation=one_hot(random, 3, 5, 4))


def _never_seen(random: np.random.Generator) -> Example:
    """Observation 1 is impossible everywhere."""
    model = plain(random, zeros=0.3)
    model.observation[:, :, 1] = 0
    model.observation[:, :, 2] += 0.1
    return model._replace(observation=model.observation / model.observation.sum(axis=2, keepdims=True))


def _rare(random: np.random.Generator) -> Example:
    """Some probabilities are 1e-7, which float32 must not lose."""
    model = plain(random)
    transition, observation = (
        np.where(random.random(part.shape) < 0.4, 1e-7, part)
        for part in (model.transition, model.observation)
    )
    transition[:, :, 0] += 1e-2
    observation[:, :, 0] += 1e-2
    return model._replace(
        transition=transition / transition.sum(axis=2, keepdims=True),
        observation=observation / observation.sum(axis=2, keepdims=True),
    )


CASES: dict[str, Callable[[np.random.Generator], Example]] = {
    "plain": plain,
    "hard zeros": lambda random: plain(random, zeros=0.6),
    "absorbing": _absorbing,
    "one state": lambda random: plain(random, states=1),
    "one action": lambda random: plain(random, actions=1, zeros=0.4),
    "one observation": lambda random: plain(random, observations=1, zeros=0.4),
    "unreachable": _unreachable,
    "hub": _hub,
    "all hubs": _all_hubs,
    "same observation": _same_observation,
    "deterministic": _deterministic,
    "never seen": _never_seen,
    "rare": _rare,
    "alone": lambda random: plain(random, states=1, actions=1, observations=1),
}


def example(name: str, seed: int = 0) -> Example:
    """The case `name`, drawn with `seed`."""
    return CASES[name](np.random.default_rng([seed, *name.encode()]))


def build(model: Example, storage: str = "auto", **options: Any) -> "POMDP":
    """The jatpo model of an example."""
    from jatpo.model import POMDP

    return POMDP.from_dense(*model, storage=storage, **options)


def coordinates(array: np.ndarray) -> tuple[np.ndarray, ...]:
    """The non-zero entries of `array` as index arrays and values."""
    return (*np.nonzero(array), array[np.nonzero(array)])
