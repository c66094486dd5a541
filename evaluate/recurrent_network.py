"""A small recurrent network that reads a history and scores K models: one gated unit (GRU) and a linear layer.

    r, u = sigmoid(W [x, h])      c = tanh(W_c x + r (U_c h))      h' = u h + (1 - u) c      scores = h' V + v

x is what was observed and the action before it. The softmax of the scores is a posterior over models (`learned`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.simulators import SimulatorLibrary
from jatpo.simulators.simulator_protocol import take_entry


class Network(NamedTuple):
    """The parameters, float32; three blocks of H for the reset gate, the update gate and the candidate."""

    by_feature: Array  # [F, 3H]
    by_action: Array  # [A, 3H]
    by_hidden: Array  # [H, 3H]
    bias: Array  # [3H]
    out: Array  # [H, K]
    out_bias: Array  # [K]


def random_network(key: Array, features: int, actions: int, hidden: int, models: int) -> Network:
    """Parameters to begin with: normal, with a variance of 1 / inputs; the scores are 0."""
    keys = jax.random.split(key, 3)

    def drawn(key: Array, inputs: int, outputs: int, scale: float) -> Array:
        return jax.random.normal(key, (inputs, outputs), jnp.float32) * jnp.float32(scale)

    return Network(
        drawn(keys[0], features, 3 * hidden, features**-0.5),
        drawn(keys[1], actions, 3 * hidden, 1.0),
        drawn(keys[2], hidden, 3 * hidden, hidden**-0.5),
        jnp.zeros(3 * hidden, jnp.float32),
        jnp.zeros((hidden, models), jnp.float32),
        jnp.zeros(models, jnp.float32),
    )


def first_state(network: Network) -> Array:
    """The hidden state before the first action [H]."""
    return jnp.zeros(network.out.shape[0], jnp.float32)


def advance(network: Network, hidden: Array, action: Array, features: Array) -> Array:
    """The hidden state [H] after an action [] and the features of what was observed [F]."""
    given = features @ network.by_feature + network.by_action[action] + network.bias
    kept = hidden @ network.by_hidden
    reset, update, candidate = jnp.split(given, 3)
    from_reset, from_update, from_candidate = jnp.split(kept, 3)
    stay = jax.nn.sigmoid(update + from_update)
    fresh = jnp.tanh(candidate + jax.nn.sigmoid(reset + from_reset) * from_candidate)
    return stay * hidden + (1 - stay) * fresh


def scores(network: Network, hidden: Array) -> Array:
    """The scores of all models [K] for a hidden state."""
    return hidden @ network.out + network.out_bias


def features_of(library: SimulatorLibrary, observation: Any) -> Array:
    """An observation as numbers [F], float32."""
    return take_entry(library.groups[0], 0).features(observation).astype(jnp.float32)
