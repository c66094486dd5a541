"""A round of backups at visited beliefs as one compiled program; the host reads a few numbers when it is over.

A round sends one walker through the model. Its belief is dense; every step leaves its `capacity` heaviest states
behind as a belief point. Then the points are backed up in reverse, each with the vectors that the later ones have made:

    g_az   = the vector that is best for sum_x b(x) P(y | x, a) O(z | y, a)
    alpha(x) = R(x, a*) + γ sum_y P(y | x, a*) sum_z O(z | y, a*) g_a*z(y)

The scores need the successors of the listed states only. A new vector is a lower bound on the value of a policy
whatever states the point has dropped: a point decides where to back up, not what holds. Vectors that were best at no
point of the round are dropped when room runs out.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import filter
from jatpo.mdp import value_iteration
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER
from jatpo.storage import pick

EXPLORE = 0.05  # share of random actions of a walker
GAIN = 1e-4  # by which a new vector must raise its point, of the size of values


class Bank(NamedTuple):
    """Vectors with their actions, room being fixed; unused ones are `NEVER`."""

    alpha: Array  # [V, X]
    action: Array  # [V] int32
    count: Array  # [] int32


class Points(NamedTuple):
    """Visited beliefs as lists of their heaviest states."""

    states: Array  # [T, C] int32
    weights: Array  # [T, C]


class Found(NamedTuple):
    """What a round reports: the lower bound at the initial belief before rounding, and how much was done."""

    value: Array  # []
    added: Array  # [] int32
    full: Array  # [] bool, vectors were wanted and there was no room
    dropped: Array  # [], the largest share of a belief that its point left out


def observed_bound(model: POMDP, tolerance: float) -> tuple[Array, Array]:
    """q* of the MDP [X, A] with its slack added, an upper bound everywhere, and the slack []."""
    found = value_iteration(model, tolerance)
    rounding = 4 * jnp.finfo(model.dtype).eps * jnp.max(jnp.abs(found.q))
    slack = (found.change * model.discount + rounding) / (1 - model.discount)
    return found.q + slack, slack


def play_round(
    key: Array, model: POMDP, q: Array, bank: Bank, informed: Array, steps: int, capacity: int
) -> tuple[Bank, Found]:
    """The vectors after one walk and its backups; an `informed` [] walker acts for its most probable state."""
    points, dropped = _walk(key, model, q, bank, informed, steps, capacity)
    used = jnp.zeros(bank.action.shape, bool)

    def visit(carry: tuple, point: tuple[Array, Array]) -> tuple[tuple, None]:
        bank, used, full, added = carry
        vector, action, gain, best = _backup(model, bank, *point)
        scale = jnp.maximum(jnp.max(jnp.abs(vector)), 1)
        wanted, fits = gain > GAIN * scale, bank.count < bank.action.shape[0]
        take = wanted & fits
        place = jnp.where(take, bank.count, 0)
        alpha = jax.lax.cond(take, lambda: bank.alpha.at[place].set(vector), lambda: bank.alpha)
        actions = bank.action.at[place].set(jnp.where(take, action, bank.action[place]))
        grown = Bank(alpha, actions, bank.count + take.astype(jnp.int32))
        used = used.at[jnp.where(take, place, best)].set(True)
        return (grown, used, full | (wanted & ~fits), added + take.astype(jnp.int32)), None

    start = (bank, used, jnp.zeros((), bool), jnp.int32(0))
    (bank, used, full, added), _ = jax.lax.scan(visit, start, points, reverse=True)
    scores = bank.alpha @ model.initial
    used = used.at[jnp.argmax(scores)].set(True).at[: model.num_actions].set(True)  # the blind policies stay
    crowded = full | (4 * bank.count > 3 * bank.action.shape[0])
    bank = jax.lax.cond(crowded, lambda: _kept(bank, used), lambda: bank)
    return bank, Found(jnp.max(scores), added, full, dropped)


def _walk(
    key: Array, model: POMDP, q: Array, bank: Bank, informed: Array, steps: int, capacity: int
) -> tuple[Points, Array]:
    """The points of a walk, and the largest share that one of them left out."""
    first, later = jax.random.split(key)
    heaviest = min(capacity, model.num_states)

    def step(carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], tuple]:
        belief, state = carry
        uniform = jax.random.uniform(key, (4,), belief.dtype)
        weights, states = jax.lax.top_k(belief, heaviest)
        likely = jnp.argmax(q[states[0]]).astype(jnp.int32)
        planned = bank.action[jnp.argmax(bank.alpha @ belief)]
        random = (uniform[1] * model.num_actions).astype(jnp.int32)
        action = jnp.where(uniform[0] < EXPLORE, random, jnp.where(informed, likely, planned))
        arrived = model.transition.sample(uniform[2], state, action)
        seen = model.observation.sample(uniform[3], arrived, action)
        after = filter.update(model, belief, action, seen)[0]
        total = jnp.sum(weights)
        return (after, arrived), (states, weights / total, 1 - jnp.minimum(total, 1))

    begin = pick(jax.random.uniform(first, (), model.dtype), model.initial)
    _, (states, weights, dropped) = jax.lax.scan(step, (model.initial, begin), jax.random.split(later, steps))
    return Points(states, weights), jnp.max(dropped)


def _backup(model: POMDP, bank: Bank, states: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """The new vector [X], its action, what it gains at the point, and the vector that was best there."""

    def of_action(action: Array) -> tuple[Array, Array]:
        following, p = model.transition.successors(states, action)
        following, p = following.reshape(-1), (weights[:, None] * p).reshape(-1)
        seen = model.observation.rows_at(following, action)  # [M, Z]
        scores = (bank.alpha[:, following] * p[None, :]) @ seen  # [V, Z]
        value = jnp.sum(jnp.max(scores, axis=0))
        return value, jnp.argmax(scores, axis=0).astype(jnp.int32)

    actions = jnp.arange(model.num_actions, dtype=jnp.int32)
    values, choices = jax.lax.map(of_action, actions)
    values = weights @ model.reward[states] + model.discount * values
    action = jnp.argmax(values).astype(jnp.int32)
    ahead = model.observation.mixed(bank.alpha, choices[action], action)  # [X]
    expected = model.transition.expect_columns(ahead[:, None], action[None])[:, 0]
    vector = model.reward[:, action] + model.discount * expected
    before = bank.alpha[:, states] @ weights
    best = jnp.argmax(before).astype(jnp.int32)
    return vector, action, vector[states] @ weights - before[best], best


def _kept(bank: Bank, used: Array) -> Bank:
    """The `used` vectors in their order, in front."""
    order = jnp.argsort(~used, stable=True)
    count = jnp.sum(used, dtype=jnp.int32)
    kept = jnp.arange(used.shape[0]) < count
    alpha = jnp.where(kept[:, None], bank.alpha[order], jnp.asarray(NEVER, bank.alpha.dtype))
    return Bank(alpha, jnp.where(kept, bank.action[order], 0), count)


def margin(model: POMDP, largest: Array) -> Array:
    """What rounding may have added to the value of a vector, at most [], values being of the size `largest`.

    A backup adds up the successors, the observations and a reward, each product rounded twice; the error of what it
    starts from shrinks by γ. The sum over a belief of the initial value is pairwise, and has its logarithm.
    """
    successors = jax.eval_shape(lambda: model.transition.successors(jnp.zeros(1, jnp.int32), jnp.int32(0)))[1]
    terms = 2 * (successors.shape[1] + model.num_observations) + 64
    return terms * jnp.finfo(model.dtype).eps * largest / (1 - model.discount)
