"""Measures over several domains, against transcriptions of their definitions with loops."""

import math

import numpy as np
import pytest

from jatpo.evaluate import aggregates


def parts_of(seed, sizes=(8, 8, 8)):
    random = np.random.default_rng(seed)
    return [random.normal(d, 1 + d, size) for d, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [(8, 8, 8), (4,), (12, 12)])
def test_the_interquartile_mean_is_that_of_the_middle_half(sizes):
    """Where a quarter of the scores is a whole number of them, half of them are left."""
    parts = parts_of(1, sizes)
    ordered = sorted(float(value) for part in parts for value in part)
    quarter = len(ordered) // 4
    middle = ordered[quarter : len(ordered) - quarter]
    assert aggregates.interquartile_mean(parts) == pytest.approx(sum(middle) / len(middle))


def test_domains_weigh_the_same_however_many_trials_they_have():
    parts = parts_of(2, (8, 16))
    repeated = [np.repeat(parts[0], 2), parts[1]]
    assert aggregates.interquartile_mean(parts) == pytest.approx(aggregates.interquartile_mean(repeated))


def test_scores_at_the_quantiles_count_in_part():
    """Three scores of weight 1/3: the outer ones are inside with 1/3 - 1/4 = 1/12 each."""
    found = aggregates.interquartile_mean([np.array([0.0, 3.0, 12.0])])
    assert found == pytest.approx((0 / 12 + 3 / 3 + 12 / 12) / 0.5)


def test_the_probability_of_improvement_counts_all_pairs():
    ours, theirs = [np.round(part) for part in parts_of(3)], [np.round(part) for part in parts_of(4)]
    shares = []
    for x, y in zip(ours, theirs, strict=True):
        won = sum((a > b) + 0.5 * (a == b) for a in x for b in y)
        shares.append(won / (len(x) * len(y)))
    assert aggregates.improvement(ours, theirs) == pytest.approx(sum(shares) / len(shares))
    assert aggregates.improvement(ours, ours) == pytest.approx(0.5)


def test_the_profile_is_the_share_above_each_threshold():
    parts, marks = parts_of(5), np.array([-1.0, 0.0, 0.5, 2.0])
    parts[0][0] = 0.5  # a score at a threshold is not above it
    wanted = [np.mean([sum(v > mark for v in part) / len(part) for part in parts]) for mark in marks]
    np.testing.assert_allclose(aggregates.profile(parts, marks), wanted)


def test_the_bootstrap_is_stratified_and_covers():
    """Domains that differ a lot do not widen the interval: trials are drawn within each."""
    apart = [np.zeros(50), np.full(50, 100.0)]
    assert aggregates.interval(lambda parts: np.mean([p.mean() for p in parts]), apart) == (50, 50, 50)
    random, hits = np.random.default_rng(0), 0
    for _ in range(200):
        parts = [random.normal(0, 1, 60), random.normal(1, 1, 60)]
        found = aggregates.interval(lambda p: np.mean([x.mean() for x in p]), parts, repetitions=200)
        hits += found.low <= 0.5 <= found.high
    # 95 % of 200 give 190 with a standard deviation of 3.1; percentiles of 60 trials are slightly narrow
    assert 190 - 5 * math.sqrt(200 * 0.95 * 0.05) <= hits <= 200


def test_paired_agents_stay_paired():
    parts = parts_of(6)
    shifted = [part + 1 for part in parts]
    gain = aggregates.interval(
        lambda x, y: np.mean([b.mean() - a.mean() for a, b in zip(x, y, strict=True)]), parts, shifted
    )
    assert gain == pytest.approx((1, 1, 1))


def test_scores_need_the_ends_of_the_scale_and_all_domains():
    returns = {
        "a": {"random": np.array([0.0, 2.0]), "best": np.array([5.0, 5.0]), "atpo": np.array([3.0])},
        "b": {"random": np.array([0.0]), "best": np.array([4.0]), "atpo": np.array([1.0])},
        "alone": {"atpo": np.array([1.0])},
        "flat": {"random": np.array([1.0]), "best": np.array([1.0]), "atpo": np.array([1.0])},
    }
    returns["a"]["guest"] = np.array([1.0])
    scores = aggregates.scores_of(returns, "random", "best")
    assert set(scores) == {"random", "best", "atpo"} and set(scores["atpo"]) == {"a", "b"}
    np.testing.assert_allclose(scores["atpo"]["a"], [0.5])
    np.testing.assert_allclose(scores["best"]["b"], [1.0])
    rows = {row["agent"]: row for row in aggregates.summarise(scores, "atpo", repetitions=20)}
    assert rows["atpo"]["improvement"] is None and rows["random"]["improvement"] == pytest.approx(1.0)
    assert len(aggregates.profiles(scores, repetitions=5)) == 3 * len(aggregates.THRESHOLDS)
