"""Statistics, losses, the player, runs with a store, and the experiments."""

import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import random_models
import tiny_domain
from jatpo.errors import JatpoError
from jatpo.evaluate import (
    losses,
    rollout,
    statistics,
)
from jatpo.evaluate.agents import ATPO, BOPA, Informed, Random, ValueIteration, catalogue
from jatpo.evaluate.player import Player
from jatpo.solve.policy import Policy, stack
from oracles import atpo as oracle


@pytest.fixture
def tiny(monkeypatch):
    """The tiny domain with a stand-in for the solver."""
    tiny_domain.stand_in(monkeypatch)
    with tiny_domain.registered() as name:
        yield name


# ---------------------------------------------------------------- statistics


def test_estimate_by_hand():
    found = statistics.estimate([1.0, 2.0, 3.0, 6.0])
    assert (found.trials, found.mean) == (4, 3.0)
    assert found.std == pytest.approx(math.sqrt(14 / 3))
    assert found.error == pytest.approx(math.sqrt(14 / 3) / 2)
    skewness = 18 / 4**3 / found.error**3  # of the mean; 18 is the sum of the third powers
    for end, reach in ((found.low, 3.182), (found.high, -3.182)):
        t = (found.mean - end) / found.error
        corrected = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
        assert corrected == pytest.approx(reach, rel=5e-3)
    even = statistics.estimate([1.0, 2.0, 4.0, 5.0])
    assert even.high - even.mean == pytest.approx(3.182 * even.error, rel=5e-3)
    assert even.mean - even.low == pytest.approx(even.high - even.mean)


def test_weighted_strata_by_hand():
    """Weights 3:1 on strata with means 1 and 5, each with variance 2 from two values; that of the mixture is 5."""
    values, strata = np.array([0.0, 2.0, 4.0, 6.0]), np.array([0, 0, 1, 1])
    found = statistics.estimate(values, strata, [3, 1])
    assert found.mean == 0.75 * 1 + 0.25 * 5
    assert found.std**2 == pytest.approx(2 + 0.75 * 1**2 + 0.25 * 3**2)
    smoothed = (2 + 2 * 5) / 3  # one degree of freedom, and two trials of the mixture
    assert found.error == pytest.approx(math.sqrt((0.75**2 + 0.25**2) * smoothed / 2))
    assert math.isnan(statistics.estimate(values, strata, [1, 1, 1]).mean)
    alone = statistics.estimate(values, np.zeros(4, int), [1])
    assert alone == statistics.estimate(values)


def test_trials_that_end_alike_are_no_proof_that_all_do():
    """Overcooked: three models always earn 85, the fourth -50 and, one time in ten, 70. Of eight trials of it four in
    ten samples hold no success, and the interval has to cover the mean all the same; many trials make it no wider."""
    random = np.random.default_rng(4)
    weights = np.array([7, 6, 5, 14])
    truth = weights @ [85, 85, 85, -38] / 32

    def sample(count: int):
        strata = random.integers(4, size=count)
        fourth = np.where(random.random(count) < 0.1, 70.0, -50.0)
        return np.where(strata < 3, 85.0, fourth), strata

    for count, most in ((32, 1.0), (128, 0.98)):
        found = [statistics.estimate(*sample(count), weights) for _ in range(1000)]
        assert 0.94 < np.mean([each.low <= truth <= each.high for each in found]) <= most
    values, strata = sample(4096)
    exact = 14 / 32 * 36 / math.sqrt(np.sum(strata == 3))  # the standard deviation of the fourth is 36
    assert statistics.estimate(values, strata, weights).error == pytest.approx(exact, rel=0.1)


def test_weighted_error_is_that_of_repeated_sampling():
    random = np.random.default_rng(0)
    weights = np.array([7, 6, 5, 14])
    means, errors = [], []
    for _ in range(2000):
        strata = random.integers(4, size=1600)
        values = random.normal(10.0 * strata, 1.0 + strata)
        found = statistics.estimate(values, strata, weights)
        means.append(found.mean)
        errors.append(found.error)
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.05)
    assert np.mean(means) == pytest.approx(10 * (weights / 32) @ np.arange(4), abs=0.05)


@pytest.mark.parametrize("freedom", [3, 5, 10, 31, 1000])
def test_students_quantile(freedom):
    from scipy.stats import t

    assert statistics.quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=6e-3)


def test_intervals_cover_the_mean():
    random = np.random.default_rng(1)
    samples = random.exponential(size=(2000, 200))
    inside = [found.low <= 1 <= found.high for found in map(statistics.estimate, samples)]
    assert 0.93 < np.mean(inside) < 0.97


@pytest.mark.parametrize(("failing", "least"), [(0.2, 0.94), (0.1, 0.93)])
def test_intervals_of_few_skewed_trials(failing, least):
    """Few trials fail badly, and Student's interval of 32 leaves out their mean too often."""
    random = np.random.default_rng(3)
    samples = random.normal(90, 3, (2000, 32)) - 100 * (random.random((2000, 32)) < failing)
    found = [statistics.estimate(sample) for sample in samples]
    truth, reach = 90 - 100 * failing, statistics.quantile(31)
    inside = np.mean([each.low <= truth <= each.high for each in found])
    plain = np.mean([abs(each.mean - truth) <= reach * each.error for each in found])
    assert least < inside < 0.995 and inside > plain


