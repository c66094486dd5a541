"""Statistics, losses, the store, the player and the experiments."""

import csv
import json
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
    bound,
    comparison,
    identification,
    losses,
    misspecified,
    mixture,
    published,
    registry,
    report,
    rollout,
    scaling,
    solutions,
    states,
    statistics,
    store,
)
from jatpo.evaluate.player import Player
from jatpo.evaluate.prepare import Session, choose_agents, prepare
from jatpo.library import Library
from jatpo.solve.policy import Policy, stack
from oracles import atpo as oracle


@pytest.fixture
def tiny(monkeypatch):
    """The tiny domain with a stand-in for the solver."""
    monkeypatch.setitem(solutions.PROVIDERS, "policies", tiny_domain.stand_in_policies)
    with tiny_domain.registered() as name:
        yield name


# ---------------------------------------------------------------- statistics


def test_estimate_by_hand():
    found = statistics.estimate([1.0, 2.0, 3.0, 6.0])
    assert (found.trials, found.mean) == (4, 3.0)
    assert found.std == pytest.approx(math.sqrt(14 / 3))
    assert found.error == pytest.approx(math.sqrt(14 / 3) / 2)
    assert found.high - found.mean == pytest.approx(3.182 * found.error, rel=5e-3)


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
    player = Player(mixture.ATPO, models, solved, prior=[0.25, 0.75], seed=3)
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
        player = Player(states.RANDOM, models, solved, seed=seed)
        player.reset()
        actions.append([player.act() for _ in range(40)])
    assert actions[0] == actions[1] != actions[2]
    assert set(actions[0]) == {0, 1, 2}


def test_a_player_that_sees_states_and_an_informed_one():
    _, models, _ = player_models()
    q = jnp.zeros((2, 5, 3), jnp.float32).at[1, 2, 1].set(1.0)
    player = Player(states.VALUE_ITERATION, models, {"q": q}, true_model=1)
    player.reset(state=2)
    assert player.act() == 1
    player.observe(1, 0)
    np.testing.assert_allclose(player.probabilities, 1 / 3, atol=1e-6)


def test_player_errors_name_the_remedy():
    _, models, solved = player_models()
    with pytest.raises(JatpoError, match="needs solved policies"):
        Player(mixture.ATPO, models)
    with pytest.raises(JatpoError, match="true_model="):
        Player(mixture.PERSEUS, models, solved)
    with pytest.raises(JatpoError, match="different state spaces"):
        Player(states.BOPA, models, {"q": None})
    player = Player(mixture.ATPO, models, solved)
    with pytest.raises(JatpoError, match=r"call reset\(\) first"):
        player.act()
    player.reset()
    with pytest.raises(JatpoError, match="did you mean 'down'"):
        player.observe("dwn", "a")
    with pytest.raises(JatpoError, match="sees the observation: give it"):
        player.observe("down")
    with pytest.raises(JatpoError, match="no observation 4: choose from 0 to 3"):
        player.observe(0, 4)
    quiet = Player(states.RANDOM, models)
    quiet.reset()
    with pytest.raises(JatpoError, match="'random' has no posterior; it reports nothing"):
        _ = quiet.posterior


# ---------------------------------------------------------------- the store


def some_trials(first: int = 0) -> rollout.Trials:
    numbers = np.arange(first, first + 4)
    records = {"posterior": np.full((4, 2, 3), 0.25, np.float32)}
    return rollout.Trials(numbers, numbers % 3, numbers * 1.5, numbers * 1.0, records)


def test_chunks_come_back_as_they_went_in(tmp_path):
    kept = store.Store(tmp_path / "new", "evaluate", {"seed": 0})
    kept.open_part("a", {"horizon": 5})
    kept.save("a", "atpo", 3, some_trials())
    again = store.Store(tmp_path / "new", "evaluate", {"seed": 0})
    again.open_part("a", {"horizon": 5})
    assert again.has("a", "atpo", 3)
    assert not again.has("a", "atpo", 2)
    jax.tree.map(np.testing.assert_array_equal, again.load("a", "atpo", 3), some_trials())
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert {"jatpo", "jax", "backend", "created", "settings", "parts", "agents", "seconds"} <= set(manifest)


def test_other_settings_are_refused_with_what_differs(tmp_path):
    kept = store.Store(tmp_path / "r", "evaluate", {"seed": 0, "rules": "as_run"})
    kept.open_part("a", {"models": ["x"], "horizon": 5})
    before = (tmp_path / "r" / "manifest.json").read_bytes()
    with pytest.raises(JatpoError, match=r"settings.seed is 0 there and 1 here.*choose another directory"):
        store.Store(tmp_path / "r", "evaluate", {"seed": 1, "rules": "as_run"})
    with pytest.raises(JatpoError, match="experiment is evaluate there and scaling here"):
        store.Store(tmp_path / "r", "scaling", {"seed": 0, "rules": "as_run"})
    with pytest.raises(JatpoError, match=r"results of a made otherwise .*horizon is 5 there and 6 here"):
        kept.open_part("a", {"models": ["x"], "horizon": 6})
    assert (tmp_path / "r" / "manifest.json").read_bytes() == before


