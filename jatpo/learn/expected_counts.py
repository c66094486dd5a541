"""The E and M steps of Baum-Welch for tied parameters, by the gradient of the likelihood.

Where a model is a mixture, L = f(sum_i w_i K_i), the expected number of times that part i was drawn is

    count_i = w_i ∂ log L / ∂ w_i                                  (E step)

with w free of its constraints. For the prior w are the probabilities of the models, for the noise those of j
failures among d trials, for a teammate its action probabilities. The M step normalises the counts, with `trust`
pseudo-counts in agreement with the start added: the maximum of the same objective as that of `fit`, which never
decreases from one iteration to the next.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.learn.parametrisation import Parametrisation, Params


class Maximisable(Parametrisation, Protocol):
    """A parametrisation whose M step has a closed form."""

    def maximise(self, counts: Any, trust: Array) -> Params: ...


@jax.jit
def expect(parametrisation: Maximisable, params: Params, data: Any) -> tuple[Array, Any]:
    """The summed log-likelihood and the expected counts of every weight."""
    weights = parametrisation.weights(params)

    def total(weights: Any) -> Array:
        return jnp.sum(parametrisation.log_likelihoods_of(weights, data))

    score, gradient = jax.value_and_grad(total)(weights)
    return score, jax.tree.map(lambda weight, by: weight * by, weights, gradient)


@jax.jit
def maximise(parametrisation: Maximisable, counts: Any, trust: Array | np.floating) -> Params:
    """The parameters that the expected counts give."""
    return parametrisation.maximise(counts, jnp.asarray(trust))
