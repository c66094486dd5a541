"""What a representation of beliefs can do; policies, agents and rollouts use only these methods.

    belief    = representation.start(key, model)
    predicted = representation.predict(key, model, belief, action)
    belief, log_evidence, diagnostics = representation.weigh(key, model, predicted, action, observation)
    numbers   = representation.expectation(belief, values)                    sum_x b(x) values(..., x)
    state     = representation.mode(belief), representation.sample(key, belief)

The methods are kernels for one belief in one model; those with `columns` in their name take N beliefs, the trial being
the last axis, and have a default that is right and may be slow. `start_library` and `update_library` lift them to K
models. An exact representation ignores its keys, which may then be None; a particle filter needs them. `model` is a
POMDP, or whatever the representation can predict with. An impossible observation leaves the predicted belief and a log
evidence of -inf, as in `jatpo.filter`.

A representation that drops probability keeps count of it. With u the probability of the observations so far and the
state, as kept, and m the probability that was dropped on the way, `missing` is an upper bound of m / sum(u):

    weigh: missing <- missing max_y O(z | y, a) / evidence        drop a share d: missing <- (missing + d) / (1 - d)

The belief is then within missing / (1 + missing) of the exact one in total variation (`error_bound`), and the log
probability of all observations is between L and L + log(1 + missing), L being the sum of the log evidences and of the
log of the share that was kept at the start.
"""

from __future__ import annotations

from collections.abc import Callable
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

    plain = False  # whether beliefs [X] are numbers that `jatpo.filter` updates, with a floor if wanted
    of_tables = True  # whether `model` may be a POMDP
    branches = False  # whether `cond` chooses what to do; `vmap` would do all of it, so beliefs take turns

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

    def likeliest(self, belief: Belief, among: Array) -> Array:
        """The most probable of the states `among` [X] bool, the first of those that tie; state 0 if there is none."""
        return first_largest(jnp.where(among, self.dense(belief, among.shape[0]), -1))

    def sample(self, key: Array, belief: Belief) -> Array:
        """A state drawn from the belief []."""
        raise NotImplementedError

    def dense(self, belief: Belief, num_states: int) -> Array:
        """The probability of every state [X], for reports; no kernel needs it."""
        raise NotImplementedError

    def listed(self, uniform: Array, belief: Belief, num_states: int, count: int) -> tuple[Array, Array]:
        """At most `count` states that stand for the belief, and their weights: two arrays [C].

        All states where they fit. Else a systematic sample, whose weights are equal: the expectation of any values
        is unbiased, and each state comes as often as its probability times `count`, rounded up or down.
        """
        return systematic(uniform, self.dense(belief, num_states), count)

    def size(self, belief: Belief) -> Array:
        """The number of states with weight [], or the effective number of particles."""
        raise NotImplementedError

    def missing(self, belief: Belief) -> Array:
        """The bound of all that was dropped to what is kept []; 0 where a belief is exact."""
        return jnp.zeros((), jnp.result_type(float))

    def refuses(self, library: Library) -> str | None:
        """Why it cannot hold beliefs of the models of a library of tables, or None."""
        del library
        return None

    def update(
        self, key: Array | None, model: Any, belief: Belief, action: Array, observation: Array
    ) -> tuple[Belief, Array, Diagnostics]:
        """`predict`, then `weigh`."""
        first, second = (None, None) if key is None else jax.random.split(key)
        predicted = self.predict(first, model, belief, action)
        return self.weigh(second, model, predicted, action, observation)

    def update_columns(
        self, keys: Array | None, model: Any, beliefs: Belief, actions: Array, observations: Array
    ) -> tuple[Belief, Array, Diagnostics]:
        """`update` of N beliefs [..., N] under actions and observations [N]; log evidence and diagnostics [N]."""

        def one(key: Array | None, belief: Belief, action: Array, observation: Array) -> Any:
            return self.update(key, model, belief, action, observation)

        return self.of_columns(one, keys, beliefs, actions, observations)

    def expectation_columns(self, beliefs: Belief, values: Array) -> Array:
        """`expectation` of N beliefs [..., N]: [..., N]."""
        return self.of_columns(lambda belief: self.expectation(belief, values), beliefs)

    def dense_columns(self, beliefs: Belief, num_states: int) -> Array:
        """`dense` of N beliefs [..., N]: [X, N]."""
        return self.of_columns(lambda belief: self.dense(belief, num_states), beliefs)

    def of_columns(self, kernel: Callable, *columns: Any) -> Any:
        """`kernel` of every column of arrays [..., N]; a lone one stays without an axis of its own."""
        if jax.tree.leaves(columns)[0].shape[-1] == 1:
            found = kernel(*jax.tree.map(lambda leaf: leaf[..., 0], columns))
            return jax.tree.map(lambda leaf: leaf[..., None], found)
        if not self.branches:
            return jax.vmap(kernel, -1, -1)(*columns)
        rows = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), columns)
        found = jax.lax.map(lambda row: kernel(*row), rows)
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), found)


def first_largest(weights: Array) -> Array:
    """The index of the largest of `weights` [n] []; `argmax`, which does not vectorise on a CPU as these do."""
    places = jnp.arange(weights.shape[0], dtype=jnp.int32)
    return jnp.min(jnp.where(weights == jnp.max(weights), places, weights.shape[0] - 1))


def systematic(uniform: Array, weights: Array, count: int) -> tuple[Array, Array]:
    """At most `count` of the indices of `weights` [n], and weights for them; see `Representation.listed`."""
    places = weights.shape[0]
    if places <= count:
        return jnp.arange(places, dtype=jnp.int32), weights
    cumulated = jnp.cumsum(weights)
    marks = (jnp.arange(count, dtype=weights.dtype) + uniform) / count * cumulated[-1]
    drawn = jnp.searchsorted(cumulated, marks, side="right").astype(jnp.int32)
    return jnp.minimum(drawn, places - 1), jnp.full(count, 1 / count, weights.dtype)


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


def each_model(representation: Representation, kernel: Callable, *stacked: Any) -> Any:
    """`kernel` of every model's part of arrays [K, ...], at once or one after another."""
    if representation.branches:
        return jax.lax.map(lambda parts: kernel(*parts), stacked)
    return jax.vmap(kernel)(*stacked)


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

    def of_model(model: Any, own: Belief) -> tuple[Belief, Array, Diagnostics]:
        return representation.update_columns(keys, model, own, actions, observations)

    return each_model(representation, of_model, library.models, beliefs)