def test_estimates_in_pieces_are_those_of_the_whole(monkeypatch):
    random = np.random.default_rng(5)
    values = random.exponential(size=(3, 1000)).astype(np.float32) + 1e3
    strata = random.integers(3, size=1000)

    def everything():
        return [
            statistics.estimate(values[0]),
            statistics.estimate(values[0], strata, [1, 2, 3]),
            statistics.difference(*values[:2]),
            statistics.relative(values[0], values[1], values[2] + 10, strata, [3, 2, 1]),
        ]

    whole = everything()
    monkeypatch.setattr(statistics, "BLOCK", 37)
    for one, other in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_relative_and_its_interval():
    random = np.random.default_rng(2)
    ratios, reaches = [], []
    for _ in range(1000):
        world = random.normal(scale=5, size=300)
        worst, best = world + random.normal(0, 1, 300), world + random.normal(20, 1, 300)
        ours = world + random.normal(15, 2, 300)
        found = statistics.relative(ours, worst, best)
        ratios.append(found.mean)
        reaches.append(found.error)
    assert np.mean(ratios) == pytest.approx(75, abs=0.2)
    assert np.mean(reaches) == pytest.approx(np.std(ratios), rel=0.1)
    assert math.isnan(statistics.relative(np.ones(3), np.ones(3), np.ones(3)).mean)


def test_the_chance_of_a_small_sample():
    """One trial in ten fails: no failure among 32 has probability 0.9^32, and a mean that high needs just that."""
    values = np.array([90.0] * 900 + [-10.0] * 100)
    models = np.zeros(1000, int)
    assert statistics.chance(values, models, None, 90, 32) == pytest.approx(0.9**32, abs=0.004)
    assert statistics.chance(values, models, None, -10, 2) == pytest.approx(0.01, abs=0.003)
    failing = (values < 0).astype(int)  # a model of its own, in half of the published trials
    assert statistics.chance(values, failing, [16, 16], 90, 4) == pytest.approx(0.5**4, abs=0.007)


def test_compatible_counts_both_errors():
    ours = statistics.Estimate(100, 10.0, 3.0, 0.3, 9.4, 10.6)
    edge = 3 * math.hypot(0.3, 4 / math.sqrt(32))
    assert statistics.compatible(ours, 10 + edge - 0.01, 4.0, 32)
    assert not statistics.compatible(ours, 10 + edge + 0.01, 4.0, 32)
    exact = statistics.Estimate(100, 98.0, 0.0, 0.0, 98.0, 98.0)
    assert statistics.compatible(exact, 98.0, 0.0, 32)
    assert not statistics.compatible(exact, 98.1, 0.0, 32)


def test_area_under_curve_by_counting_pairs():
    random = np.random.default_rng(3)
    signal, noise = random.integers(5, size=40), random.integers(4, size=30)
    pairs = np.mean([(s > n) + 0.5 * (s == n) for s in signal for n in noise])
    assert statistics.area_under_curve(signal, noise) == pytest.approx(pairs)
    assert statistics.area_under_curve(np.array([np.inf]), np.array([0.0])) == 1


# ---------------------------------------------------------------- losses


def small_policy(seed: int = 0):
    random = np.random.default_rng(seed)
    return random.normal(scale=5, size=(4, 5)), random.integers(3, size=4)


def test_losses_are_the_look_ahead_of_the_oracle(x64):
    model = random_models.example("plain")
    vectors, actions = small_policy()
    policy = Policy(jnp.asarray(vectors), jnp.asarray(actions, jnp.int32))
    built = random_models.build(model)
    beliefs = random_models.rows(np.random.default_rng(5), 3, 5)
    found = losses.losses_many(built, policy, jnp.asarray(beliefs))
    for belief, ours in zip(beliefs, found, strict=True):
        q = oracle.look_ahead(model, vectors, belief)
        np.testing.assert_allclose(ours, q.max() - q, atol=1e-10)


def test_mixture_loss_and_divergence_by_hand(x64):
    """Two models, two actions: L = 0.25·(1·3) + 0.75·(0.5·3 + 0.5·0); KL of (0, 1) from (0.25, 0.75)."""
    weights, policies = jnp.array([0.25, 0.75]), jnp.array([[1.0, 0.0], [0.5, 0.5]])
    assert losses.mixture_loss(weights, policies, jnp.array([3.0, 0.0])) == pytest.approx(1.875)
    assert losses.divergence(jnp.array([0.0, 1.0]), weights) == pytest.approx(-math.log(0.75))
    assert losses.divergence(weights, weights) == 0
    assert losses.divergence(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])) == math.inf
    assert losses.divergence(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0])) == 0


