"""Which models of a library can be distinguished: what differs between every two of them, state by state.

Total variation is half the L1 distance between two rows of probabilities. Two models with the same
states, start, dynamics and sensors on all states that can be reached give every history the same
probability: no agent can ever distinguish them, whatever their rewards. The same may hold for models whose states
differ by a renumbering or otherwise: `jatpo.domains.equivalence` decides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from jatpo.domains.description import Coordinates, Description
from jatpo.domains.equivalence import distinguishable

SAME = 1e-12  # differences below this are rounding


class Rows(NamedTuple):
    """How many rows of a table differ, out of how many, and by how much at most."""

    differ: int
    total: int
    largest: float


class Comparison(NamedTuple):
    """What differs between models `first` and `second`. Parts are None where the state spaces differ.

    teammate: states in which it acts differently (total variation); reward: states (absolute difference);
    transition and observation: rows (action, state) (total variation); start: total variation.
    """

    first: int
    second: int
    comparable: bool
    teammate: Rows | None
    reward: Rows | None
    transition: Rows | None
    observation: Rows | None
    start: float | None
    coincide: bool
    distinguishable: bool | None  # by some history; None where that takes too much work to decide


def compare(first: Description, second: Description, numbers: tuple[int, int] = (0, 1)) -> Comparison:
    """What differs between two models."""
    interface = (first.actions, first.observations) == (second.actions, second.observations)
    if not interface:
        return Comparison(*numbers, False, None, None, None, None, None, False, True)
    if first.states != second.states:
        apart = distinguishable(first, second, (reachable(first), reachable(second)))
        return Comparison(*numbers, False, None, None, None, None, None, False, apart)
    shape = (first.num_actions, first.num_states)
    moves = _gaps(first.transition, second.transition, (*shape, first.num_states))
    views = _gaps(first.observation, second.observation, (*shape, first.num_observations))
    rewards = np.abs(first.reward - second.reward).max(axis=1)
    start = 0.5 * float(np.abs(first.initial - second.initial).sum())
    reached = reachable(first) | reachable(second)
    seen_alike = bool(max(start, moves[:, reached].max(), views[:, reached].max()) <= SAME)
    alike = max(moves.max(), views.max(), rewards.max(), start) <= SAME and first.discount == second.discount
    return Comparison(
        *numbers,
        comparable=True,
        teammate=_teammates(first, second),
        reward=_rows(rewards),
        transition=_rows(moves),
        observation=_rows(views),
        start=start,
        coincide=bool(alike),
        distinguishable=not seen_alike
        and distinguishable(first, second, (reachable(first), reachable(second))),
    )


def compare_all(models: Sequence[Description]) -> list[Comparison]:
    """Every pair of a library."""
    return [compare(models[i], models[j], (i, j)) for i, j in combinations(range(len(models)), 2)]


def groups(comparisons: Sequence[Comparison], count: int) -> list[list[int]]:
    """The models 0..count-1 in groups that coincide exactly."""
    leader = list(range(count))
    for pair in comparisons:
        if pair.coincide:
            leader[pair.second] = min(leader[pair.second], leader[pair.first])
    return [[k for k in range(count) if leader[k] == head] for head in sorted(set(leader))]


def reachable(model: Description) -> np.ndarray:
    """The states that can be reached from the start, [X] bool."""
    _, x, y, _ = model.transition
    reached = model.initial > 0
    while True:
        grown = reached.copy()
        grown[y[reached[x]]] = True
        if (grown == reached).all():
            return reached
        reached = grown


def _gaps(one: Coordinates, other: Coordinates, shape: tuple[int, int, int]) -> np.ndarray:
    """Total variation between the rows of two kernels of a shape, [first, middle]."""
    first, middle, last = shape
    a, x, y, p = (np.concatenate(parts) for parts in zip(one, other, strict=True))
    p = np.where(np.arange(len(p)) < len(one[3]), p, -p)
    keys, inverse = np.unique((a * middle + x) * last + y, return_inverse=True)
    gaps = np.abs(np.bincount(inverse.ravel(), weights=p, minlength=len(keys)))
    return 0.5 * np.bincount(keys // last, weights=gaps, minlength=first * middle).reshape(first, middle)


def _rows(gaps: np.ndarray) -> Rows:
    return Rows(int((gaps > SAME).sum()), gaps.size, float(gaps.max(initial=0)))


def _teammates(first: Description, second: Description) -> Rows | None:
    """Over the states in which the teammate acts in both models, [X]; None without teammates."""
    if first.teammate is None or second.teammate is None:
        return None
    if first.teammate_actions != second.teammate_actions:
        return None
    gaps = 0.5 * np.abs(first.teammate - second.teammate).sum(axis=2).max(axis=0)
    acts = (first.teammate.sum(axis=(0, 2)) > 0) & (second.teammate.sum(axis=(0, 2)) > 0)
    return _rows(gaps[acts])
