"""Adapting to a teammate that the library lacks: which teammates it lacks, that learning one pays, and the command."""

import json

import numpy as np
import pytest

import tiny_team
from jatpo import domains
from jatpo.cli.main import run as run_command
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import ATPO
from jatpo.evaluate.experiment import Config, run
from jatpo.evaluate.solved import SolveOptions, load_solved
from jatpo.files import load
from jatpo.learn import FitSettings
from jatpo.learn.adapt import Adapt, closest, scenario_in, with_solved
from jatpo.learn.unseen import noisy, unseen_teammates
from jatpo.solve import Request

SOLVER = Request("perseus", stages=8, settings={"beliefs": 50, "steps": 8})


@pytest.fixture
def team(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path / "solutions"))
    with tiny_team.registered() as name:
        yield name


def adapted(team, trials, **options):
    """Rows of returns, and one for each model fitted."""
    tables = run(Adapt(**options), team, None, Config(trials=trials, request=SOLVER))
    return tables["adapt"].rows, tables["fits"].rows


# ---------------------------------------------------------------- unseen teammates


def test_unseen_teammates_are_left_out_noisy_or_changed(team):
    found = unseen_teammates(
        load(team), ["left-out", "noisy", "changed"], share=0.4, changes={"habit": "alternate"}
    )
    assert [(one.scenario, one.model, one.numbers) for one in found] == [
        ("left-out", 0, (1,)),
        ("left-out", 1, (0,)),
        ("noisy", 0, (0, 1)),
        ("noisy", 1, (0, 1)),
        ("changed", 0, (0, 1)),
        ("changed", 1, (0, 1)),
    ]
    left, noise, change = (one.truth.to_dense().transition for one in found[::2])
    own = domains.make(team, 0).to_dense()
    np.testing.assert_array_equal(left, own.transition)
    # Model 0 goes left for certain, a noisy one with 0.6 + 0.4 / 2: the agent that goes left meets it so often.
    np.testing.assert_allclose(noise[0, :2, 2], 0.8)
    np.testing.assert_allclose(noise[1, :2, 2], 0.2)
    np.testing.assert_allclose(noise[0, 2:], own.transition[0, 2:])
    np.testing.assert_array_equal(change[0, :2, 2], [0, 1])  # from the right it goes left
    assert [one.model for one in unseen_teammates(load(team), ["noisy"], models=[1])] == [1]


def test_a_noisy_teammate_acts_where_it_acted(team):
    world = domains.get("gridworld").structure(0)
    policy = noisy(world, 0.3).teammate
    acts = world.teammate.sum(axis=-1) > 0
    np.testing.assert_allclose(policy.sum(axis=-1), acts)
    np.testing.assert_allclose(policy[acts].min(), 0.3 / 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenarios": ["left out"]}, "did you mean 'left-out'"),
        ({"scenarios": ["noisy"], "share": 1.5}, "1.5"),
        ({"scenarios": ["changed"]}, "--change"),
    ],
)
def test_bad_scenarios_are_refused(team, arguments, message):
    with pytest.raises(JatpoError, match=message):
        unseen_teammates(load(team), **arguments)


def test_a_domain_without_a_teammate_is_refused():
    import tiny_domain

    with tiny_domain.registered() as name, pytest.raises(JatpoError, match="three-doors"):
        unseen_teammates(load(name), ["noisy"])


# ---------------------------------------------------------------- the experiment


