"""What can be fitted to histories, and its log-likelihood in batches.

Shapes: N histories, K models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.learn.histories import Histories
from jatpo.library import Library
from jatpo.model import POMDP

BATCH = 256  # histories whose likelihood is computed at once
Params = Any


class Parametrisation(Protocol):
    """What can be fitted: `Noise`, `Prior`, `Teammate`, or a frozen pytree of your own with these methods."""

    def start(self) -> Params: ...
    def weights(self, params: Params) -> Any: ...
    def prepare(self, histories: Histories) -> Any: ...
    def log_likelihoods_of(self, weights: Any, data: Any) -> Array: ...
    def divergence(self, params: Params) -> Array: ...
    def library(self, params: Params) -> Library: ...
    def models(self, params: Params) -> list[POMDP]: ...


def batched_log_likelihoods(parametrisation: Parametrisation, params: Params, data: Any) -> Array:
    """log L of every history [N], `BATCH` of them at a time."""
    return jnp.concatenate([_jit_log_likelihoods(parametrisation, params, part) for part in batches(data)])


def batches(data: Any) -> Iterator[Any]:
    """`data` in parts of at most `BATCH` histories."""
    count = len(jax.tree.leaves(data)[0])
    for first in range(0, count, BATCH):
        yield jax.tree.map(lambda leaf: leaf[first : first + BATCH], data)  # noqa: B023 - used at once


@jax.jit
def _jit_log_likelihoods(parametrisation: Parametrisation, params: Params, data: Any) -> Array:
    return parametrisation.log_likelihoods_of(parametrisation.weights(params), data)


def take(data: Any, indices: np.ndarray) -> Any:
    """The histories at `indices`."""
    return jax.tree.map(lambda leaf: leaf[indices], data)


def mean_log_likelihood(
    parametrisation: Parametrisation, params: Params, indices: np.ndarray, data: Any
) -> float:
    """The mean log-likelihood of the histories at `indices`."""
    return float(np.mean(np.asarray(batched_log_likelihoods(parametrisation, params, take(data, indices)))))


def check_possible(parametrisation: Parametrisation, start: Params, data: Any) -> None:
    """Refuse histories that are impossible under the starting parameters: their gradient is zero."""
    values = np.asarray(batched_log_likelihoods(parametrisation, start, data))
    impossible = np.flatnonzero(~np.isfinite(values))
    if len(impossible):
        more = f" and {len(impossible) - 1} more" if len(impossible) > 1 else ""
        raise JatpoError(
            f"history {impossible[0]}{more} has probability 0 under the starting model: "
            "start from another model, or from a noise level above 0"
        )
