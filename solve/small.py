"""Perseus for small models, in NumPy: a program takes longer to compile than such a model takes to solve.

With G(v, a, z) = sum_y P(y | x, a) O(z | y, a) v(y), made once a stage for all vectors v, a backup is a product with
the belief, a maximum over v, and a sum over z of what was found. The stages are those of `jatpo.solve.stage`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jatpo.model import POMDP
from jatpo.solve.backup import Vectors
from jatpo.solve.stage import Points, StageInfo, rounding

LARGEST = 1 << 17  # numbers in P(y | x, a) O(z | y, a) of a model that is solved in NumPy
BROADEST = 128  # its pairs of an action and an observation: what vectors promise is kept for all of them


class Small(NamedTuple):
    """A model as dense arrays of its own states."""

    step: np.ndarray  # [A, Z, X, X], P(y | x, a) O(z | y, a)
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: np.ndarray  # []


def shrink(model: POMDP, num_states: int) -> Small | None:
    """The first `num_states` states of `model`, the others being padding; None if it is too large for this."""
    pairs = model.num_actions * model.num_observations
    if pairs > BROADEST or pairs * num_states**2 > LARGEST:
        return None
    dense = model.to_dense()
    own = slice(num_states)
    step = np.einsum("axy,ayz->azxy", dense.transition[:, own, own], dense.observation[:, own])
    parts = (step, dense.reward[own], dense.initial[own], dense.discount)
    return Small(*(np.asarray(part, model.dtype) for part in parts))


def random_walk(uniform: np.ndarray, small: Small) -> np.ndarray:
    """Beliefs met by W walkers in T steps that act at random [T, X, W]; `uniform` [T, 3, W] as in `points.walk`."""
    actions, symbols, states, _ = small.step.shape
    forward = np.moveaxis(small.step, 2, 0).reshape(states, -1)
    walker = np.arange(uniform.shape[2])
    beliefs, met = np.repeat(small.initial[None], len(walker), axis=0), []
    for action, _, luck in uniform:
        met.append(beliefs.T)
        ways = beliefs.dot(forward).reshape(-1, actions, symbols, states)
        after = ways[walker, (action * actions).astype(int)]  # [W, Z, X]
        total = np.cumsum(after.sum(axis=2), axis=1)
        below = np.minimum(luck * total[:, -1], np.nextafter(total[:, -1], 0))  # also where luck rounds to 1
        seen = np.argmax(total > below[:, None], axis=1)
        beliefs = after[walker, seen] / after[walker, seen].sum(axis=1, keepdims=True)
    return np.stack(met)


def upper_vectors(small: Small, tolerance: float = 1e-3, limit: int = 2000) -> np.ndarray:
    """The fast informed bound [A, X], swept down from R_max / (1 - γ), with room for rounding; see `bounds`."""
    reward, discount = small.reward.T.astype(float), float(small.discount)
    vectors = np.full(reward.shape, reward.max() / (1 - discount))
    for _ in range(limit):
        best = ahead(small, vectors).max(axis=0)  # [A, Z, X]
        before, vectors = vectors, reward + discount * best.sum(axis=1)
        if np.max(before - vectors) < tolerance:
            break
    return vectors + 2 * np.finfo(small.step.dtype).eps * np.max(np.abs(vectors)) / (1 - discount)


def upper_bound(small: Small, upper: np.ndarray) -> float:
    """Two steps of look-ahead from the initial belief on the vectors `upper` [A, X]; see `problem.upper_bound`."""
    after = small.initial.dot(small.step)  # [A, Z, X]
    values = look_ahead(small, ahead(small, upper), after.reshape(-1, after.shape[2]).T)[0].max(axis=0)
    q = small.initial.dot(small.reward) + small.discount * values.reshape(after.shape[:2]).sum(axis=1)
    return float(min(np.max(upper.dot(small.initial)), np.max(q)))


def ahead(small: Small, alpha: np.ndarray) -> np.ndarray:
    """G [V, A, Z, X] of the vectors alpha [V, X]."""
    return alpha.dot(small.step.reshape(-1, alpha.shape[1]).T).reshape(-1, *small.step.shape[:3])


def look_ahead(small: Small, after: np.ndarray, beliefs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q of `beliefs` [X, B] for every action [A, B], and what each vector of G promises [V, A, Z, B]."""
    promised = after.reshape(-1, after.shape[3]).dot(beliefs).reshape(*after.shape[:3], -1)
    best = promised.max(axis=0).sum(axis=1)
    return small.reward.T.dot(beliefs) + small.discount * best, promised


def backup(small: Small, after: np.ndarray, beliefs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The backed-up vectors at `beliefs` [X, B]: alpha [B, X], action [B]; `after` is G."""
    q, promised = look_ahead(small, after, beliefs)
    action = q.argmax(axis=0)
    choice = np.moveaxis(promised, 0, 3)[action, :, np.arange(len(action))].argmax(axis=2)  # [B, Z]
    chosen = after[choice, action[:, None], np.arange(choice.shape[1])]  # [B, Z, X]
    return small.reward.T[action] + small.discount * chosen.sum(axis=1), action


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
    promises, rows = ahead(small, own), np.ascontiguousarray(beliefs.T)
    enough = np.full_like(old, np.inf) if thorough else old - rounding(old)
    value, vector = np.full_like(old, -np.inf), np.zeros(old.shape, np.int32)
    waiting = np.argsort(-turn)  # the points still to be drawn, in order
    found, actions, count, backups = [], [], 0, 0
    while len(waiting) and count <= capacity:
        chosen, waiting = waiting[:batch], waiting[batch:]
        alpha, action = backup(small, promises, beliefs[:, chosen])
        worse = np.einsum("bx,xb->b", alpha, beliefs[:, chosen]) < old[chosen]
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
    info: Any = np.max(value - old), backups, count > capacity
    return Vectors(*new), Points(*after), StageInfo(*info)


def _renumbered(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of `numbers` [n] < size, in order, and the place of each among them [n]."""
    present = np.zeros(size, bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present, dtype=np.int32) - 1)[numbers]
