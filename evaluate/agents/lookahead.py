"""Two rules that look ahead in the joint problem, with ATPO's filter: `q` and `lookahead`.

A library is one POMDP with the belief u_k(x) = p(k) b_k(x). With the models' values v_k at the leaves,

    Q_1(u, a) = sum_k q_k(u_k, a)
    Q_d(u, a) = sum_k R_k(u_k, a) + sum_z P(z | u, a) max_a' Q_d-1((γ_k u'_k)_k, a')

`q` takes the best action of Q_1. One step of look-ahead with the library's values is the same rule: the posterior
cancels, so Q_1 acts as if the model were known after the next step. From depth 2 on, an action is worth more if its
observation distinguishes the models, since a single action a' follows for all remaining models. `lookahead` has depth
2 and samples the observations of the first step: `samples` of them at evenly spaced quantiles, the same for every
action. It chooses between the two most probable actions of ATPO, because values that assume a known model favour
waiting. q_k comes from `action_values`. It is linear in the mass of a belief, so u need not sum to 1.

Where all models with p(k) >= `doubt` have the same policy, that policy is followed without look-ahead. The other trials
of a batch are collected into groups.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import filter, mdp
from jatpo.evaluate.action_values import ActionValues
from jatpo.evaluate.agents.atpo import ATPO, Mixture, mix
from jatpo.evaluate.agents.protocol import Context, agent_class, static
from jatpo.evaluate.agents.selecting import shared
from jatpo.model import POMDP

GROUP = 32  # trials that look ahead together
SAME = 1e-4  # policies that differ by no more are the same


def one_step(context: Context, joint: Array) -> Array:
    """Q_1(u, a) at joint beliefs u [K, X, B]: [A, B]."""
    values: ActionValues = context.solved["action_values"]

    def add(total: Array, parts: tuple[Array, Array]) -> tuple[Array, None]:
        vectors, own = parts  # [A, P, X], [X, B]
        scores = vectors.reshape(-1, vectors.shape[2]) @ own
        return total + jnp.max(scores.reshape(*vectors.shape[:2], -1), axis=1), None

    nothing = jnp.zeros((values.vectors.shape[1], joint.shape[2]), joint.dtype)
    return jax.lax.scan(add, nothing, (values.vectors, joint))[0]


def several_steps(
    context: Context, joint: Array, actions: Array, uniform: Array, depth: int, samples: int
) -> Array:
    """Q_d(u, a) at joint beliefs u [K, X, B] for each column's `actions` [C, B]: [C, B].

    Observations are sampled but for the last step. `uniform` [d - 1, B] shifts the quantiles at which they are taken.
    """
    if depth == 1:
        return jnp.take_along_axis(one_step(context, joint), actions, axis=0)
    models, flat = context.library.models, actions.reshape(-1)  # [C B], as the columns below
    again, wide = (jnp.tile(part, (1,) * (part.ndim - 1) + actions.shape[:1]) for part in (uniform, joint))
    arriving = jax.vmap(lambda model, own: filter.predict_columns(model.transition, own, flat))(models, wide)
    likelihoods = context.solved["action_values"].likelihoods
    of_models = jax.vmap(lambda each, own: each.evidence(own, flat))(likelihoods, arriving)
    evidence = jnp.sum(of_models, axis=0)  # [Z, C B]
    every = jnp.broadcast_to(context.actions[:, None], (context.actions.shape[0], flat.shape[0]))

    def of_sample(number: Array) -> Array:
        after = _seeing(models, arriving, flat, _at_quantile(evidence, (number + again[0]) / samples))
        return jnp.max(several_steps(context, after, every, again[1:], depth - 1, samples), axis=0)

    values = jnp.mean(jax.lax.map(of_sample, jnp.arange(samples, dtype=joint.dtype)), axis=0)
    mass = jnp.sum(joint, axis=(0, 1))[None, :]
    reward = jnp.einsum("kxa,kxb->ab", models.reward, joint)
    earned = jnp.take_along_axis(reward, actions, axis=0)
    return earned + jnp.max(models.discount) * mass * values.reshape(actions.shape)


def _at_quantile(evidence: Array, quantile: Array) -> Array:
    """The observation at which the cumulated `evidence` [Z, B] pass `quantile` [B] in [0, 1): [B]."""
    cumulated = jnp.cumsum(evidence, axis=0)
    passed = (evidence > 0) & (cumulated > quantile[None, :] * cumulated[-1:])
    numbers = jnp.arange(evidence.shape[0], dtype=jnp.int32)[:, None]
    first = jnp.min(jnp.where(passed, numbers, evidence.shape[0]), axis=0)
    last = jnp.max(jnp.where(evidence > 0, numbers, 0), axis=0)  # where rounding lets none pass
    return jnp.minimum(first, last)


def _seeing(models: POMDP, arriving: Array, actions: Array, seen: Array) -> Array:
    """Joint beliefs from predictions [K, X, B], after actions and observations [B].

    Their size is 1, but that a model with a smaller discount than the largest counts for less: Q grows with the size of
    a belief, so that a discount of its own is a factor of u_k.
    """
    weight = jax.vmap(lambda model: filter.likelihood_columns(model.observation, actions, seen))(models)
    joint = arriving * weight
    total = jnp.sum(joint, axis=(0, 1), keepdims=True)
    share = models.discount / jnp.max(models.discount)  # 1 where all have the same
    return joint / jnp.where(total > 0, total, 1) * share[:, None, None]


def _candidates(mixed: Array, most: int | None) -> tuple[Array, Array]:
    """Actions [C, N] to choose from, given ATPO's policy [A, N], and whether each may be chosen."""
    if most is None or most >= mixed.shape[0]:
        numbers = jnp.arange(mixed.shape[0], dtype=jnp.int32)[:, None]
        return jnp.broadcast_to(numbers, mixed.shape), jnp.ones(mixed.shape, bool)
    probability, actions = jax.lax.top_k(mixed.T, most)
    return actions.T.astype(jnp.int32), probability.T > 0


