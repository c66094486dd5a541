"""The Bayes-optimal ad hoc agent: ATPO's filter, and a policy of the joint problem.

A library is one POMDP whose hidden state is (model, state), see `Library.joint`. Its belief is p(k) b_k, which is
what ATPO's filter keeps, so only the choice of an action differs:

    a = action of argmax_v sum_k p(k) sum_x v(k, x) b_k(x)

The vectors v are those of the joint problem. They value the information that an observation gives about the model,
while ATPO mixes policies each of which assumes its own model. The vectors of single models, with the worst value in
all others, are valid in the joint problem too, and best where one model is nearly certain; they are included.

A vector is the value of a plan, but the vectors that continue the plan may have been dropped. Where an action leaves
p(k) b_k unchanged, and would do so for every observation, a deterministic rule repeats it indefinitely. Unless
repeating it earns that value, the next action is drawn as ATPO draws it.

The upper bound of the joint problem holds for every agent that starts from this library and prior and sees only
observations: none has a higher discounted value.

Vectors solved for one prior are valid for any other: a trial with a smaller library has p(k) = 0 elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.evaluate.agents.atpo import ATPO, Mixture, mix
from jatpo.evaluate.agents.protocol import Context, agent_class
from jatpo.library import Library
from jatpo.mdp import TIE
from jatpo.model import POMDP
from jatpo.solve.policy import Policy, action_probabilities_columns

SAME = 1e-5  # joint beliefs that differ by no more in all are the same
NONE = -1
GOLDEN = 0.6180339887  # its multiples, cut to [0, 1), are far from each other


class Watched(NamedTuple):
    """ATPO's memory, and the last action if it changed nothing and never would, or `NONE`."""

    mixture: Mixture
    idle: Array  # [N] int32


@agent_class
class Bayes(ATPO):
    """The best action of the joint problem's alpha vectors at p(k) b_k."""

    name: str = "bayes"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("joint", "policies")

    def init(self, keys: Array, context: Context, seen: None) -> Watched:
        """ATPO's start."""
        return Watched(super().init(keys, context, seen), jnp.full(keys.shape[0], NONE, jnp.int32))

    def act(self, keys: Array, context: Context, memory: Watched) -> Array:
        """Uniform over the actions of the vectors that are best at p(k) b_k [A, N], the single models' among them.

        Where that is the `idle` action again, and forever it would earn less than the lower bound, ATPO's policy.
        """
        del keys
        policies, num_actions = self.model_policies(context, memory.mixture), context.actions.shape[0]
        own = self.written_out(context, memory.mixture)
        joint = joint_beliefs(own)
        whole, flattened = flat(context.solved["joint"], joint)
        together = action_probabilities_columns(whole, flattened, num_actions)
        value = jnp.max(whole.vectors @ flattened, axis=0)
        alone = alone_values(context, own)
        single = jnp.take_along_axis(policies, jnp.argmax(alone, axis=0)[None, None, :], axis=0)[0]
        best = jnp.where(jnp.max(alone, axis=0) > value + TIE, single, together)
        lower = jnp.maximum(value, jnp.max(alone, axis=0))
        again = jnp.take_along_axis(best, jnp.maximum(memory.idle, 0)[None, :], axis=0)[0] > 1 - TIE
        less = lower > forever(context.library.models, joint, memory.idle) + TIE
        stuck = (memory.idle != NONE) & again & less
        return jnp.where(stuck, mix(own.log_posterior, policies), best)

    def update(self, keys: Array, context: Context, memory: Watched, actions: Array, seen: Array) -> Watched:
        """ATPO's filter, and whether the action can ever change the joint belief.

        It cannot if p(k) b_k is unchanged and its states are indistinguishable: the observation has the same
        probability in each state as in the mixture, and so have all other observations.
        """
        after, models = super().update(keys, context, memory.mixture, actions, seen), context.library.models
        before, joint = (joint_beliefs(self.written_out(context, own)) for own in (memory.mixture, after))
        change = jnp.sum(jnp.abs(joint - before), axis=(0, 1))
        likelihood = jax.vmap(lambda model: filter.likelihood_columns(model.observation, actions, seen))(
            models
        )
        seen_apart = deviation(joint, likelihood, jnp.exp(after.log_evidence))
        looks = looks_after(models, actions)
        unseen_apart = deviation(joint, looks, jnp.sum(joint * looks, axis=(0, 1)))
        same = jnp.maximum(change, jnp.maximum(seen_apart, unseen_apart)) <= SAME
        return Watched(after, jnp.where(same, actions, NONE))

    def report(self, context: Context, memory: Watched) -> dict[str, Array]:
        """What ATPO reports."""
        return super().report(context, memory.mixture)