def test_directories_of_others_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(JatpoError, match="not empty"):
        store.Store(tmp_path, "evaluate", {})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text("{")
    with pytest.raises(JatpoError, match="cannot be read as JSON"):
        store.Store(other, "evaluate", {})


def test_a_damaged_chunk_is_named(tmp_path):
    kept = store.Store(tmp_path / "r", "evaluate", {})
    kept.save("a", "atpo", 0, some_trials())
    path = tmp_path / "r" / "chunks" / "a" / "atpo" / "000000.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(JatpoError, match=r"000000.npz is damaged: remove it"):
        kept.load("a", "atpo", 0)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    store.write_whole(path, b"old")
    monkeypatch.setattr(store.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "no space")))
    with pytest.raises(OSError, match="no space"):
        store.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_tables_are_tidy(tmp_path):
    kept = store.Store(tmp_path / "r", "evaluate", {})
    kept.write_table("t", [{"a": 1, "b": math.nan}, {"a": None, "c": np.float32(0.5)}])
    with (tmp_path / "r" / "t.csv").open() as lines:
        assert list(csv.DictReader(lines)) == [{"a": "1", "b": "", "c": ""}, {"a": "", "b": "", "c": "0.5"}]
    assert json.loads((tmp_path / "r" / "t.json").read_text()) == [{"a": 1, "b": None}, {"a": None, "c": 0.5}]


# ---------------------------------------------------------------- runs with a store