def differ(policies: Array, posterior: Array, doubt: Array) -> Array:
    """Whether the policies [K, A, N] of the models that are still likely differ [N]."""
    likely = ((posterior >= doubt) & (posterior > 0))[:, None, :]
    most = jnp.max(jnp.where(likely, policies, -jnp.inf), axis=0)
    least = jnp.min(jnp.where(likely, policies, jnp.inf), axis=0)
    return jnp.any(most > least + SAME, axis=0) | (doubt < 0)


@agent_class
class Lookahead(ATPO):
    """ATPO where the likely models agree; elsewhere the best action by look-ahead in the joint problem.

    It looks `depth` steps ahead, with so many sampled observations for each step but the last, and chooses among the
    `most` probable actions of ATPO's policy, or among all.
    """

    name: str = "lookahead"
    doubt: float | Array = (
        1e-3  # models with at least this posterior decide whether to look ahead; below 0: always
    )
    depth: int = static(default=2)
    samples: int = static(default=3)
    most: int | None = static(default=2)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("policies", "action_values")

    def act(self, keys: Array, context: Context, memory: Mixture) -> Array:
        """ATPO's policy where the likely models agree, else uniform over the best actions by `ahead` [A, N]."""
        policies = self.model_policies(context, memory)
        posterior = jnp.exp(memory.log_posterior)
        doubtful = differ(policies, posterior, jnp.asarray(self.doubt, posterior.dtype))
        mixed = mix(memory.log_posterior, policies)
        joint = posterior[:, None, :] * self.written_out(context, memory).beliefs
        candidates, allowed = _candidates(mixed, self.most)
        size = min(GROUP, joint.shape[2])
        order = jnp.argsort(~doubtful, stable=True)
        order = jnp.pad(order, (0, -order.shape[0] % size), mode="edge")

        def of_group(number: Array, best: Array) -> Array:
            own = jax.lax.dynamic_slice_in_dim(order, number * size, size)
            values = self.ahead(keys[own], context, joint[:, :, own], candidates[:, own])
            return best.at[:, own].set(shared(jnp.where(allowed[:, own], values, -jnp.inf), mdp.TIE))

        groups = (jnp.sum(doubtful, dtype=jnp.int32) + size - 1) // size
        best = jax.lax.fori_loop(0, groups, of_group, jnp.zeros(candidates.shape, mixed.dtype))  # [C, N]
        hit = candidates[:, None, :] == context.actions[None, :, None]  # [C, A, N]
        found = jnp.sum(jnp.where(hit, best[:, None, :], 0), axis=0)
        return jnp.where(doubtful[None, :], found, mixed)

    def ahead(self, keys: Array, context: Context, joint: Array, actions: Array) -> Array:
        """Q_d(u, a) at joint beliefs [K, X, B] for each column's actions [C, B]: [C, B]."""
        draw = jax.vmap(lambda key: jax.random.uniform(key, (self.depth - 1,), joint.dtype), out_axes=1)
        return several_steps(context, joint, actions, draw(keys), self.depth, self.samples)


def Q(**parameters: Any) -> Lookahead:
    """The best action of Q_1."""
    return Lookahead(**{"name": "q", "depth": 1, "samples": 1, "most": None} | parameters)