def test_the_two_etas():
    """η = sqrt(2/T) gives the printed last term, and sqrt(T/2) before the divergence; the other does not."""
    steps, reward, discount = 50, 10.0, 0.9
    eta = losses.etas(steps)
    assert eta["paper"] == pytest.approx(5)
    assert eta["consistent"] == pytest.approx(0.2)
    spread = (reward / (1 - discount)) ** 2
    assert losses.bound(1.0, 2.0, steps, reward, discount, eta["consistent"]) == pytest.approx(
        1 + 5 * 2 + 5 * spread
    )
    assert losses.bound(1.0, 2.0, steps, reward, discount, eta["paper"]) == pytest.approx(
        1 + 2 / 5 + 125 * spread
    )
    assert losses.printed_bound(1.0, 2.0, steps, reward, discount) == pytest.approx(1 + 2 / 5 + 5 * spread)


# ---------------------------------------------------------------- the player


def player_models():
    random = np.random.default_rng(4)
    examples = [random_models.plain(random, size, 3, 4, zeros=0.2) for size in (5, 4)]
    names = {"actions": ["up", "down", "stay"], "observations": ["a", "b", "c", "d"]}
    models = [random_models.build(example, "blocked", **names) for example in examples]
    policies = [
        Policy(random.normal(size=(3, model.num_states)).astype("float32"), np.arange(3, dtype=np.int32))
        for model in models
    ]
    return examples, models, {"policies": stack(policies, 5)}


def test_a_player_filters_as_the_oracle_and_acts_by_name_or_number():
    examples, models, solved = player_models()
    player = Player(ATPO(), models, solved, prior=[0.25, 0.75], seed=3)
    player.reset()
    np.testing.assert_allclose(player.posterior, [0.25, 0.75], atol=1e-6)
    assert player.act() in range(3)
    player.observe("down", "c")
    player.observe(0, 1)
    posterior, beliefs, _ = oracle.joint_history(examples, [0.25, 0.75], [1, 0], [2, 1])
    np.testing.assert_allclose(player.posterior, posterior, atol=1e-5)
    np.testing.assert_allclose(player.beliefs[1, :4], beliefs[1], atol=1e-5)
    assert player.probabilities.sum() == pytest.approx(1, abs=1e-6)
    player.reset()
    np.testing.assert_allclose(player.posterior, [0.25, 0.75], atol=1e-6)


def test_players_with_one_seed_act_alike_and_draw_by_their_probabilities():
    _, models, solved = player_models()
    actions = []
    for seed in (0, 0, 1):
        player = Player(Random(), models, solved, seed=seed)
        player.reset()
        actions.append([player.act() for _ in range(40)])
    assert actions[0] == actions[1] != actions[2]
    assert set(actions[0]) == {0, 1, 2}


def test_a_player_that_sees_states_and_an_informed_one():
    _, models, _ = player_models()
    q = jnp.zeros((2, 5, 3), jnp.float32).at[1, 2, 1].set(1.0)
    player = Player(ValueIteration(), models, {"q": q}, true_model=1)
    player.reset(state=2)
    assert player.act() == 1
    player.observe(1, 0)
    np.testing.assert_allclose(player.probabilities, 1 / 3, atol=1e-6)


def test_player_errors_name_the_remedy():
    _, models, solved = player_models()
    with pytest.raises(JatpoError, match="needs solved policies"):
        Player(ATPO(), models)
    with pytest.raises(JatpoError, match="true_model="):
        Player(Informed(), models, solved)
    with pytest.raises(JatpoError, match="different state spaces"):
        Player(BOPA(), models, {"q": None})
    seeing = Player(ValueIteration(), models, {"q": jnp.zeros((2, 5, 3), jnp.float32)}, true_model=1)
    with pytest.raises(JatpoError, match="sees the state: give it"):  # no episode can begin by itself
        seeing.act()
    player = Player(ATPO(), models, solved)
    with pytest.raises(JatpoError, match="did you mean 'down'"):
        player.observe("dwn", "a")
    for wrong in ((0.5, 0), (0, 0.5), (float("nan"), 0)):
        with pytest.raises(JatpoError, match="is not an integer: give a number from 0"):
            player.observe(*wrong)
    with pytest.raises(JatpoError, match="sees the observation: give it"):
        player.observe("down")
    with pytest.raises(JatpoError, match="no observation 4: choose from 0 to 3"):
        player.observe(0, 4)
    quiet = Player(Random(), models)
    quiet.reset()
    with pytest.raises(JatpoError, match="'random' has no posterior; it reports nothing"):
        _ = quiet.posterior


# ---------------------------------------------------------------- documentation


def test_the_examples_of_the_documentation_run(monkeypatch, tmp_path, capsys, registries):
    """Every Python block of docs/agents.md and docs/experiments.md, in one namespace; the agent it registers plays."""
    tiny_domain.stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    docs = Path(__file__).parent.parent.parent / "docs"
    text = "".join((docs / name).read_text() for name in ("agents.md", "experiments.md"))
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "agents.md", "exec"), names)
    assert "(256, 51, 2)" in capsys.readouterr().out
    playing = (names["scenario"], names["solved"])
    run = rollout.rollout(jax.random.key(0), catalogue.get("follow"), *playing, trials=64)
    assert run.returns.mean() > 80