class Interrupted(Session):
    """A session that is stopped after some chunks."""

    def __init__(self, *arguments, after: int) -> None:
        super().__init__(*arguments)
        self.left = after
        self.progress = self.count

    def count(self, done: int, total: int, **fields: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.bits
def test_an_interrupted_run_goes_on_where_it_was(tiny, tmp_path, monkeypatch):
    agents = choose_agents(["atpo"])
    prepared = prepare(tiny, agents)
    trials = 3 * rollout.CHUNK + 5
    whole = Session(0).run(tiny, agents[0], prepared.task, prepared.horizon, trials)
    kept = store.Store(tmp_path / "r", "evaluate", {"seed": 0})
    with pytest.raises(KeyboardInterrupt):
        Interrupted(0, kept, after=2).run(tiny, agents[0], prepared.task, prepared.horizon, trials)
    assert [kept.has(tiny, "atpo", chunk) for chunk in range(4)] == [True, True, False, False]
    ran = []
    original = rollout.run_chunks
    monkeypatch.setattr(
        "jatpo.evaluate.prepare.run_chunks",
        lambda key, agent, task, horizon, chunks, record: (
            ran.extend(chunks) or original(key, agent, task, horizon, chunks, record)
        ),
    )
    resumed = Session(0, kept).run(tiny, agents[0], prepared.task, prepared.horizon, trials)
    assert ran == [2, 3]
    jax.tree.map(np.testing.assert_array_equal, resumed, whole)
    more = Session(0, kept).run(tiny, agents[0], prepared.task, prepared.horizon, 10)
    np.testing.assert_array_equal(more.returns, whole.returns[:10])
    assert kept.manifest["seconds"][f"{tiny}/atpo"] > 0


def test_progress_is_that_of_all_runs_that_were_announced(tiny):
    agents = choose_agents(["atpo", "random"])
    prepared = prepare(tiny, agents)
    told: list[tuple[int, int, str]] = []
    session = Session(0, None, lambda done, total, agent: told.append((done, total, agent)))
    comparison.play(prepared, agents, 2 * rollout.CHUNK, session)
    assert told == [(1, 4, "atpo"), (2, 4, "atpo"), (3, 4, "random"), (4, 4, "random")]
    told.clear()
    scaling.scaling(prepared, agents, [2, 3], 10, session)
    assert told == [(1, 3, "random"), (2, 3, "atpo"), (3, 3, "atpo")]
    told.clear()
    alone = Session(0, None, session.progress)
    for agent in agents:
        alone.run(tiny, agent, prepared.task, prepared.horizon, 10)
    assert told == [(1, 1, "atpo"), (1, 1, "random")]


# ---------------------------------------------------------------- experiments


def test_the_comparison_has_every_column_and_fits_itself(tiny):
    agents = choose_agents(None)
    prepared = prepare(tiny, agents)
    rows = comparison.compare(comparison.play(prepared, agents, 300, Session(1)))
    by_agent = {row["agent"]: row for row in rows}
    wanted = {"domain", "agent", "trials", "mean", "std", "low", "high"}
    wanted |= {"published_mean", "published_std", "compatible"}
    assert all(wanted <= set(row) for row in rows)
    assert by_agent["value_iteration"]["relative"] == pytest.approx(100)
    assert by_agent["random"]["relative"] == pytest.approx(0)
    assert by_agent["atpo"]["atpo_minus"] is None
    gap = by_agent["atpo"]["mean"] - by_agent["random"]["mean"]
    assert by_agent["random"]["atpo_minus"] == pytest.approx(gap)
    assert by_agent["atpo"]["published_mean"] is None
    assert by_agent["value_iteration"]["mean"] >= by_agent["atpo"]["mean"] > by_agent["random"]["mean"]


def test_bopa_in_the_power_plant_is_not_available(monkeypatch):
    monkeypatch.setitem(solutions.PROVIDERS, "policies", tiny_domain.stand_in_policies)
    agents = choose_agents(["bopa", "random"])
    prepared = prepare("abandoned-power-plant", agents)
    bopa, random = comparison.compare(comparison.play(prepared, agents, 10, Session(0)))
    assert bopa["mean"] is None
    assert bopa["compatible"] is None
    assert "different state spaces" in bopa["reason"]
    assert random["published_mean"] == 47.44
    assert "N.A.: the models" in report.page([bopa, random], page_settings())


def page_settings() -> dict:
    settings = {"seed": 0, "rules": "as_run", "preset": "exact", "solver": "perseus", "trials": 10}
    return {**settings, "domains": ["abandoned-power-plant"]}


def test_overcooked_is_weighted_by_the_published_mix():
    assert published.mix("overcooked") == [7, 6, 5, 14]
    assert published.mix("gridworld") is None
    assert published.result("gridworld", "atpo") == (86.53, 9.12, 32)
    assert published.result("abandoned-power-plant", "bopa") is None
    assert published.relative("gridworld", "atpo") == pytest.approx(89.87, abs=0.01)
    truth = np.repeat(np.arange(4), 8)
    trials = rollout.Trials(np.arange(32), truth, 10.0 * truth, 1.0 * truth, {})
    prepared = type("P", (), {"name": "overcooked", "rules": "as_run", "horizon": 50})()
    (row,) = comparison.compare(comparison.Results(prepared, {"random": trials}, {}))
    assert row["mean"] == pytest.approx(10 * (6 * 1 + 5 * 2 + 14 * 3) / 32)
    assert row["std"] == pytest.approx(np.std(np.repeat([0.0, 10, 20, 30], [7, 6, 5, 14])))
    assert row["uniform_mean"] == 15
    assert row["mix"] == "7:6:5:14"


def test_larger_libraries_are_no_easier(tiny, tmp_path):
    agents = choose_agents(["value_iteration", "atpo", "random"])
    prepared = prepare(tiny, agents, pool=True)
    kept = store.Store(tmp_path / "r", "library-scaling", {})
    rows = scaling.scaling(prepared, agents, [2, 3], 500, Session(0, kept))
    assert [(row["size"], row["agent"]) for row in rows] == [
        (None, "value_iteration"),
        (None, "random"),
        (2, "atpo"),
        (3, "atpo"),
    ]
    assert rows[2]["mean"] > rows[3]["mean"]
    assert 0 < rows[3]["relative"] < 100
    with pytest.raises(JatpoError, match="library of 4 models cannot be drawn from 3"):
        scaling.scaling(prepared, agents, [4], 10, Session(0))


def test_identification_counts_steps(tiny):
    agents = choose_agents(["atpo", "bopa"])
    prepared = prepare(tiny, agents)
    curves, summaries = identification.identification(prepared, agents, 300, Session(0))
    assert [row["step"] for row in curves] == [*range(tiny_domain.HORIZON + 1)] * 2
    assert curves[0]["probability"] == pytest.approx(1 / 3)
    assert curves[0]["entropy"] == pytest.approx(1)
    assert curves[tiny_domain.HORIZON]["probability"] > 0.4
    assert {row["agent"] for row in summaries} == {"atpo", "bopa"}
    assert all(0 < row["share_sure"] <= row["share_lead"] <= 1 for row in summaries)


def test_steps_to_identification_by_hand():
    posterior = np.array([[[0.5, 0.5], [0.4, 0.6], [0.05, 0.95]], [[0.5, 0.5], [0.5, 0.5], [0.8, 0.2]]])
    run = rollout.Trials(np.arange(2), np.array([1, 1]), np.zeros(2), np.zeros(2), {})
    run = run._replace(records={"posterior": posterior, "entropy": np.zeros((2, 3))})
    np.testing.assert_array_equal(identification.first_step(identification.leads(run)), [1, np.nan])
    found = identification.summary(run)
    assert found["share_lead"] == 0.5
    assert found["share_sure"] == 0.5
    assert found["median_steps_sure"] is None
    assert found["probability_end"] == pytest.approx((0.95 + 0.2) / 2)


def test_the_loss_is_below_its_bound_and_replayed_as_it_was(tiny):
    agents = choose_agents(["atpo"])
    prepared = prepare(tiny, agents)
    rows = bound.loss_bound(prepared, agents[0], 4, Session(0))
    run = Session(0).run(tiny, agents[0], prepared.task, prepared.horizon, 4, ("posterior",))
    for row, posterior, truth in zip(rows, run.records["posterior"], run.truth, strict=True):
        divergence = -np.log(posterior[:-1, truth]).sum()
        assert row["divergence"] == pytest.approx(divergence, rel=1e-4)
        assert 0 <= row["loss"] <= row["bound_eta_consistent"]
        assert row["loss"] <= row["bound_eta_paper"]
        assert row["bound_eta_consistent"] < row["bound_eta_paper"]


def test_a_wrong_library_costs_and_shows(tiny):
    agents = choose_agents(["atpo", "perseus"])
    prepared = prepare(tiny, agents)
    rows = misspecified.misspecified(prepared, agents, 400, Session(0), factors=(1.0, 2.0))
    found = {(row["scenario"], row["agent"]): row for row in rows}
    assert {scenario for scenario, _ in found} == {"right", "left out", "noise x 1", "noise x 2"}
    assert found["left out", "atpo"]["minus_right_high"] < 0
    assert found["left out", "perseus"]["minus_right"] == 0
    assert found["right", "atpo"]["roc_area_end"] == 0.5
    assert found["right", "atpo"]["detected_end"] <= 0.05
    assert found["noise x 1", "atpo"]["minus_right"] == 0
    assert found["noise x 2", "atpo"]["roc_area_end"] > 0.55
    assert "roc_area_end" not in found["left out", "perseus"]
    with pytest.raises(JatpoError, match="more than 1"):
        misspecified.scenarios(prepared, [6.0])


def test_library_of_one_model_has_no_left_out(tiny):
    agents = choose_agents(["random"])
    prepared = prepare(tiny, agents)
    one = Library.from_models(prepared.models[:1])
    from dataclasses import replace

    from jatpo.evaluate.task import make_task

    alone = replace(prepared, models=prepared.models[:1], task=make_task(one))
    assert list(misspecified.scenarios(alone, ())) == ["right"]


def test_the_page_tells_what_does_not_fit():
    row = {"domain": "gridworld", "agent": "atpo", "mean": 50.0, "std": 2.0, "low": 49.0, "high": 51.0}
    row |= {"published_mean": 86.53, "published_std": 9.12, "compatible": False, "deviation": -22.6}
    row["chance"] = 0.0125
    text = report.page([row], page_settings())
    assert "**0 of 1** cells" in text
    assert "| gridworld | ATPO | 50.00 ± 2.00 | 86.53 ± 9.12 | -22.6 | 1.2 % |" in text
    assert "**50.0 (86.5)**" in text


def test_the_examples_of_the_documentation_run(monkeypatch, tmp_path, capsys):
    """Every Python block of docs/agents.md, in one namespace; the agent it registers plays."""
    monkeypatch.setitem(solutions.PROVIDERS, "policies", tiny_domain.stand_in_policies)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_agents", dict(registry._agents))
    text = (Path(__file__).parent.parent / "docs" / "agents.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "agents.md", "exec"), names)
    assert "(256, 51, 2)" in capsys.readouterr().out
    prepared = names["plant"]
    run = Session(0).run("x", registry.get("follow"), prepared.task, prepared.horizon, 64)
    assert run.returns.mean() > 80


def test_agents_join_a_directory_and_changed_ones_are_refused(tiny, tmp_path):
    kept = store.Store(tmp_path / "r", "evaluate", {"seed": 0})
    for names in (["random"], ["random", "value_iteration", "atpo"]):
        agents = choose_agents(names)
        comparison.play(prepare(tiny, agents), agents, 10, Session(0, kept))
    assert set(kept.manifest["agents"][tiny]) == {"random", "value_iteration", "atpo"}
    agents = choose_agents(["atpo"], "as_run")
    with pytest.raises(JatpoError, match=r"of agent atpo in three-doors .*floor is 0.0 there and 1e-08 here"):
        comparison.play(prepare(tiny, agents), agents, 10, Session(0, kept))
