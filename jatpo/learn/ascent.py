"""One step of Adam up the penalised log-likelihood, mean log L(h; θ) - penalty · divergence(θ)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jatpo.learn.parametrisation import Parametrisation, Params


def initial_moments(params: Params) -> Any:
    """Adam's state before the first step."""
    return optax.scale_by_adam().init(params)


@jax.jit
def step(
    parametrisation: Parametrisation,
    params: Params,
    moments: Any,
    data: Any,
    rate: Array | np.floating,
    penalty: Array | np.floating,
) -> tuple[Params, Any, Array]:
    """(parameters, Adam's state, mean log-likelihood before the step)."""

    def loss(params: Params) -> tuple[Array, Array]:
        score = jnp.mean(parametrisation.log_likelihoods_of(parametrisation.weights(params), data))
        return penalty * parametrisation.divergence(params) - score, score

    with jax.numpy_dtype_promotion("standard"):
        gradient, score = jax.grad(loss, has_aux=True)(params)
        update, moments = optax.scale_by_adam().update(gradient, moments)
        params = jax.tree.map(lambda param, move: param - (rate * move).astype(param.dtype), params, update)
    return params, moments, score
