"""The value of every action in every model, as alpha vectors: one step of look-ahead, computed once for a library.

A policy's vectors give the value of the best action; a compromise between models needs that of all the others. For
some beliefs b_k that an agent visits who does not know the model, and for every action a, the backup

    alpha(x) = R(x, a) + γ sum_y P(y | x, a) sum_z O(z | y, a) v_z(y)
    v_z      = argmax_v sum_y O(z | y, a) (b P_a)(y) v(y)

is kept. The best of an action's vectors is q_k(b, a) at those beliefs, and a lower bound on it elsewhere. NumPy in
float64, on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER, Policy
from jatpo.storage import select

POINTS = 32
STEPS = 25  # of a walk, at most
SURE = 0.999  # a posterior above which a walk ends: there is no compromise to make


class ObservationTable(NamedTuple):
    """O_k(z | y, a), the observation first. D is A, or 1 where O does not depend on the action."""

    probability: Array  # [K, D, Z, X]

    def evidence(self, predicted: Array, actions: Array) -> Array:
        """sum_y O(z | y, a) w(y) of one model (without K), for predictions w [X, B] under actions [B]: [Z, B]."""
        return _of_actions(lambda probability: probability @ predicted, self, actions)


class RevealedStates(NamedTuple):
    """The one state that gives each observation, and its probability, where every observation reveals the state."""

    state: Array  # [K, D, Z] int32
    probability: Array  # [K, D, Z]

    def evidence(self, predicted: Array, actions: Array) -> Array:
        """Like `ObservationTable.evidence`."""
        return _of_actions(lambda state, probability: probability[:, None] * predicted[state], self, actions)


def _of_actions(compute: Callable[..., Array], parts: tuple[Array, ...], actions: Array) -> Array:
    """compute(*parts of d) [Z, B], of which each column takes that of its action."""
    if parts[0].shape[0] == 1:
        return compute(*(part[0] for part in parts))
    return select(jax.lax.map(lambda own: compute(*own), parts), actions)


class ActionValues(NamedTuple):
    """Alpha vectors of every action, and the likelihood of each observation."""

    vectors: Array  # [K, A, P, X]
    likelihoods: ObservationTable | RevealedStates


class Dynamics(NamedTuple):
    """One model on the host, cut by action."""

    moves: list[tuple[np.ndarray, np.ndarray, np.ndarray]]  # of each action: from, to, probability
    table: np.ndarray  # O(z | y, a) [D, Z, X], 0 for states that only pad the model
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float

    def predict(self, belief: np.ndarray, action: int) -> np.ndarray:
        """The prediction [X]."""
        x, y, p = self.moves[action]
        return np.bincount(y, belief[x] * p, minlength=len(belief))

    def rows(self, action: int) -> np.ndarray:
        """O(z | y, a) [Z, X]."""
        return self.table[min(action, len(self.table) - 1)]


def dynamics(model: POMDP) -> Dynamics:
    """A model of a library, cut by action."""
    sparse = model.to_sparse()
    a, x, y, p = sparse.transition
    moves = [(x[a == action], y[a == action], p[a == action]) for action in range(model.num_actions)]
    real = np.bincount(x, minlength=model.num_states) > 0
    oa, oy, oz, op = sparse.observation
    depends = len(np.unique(np.stack([oy, oz, op]), axis=1).T) * model.num_actions != len(oa)
    groups = model.num_actions if depends else 1
    table = np.zeros((groups, model.num_observations, model.num_states))
    kept = (oa < groups) & real[oy]
    table[oa[kept], oz[kept], oy[kept]] = op[kept]
    return Dynamics(moves, table, sparse.reward, sparse.initial, sparse.discount)


def action_values(library: Library, policies: Policy, points: int = POINTS, seed: int = 0) -> ActionValues:
    """The vectors of all models at `points` beliefs, for all actions."""
    models = [dynamics(library.model(k)) for k in range(library.num_models)]
    vectors = [_real(np.asarray(own, np.float64)) for own in policies.vectors]
    actions = np.asarray(policies.actions)
    prior = np.asarray(library.prior, np.float64)
    beliefs = visit(models, vectors, actions, prior, points, np.random.default_rng(seed))
    found = [
        [[backup(model, own, belief, a) for belief in beliefs[:, k]] for a in range(library.num_actions)]
        for k, (model, own) in enumerate(zip(models, vectors, strict=True))
    ]
    dtype = library.prior.dtype
    return ActionValues(jnp.asarray(np.array(found), dtype), likelihoods(models, dtype))


def _real(vectors: np.ndarray) -> np.ndarray:
    """Vectors [V, X] without padding."""
    return vectors[vectors[:, 0] > NEVER]


def backup(model: Dynamics, vectors: np.ndarray, belief: np.ndarray, action: int) -> np.ndarray:
    """The backup of `vectors` [V, X] at `belief` [X] for one `action`: [X].

    Apart from the solvers' backups, which return the best action only. After an impossible observation it continues
    as after the most likely one.
    """
    predicted, rows = model.predict(belief, action), model.rows(action)
    reached = np.flatnonzero(predicted)
    weights = rows[:, reached] * predicted[reached]  # [Z, n]
    evidence = weights.sum(axis=1)
    possible = np.flatnonzero(evidence > 0)
    choice = np.zeros(len(rows), int)
    choice[possible] = np.argmax(weights[possible].dot(vectors[:, reached].T), axis=1)
    choice[evidence <= 0] = choice[np.argmax(evidence)]
    after = np.zeros(len(belief))
    for best in np.unique(choice):
        after += rows[choice == best].sum(axis=0) * vectors[best]
    x, y, p = model.moves[action]
    return model.reward[:, action] + model.discount * np.bincount(x, p * after[y], minlength=len(belief))


def visit(
    models: list[Dynamics],
    vectors: list[np.ndarray],
    actions: np.ndarray,
    prior: np.ndarray,
    points: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Beliefs [P, K, X] visited by following, at every step, the policy of a model drawn from the posterior."""
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
    visited = []
    for _ in range(STEPS):
        leader = _draw(posterior, random)
        action = int(actions[leader][np.argmax(vectors[leader].dot(beliefs[leader]))])
        state, seen = _step(models[truth], state, action, random)
        predicted = np.stack([model.predict(own, action) for model, own in zip(models, beliefs, strict=True)])
        joint = predicted * np.stack([model.rows(action)[seen] for model in models])
        beliefs, evidence = filter.normalised(joint, predicted, axis=1, xp=np)
        posterior = posterior * evidence[:, 0] / posterior.dot(evidence[:, 0])
        if posterior.max() > SURE:
            break
        visited.append(beliefs)
    random.shuffle(visited)
    return visited


def _step(model: Dynamics, state: int, action: int, random: np.random.Generator) -> tuple[int, int]:
    """The next state and the observation."""
    x, y, p = model.moves[action]
    own = x == state
    arrived = int(y[own][_draw(p[own], random)])
    return arrived, _draw(model.rows(action)[:, arrived], random)


def _draw(weights: np.ndarray, random: np.random.Generator) -> int:
    """An index in proportion to `weights`."""
    return int(random.choice(len(weights), p=weights / weights.sum()))


def likelihoods(models: list[Dynamics], dtype: np.dtype) -> ObservationTable | RevealedStates:
    """The likelihood of each observation, in all models."""
    groups = max(len(model.table) for model in models)
    table = np.stack([np.broadcast_to(model.table, (groups, *model.table.shape[1:])) for model in models])
    if ((table > 0).sum(axis=3) > 1).any():
        return ObservationTable(jnp.asarray(table, dtype))
    state = table.argmax(axis=3).astype(np.int32)
    return RevealedStates(jnp.asarray(state), jnp.asarray(table.max(axis=3), dtype))
