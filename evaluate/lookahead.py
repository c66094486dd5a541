"""Two rules that look ahead in the joint problem, with ATPO's filter: `q` and `lookahead`.

A library is one POMDP with the belief u_k(x) = p(k) b_k(x). With the models' values v_k at the leaves,

    Q_1(u, a) = sum_k q_k(u_k, a)
    Q_d(u, a) = sum_k R_k(u_k, a) + γ sum_z P(z | u, a) max_a' Q_d-1(u', a')

`q` takes the best action of Q_1. One step of look-ahead on the library's values is nothing else: the posterior
cancels, so Q_1 acts as if the model were told after the next step. From depth 2 on, an action is worth more if what is
seen after it tells the models apart, since one action a' has to serve all that are left. `lookahead` is depth 2, with
the observations of the first step sampled: `samples` of them at evenly spaced quantiles, the same quantiles for every
action. It chooses between the two actions that ATPO would most probably take: values that take the model for known
like to wait until somebody tells. q_k comes from `action_values`. It grows with the size of a belief, so u need not
sum to 1.

Where all models that are still likely (p(k) >= `doubt`) have the same policy, there is nothing to weigh: it is
taken, and no look-ahead is paid for. The other trials of a batch are collected into groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import mdp
from jatpo.evaluate import columns, mixture
from jatpo.evaluate.action_values import ActionValues, Givers, Table
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.mixture import Mixture
from jatpo.evaluate.rules import shared
from jatpo.model import POMDP
from jatpo.storage import select

GROUP = 32  # trials that look ahead together
SAME = 1e-4  # policies that differ by no more are the same


class Settings(NamedTuple):
    """Those of ATPO's filter, and from which probability on a model has a say in whether to look ahead."""

    floor: float | Array = 0.0
    temper: float | Array = 1.0
    flat: bool | Array = False
    doubt: float | Array = 1e-3  # 0: every model with p(k) > 0; below 0: look ahead always


def one_step(knowledge: Knowledge, joint: Array) -> Array:
    """Q_1(u, a) at joint beliefs u [K, X, B]: [A, B]."""
    values: ActionValues = knowledge.solved["action_values"]

    def add(total: Array, parts: tuple[Array, Array]) -> tuple[Array, None]:
        vectors, own = parts  # [A, P, X], [X, B]
        scores = vectors.reshape(-1, vectors.shape[2]) @ own
        return total + jnp.max(scores.reshape(*vectors.shape[:2], -1), axis=1), None

    nothing = jnp.zeros((values.vectors.shape[1], joint.shape[2]), joint.dtype)
    return jax.lax.scan(add, nothing, (values.vectors, joint))[0]


def several_steps(
    knowledge: Knowledge, joint: Array, actions: Array, uniform: Array, depth: int, samples: int
) -> Array:
    """Q_d(u, a) at joint beliefs u [K, X, B] for each column's `actions` [C, B]: [C, B].

    Observations are sampled but for the last step. `uniform` [d - 1, B] shifts the quantiles at which they are taken.
    """
    if depth == 1:
        return jnp.take_along_axis(one_step(knowledge, joint), actions, axis=0)
    models, flat = knowledge.library.models, actions.reshape(-1)  # [C B], as the columns below
    again, wide = (jnp.tile(part, (1,) * (part.ndim - 1) + actions.shape[:1]) for part in (uniform, joint))
    arriving = jax.vmap(lambda model, own: columns.push(model.transition, own, flat))(models, wide)
    sight = knowledge.solved["action_values"].sight
    of_models = jax.vmap(_chances, in_axes=(0, 0, None))(sight, arriving, flat)
    chances = jnp.sum(of_models, axis=0)  # [Z, C B]
    every = jnp.broadcast_to(knowledge.actions[:, None], (knowledge.actions.shape[0], flat.shape[0]))

    def of_sample(number: Array) -> Array:
        after = _seeing(models, arriving, flat, _at_quantile(chances, (number + again[0]) / samples))
        return jnp.max(several_steps(knowledge, after, every, again[1:], depth - 1, samples), axis=0)

    values = jnp.mean(jax.lax.map(of_sample, jnp.arange(samples, dtype=joint.dtype)), axis=0)
    mass = jnp.sum(joint, axis=(0, 1))[None, :]
    reward = jnp.einsum("kxa,kxb->ab", models.reward, joint)
    earned = jnp.take_along_axis(reward, actions, axis=0)
    return earned + models.discount[0] * mass * values.reshape(actions.shape)


def _chances(sight: Table | Givers, arriving: Array, actions: Array) -> Array:
    """sum_y O(z | y, a) w(y) of one model, for predictions w [X, B] under actions [B]: [Z, B]."""

    def of_group(chance: Array, state: Array | None = None) -> Array:
        return chance @ arriving if state is None else chance[:, None] * arriving[state]

    parts = (sight.chance,) if isinstance(sight, Table) else (sight.chance, sight.state)
    if sight.chance.shape[0] == 1:
        return of_group(*(part[0] for part in parts))
    return select(jax.lax.map(lambda own: of_group(*own), parts), actions)


