"""Soft policies: a softmax over what the alpha vectors say of each action, with a temperature.

    u(a | b)  = max over the vectors v of action a of <v, b>          the best vector of every action
    gap(a)    = max(max_c u(c | b) - tie - u(a | b), 0)               0 for the actions that the hard policy takes
    pi(a | b) ∝ exp(-gap(a) / temperature)                            0 for an action that no vector has

The softmax is over actions and not over vectors: how many vectors an action has depends on the solver,
and should not make it likelier. Actions within `tie` of the best count as equally good, as they do for the hard
policy, so that the limit of low temperature is that policy, uniform ties and all; `temperature` 0 (or below
`COLDEST`) is the limit itself. Temperatures are in units of value.

Gradients flow into vectors, belief and temperature. They pass through the best vector of each action only
(shared alike where several are best), and not at all through the gap of an action within `tie` of the best.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.mdp import TIE
from jatpo.solve.policy import NEVER, Policy

COLDEST = 1e-9  # lower temperatures count as 0, where gap / temperature² would overflow in a gradient


def action_values(policy: Policy, belief: Array, num_actions: int) -> Array:
    """u(a | b) [A], the value of the best vector of each action; `NEVER` where an action has none."""
    return action_values_columns(policy, belief[:, None], num_actions)[:, 0]


def action_values_columns(policy: Policy, beliefs: Array, num_actions: int) -> Array:
    """`action_values` of every column of `beliefs` [X, B]: [A, B]."""
    scores = policy.vectors @ beliefs  # [V, B]

    def best_of(action: Array) -> Array:
        return jnp.max(jnp.where((policy.actions == action)[:, None], scores, NEVER), axis=0)

    return jax.vmap(best_of)(jnp.arange(num_actions, dtype=jnp.int32))


def soften(values: Array, temperature: Array, tie: float = TIE) -> Array:
    """Probabilities of the actions along the first axis of `values` [A, ...], for a temperature []."""
    present = values > NEVER / 2
    held = jnp.where(present, values, 0)
    best = jnp.max(jnp.where(present, values, NEVER), axis=0, keepdims=True)
    gap = jnp.where(present, jnp.maximum(best - tie - held, 0), 0)
    temperature = jnp.asarray(temperature, values.dtype)
    cold = temperature < COLDEST
    soft = jnp.exp(-gap / jnp.where(cold, 1, temperature))
    weights = jnp.where(present, jnp.where(cold, (gap == 0).astype(values.dtype), soft), 0)
    return weights / jnp.sum(weights, axis=0, keepdims=True)  # the best action has weight 1, so never 0 / 0


def action_probabilities(
    policy: Policy, belief: Array, num_actions: int, temperature: Array, tie: float = TIE
) -> Array:
    """pi(a | b) [A]."""
    return soften(action_values(policy, belief, num_actions), temperature, tie)


def action_probabilities_columns(
    policy: Policy, beliefs: Array, num_actions: int, temperature: Array, tie: float = TIE
) -> Array:
    """`action_probabilities` of every column of `beliefs` [X, B]: [A, B]."""
    return soften(action_values_columns(policy, beliefs, num_actions), temperature, tie)
