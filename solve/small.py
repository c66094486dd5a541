"""Perseus for small models, in NumPy: a program takes longer to compile than such a model takes to solve.

With G(v, a, z) = sum_y P(y | x, a) O(z | y, a) v(y), made once a stage for all vectors v, a backup is a product with
the belief, a maximum over v, and a sum over z of what was found. The stages are those of `jatpo.solve.stage`.

All numbers here are finite. A matrix product was once reported as invalid all the same: the processor's flags also
cover what a library computes and discards. So such reports are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jatpo import filter
from jatpo.model import POMDP
from jatpo.solve.backup import Vectors
from jatpo.solve.stage import Points, StageInfo, rounding

LARGEST = 1 << 17  # numbers in P(y | x, a) O(z | y, a) of a model that is solved in NumPy
BROADEST = 128  # its pairs of an action and an observation: G is kept for all of them


finite = np.errstate(invalid="ignore", over="ignore")


class Small(NamedTuple):
    """A model as dense arrays of its own states."""

    step: np.ndarray  # [A, X, Z, Y], P(y | x, a) O(z | y, a)
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: np.ndarray  # []
    upper: np.ndarray  # [A, X], an upper bound on the value of each action


@finite
def shrink(model: POMDP, num_states: int) -> Small | None:
    """The first `num_states` states of `model`, the others being padding; None if it is too large for this."""
    pairs = model.num_actions * model.num_observations
    if pairs > BROADEST or pairs * num_states**2 > LARGEST:
        return None
    dense = model.to_dense()
    own = slice(num_states)
    step = np.einsum("axy,ayz->axzy", dense.transition[:, own, own], dense.observation[:, own])
    parts = (step, dense.reward[own], dense.initial[own], dense.discount)
    step, reward, initial, discount = (np.asarray(part, model.dtype) for part in parts)
    return Small(step, reward, initial, discount, upper_vectors(step, reward, discount))


@finite
def random_walk(uniform: np.ndarray, small: Small) -> np.ndarray:
    """Beliefs visited by W walkers in T steps that act at random [T, X, W]; `uniform` [T, 3, W] as in `points.walk`."""
    actions, states, symbols, _ = small.step.shape
    steps = small.step.reshape(actions, states, -1)
    walker = np.arange(uniform.shape[2])
    beliefs, visited = np.repeat(small.initial[None], len(walker), axis=0), []
    for choice, _, draw in uniform:
        visited.append(beliefs.T)
        action = (choice * actions).astype(int)
        after = np.empty((len(walker), symbols, states), beliefs.dtype)
        for a, step in enumerate(steps):
            mine = np.flatnonzero(action == a)
            after[mine] = beliefs[mine].dot(step).reshape(-1, symbols, states)
        total = np.cumsum(after.sum(axis=2), axis=1)
        below = np.nextafter(total[:, -1], 0)  # also where the draw rounds to 1
        threshold = np.minimum(draw * total[:, -1], below)
        seen = np.argmax(total > threshold[:, None], axis=1)
        beliefs = filter.normalised(after[walker, seen], after.sum(axis=1), axis=1, xp=np)[0]
    return np.stack(visited)


def upper_vectors(
    step: np.ndarray, reward: np.ndarray, discount: np.ndarray, tolerance: float = 1e-3, limit: int = 2000
) -> np.ndarray:
    """The fast informed bound [A, X], swept down from R_max / (1 - γ), with room for rounding; see `bounds`."""
    reward, discount = reward.T.astype(float), discount.astype(float)
    backward = step.reshape(-1, reward.shape[1]).T.astype(float)  # [Y, A X Z]
    vectors = np.full(reward.shape, reward.max() / (1 - discount))
    for _ in range(limit):
        best = vectors.dot(backward).max(axis=0).reshape(step.shape[:3])
        before, vectors = vectors, reward + discount * best.sum(axis=2)
        if np.max(before - vectors) < tolerance:
            break
    return vectors + 2 * np.finfo(step.dtype).eps * np.max(np.abs(vectors)) / (1 - discount)


def ahead(step: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """G [A, X, Z, V] of the vectors alpha [V, X]."""
    return step.reshape(-1, alpha.shape[1]).dot(alpha.T).reshape(*step.shape[:3], -1)


def look_ahead(small: Small, after: np.ndarray, beliefs: np.ndarray) -> np.ndarray:
    """q of `beliefs` [B, X] for every action [A, B]; `after` is G."""
    best = np.tensordot(beliefs, after, (1, 1)).max(axis=3).sum(axis=2)  # [B, A]
    return (beliefs.dot(small.reward) + small.discount * best).T


def backup(
    small: Small, own: np.ndarray, after: np.ndarray, beliefs: np.ndarray, possible: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The backup of the vectors `own` [V, X] at `beliefs` [B, X]: alpha [B, X], action [B]; `after` is their G.

    Apart from `backup.backup` since it runs in NumPy, where nothing compiles, and shares G among all batches of a
    stage. Only actions that are `possible` [A, B] maximisers are tried; every belief needs one.
    """
    states, symbols, size = after.shape[1:]
    tried, place = np.nonzero(possible)  # pairs of an action and a belief, by action
    pairs, ends = beliefs[place], np.searchsorted(tried, range(len(after) + 1))
    scores = np.empty((len(pairs), symbols * size), beliefs.dtype)
    for each, start, end in zip(after, ends[:-1], ends[1:], strict=True):
        np.dot(pairs[start:end], each.reshape(states, -1), out=scores[start:end])
    scores = scores.reshape(-1, size)
    choice = scores.argmax(axis=1)
    best = scores[np.arange(len(choice)), choice].reshape(-1, symbols).sum(axis=1)
    q = np.full(possible.shape, -np.inf, beliefs.dtype)
    q[tried, place] = beliefs.dot(small.reward)[place, tried] + small.discount * best
    action = q.argmax(axis=0)
    number = np.cumsum(possible).reshape(possible.shape) - 1  # of a pair
    chosen = choice.reshape(-1, symbols)[number[action, np.arange(len(beliefs))]]  # [B, Z]
    follow = own[chosen].reshape(len(beliefs), -1)  # [B, Z Y]
    alpha = small.reward.T[action]
    for a in set(action.tolist()):
        mine = np.flatnonzero(action == a)
        alpha[mine] += small.discount * follow[mine].dot(small.step[a].reshape(states, -1).T)
    return alpha, action