def deviation(joint: Array, values: Array, middle: Array) -> Array:
    """The mean distance of the `values` of states from `middle` [N] under joint beliefs, both [K, X, N]: [N]."""
    return jnp.sum(joint * jnp.abs(values - middle[None, None, :]), axis=(0, 1))


def looks_after(models: POMDP, actions: Array) -> Array:
    """A signature of each state's observation probabilities after `actions` [N]: [K, X, N].

    It is the expectation of a number for each observation, so states with different signatures can be distinguished.
    """
    numbers = jnp.arange(models.num_observations, dtype=models.dtype)
    weights = jnp.mod(numbers * GOLDEN, 1)

    def of_model(model: POMDP) -> Array:
        looks = jax.vmap(lambda action: model.observation.expected(weights, action))
        return looks(jnp.arange(model.num_actions, dtype=jnp.int32))[actions].T

    return jax.vmap(of_model)(models)


def joint_beliefs(memory: Mixture) -> Array:
    """p(k) b_k, the belief of the joint problem [K, X, N]."""
    return jnp.exp(memory.log_posterior)[:, None, :] * memory.beliefs


def flat(policy: Policy, joint: Array) -> tuple[Policy, Array]:
    """Vectors [V, K, X] and joint beliefs [K, X, N] with one axis for (k, x)."""
    vectors = policy.vectors.reshape(policy.vectors.shape[0], -1)
    return Policy(vectors, policy.actions), joint.reshape(vectors.shape[1], -1)


def scores(policy: Policy, joint: Array) -> Array:
    """What each vector [V, K, X] is worth at joint beliefs [K, X, N]: [V, N]."""
    whole, flattened = flat(policy, joint)
    return whole.vectors @ flattened


def forever(models: POMDP, joint: Array, actions: Array) -> Array:
    """What `actions` [N] earn if they are repeated and joint beliefs [K, X, N] stay as they are [N]."""
    earned = jnp.einsum("kxa,kxn->kan", models.reward, joint)
    total = jnp.sum(earned / (1 - models.discount)[:, None, None], axis=0)  # [A, N]
    return jnp.take_along_axis(total, jnp.maximum(actions, 0)[None, :], axis=0)[0]


def alone_values(context: Context, memory: Mixture) -> Array:
    """p(k) v_k(b_k) and the worst case in all other models [K, N]: what following one model's policy earns at least."""
    library, posterior = context.library, jnp.exp(memory.log_posterior)
    lowest = jnp.min(library.models.reward, axis=2, where=library.state_mask[:, :, None], initial=jnp.inf)
    floors = jnp.min(lowest, axis=1) / (1 - library.models.discount)  # [K]
    values = jax.vmap(lambda own, beliefs: jnp.max(own.vectors @ beliefs, axis=0))(
        context.solved["policies"], memory.beliefs
    )
    return posterior * (values - floors[:, None]) + (floors @ posterior)[None, :]


def spread(policy: Policy, library: Library) -> Policy:
    """A policy of `library.joint()` with vectors [V, sum of all states], as [V, K, X] with 0 for padding."""
    mask = np.asarray(library.state_mask)
    vectors = np.zeros((policy.vectors.shape[0], *mask.shape), policy.vectors.dtype)
    vectors[:, mask] = policy.vectors
    return Policy(jnp.asarray(vectors), policy.actions)
