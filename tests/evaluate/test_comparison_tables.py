"""What `jatpo evaluate` prints: which columns and agents, the baseline, and where it keeps its results."""

import json

import pytest

import tiny_domain
from jatpo.domains import register
from jatpo.evaluate.experiments.comparison_tables import bounds_are_near, shown
from jatpo.tables import Table


def row(agent, **more):
    names = ("published_mean", "published_std", "published_relative", "compatible", "relative", "same_as")
    base = {"domain": "doors", "agent": agent, "mean": 5.0, "std": 1.0, "low": 4.0, "high": 6.0}
    base |= {"discounted_mean": 3.25, "lower": None, "upper": None, "horizon": 7, **dict.fromkeys(names)}
    return base | {"baseline_minus": None} | more


def test_columns_without_values_are_hidden():
    (table,) = shown({"summary": Table([row("atpo"), row("random")])}, "atpo")
    assert [column.key for column in table.columns] == ["domain", "agent", "mean", "std", "interval"]
    (table,) = shown({"summary": Table([row("atpo", relative=50.0), row("random")])}, "atpo")
    assert "relative" in [column.key for column in table.columns]


def test_the_discounted_mean_stands_beside_a_bound_that_is_near():
    (table,) = shown({"summary": Table([row("atpo", lower=3.0, upper=3.3)])}, "atpo")
    assert table.rows[0]["discounted"] == "3.25"
    assert "3 to 3.3" in table.notes[0] and "7 steps" in table.notes[0]
    assert not bounds_are_near({"lower": 1.0, "upper": 3.0})
    assert not bounds_are_near({"lower": 1.0, "upper": float("inf")})
    assert bounds_are_near({"lower": -3.0, "upper": -2.9})


def test_agents_that_coincide_are_named_in_a_note():
    (table,) = shown({"summary": Table([row("atpo"), row("perseus", same_as="atpo")])}, "atpo")
    assert [line["agent"] for line in table.rows] == ["atpo"]
    assert "perseus with atpo" in table.notes[0]


def test_one_model_leaves_the_agents_that_differ(call, tmp_path):
    code, out, _ = call("evaluate", "three-doors:1", "--agents", "atpo,perseus,random", "--trials", 8, "-q")
    assert code == 0 and "has one model" in out and "perseus with atpo" in out
    rows = json.loads((tmp_path / "results" / "evaluate" / "summary.json").read_text())
    assert [each["same_as"] for each in rows] == [None, "atpo", None]


def test_any_agent_can_be_the_baseline(call, tmp_path):
    names = ("evaluate", "three-doors", "--agents", "atpo,random,value-iteration", "--trials", 12, "-q")
    code, out, _ = call(*names, "--baseline", "value-iteration")
    assert code == 0 and "value_iteration minus rival, paired" in out
    rows = {each["agent"]: each for each in json.loads(call(*names, "--json")[1])}
    first = rows["atpo"]["mean"] - rows["random"]["mean"]
    assert rows["random"]["baseline_minus"] == pytest.approx(first)
    rows = {each["agent"]: each for each in json.loads(call(*names, "--json", "--baseline", "random")[1])}
    assert rows["atpo"]["baseline_minus"] == pytest.approx(-first)
    code, _, err = call(*names, "--baseline", "bopa")
    assert code == 2 and "no agent to compare with is called 'bopa'" in err


def test_results_are_kept_in_a_place_that_is_named(call, tmp_path):
    names = ("evaluate", "three-doors", "--agents", "random", "--trials", 8)
    assert "results are in results/evaluate\n" in call(*names, "-q")[1]
    chunk = tmp_path / "results" / "evaluate" / "chunks" / "three-doors" / "random" / "000000.npz"
    written = chunk.stat().st_mtime_ns
    assert call(*names, "-q")[0] == 0 and chunk.stat().st_mtime_ns == written
    code, out, _ = call(*names, "-q", "--seed", 1)
    assert code == 0 and "results are in results/evaluate-" in out
    assert call(*names, "-q", "--seed", 1)[1] == out
    assert len(list((tmp_path / "results").iterdir())) == 2


def test_a_changed_library_in_the_default_place_is_played_again(call, tmp_path):
    def changed(horizon):
        options = {"summary": "three doors", "models": 3, "beliefs": 50}
        register(tiny_domain.NAME, horizon=horizon, **options)(tiny_domain.describe)

    names = ("evaluate", "three-doors", "--agents", "random", "--trials", 8)
    assert call(*names, "-q")[0] == 0
    changed(4)
    code, _, err = call(*names)
    assert code == 0 and "three-doors has changed (horizon is 6 there and 4 here)" in err
    assert (tmp_path / "results" / "evaluate" / "chunks" / "three-doors.before-1").is_dir()
    assert call(*names, "--out", "elsewhere")[0] == 0
    changed(5)
    code, _, err = call(*names, "--out", "elsewhere")
    assert code == 2 and "made otherwise" in err


def test_measures_over_domains_are_printed_and_kept(call, tmp_path):
    agents = "value-iteration,atpo,random"
    names = ("evaluate", "three-doors", "abandoned-power-plant", "--agents", agents, "--trials", 16, "-q")
    code, out, err = call(*names)
    assert code == 0, err
    assert "Scores over 2 domains (random 0, value iteration 1)" in out
    rows = json.loads((tmp_path / "results" / "evaluate" / "aggregate.json").read_text())
    assert [each["agent"] for each in rows] == ["value_iteration", "atpo", "random"]
    assert call("plot", "results/evaluate", "--figure", "profile", "--format", "pdf")[0] == 0
    assert (tmp_path / "results" / "evaluate" / "figures" / "profile.pdf").read_bytes().startswith(b"%PDF")