def possible_actions(small: Small, beliefs: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The actions whose upper bound at `beliefs` [X, B] is not below their `value` [B]: [A, B], at least one each."""
    most = small.upper.dot(beliefs)
    return most >= np.minimum(value - rounding(value), most.max(axis=0))


@finite
def stage(
    turn: np.ndarray,
    small: Small,
    points: Points,
    vectors: Vectors,
    thorough: bool,
    batch: int,
    capacity: int,
) -> tuple[Vectors, Points, StageInfo]:
    """A stage like `stage.stage`; the vectors that come out fill their buffer."""
    beliefs, old, place = (np.asarray(part) for part in points)
    own, own_action = (np.asarray(part)[: int(vectors.count)] for part in vectors[:2])
    after, rows = ahead(small.step, own), np.ascontiguousarray(beliefs.T)
    possible = possible_actions(small, beliefs, old)
    enough = np.full_like(old, np.inf) if thorough else old - rounding(old)
    value, vector = np.full_like(old, -np.inf), np.zeros(old.shape, np.int32)
    waiting = np.argsort(-turn)  # the points still to be drawn, in order
    found, actions, count, backups = [], [], 0, 0
    while len(waiting) and count <= capacity:
        chosen, waiting = waiting[:batch], waiting[batch:]
        alpha, action = backup(small, own, after, rows[chosen], possible[:, chosen])
        worse = (alpha * rows[chosen]).sum(axis=1) < old[chosen]
        kept = place[chosen[worse]]
        alpha[worse], action[worse] = own[kept], own_action[kept]
        scores = rows.dot(alpha.T)  # [B, b]
        winner = scores.argmax(axis=1)
        top = scores[np.arange(len(rows)), winner]
        raised = np.flatnonzero(top > value)
        useful, number = _renumbered(winner[raised], len(alpha))
        value[raised], vector[raised] = top[raised], count + number
        found.append(alpha[useful])
        actions.append(action[useful])
        count, backups = count + len(useful), backups + len(chosen)
        waiting = waiting[value[waiting] < enough[waiting]]
    used, vector = _renumbered(vector, count)
    new: Any = np.concatenate(found)[used], np.concatenate(actions)[used].astype(np.int32), len(used)
    after: Any = beliefs, value, vector
    info: Any = np.max(value - old), backups, count > capacity, np.max(new[0].dot(small.initial))
    return Vectors(*new), Points(*after), StageInfo(*info)


@dataclass(frozen=True)
class InNumPy:
    """The programs of Perseus for a small model; nothing is compiled."""

    small: Small

    def random_walk(self, uniform: np.ndarray) -> np.ndarray:
        """Beliefs [T, X, W] visited with actions at random."""
        return random_walk(uniform, self.small)

    def compile(self, state: Any, batch: int) -> None:
        """Nothing."""
        del state, batch

    def stage(
        self, turn: np.ndarray, old: Points, vectors: Vectors, thorough: bool, batch: int, capacity: int
    ) -> tuple[Vectors, Points, StageInfo]:
        """One stage."""
        return stage(turn, self.small, old, vectors, thorough, batch, capacity)


def _renumbered(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of `numbers` [n] < size, in order, and the place of each among them [n]."""
    present = np.zeros(size, bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present, dtype=np.int32) - 1)[numbers]
