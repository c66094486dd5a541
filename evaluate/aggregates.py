"""Agents over several domains at once: interquartile mean of scores, probability of improvement, performance profile.

The measures of Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice (NeurIPS 2021,
sections 4.1 to 4.3), with trials in the place of training runs. A trial's score is its return between the domain's
mean of the random agent (0) and of value iteration (1). With S[d] the scores of an agent in domain d:

    interquartile mean          the mean of all scores between their 25 % and 75 % quantiles, each domain weighing 1 / D
    probability of improvement  mean_d P(S_x[d] > S_y[d]), ties counting half
    performance profile at t    mean_d P(S[d] > t)

Intervals are 95 % percentiles of a bootstrap that draws trials again with replacement within each domain (stratified).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jatpo.evaluate.statistics import area_under_curve

REPETITIONS = 500
THRESHOLDS = np.linspace(-0.5, 1.5, 41)
Scores = Mapping[str, np.ndarray]
"""Normalised scores of an agent, by domain [N]."""


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def normalise(returns: np.ndarray, worst: float, best: float) -> np.ndarray:
    """Scores with 0 at `worst` and 1 at `best`."""
    return (np.asarray(returns, np.float64) - worst) / (best - worst)


def interquartile_mean(parts: Sequence[np.ndarray]) -> float:
    """The mean of the middle half of all scores, each part weighing the same.

    The scores at the quantiles count with the share of their weight that is inside.
    """
    values = np.concatenate(parts)
    weights = np.concatenate([np.full(len(part), 1 / (len(part) * len(parts))) for part in parts])
    order = np.argsort(values)
    values, ends = values[order], np.cumsum(weights[order])
    starts = ends - weights[order]
    inside = np.clip(np.minimum(ends, 0.75) - np.maximum(starts, 0.25), 0, None)
    return float(inside.dot(values) / inside.sum())


def improvement(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The probability that a score of ours exceeds one of theirs in the same domain, averaged over domains."""
    return float(np.mean([area_under_curve(x, y) for x, y in zip(ours, theirs, strict=True)]))


def profile(parts: Sequence[np.ndarray], thresholds: np.ndarray = THRESHOLDS) -> np.ndarray:
    """The share of scores above each threshold, averaged over domains."""
    above = [1 - np.searchsorted(np.sort(part), thresholds, side="right") / len(part) for part in parts]
    return np.mean(above, axis=0)


def bootstrap(
    measure: Callable[..., np.ndarray | float],
    *groups: Sequence[np.ndarray],
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`measure(*groups)` with the ends of its 95 % interval; NaN where a group has a single trial.

    Groups of equal sizes are drawn with the same numbers, so that agents that met the same trials stay paired.
    """
    random = np.random.default_rng(seed)
    found = []
    for _ in range(repetitions):
        shares = [random.random(max(len(group[d]) for group in groups)) for d in range(len(groups[0]))]
        drawn = [[_draw(part, share) for part, share in zip(group, shares, strict=True)] for group in groups]
        found.append(measure(*drawn))
    low, high = np.quantile(np.asarray(found), (0.025, 0.975), axis=0)
    if any(len(part) < 2 for group in groups for part in group):  # the variation of a single trial is unknown
        low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
    return np.asarray(measure(*groups)), low, high


def _draw(part: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return part[(shares[: len(part)] * len(part)).astype(int)]


def interval(measure: Callable[..., float], *groups: Sequence[np.ndarray], **options: int) -> Interval:
    """A measure that is one number, with its interval."""
    return Interval(*(float(each) for each in bootstrap(measure, *groups, **options)))


def scores_of(
    returns: Mapping[str, Mapping[str, np.ndarray]], worst: str, best: str
) -> dict[str, dict[str, np.ndarray]]:
    """Scores by agent and domain, from returns by domain and agent [N].

    Domains without the two agents that fix the scale are left out, and so are agents that did not play in all others.
    """
    scale = {
        name: (float(np.mean(found[worst])), float(np.mean(found[best])))
        for name, found in returns.items()
        if worst in found and best in found
    }
    scale = {name: ends for name, ends in scale.items() if ends[0] < ends[1]}
    agents = dict.fromkeys(agent for name in scale for agent in returns[name])
    return {
        agent: {name: normalise(returns[name][agent], *scale[name]) for name in scale}
        for agent in agents
        if all(agent in returns[name] for name in scale)
    }


def summarise(
    scores: Mapping[str, Scores], baseline: str, repetitions: int = REPETITIONS
) -> list[dict[str, object]]:
    """One row for each agent: interquartile mean, mean, probability that the baseline improves on it."""
    rows = []
    for agent, by_domain in scores.items():
        parts = list(by_domain.values())
        middle = interval(interquartile_mean, parts, repetitions=repetitions)
        row: dict[str, object] = {"agent": agent, "domains": len(parts), "trials": sum(map(len, parts))}
        row |= {"iqm": middle.value, "iqm_low": middle.low, "iqm_high": middle.high}
        row |= {"mean": float(np.mean([part.mean() for part in parts])), "baseline": baseline}
        better = None
        if baseline in scores and agent != baseline:
            ours = list(scores[baseline].values())
            better = interval(improvement, ours, parts, repetitions=repetitions)
        names = ("improvement", "improvement_low", "improvement_high")
        row |= dict(zip(names, better or (None,) * 3, strict=True))
        rows.append(row)
    return rows


def profiles(scores: Mapping[str, Scores], repetitions: int = REPETITIONS) -> list[dict[str, object]]:
    """One row for each agent and threshold: the share of scores above it, with its interval."""
    rows = []
    for agent, by_domain in scores.items():
        found = zip(*bootstrap(profile, list(by_domain.values()), repetitions=repetitions), strict=True)
        for threshold, (share, low, high) in zip(THRESHOLDS, found, strict=True):
            row: dict[str, object] = {"agent": agent, "score": round(float(threshold), 4)}
            rows.append(row | {"share": float(share), "share_low": float(low), "share_high": float(high)})
    return rows
