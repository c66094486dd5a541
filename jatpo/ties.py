"""The tied argmax: equal shares for all that are within a tolerance of the best. For NumPy and JAX arrays alike."""

from __future__ import annotations

from typing import Any, TypeVar

Scores = TypeVar("Scores", bound=Any)  # an array of NumPy or of JAX


def share_best(scores: Scores, tolerance: float, axis: int | tuple[int, ...] = -1) -> Scores:
    """Uniform over the `scores` within `tolerance` of the best along `axis`, 0 for the others; of the same shape."""
    best = (scores >= scores.max(axis=axis, keepdims=True) - tolerance).astype(scores.dtype)
    return best / best.sum(axis=axis, keepdims=True)
