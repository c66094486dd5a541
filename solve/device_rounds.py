"""A round of backups at visited beliefs as one compiled program; the host reads a few numbers when it is over.

A round sends one walker through the model, from the initial belief. Every step leaves its belief behind as a list of
weighted states (`Representation.listed`): all of them where they fit, else a sample of equal weights. Then these points
are backed up in reverse, each with the vectors that the later ones have made:

    g_az   = the vector that is best for sum_x b(x) P(y | x, a) O(z | y, a)
    alpha(x) = R(x, a*) + γ sum_y P(y | x, a*) sum_z O(z | y, a*) g_a*z(y)

The scores need the successors of the listed states only. A new vector is a lower bound on the value of a policy
whatever states the point has left out: a point decides where to back up, not what holds. Where room runs out, the half
that was best at a point least recently is dropped.

Three kinds of walkers take turns: one acts for its most probable state, which finds goals that no vector knows of yet;
one as if the state were to be known after the next observation, which pays for observations that separate states; one
by the vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs import Representation
from jatpo.mdp import value_iteration
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER
from jatpo.storage import pick

EXPLORE = 0.05  # share of random actions of a walker
GAIN = 1e-4  # by which a new vector must raise its point, of the size of values
KINDS = 3  # of walkers
TILE = 64  # vectors that are scored at once, so that a bank costs what it holds and not its room


class Bank(NamedTuple):
    """Vectors with their actions, room being fixed; one row more than there is room for takes what is not kept."""

    alpha: Array  # [V + 1, X]
    action: Array  # [V + 1] int32
    used: Array  # [V + 1] int32, the last round in which a vector was best at a point
    count: Array  # [] int32


class Points(NamedTuple):
    """Visited beliefs as lists of weighted states."""

    states: Array  # [T, C] int32
    weights: Array  # [T, C]


class Found(NamedTuple):
    """What a round reports: the lower bound at the initial belief before rounding, and how much was done."""

    value: Array  # []
    added: Array  # [] int32
    full: Array  # [] bool, vectors were wanted and there was no room


def empty_bank(vectors: Array, room: int) -> Bank:
    """Room for that many vectors, of which `vectors` [A, X], one for each action, are the first."""
    actions = jnp.arange(room + 1, dtype=jnp.int32)
    first = actions < vectors.shape[0]
    alpha = jnp.full((room + 1, vectors.shape[1]), NEVER, vectors.dtype).at[: vectors.shape[0]].set(vectors)
    return Bank(alpha, jnp.where(first, actions, 0), jnp.zeros_like(actions), jnp.int32(vectors.shape[0]))


def observed_bound(model: POMDP, tolerance: float) -> tuple[Array, Array]:
    """q* of the MDP [X, A] with its slack added, an upper bound everywhere, and the slack []."""
    found = value_iteration(model, tolerance)
    rounding = 4 * jnp.finfo(model.dtype).eps * jnp.max(jnp.abs(found.q))
    slack = (found.change * model.discount + rounding) / (1 - model.discount)
    return found.q + slack, slack


def play_round(
    key: Array,
    model: POMDP,
    q: Array,
    bank: Bank,
    number: Array,
    steps: int,
    capacity: int,
    belief: Representation,
) -> tuple[Bank, Found]:
    """The vectors after walk `number` [], counted from 0, and its backups."""
    points = _walk(key, model, q, bank, number % KINDS, steps, capacity, belief)
    room = bank.action.shape[0] - 1

    def visit(carry: tuple, point: tuple[Array, Array]) -> tuple[tuple, None]:
        bank, full, added = carry
        vector, action, gain, best = _backup(model, bank, *point)
        scale = jnp.maximum(jnp.max(jnp.abs(vector)), 1)
        wanted, fits = gain > GAIN * scale, bank.count < room
        take = wanted & fits
        alpha = bank.alpha.at[bank.count].set(vector)  # always: a choice would copy them all
        actions = bank.action.at[bank.count].set(action)
        used = bank.used.at[jnp.where(take, bank.count, best)].set(number + 1)
        grown = Bank(alpha, actions, used, bank.count + take.astype(jnp.int32))
        return (grown, full | (wanted & ~fits), added + take.astype(jnp.int32)), None

    start = (bank, jnp.zeros((), bool), jnp.int32(0))
    (bank, full, added), _ = jax.lax.scan(visit, start, points, reverse=True)
    held = jnp.arange(room + 1) < bank.count
    scores = jnp.where(held, bank.alpha @ model.initial, NEVER)
    kept = jnp.where(
        jnp.arange(room + 1) < model.num_actions, number + 2, bank.used
    )  # the blind policies stay
    bank = bank._replace(
        used=kept.at[jnp.argmax(scores)].set(number + 2)
    )  # and so does what the bound comes from
    crowded = full | (4 * bank.count > 3 * room)
    bank = jax.lax.cond(crowded, _halved, lambda own: own, bank)
    return bank, Found(jnp.max(scores), added, full)


def _walk(
    key: Array,
    model: POMDP,
    q: Array,
    bank: Bank,
    kind: Array,
    steps: int,
    capacity: int,
    belief: Representation,
) -> Points:
    """The points of a walk by a walker of one kind."""
    first, later = jax.random.split(key)
    every = jnp.arange(model.num_actions, dtype=jnp.int32)
    guide = Bank(q.T, every, every, jnp.int32(model.num_actions))

    def step(carry: tuple[Any, Array], key: Array) -> tuple[tuple[Any, Array], tuple[Array, Array]]:
        held, state = carry
        uniform = jax.random.uniform(key, (5,), model.dtype)
        states, weights = belief.listed(uniform[4], held, model.num_states, capacity)
        ways = (
            lambda: jnp.argmax(q[belief.mode(held)]).astype(jnp.int32),
            lambda: jnp.argmax(_look_ahead(model, guide, states, weights)[0]).astype(jnp.int32),
            lambda: bank.action[_best(bank, states, weights[:, None])[1][0]],
        )
        best = jax.lax.switch(kind, ways)
        random = (uniform[1] * model.num_actions).astype(jnp.int32)
        action = jnp.where(uniform[0] < EXPLORE, random, best)
        arrived = model.transition.sample(uniform[2], state, action)
        seen = model.observation.sample(uniform[3], arrived, action)
        after = belief.update(None, model, held, action, seen)[0]
        return (after, arrived), (states, weights)

    begin = pick(jax.random.uniform(first, (), model.dtype), model.initial)
    start = (belief.start(None, model), begin)
    return Points(*jax.lax.scan(step, start, jax.random.split(later, steps))[1])


def _backup(model: POMDP, bank: Bank, states: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """The new vector [X], its action, what it gains at the point, and the vector that was best there."""

    values, choices = _look_ahead(model, bank, states, weights)
    action = jnp.argmax(values).astype(jnp.int32)
    ahead = model.observation.mixed(bank.alpha, choices[action], action)  # [X]
    expected = model.transition.expect_columns(ahead[:, None], action[None])[:, 0]
    vector = model.reward[:, action] + model.discount * expected
    before, best = _best(bank, states, weights[:, None])
    return vector, action, vector[states] @ weights - before[0], best[0]


def _look_ahead(model: POMDP, bank: Bank, states: Array, weights: Array) -> tuple[Array, Array]:
    """The value of each action at a point by one step of look-ahead [A], and the vector for each observation [A, Z]."""

    def of_action(action: Array) -> tuple[Array, Array]:
        following, p = model.transition.successors(states, action)
        following, p = following.reshape(-1), (weights[:, None] * p).reshape(-1)
        seen = model.observation.rows_at(following, action)  # [M, Z]
        best, choice = _best(bank, following, p[:, None] * seen)
        return jnp.sum(best), choice

    values, choices = jax.lax.map(of_action, jnp.arange(model.num_actions, dtype=jnp.int32))
    return weights @ model.reward[states] + model.discount * values, choices


def _best(bank: Bank, states: Array, weights: Array) -> tuple[Array, Array]:
    """max_v sum_i v(states_i) weights[i, z] and the vector [Z], for `states` [M]; `TILE` vectors at a time."""
    columns, room = weights.shape[1], bank.alpha.shape[0]

    def of_tile(number: Array, known: tuple[Array, Array]) -> tuple[Array, Array]:
        rows = number * TILE + jnp.arange(TILE, dtype=jnp.int32)
        own = bank.alpha[jnp.minimum(rows, room - 1)[:, None], states[None, :]]
        scores = jnp.where((rows < bank.count)[:, None], own @ weights, NEVER)
        most, value = jnp.argmax(scores, axis=0).astype(jnp.int32), jnp.max(scores, axis=0)
        better = value > known[0]
        return jnp.where(better, value, known[0]), jnp.where(better, number * TILE + most, known[1])

    nothing = jnp.full(columns, -jnp.inf, weights.dtype), jnp.zeros(columns, jnp.int32)
    return jax.lax.fori_loop(0, (bank.count + TILE - 1) // TILE, of_tile, nothing)


def _halved(bank: Bank) -> Bank:
    """The half of the room whose vectors were best at a point most recently."""
    places = jnp.arange(bank.used.shape[0])
    order = jnp.argsort(jnp.where(places < bank.count, -bank.used, 1), stable=True)
    count = jnp.minimum(bank.count, (bank.used.shape[0] - 1) // 2 + 1)
    kept = places < count
    alpha = jnp.where(kept[:, None], bank.alpha[order], jnp.asarray(NEVER, bank.alpha.dtype))
    return Bank(alpha, jnp.where(kept, bank.action[order], 0), jnp.where(kept, bank.used[order], 0), count)


def margin(model: POMDP, largest: Array) -> Array:
    """What rounding may have added to the value of a vector, at most [], values being of the size `largest`.

    A backup adds up the successors, the observations and a reward, each product rounded twice; the error of what it
    starts from shrinks by γ. The sum over a belief of the initial value is pairwise, and has its logarithm.
    """
    successors = jax.eval_shape(lambda: model.transition.successors(jnp.zeros(1, jnp.int32), jnp.int32(0)))[1]
    terms = 2 * (successors.shape[1] + model.num_observations) + 64
    return terms * jnp.finfo(model.dtype).eps * largest / (1 - model.discount)
