"""What every action is worth in every model, as alpha vectors: one step of look-ahead, laid out once for a library.

A policy's vectors tell what the best action is worth; a compromise between models needs the worth of all the others.
For some beliefs b_k that an agent who does not know the model meets, and for every action a, the backup

    alpha(x) = R(x, a) + γ sum_y P(y | x, a) sum_z O(z | y, a) v_z(y)
    v_z      = argmax_v sum_y O(z | y, a) (b P_a)(y) v(y)

is kept. The best of an action's vectors is q_k(b, a) at those beliefs, and never above it elsewhere: it is what a
plan that begins with a is worth. NumPy, on the host.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER, Policy

POINTS = 32
STEPS = 25  # of a walk, at most
SURE = 0.999  # beyond that nothing is to be weighed


class Table(NamedTuple):
    """O_k(z | y, a), the observation first. D is A, or 1 where O does not depend on the action."""

    chance: Array  # [K, D, Z, X]


class Givers(NamedTuple):
    """The one state that gives each observation, and how likely, where every observation betrays the state."""

    state: Array  # [K, D, Z] int32
    chance: Array  # [K, D, Z]


class ActionValues(NamedTuple):
    """Alpha vectors of every action, and what leads to each observation."""

    vectors: Array  # [K, A, P, X]
    sight: Table | Givers


class Dynamics(NamedTuple):
    """One model on the host, cut by action."""

    moves: list[tuple[np.ndarray, np.ndarray, np.ndarray]]  # of each action: from, to, probability
    sight: np.ndarray  # O(z | y, a) [D, Z, X], 0 for states that only pad the model
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float

    def push(self, belief: np.ndarray, action: int) -> np.ndarray:
        """The prediction [X]."""
        x, y, p = self.moves[action]
        return np.bincount(y, belief[x] * p, minlength=len(belief))

    def rows(self, action: int) -> np.ndarray:
        """O(z | y, a) [Z, X]."""
        return self.sight[min(action, len(self.sight) - 1)]


def dynamics(model: POMDP) -> Dynamics:
    """A model of a library, cut by action."""
    sparse = model.to_sparse()
    a, x, y, p = sparse.transition
    moves = [(x[a == action], y[a == action], p[a == action]) for action in range(model.num_actions)]
    real = np.bincount(x, minlength=model.num_states) > 0
    oa, oy, oz, op = sparse.observation
    depends = len(np.unique(np.stack([oy, oz, op]), axis=1).T) * model.num_actions != len(oa)
    groups = model.num_actions if depends else 1
    sight = np.zeros((groups, model.num_observations, model.num_states))
    kept = (oa < groups) & real[oy]
    sight[oa[kept], oz[kept], oy[kept]] = op[kept]
    return Dynamics(moves, sight, sparse.reward, sparse.initial, sparse.discount)


def action_values(library: Library, policies: Policy, points: int = POINTS, seed: int = 0) -> ActionValues:
    """The vectors of all models at `points` beliefs, for all actions."""
    models = [dynamics(library.model(k)) for k in range(library.num_models)]
    vectors = [_real(np.asarray(own, np.float64)) for own in policies.vectors]
    actions = np.asarray(policies.actions)
    prior = np.asarray(library.prior, np.float64)
    beliefs = meet(models, vectors, actions, prior, points, np.random.default_rng(seed))
    found = [
        [[backup(model, own, belief, a) for belief in beliefs[:, k]] for a in range(library.num_actions)]
        for k, (model, own) in enumerate(zip(models, vectors, strict=True))
    ]
    dtype = library.prior.dtype
    return ActionValues(jnp.asarray(np.array(found), dtype), sights(models, dtype))


def _real(vectors: np.ndarray) -> np.ndarray:
    """Vectors [V, X] without padding."""
    return vectors[vectors[:, 0] > NEVER]


def backup(model: Dynamics, vectors: np.ndarray, belief: np.ndarray, action: int) -> np.ndarray:
    """The best plan at `belief` [X] that begins with `action` and goes on with `vectors` [V, X]: [X].

    After an observation that cannot come it goes on as after the most likely one.
    """
    predicted, rows = model.push(belief, action), model.rows(action)
    reached = np.flatnonzero(predicted)
    weights = rows[:, reached] * predicted[reached]  # [Z, n]
    chance = weights.sum(axis=1)
    possible = np.flatnonzero(chance > 0)
    choice = np.zeros(len(rows), int)
    choice[possible] = np.argmax(weights[possible].dot(vectors[:, reached].T), axis=1)
    choice[chance <= 0] = choice[np.argmax(chance)]
    after = np.zeros(len(belief))
    for best in np.unique(choice):
        after += rows[choice == best].sum(axis=0) * vectors[best]
    x, y, p = model.moves[action]
    return model.reward[:, action] + model.discount * np.bincount(x, p * after[y], minlength=len(belief))


def meet(
    models: list[Dynamics],
    vectors: list[np.ndarray],
    actions: np.ndarray,
    prior: np.ndarray,
    points: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Beliefs [P, K, X] that are met by who follows a model drawn from the posterior at every step, while unsure."""
    found = [np.stack([model.initial for model in models])]
    for _ in range(20 * points):
        if len(found) >= points:
            break
        found += _walk(models, vectors, actions, prior, random)[: max(4, points // 8)]
    while len(found) < points:
        found += found[: points - len(found)]
    return np.stack(found[:points])


def _walk(models, vectors, actions, prior, random: np.random.Generator) -> list[np.ndarray]:
    """Beliefs [K, X] after the steps of one walk, in random order."""
    truth = _draw(prior, random)
    state = _draw(models[truth].initial, random)
    beliefs, posterior = np.stack([model.initial for model in models]), prior
    met = []
    for _ in range(STEPS):
        leader = _draw(posterior, random)
        action = int(actions[leader][np.argmax(vectors[leader].dot(beliefs[leader]))])
        state, seen = _step(models[truth], state, action, random)
        predicted = np.stack([model.push(own, action) for model, own in zip(models, beliefs, strict=True)])
        joint = predicted * np.stack([model.rows(action)[seen] for model in models])
        evidence = joint.sum(axis=1)
        scale = np.where(evidence > 0, evidence, 1)[:, None]
        beliefs = np.where(evidence[:, None] > 0, joint / scale, predicted)
        posterior = posterior * evidence / posterior.dot(evidence)
        if posterior.max() > SURE:
            break
        met.append(beliefs)
    random.shuffle(met)
    return met


def _step(model: Dynamics, state: int, action: int, random: np.random.Generator) -> tuple[int, int]:
    """The next state and what is seen."""
    x, y, p = model.moves[action]
    own = x == state
    arrived = int(y[own][_draw(p[own], random)])
    return arrived, _draw(model.rows(action)[:, arrived], random)


def _draw(weights: np.ndarray, random: np.random.Generator) -> int:
    """An index in proportion to `weights`."""
    return int(random.choice(len(weights), p=weights / weights.sum()))


def sights(models: list[Dynamics], dtype: np.dtype) -> Table | Givers:
    """What leads to each observation, in all models."""
    groups = max(len(model.sight) for model in models)
    table = np.stack([np.broadcast_to(model.sight, (groups, *model.sight.shape[1:])) for model in models])
    if ((table > 0).sum(axis=3) > 1).any():
        return Table(jnp.asarray(table, dtype))
    state = table.argmax(axis=3).astype(np.int32)
    return Givers(jnp.asarray(state), jnp.asarray(table.max(axis=3), dtype))
