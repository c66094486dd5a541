"""Means, intervals and comparisons of returns, on the host in float64.

Trials may be weighted by their true model (strata): overcooked was published with another mix of models
than the uniform one. The mean is then sum_k w_k mean_k, its error sqrt(sum_k w_k² s_k² / n_k), and the
standard deviation σ that of the mixture.

The few trials of a stratum may all end alike though others would not: with overcooked's random cook one meal in
ten is served, and eight trials often see none. So s_k² is not the variance v_k of the stratum's trials alone, but

    s_k² = ((n_k - 1) v_k + PRIOR σ²) / (n_k - 1 + PRIOR),

as if PRIOR more trials had been as far off as trials are in the whole mixture. That matters while a stratum has
some tens of trials: there the interval is rather too wide than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ROUNDING = 0.005  # the published numbers have two decimals
DRAWS = 20_000  # samples that `chance` draws
PRIOR = 2  # what the whole mixture's variance counts for in a stratum's, in trials


class Estimate(NamedTuple):
    """A mean with its standard deviation, standard error and 95 % interval; of a single value only the mean is known.

    The interval is Student's. Returns are skewed where few trials fail badly: with 32 trials it then covers 82 to 90 %
    instead of 95.
    """

    trials: int
    mean: float
    std: float
    error: float
    low: float
    high: float

    def interval(self, name: str) -> dict[str, float]:
        """The mean and its interval as cells of a row: `name`, `name`_low and `name`_high."""
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}


def estimate(
    values: Sequence[float] | np.ndarray, strata: np.ndarray | None = None, weights=None
) -> Estimate:
    """The mean of `values` [N]; with `weights` [K] and each value's stratum, that of the weighted mixture.

    A stratum with weight and no trial makes the estimate NaN: it cannot be known.
    """
    values = np.asarray(values, np.float64)
    if weights is None:
        strata, weights = np.zeros(len(values), int), np.ones(1)
    weights = np.asarray(weights, np.float64) / np.sum(weights)
    assert strata is not None
    if len(values) == 1:
        return Estimate(1, float(values[0]), *[math.nan] * 4)
    parts = [(weight, values[strata == k]) for k, weight in enumerate(weights) if weight > 0]
    if any(len(part) == 0 for _, part in parts):
        return Estimate(len(values), *[math.nan] * 5)
    mean = sum(weight * part.mean() for weight, part in parts)
    variance = sum(weight * (_variance(part) + (part.mean() - mean) ** 2) for weight, part in parts)
    prior = PRIOR if len(parts) > 1 else 0
    error = math.sqrt(sum(weight**2 * _smoothed(part, variance, prior) / len(part) for weight, part in parts))
    reach = quantile(len(values) - 1) * error
    return Estimate(
        len(values), float(mean), math.sqrt(variance), error, float(mean - reach), float(mean + reach)
    )


def _variance(values: np.ndarray) -> float:
    """The unbiased variance; 0 for a single value."""
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def _smoothed(values: np.ndarray, variance: float, prior: float) -> float:
    """The variance of `values` with `prior` more that contribute `variance` each."""
    known = len(values) - 1
    return (known * _variance(values) + prior * variance) / max(known + prior, 1)


def quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion around the normal's; 0.5 % off at 3."""
    z = 1.959963984540054
    v = max(freedom, 1)
    terms = (
        (z**3 + z) / (4 * v),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4),
    )
    return z + sum(terms)


def difference(ours: np.ndarray, rival: np.ndarray, strata=None, weights=None) -> Estimate:
    """The mean of ours minus rival, trial by trial: common random numbers make its interval small."""
    return estimate(np.asarray(ours, np.float64) - np.asarray(rival, np.float64), strata, weights)


def relative(ours: np.ndarray, worst: np.ndarray, best: np.ndarray, strata=None, weights=None) -> Estimate:
    """Where `ours` lies between `worst` (0) and `best` (100), in per cent; the error by linearisation."""
    ours, worst, best = (np.asarray(part, np.float64) for part in (ours, worst, best))
    span = estimate(best - worst, strata, weights).mean
    if not span:
        return Estimate(len(ours), *[math.nan] * 5)
    ratio = estimate(ours - worst, strata, weights).mean / span
    spread = estimate((ours - worst - ratio * (best - worst)) / span, strata, weights)
    reach = 100 * (spread.high - spread.mean)
    return Estimate(
        len(ours), 100 * ratio, 100 * spread.std, 100 * spread.error, 100 * ratio - reach, 100 * ratio + reach
    )


def compatible(ours: Estimate, mean: float, std: float, trials: int) -> bool:
    """Whether two means differ by no more than three standard errors, both counted."""
    error = math.hypot(ours.error, std / math.sqrt(trials))
    return abs(ours.mean - mean) <= 3 * error + ROUNDING


def deviation(ours: Estimate, mean: float, std: float, trials: int) -> float:
    """The difference of two means in standard errors, both counted; NaN where there is no error at all."""
    error = math.hypot(ours.error, std / math.sqrt(trials))
    return (ours.mean - mean) / error if error > 0 else math.nan


def chance(
    values: np.ndarray, strata: np.ndarray, weights: Sequence[float] | None, mean: float, trials: int
) -> float:
    """How often `trials` of our trials, drawn again with their models, have a mean as far off as `mean`, on its side.

    Three standard errors are a poor measure where few trials fail badly: a small sample that happens to hold none of
    them has a high mean and also a small standard deviation.
    """
    random = np.random.default_rng(0)
    values = np.asarray(values, np.float64)
    share = (
        np.ones(len(values)) if weights is None else np.asarray(weights)[strata] / np.bincount(strata)[strata]
    )
    drawn = random.choice(values, (DRAWS, trials), p=share / share.sum()).mean(axis=1)
    ours = share.dot(values) / share.sum()
    return float(np.mean(drawn >= mean - ROUNDING if mean > ours else drawn <= mean + ROUNDING))


def area_under_curve(signal: np.ndarray, noise: np.ndarray) -> float:
    """The probability that a `signal` value exceeds a `noise` value, ties counting half (Mann-Whitney)."""
    ordered = np.sort(noise)
    below = np.searchsorted(ordered, signal, side="left") + np.searchsorted(ordered, signal, side="right")
    return float(below.mean() / (2 * len(ordered)))
