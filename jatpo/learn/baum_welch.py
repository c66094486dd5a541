"""Baum-Welch for tied parameters, by the gradient of the likelihood (the check of `fit`).

Where a model is a mixture, L = f(sum_i w_i K_i), the expected number of times that part i was drawn is

    count_i = w_i ∂ log L / ∂ w_i                                  (E step)

with w free of its constraints. For the prior w are the probabilities of the models, for the noise those of j
failures among d trials, for a teammate its probabilities of acting. The M step divides the counts, with `trust`
imagined ones that agree with the start added: the maximum of the same objective as that of `fit`, which cannot
fall from one round to the next.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.learn.fitting import Fitted, Parametrisation, Params, Progress, _possible, log_likelihoods, pieces
from jatpo.learn.histories import Histories


class Maximisable(Parametrisation, Protocol):
    """A parametrisation whose M step has a closed form."""

    def maximise(self, counts: Any, trust: Array) -> Params: ...


def em(
    parametrisation: Maximisable,
    histories: Histories,
    *,
    iterations: int = 100,
    tolerance: float = 1e-6,
    trust: float = 1.0,
    progress: Progress | None = None,
) -> Fitted:
    """EM until the objective per history rises by less than `tolerance`; no history is held out."""
    began = time.perf_counter()
    start = params = parametrisation.start()
    data = parametrisation.prepare(histories)
    _possible(parametrisation, start, data)
    count, weight = histories.num_histories, jnp.asarray(trust, jnp.float32)
    curve: list[dict[str, float]] = []
    before, stopped = -np.inf, f"{iterations} rounds"
    for iteration in range(1, iterations + 1):
        counted = [_count(parametrisation, params, part) for part in pieces(data)]
        score, counts = jax.tree.map(lambda *parts: sum(parts), *counted)
        objective = (float(score) - trust * float(parametrisation.divergence(params))) / count
        curve.append({"train": float(score) / count, "objective": objective})
        if progress:
            progress(iteration, iterations, train=curve[-1]["train"])
        if objective - before < tolerance:
            stopped = f"the objective rose by less than {tolerance:g}"
            break
        before, params = objective, _jit_maximise(parametrisation, counts, weight)
    ends = [np.mean(np.asarray(log_likelihoods(parametrisation, part, data))) for part in (params, start)]
    seconds = time.perf_counter() - began
    return Fitted(params, float(ends[0]), float(ends[1]), None, None, len(curve), stopped, seconds, curve)


@jax.jit
def _count(parametrisation: Maximisable, params: Params, data: Any) -> tuple[Array, Any]:
    """The summed log likelihood and the expected counts of every weight."""
    weights = parametrisation.weights(params)

    def total(weights: Any) -> Array:
        return jnp.sum(parametrisation.log_likelihoods_of(weights, data))

    score, gradient = jax.value_and_grad(total)(weights)
    return score, jax.tree.map(lambda weight, by: weight * by, weights, gradient)


@jax.jit
def _jit_maximise(parametrisation: Maximisable, counts: Any, trust: Array) -> Params:
    return parametrisation.maximise(counts, trust)
