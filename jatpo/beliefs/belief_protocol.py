"""What a representation of beliefs can do; policies, agents and rollouts use only these methods.

    belief    = representation.start(key, model)
    predicted = representation.predict(key, model, belief, action)
    belief, log_evidence, diagnostics = representation.weigh(key, model, predicted, action, observation)
    numbers   = representation.expectation(belief, values)                    sum_x b(x) values(..., x)
    state     = representation.mode(belief), representation.sample(key, belief)

The methods are kernels for one belief in one model. `start_library` and `update_library` lift them to K models and N
trials, the trial being the last axis. An exact representation ignores its keys, which may then be None; a particle
filter needs them. `model` is a POMDP, or whatever the representation can predict with. An impossible observation leaves
the predicted belief and a log evidence of -inf, as in `jatpo.filter`.

A representation that drops probability keeps count of it. With u the probability of the observations so far and the
state, as kept, and m the probability that was dropped on the way, `missing` is an upper bound of m / sum(u):

    weigh: missing <- missing max_y O(z | y, a) / evidence        drop a share d: missing <- (missing + d) / (1 - d)

The belief is then within missing / (1 + missing) of the exact one in total variation (`error_bound`), and the log
probability of all observations is between L and L + log(1 + missing), L being the sum of the log evidences and of the
log of the share that was kept at the start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.library import Library

Belief = Any
"""A pytree of arrays; what `start` and `weigh` return has one structure and one shape."""


class Diagnostics(NamedTuple):
    """How good a belief is; 0, 0 and the number of states with weight where it is exact."""

    dropped: Array  # [], the share of the probability that this step dropped
    missing: Array  # [], the bound of all that was dropped to what is kept
    size: Array  # [], states with weight, or the effective number of particles


class Representation:
    """One way to hold a belief: a frozen dataclass of static sizes with the methods below."""

    def start(self, key: Array | None, model: Any) -> Belief:
        """The belief before the first action."""
        raise NotImplementedError

    def predict(self, key: Array | None, model: Any, belief: Belief, action: Array) -> Belief:
        """sum_x b(x) P(y | x, a). It may be larger than a belief; `weigh` makes one of it again."""
        raise NotImplementedError

    def weigh(
        self, key: Array | None, model: Any, predicted: Belief, action: Array, observation: Array
    ) -> tuple[Belief, Array, Diagnostics]:
        """The belief given an observation, its log evidence [] and diagnostics."""
        raise NotImplementedError

    def expectation(self, belief: Belief, values: Array) -> Array:
        """sum_x b(x) values(..., x), for values [..., X]."""
        raise NotImplementedError

    def mode(self, belief: Belief) -> Array:
        """The most probable state [], the first of those that tie."""
        raise NotImplementedError

    def sample(self, key: Array, belief: Belief) -> Array:
        """A state drawn from the belief []."""
        raise NotImplementedError

    def dense(self, belief: Belief, num_states: int) -> Array:
        """The probability of every state [X], for reports; no kernel needs it."""
        raise NotImplementedError

    def update(
        self, key: Array | None, model: Any, belief: Belief, action: Array, observation: Array
    ) -> tuple[Belief, Array, Diagnostics]:
        """`predict`, then `weigh`."""
        first, second = (None, None) if key is None else jax.random.split(key)
        predicted = self.predict(first, model, belief, action)
        return self.weigh(second, model, predicted, action, observation)


def after_weighing(missing: Array, evidence: Array, highest: Array) -> Array:
    """`missing` after an observation of that `evidence` [], whose likelihood is `highest` [] at most in any state."""
    seen = evidence > 0
    grown = missing * (highest / jnp.where(seen, evidence, 1))
    unknown = jnp.where(missing > 0, jnp.inf, 0).astype(missing.dtype)  # what was dropped may explain it
    return jnp.minimum(jnp.where(seen, grown, unknown), _largest(missing))


def after_dropping(missing: Array, dropped: Array) -> Array:
    """`missing` after a share `dropped` [] of what was kept is gone."""
    return jnp.minimum((missing + dropped) / (1 - dropped), _largest(missing))


def _largest(missing: Array) -> Array:
    return jnp.asarray(jnp.finfo(missing.dtype).max / 4, missing.dtype)


def error_bound(missing: Array) -> Array:
    """The total variation between a belief and the exact one, at most."""
    return missing / (1 + missing)


def start_library(
    representation: Representation, keys: Array | None, library: Library, trials: int
) -> Belief:
    """The start beliefs of K models in N trials: every array [K, ..., N]; keys [N] or None."""

    def of_model(key: Array | None, model: Any) -> Belief:
        return representation.start(key, model)

    of_models = jax.vmap(of_model, in_axes=(None, 0))
    if keys is None:
        one = of_models(None, library.models)
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[..., None], (*leaf.shape, trials)), one)
    return jax.vmap(of_models, in_axes=(0, None), out_axes=-1)(keys, library.models)


def update_library(
    representation: Representation,
    keys: Array | None,
    library: Library,
    beliefs: Belief,
    actions: Array,
    observations: Array,
) -> tuple[Belief, Array, Diagnostics]:
    """Beliefs [K, ..., N] after actions and observations [N], the log evidence [K, N], and diagnostics [K, N]."""
    of_models = jax.vmap(representation.update, in_axes=(None, 0, 0, None, None))
    of_trials = jax.vmap(of_models, in_axes=(0, None, -1, 0, 0), out_axes=-1)
    return of_trials(keys, library.models, beliefs, actions, observations)
