"""RockSample(n, k): a rover on n x n cells samples k rocks of unknown quality and leaves to the east.

From T. Smith and R. Simmons, "Heuristic Search Value Iteration for POMDPs", UAI 2004. One agent alone, no
teammate: it is here for comparison of solvers with the literature, and `all` does not include it.

A sensor reads the quality of a rock at distance d right with probability (1 + 2^(-d / d0)) / 2. A good rock that is
sampled earns 10 and is bad from then on, a bad one costs 10; leaving earns 10 and ends the episode; a move off the map
in any other direction, or a sample where there is no rock, costs 100 and changes nothing.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from jatpo.domains.description import Coordinates, Description
from jatpo.domains.domain import Probability, register
from jatpo.domains.places import Place, Stage
from jatpo.errors import JatpoError

MOVES = {"north": (0, -1), "south": (0, 1), "east": (1, 0), "west": (-1, 0)}
READINGS = ("none", "good", "bad")
LEAVE, GOOD, BAD, USELESS = 10.0, 10.0, -10.0, -100.0
MOST = 16  # rocks: every one doubles the states
LAYOUTS = {  # of the published instances, (column, row)
    (7, 8): ((2, 0), (0, 1), (3, 1), (6, 3), (2, 4), (3, 4), (5, 5), (1, 6)),
    (11, 11): (
        *((0, 3), (0, 7), (1, 8), (2, 4), (3, 3), (3, 8)),
        *((4, 3), (5, 8), (6, 1), (9, 3), (9, 9)),
    ),
}


def layout(size: int, rocks: int, seed: int) -> np.ndarray:
    """The cells of the rocks [k, 2]: as published for (7, 8) and (11, 11), drawn for any other size."""
    if not (size >= 2 and 1 <= rocks <= min(MOST, size * size)):
        raise JatpoError(
            f"RockSample with size={size} and rocks={rocks} is not possible: "
            f"choose a size from 2 and from 1 to {MOST} rocks, at most one for each cell"
        )
    if (size, rocks) in LAYOUTS:
        return np.array(LAYOUTS[size, rocks])
    drawn = np.random.default_rng([seed, size, rocks]).choice(size * size, rocks, replace=False)
    return np.stack(np.divmod(np.sort(drawn), size), axis=1)


def _labels(size: int = 7, rocks: int = 8, **_: object) -> tuple[str, ...]:
    return (f"RockSample({size}, {rocks})",)


def _steps(size: int = 7, rocks: int = 8, **_: object) -> int:
    """Enough to visit every rock and leave."""
    return 2 * size + 6 * rocks


def _stage(model: int, *, size: int, rocks: int, seed: int, **_: object) -> Stage:
    """The map: rocks are marked by their quality."""
    del model
    places = tuple(Place(column, row) for row in range(size) for column in range(size))
    spots = layout(size, rocks, seed) @ np.array([1, size])
    number = np.arange(size * size * 2**rocks)

    def marks(state: int) -> dict[int, str]:
        good = (state >> np.arange(rocks)) & 1
        return {int(spot): "+" if own else "-" for spot, own in zip(spots, good, strict=True)}

    return Stage(places, {"agent": np.append(number >> rocks, -1)}, marks=marks)


@register(
    "rocksample",
    summary="a rover samples rocks of unknown quality (no teammate; for comparison of solvers)",
    models=1,
    horizon=62,
    labels=_labels,
    stage=_stage,
    steps=_steps,
    listed=False,
)
def rocksample(
    model: int,
    *,
    size: Annotated[int, "columns and rows of the map"] = 7,
    rocks: Annotated[int, "rocks; each doubles the number of states"] = 8,
    seed: Annotated[int, "of the rocks' places, where no layout is published"] = 0,
    half_distance: Annotated[float, "distance at which the sensor is right in three of four cases"] = 20.0,
    discount: Annotated[Probability, "discount"] = 0.95,
) -> Description:
    """RockSample(size, rocks); state = (cell, row by row) 2^rocks + the qualities as bits, the first the lowest."""
    del model
    places = layout(size, rocks, seed)
    if not half_distance > 0:
        raise JatpoError(f"half_distance={half_distance} is not a distance: give a positive number")
    cell, quality = np.divmod(np.arange(size * size << rocks), 1 << rocks)
    at = np.stack([cell % size, cell // size], axis=1)  # [X - 1, 2]
    actions = (*MOVES, "sample", *(f"check {rock}" for rock in range(rocks)))
    initial = np.append(cell == size // 2 * size, 0.0) / (1 << rocks)
    names = [
        f"{column},{row} {''.join('+' if own >> rock & 1 else '-' for rock in range(rocks))}"
        for (column, row), own in zip(at.tolist(), quality.tolist(), strict=True)
    ]
    arrived, reward = _outcomes(at, quality, places, size)
    last, every = len(cell), len(cell) + 1
    following = np.full((len(actions), every), last)
    following[:, :last] = np.arange(last)
    following[: len(arrived), :last] = arrived
    earned = np.zeros((every, len(actions)))
    earned[:last, : len(arrived)] = reward.T
    a, x = np.divmod(np.arange(following.size), every)
    return Description(
        states=(*names, "absorbing"),
        actions=actions,
        observations=READINGS,
        transition=(a, x, following.ravel(), np.ones(following.size)),
        observation=_sensor(at, quality, places, half_distance),
        reward=earned,
        initial=initial,
        discount=discount,
    ).checked()


def _outcomes(
    at: np.ndarray, quality: np.ndarray, places: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """What follows each state, and what is earned, for the four moves and a sample: two arrays [5, X - 1]."""
    rocks = len(places)
    own = np.arange(len(at))
    arrived, reward = [], []
    for name, step in MOVES.items():
        there = at + np.array(step)
        inside = ((there >= 0) & (there < size)).all(axis=1)
        leaves = (there[:, 0] == size) & (name == "east")
        onward = (there @ np.array([1, size]) << rocks) + quality
        arrived.append(np.where(inside, onward, np.where(leaves, len(at), own)))
        reward.append(np.where(inside, 0.0, np.where(leaves, LEAVE, USELESS)))
    here = (at[:, None] == places[None]).all(axis=2)  # [X - 1, k]
    bit = here @ (1 << np.arange(rocks))
    good = (quality & bit) > 0
    arrived.append(own - np.where(good, bit, 0))
    reward.append(np.where(good, GOOD, np.where(bit > 0, BAD, USELESS)))
    return np.array(arrived), np.array(reward)


def _sensor(at: np.ndarray, quality: np.ndarray, places: np.ndarray, half_distance: float) -> Coordinates:
    """(a, y, z, p) in order: nothing is read but by a check, and nothing when it is over."""
    every, last = len(at) + 1, len(at)
    parts = [_always(action, every) for action in range(len(MOVES) + 1)]
    for rock, place in enumerate(places):
        right = (1 + 2.0 ** (-np.hypot(*(at - place).T) / half_distance)) / 2
        good = quality >> rock & 1
        p = np.where(good[:, None] == np.array([1, 0]), right[:, None], 1 - right[:, None]).ravel()
        y, z = np.repeat(np.arange(last), 2), np.tile([1, 2], last)
        whole = np.append(y, last), np.append(z, 0), np.append(p, 1.0)
        parts.append((np.full(len(whole[0]), len(MOVES) + 1 + rock), *whole))
    a, y, z, p = (np.concatenate(part) for part in zip(*parts, strict=True))
    return a, y, z, p


def _always(action: int, count: int) -> Coordinates:
    """The reading "none" in every state."""
    return np.full(count, action), np.arange(count), np.zeros(count, int), np.ones(count)