def _at_quantile(chances: Array, quantile: Array) -> Array:
    """The observation at which the cumulated `chances` [Z, B] pass `quantile` [B] in [0, 1): [B]."""
    cumulated = jnp.cumsum(chances, axis=0)
    passed = (chances > 0) & (cumulated > quantile[None, :] * cumulated[-1:])
    numbers = jnp.arange(chances.shape[0], dtype=jnp.int32)[:, None]
    first = jnp.min(jnp.where(passed, numbers, chances.shape[0]), axis=0)
    last = jnp.max(jnp.where(chances > 0, numbers, 0), axis=0)  # where rounding lets none pass
    return jnp.minimum(first, last)


def _seeing(models: POMDP, arriving: Array, actions: Array, seen: Array) -> Array:
    """Joint beliefs of size 1 from predictions [K, X, B], after actions and observations [B]."""
    weight = jax.vmap(lambda model: columns.likelihood(model.observation, actions, seen))(models)
    joint = arriving * weight
    total = jnp.sum(joint, axis=(0, 1), keepdims=True)
    return joint / jnp.where(total > 0, total, 1)


Ahead = Callable[[Knowledge, Array, Array, Array], Array]
"""Values [C, B], from knowledge, joint beliefs [K, X, B], actions [C, B] and keys [B]."""


def look(ahead: Ahead, most: int | None, keys: Array, knowledge: Knowledge, memory: Mixture) -> Array:
    """ATPO's policy where the likely models agree, else the best of some actions by `ahead` [A, N].

    Those are the `most` probable actions of ATPO's policy, or all actions without `most`.
    """
    policies = mixture.model_policies(knowledge, memory)
    posterior = jnp.exp(memory.log_posterior)
    doubtful = differ(policies, posterior, jnp.asarray(knowledge.parameters.doubt, posterior.dtype))
    mixed = mixture.mix(memory.log_posterior, policies)
    joint = posterior[:, None, :] * memory.beliefs
    candidates, allowed = _candidates(mixed, most)
    size = min(GROUP, joint.shape[2])
    order = jnp.argsort(~doubtful, stable=True)
    order = jnp.pad(order, (0, -order.shape[0] % size), mode="edge")

    def of_group(number: Array, best: Array) -> Array:
        own = jax.lax.dynamic_slice_in_dim(order, number * size, size)
        values = ahead(knowledge, joint[:, :, own], candidates[:, own], keys[own])
        return best.at[:, own].set(shared(jnp.where(allowed[:, own], values, -jnp.inf), mdp.TIE))

    groups = (jnp.sum(doubtful, dtype=jnp.int32) + size - 1) // size
    best = jax.lax.fori_loop(0, groups, of_group, jnp.zeros(candidates.shape, mixed.dtype))  # [C, N]
    hit = candidates[:, None, :] == knowledge.actions[None, :, None]  # [C, A, N]
    found = jnp.sum(jnp.where(hit, best[:, None, :], 0), axis=0)
    return jnp.where(doubtful[None, :], found, mixed)


def _candidates(mixed: Array, most: int | None) -> tuple[Array, Array]:
    """Actions [C, N] to choose from, given ATPO's policy [A, N], and whether each may be chosen."""
    if most is None or most >= mixed.shape[0]:
        numbers = jnp.arange(mixed.shape[0], dtype=jnp.int32)[:, None]
        return jnp.broadcast_to(numbers, mixed.shape), jnp.ones(mixed.shape, bool)
    chance, actions = jax.lax.top_k(mixed.T, most)
    return actions.T.astype(jnp.int32), chance.T > 0


def differ(policies: Array, posterior: Array, doubt: Array) -> Array:
    """Whether the policies [K, A, N] of the models that are still likely differ [N]."""
    likely = ((posterior >= doubt) & (posterior > 0))[:, None, :]
    most = jnp.max(jnp.where(likely, policies, -jnp.inf), axis=0)
    least = jnp.min(jnp.where(likely, policies, jnp.inf), axis=0)
    return jnp.any(most > least + SAME, axis=0) | (doubt < 0)


def make(name: str, depth: int, samples: int = 1, most: int | None = None, **settings: Any) -> Agent:
    """An agent that looks `depth` steps ahead, with so many sampled observations for each step but the last.

    It chooses among the `most` probable actions of ATPO's policy, or among all.
    """

    def ahead(knowledge: Knowledge, joint: Array, actions: Array, keys: Array) -> Array:
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (depth - 1,), joint.dtype), out_axes=1)(keys)
        return several_steps(knowledge, joint, actions, uniform, depth, samples)

    needs = ("policies", "action_values")
    parts = (mixture.init, partial(look, ahead, most), mixture.observe, mixture.report, needs)
    return Agent(name, "observation", "library", *parts, Settings(**settings))


Q = make("q", 1)
LOOKAHEAD = make("lookahead", 2, samples=3, most=2)