@pytest.mark.slow
def test_a_learned_teammate_is_worth_more_than_the_library(team):
    """A teammate that alternates beside a library of stubborn ones; learned from 32 episodes it is as good as known."""
    changed = {"scenarios": ("changed",), "change": {"habit": "alternate"}, "models": (0,)}
    fitting = FitSettings(steps=40, rate=0.3)
    rows, fits = adapted(team, 1024, **changed, episodes=(2, 32), rounds=3, fit=fitting)
    found = {(row["agent"], row["episodes"]): row for row in rows}
    learners = ("atpo_softened", "atpo_prior", "atpo_adapted", "atpo_adapted_prior")
    after = [(agent, episodes) for episodes in (2, 32) for agent in learners]
    assert list(found) == [("atpo", None), ("informed", None), *after]
    base, best = found["atpo", None], found["informed", None]
    assert base["minus_atpo"] == 0 and base["closed"] == 0 and best["closed"] == pytest.approx(100)
    assert best["minus_atpo_low"] > 0.3
    assert found["atpo_adapted", 32]["minus_atpo_low"] > 0
    both = found["atpo_adapted_prior", 32]
    assert both["minus_atpo_low"] > 0.7 * best["minus_atpo"]
    assert both["minus_atpo"] == pytest.approx(both["mean"] - base["mean"])
    assert (
        found["atpo_prior", 32]["minus_atpo_high"] < 0.3 * best["minus_atpo"]
    )  # it is the model that counts
    assert [fit["episodes"] for fit in fits] == [2, 32]
    last = fits[-1]
    assert last["test_start"] < last["test_fitted"] <= last["test_true"] + 0.05
    assert last["test_true"] - last["test_fitted"] < 0.2 * (last["test_true"] - last["test_start"])


@pytest.mark.slow
def test_repeats_are_averaged_trial_by_trial(team):
    noise = {"scenarios": ("noisy",), "models": (1,)}
    rows, fits = adapted(team, 64, **noise, episodes=(1,), repeats=2, rounds=2, fit=FitSettings(steps=5))
    assert [row["trials"] for row in rows] == [64] * 6
    found = {row["agent"]: row for row in rows}
    assert found["atpo_softened"]["minus_softened"] == 0 and "minus_softened" not in found["informed"]
    learned = found["atpo_adapted"]["mean"] - found["atpo_softened"]["mean"]
    assert found["atpo_adapted"]["minus_softened"] == pytest.approx(learned)
    assert [fit["repeat"] for fit in fits] == [0, 1]


def test_the_closest_model_explains_most_histories_and_those_best():
    few, many, better = np.array([-1.0, -np.inf]), np.array([-5.0, -5.0]), np.array([-4.0, -5.0])
    assert closest([few, many]) == 1
    assert closest([many, better, few]) == 1
    assert closest([many, many]) == 0


def test_the_library_is_as_solved_and_grows_by_one(team):
    solved = load_solved(team, [ATPO()], options=SolveOptions(SOLVER))
    one, other = with_solved(solved).select([1]), solved.library.member(0)
    scenario, _ = scenario_in(other, one)
    assert scenario.library.num_models == 1
    np.testing.assert_allclose(scenario.weights, [1])
    grown, _ = scenario_in(other, one.with_member(other, "other", policy=one.policies[0]))
    assert grown.library.num_models == 2
    np.testing.assert_allclose(grown.prior, [0.5, 0.5])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"episodes": ()}, "give numbers from 1 on"),
        ({"rounds": 0}, "rounds is 0"),
        ({"repeats": 0}, "repeats is 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(JatpoError, match=message):
        Adapt(**settings)


# ---------------------------------------------------------------- the command


def test_the_command_writes_tables_and_resumes(team, tmp_path, capsys):
    arguments = ["experiment", "adapt", team, "--scenarios", "left-out", "--models", "0", "--episodes", "2"]
    arguments += ["--rounds", "2", "--trials", "20", "--out", "kept", "--quiet"]
    assert run_command([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    learners = ["atpo_softened", "atpo_prior", "atpo_adapted", "atpo_adapted_prior"]
    assert [row["agent"] for row in rows] == ["atpo", "informed", *learners]
    assert [row["episodes"] for row in rows] == [None, None, 2, 2, 2, 2]
    fits = json.loads((tmp_path / "kept" / "fits.json").read_text())
    assert [(fit["model"], fit["start"]) for fit in fits] == [(0, 1)]
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept" / "chunks").rglob("*.npz")}
    assert run_command(arguments) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["domain", "scenario", "agent"]
    assert {path: path.stat().st_mtime_ns for path in files} == files  # nothing was played again
    assert json.loads((tmp_path / "kept" / "adapt.json").read_text()) == rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--episodes", "1,x"], "--episodes: '1,x'"),
        (["--scenarios", "changed"], "--change"),
        (["--change", "habit"], "write it as PARAMETER=VALUE"),
        (["--by", "mat", "--trials", "4", "--rounds", "1", "--episodes", "1"], "'mat'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(team, capsys, arguments, message):
    assert run_command(["experiment", "adapt", team, "-q", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and message in err
