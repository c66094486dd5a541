"""Means, intervals and comparisons of returns, on the host in float64.

Trials may be weighted by their true model (strata): overcooked was published with another mix of models
than the uniform one. The mean is then sum_k w_k mean_k, its error sqrt(sum_k w_k² s_k² / n_k), and the
standard deviation σ that of the mixture.

The few trials of a stratum may all end alike though others would not: with overcooked's random cook one meal in
ten is served, and eight trials often see none. So s_k² is not the variance v_k of the stratum's trials alone, but

    s_k² = ((n_k - 1) v_k + PRIOR σ²) / (n_k - 1 + PRIOR),

as if PRIOR more trials had been as far off as trials are in the whole mixture. That matters while a stratum has
some tens of trials: there the interval is rather too wide than too narrow.

Returns are skewed where few trials fail badly. Intervals are Student's with Hall's correction for the skewness
(`_unskewed`), so they reach further to the side of the rare trials. docs/reliability.md has their coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

ROUNDING = 0.005  # the published numbers have two decimals
DRAWS = 20_000  # samples that `chance` draws
PRIOR = 2  # what the whole mixture's variance counts for in a stratum's, in trials
BLOCK = 1 << 16  # trials that are held in float64 at once
STRAIGHT = 1e-6  # skewness of a mean below which it counts as none


class Estimate(NamedTuple):
    """A mean with its standard deviation, standard error and 95 % interval; of one value only the mean is known."""

    trials: int
    mean: float
    std: float
    error: float
    low: float
    high: float

    def interval(self, name: str) -> dict[str, float]:
        """The mean and its interval as cells of a row: `name`, `name`_low and `name`_high."""
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}


class Moments(NamedTuple):
    """The number of some values, their mean, and the sums of the second and third powers of the distances from it."""

    count: int
    mean: float
    second: float
    third: float

    @property
    def variance(self) -> float:
        """The unbiased variance; 0 for a single value."""
        return self.second / (self.count - 1) if self.count > 1 else 0.0

    def smoothed(self, variance: float, prior: float) -> float:
        """The variance with `prior` more values that contribute `variance` each."""
        known = self.count - 1
        return (known * self.variance + prior * variance) / max(known + prior, 1)

    def __add__(self, other: Moments) -> Moments:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Those of all values (Pébay, Formulas for robust, one-pass parallel computation, 2008, eq. 1.2 and 1.3)."""
        if not self.count or not other.count:
            return self if self.count else other
        n, m = self.count, other.count
        step, total = other.mean - self.mean, n + m
        second = self.second + other.second + step**2 * n * m / total
        third = self.third + other.third + step**3 * n * m * (n - m) / total**2
        third += 3 * step * (n * other.second - m * self.second) / total
        return Moments(total, self.mean + step * m / total, second, third)


NONE = Moments(0, 0.0, 0.0, 0.0)


def _moments(values: np.ndarray) -> Moments:
    if not len(values):
        return NONE
    mean = values.mean()
    away = values - mean
    return Moments(len(values), float(mean), float(away.dot(away)), float((away**2).dot(away)))


def estimate(
    values: Sequence[float] | np.ndarray, strata: np.ndarray | None = None, weights=None
) -> Estimate:
    """The mean of `values` [N]; with `weights` [K] and each value's stratum, that of the weighted mixture.

    A stratum with weight and no trial makes the estimate NaN: it cannot be known.
    """
    values = np.asarray(values)
    return _estimate([values], lambda piece: piece, strata, weights)


def _estimate(
    columns: Sequence[np.ndarray],
    of: Callable[..., np.ndarray],
    strata: np.ndarray | None,
    weights: Sequence[float] | np.ndarray | None,
) -> Estimate:
    """The estimate of `of(*columns)`, computed in pieces: `BLOCK` values at a time are held in float64."""
    count = len(columns[0])
    share = np.ones(1) if weights is None else np.asarray(weights, np.float64) / np.sum(weights)
    found = [NONE] * len(share)
    for first in range(0, count, BLOCK):
        piece = slice(first, first + BLOCK)
        values = of(*(column[piece].astype(np.float64) for column in columns))
        if weights is None:
            found[0] += _moments(values)
            continue
        assert strata is not None
        for k in np.flatnonzero(share):
            found[k] += _moments(values[strata[piece] == k])
    if count == 1:
        return Estimate(1, max(found, key=lambda part: part.count).mean, *[math.nan] * 4)
    return _combined([(w, part) for w, part in zip(share, found, strict=True) if w > 0], count)


def _combined(parts: Sequence[tuple[float, Moments]], count: int) -> Estimate:
    """The estimate of a mixture, from the weight and the moments of each stratum."""
    if any(not part.count for _, part in parts):
        return Estimate(count, *[math.nan] * 5)
    mean = sum(weight * part.mean for weight, part in parts)
    variance = sum(weight * (part.variance + (part.mean - mean) ** 2) for weight, part in parts)
    prior = PRIOR if len(parts) > 1 else 0
    error = math.sqrt(sum(weight**2 * part.smoothed(variance, prior) / part.count for weight, part in parts))
    third = sum(weight**3 * part.third / part.count**3 for weight, part in parts)
    reach = quantile(count - 1)
    low, high = (mean - error * _unskewed(end, third, error) for end in (reach, -reach))
    return Estimate(count, float(mean), math.sqrt(variance), error, float(low), float(high))


def _unskewed(end: float, third: float, error: float) -> float:
    """Where Student's ratio of a skewed sample has the probability that it has at `end` without skew.

    Hall's transformation (On the removal of skewness by transformation, J. R. Stat. Soc. B 1992): with the skewness g
    of the mean, t + g t²/3 + g² t³/27 + g/6 is about normal; this is its inverse.
    """
    skewness = third / error**3 if error > 0 else 0.0
    if abs(skewness) < STRAIGHT:
        return end
    return 3 / skewness * (float(np.cbrt(1 + skewness * (end - skewness / 6))) - 1)


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
    columns = [np.asarray(ours), np.asarray(rival)]
    return _estimate(columns, lambda ours, rival: ours - rival, strata, weights)


def relative(ours: np.ndarray, worst: np.ndarray, best: np.ndarray, strata=None, weights=None) -> Estimate:
    """Where `ours` lies between `worst` (0) and `best` (100), in per cent; the error by linearisation."""
    ours, worst, best = (np.asarray(part) for part in (ours, worst, best))
    span = difference(best, worst, strata, weights).mean
    if not span:
        return Estimate(len(ours), *[math.nan] * 5)
    ratio = difference(ours, worst, strata, weights).mean / span

    def linear(ours: np.ndarray, worst: np.ndarray, best: np.ndarray) -> np.ndarray:
        return (ours - worst - ratio * (best - worst)) / span

    spread = _estimate([ours, worst, best], linear, strata, weights)
    low, high = (100 * (ratio + end - spread.mean) for end in (spread.low, spread.high))
    return Estimate(len(ours), 100 * ratio, 100 * spread.std, 100 * spread.error, low, high)


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
    them has a high mean and also a small standard deviation. Of more than `BLOCK` trials the first are drawn from.
    """
    random = np.random.default_rng(0)
    values, strata = np.asarray(values[:BLOCK], np.float64), strata[:BLOCK]
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
