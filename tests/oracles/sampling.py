"""Drawing from a distribution: the inverse of the cumulated probabilities, and a test of frequencies."""

import numpy as np
from scipy.special import chdtri

LEVEL = 1e-6  # a true sampler fails a test of frequencies this often


def inverse(uniform: float, weights) -> int:
    """The index at which the running sum of `weights` passes `uniform` times their sum."""
    total, threshold, last = 0.0, float(uniform) * float(np.sum(weights, dtype=np.float64)), -1
    for index, weight in enumerate(weights):
        if weight == 0:
            continue
        total, last = total + float(weight), index
        if total > threshold:
            return index
    return last


def distance_to_edge(uniform: float, weights) -> float:
    """How far `uniform` is from the next point where `inverse` changes: rounding decides below some 1e-6."""
    edges = np.cumsum(np.asarray(weights, np.float64))
    return float(np.abs(edges / edges[-1] - float(uniform)).min())


def excess(counts, probabilities) -> float:
    """Pearson's statistic over its critical value at `LEVEL`: above 1, these are not the probabilities.

    Outcomes expected fewer than 5 times are pooled; an outcome of probability 0 that occurs gives infinity.
    """
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    if counts[probabilities == 0].any():
        return float("inf")
    expected = probabilities * counts.sum()
    rare = expected < 5
    pooled = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    pooled, wanted = pooled[wanted > 0], wanted[wanted > 0]
    if len(wanted) == 1:
        return 0.0
    return float(((pooled - wanted) ** 2 / wanted).sum() / chdtri(len(wanted) - 1, LEVEL))
