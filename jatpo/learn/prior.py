"""The prior over the models of a library, learned from many episodes.

    log L = sum_n log sum_k prior(k) L_k(h_n),   prior = softmax(parameters)

The likelihoods L_k(h_n) do not depend on the prior: they are computed once, and a fit is then a matter of
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.learn.histories import Histories
from jatpo.learn.likelihood import log_evidences, marginal
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.pytree import pytree

LEAST = 1e-6  # the least prior of a model at the start: one of exactly 0 could never grow


@pytree
@dataclass(frozen=True, eq=False)
class Prior:
    """A library whose prior is learned, from its own as the start."""

    base: Library

    @classmethod
    def of_library(cls, library: Library) -> Prior:
        return cls(library)

    def start(self) -> Array:
        """Logits [K]."""
        return jnp.log(jnp.maximum(self.base.prior, LEAST))

    def value(self, params: Array) -> Array:
        """The prior [K]."""
        return jax.nn.softmax(params)

    weights = value

    def library(self, params: Array) -> Library:
        """The library with the learned prior."""
        return self.base.replace(prior=self.value(params))

    def models(self, params: Array) -> list[POMDP]:
        """The models, which are as they were."""
        del params
        return list(self.base.members)

    def prepare(self, histories: Histories) -> Array:
        """The log evidence of every history under every model [N, K]."""
        return _jit_evidences(self.base, histories)

    def log_likelihoods_of(self, weights: Array, data: Array) -> Array:
        """[N], for a prior [K] that need not be normalised."""
        return marginal(weights, data)

    def divergence(self, params: Array) -> Array:
        """KL(start || learned) []."""
        start = self.value(self.start())
        return jnp.sum(start * (jnp.log(start) - jax.nn.log_softmax(params)))

    def maximise(self, counts: Array, trust: Array) -> Array:
        """The logits that fit expected numbers of episodes [K] best, with `trust` pseudo-episodes of the start."""
        return jnp.log(jnp.maximum(counts + trust * self.value(self.start()), jnp.finfo(counts.dtype).tiny))


_jit_evidences = jax.jit(log_evidences)
