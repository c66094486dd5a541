"""Exact returns of the value-iteration and random agents: known values, published means, a second oracle."""

import json
from functools import cache

import pytest

import jatpo.domains
from domain_worlds import builder
from jatpo.cli.main import run
from jatpo.domains.exact import exact_returns
from oracles.domains import HORIZON, MAIN, POOL, transcribe
from oracles.domains.planning import exact

# Published mean and standard deviation over 32 trials: value iteration, random.
PUBLISHED = {
    "gridworld": ((95.62, 1.54), (5.88, 64.13)),
    "pursuit-task": ((92.72, 4.87), (14.59, 71.34)),
    "pursuit-teammate": ((89.88, 8.38), (-7.66, 78.7)),
    "pursuit-both": ((90.19, 8.32), (20.72, 69.47)),
    "abandoned-power-plant": ((94.91, 1.99), (47.44, 62.31)),
    "ntu": ((98.0, 0.0), (88.0, 7.42)),
    "overcooked": ((39.12, 60.73), (-46.75, 18.1)),
    "isr": ((92.41, 2.68), (-23.31, 68.05)),
    "mit": ((84.5, 0.87), (-71.41, 20.01)),
    "pentagon": ((91.0, 0.0), (-45.94, 55.14)),
    "cit": ((86.22, 2.27), (-81.25, 20.88)),
}
TRIALS = 32
OVERCOOKED_TRIALS = [7, 6, 5, 14]  # of models 0..3; the others were drawn uniformly
COINS = [("overcooked", 1, "as_run"), ("overcooked", 2, "as_run")]

EVERY = [
    (name, model, rules)
    for name, count in POOL.items()
    for model in range(count)
    for rules in ("as_run", "as_written")
    if (name, model, rules) not in COINS
]
QUICK = [case for case in EVERY if case[1] == MAIN[case[0]] - 1]  # the last model of each main table


@cache
def returns(name: str, model: int, rules: str):
    return exact_returns(jatpo.domains.describe(name, model=model, rules=rules), HORIZON[name])


@pytest.mark.parametrize(
    ("name", "model", "value"),
    [
        *(("ntu", model, 98.0) for model in range(6)),
        *(("pentagon", model, 91.0) for model in range(3)),
        *(("mit", model, 254 / 3) for model in range(3)),
        ("abandoned-power-plant", 0, 97.0),  # the human alone explores the plant in three steps
    ],
)
def test_value_iteration_anchors(name, model, value):
    assert returns(name, model, "as_run").value_iteration == pytest.approx(value, abs=1e-6)


def test_the_robot_cannot_spoil_the_exploration():
    """Nobody stands in the human's way, so a random robot earns as much as the best one, under both rules."""
    for rules in ("as_run", "as_written"):
        assert returns("abandoned-power-plant", 0, rules).random == pytest.approx(97.0, abs=1e-6)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("agent", ["value_iteration", "random"])
def test_published_means_are_within_three_standard_errors(name, agent):
    weights = OVERCOOKED_TRIALS if name == "overcooked" else [1] * MAIN[name]
    values = [getattr(returns(name, model, "as_run"), agent) for model in range(MAIN[name])]
    mean = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
    published, deviation = PUBLISHED[name][["value_iteration", "random"].index(agent)]
    assert abs(mean - published) <= 3 * deviation / TRIALS**0.5 + 1e-6


def assert_same_returns(found, expected: dict[str, float], tolerance: float) -> None:
    for agent, value in expected.items():
        assert getattr(found, agent) == pytest.approx(value, abs=tolerance), agent


@pytest.mark.parametrize(("name", "model", "rules"), QUICK)
def test_a_second_computation_agrees(name, model, rules):
    """Second transcription of the rules, second value iteration, second propagation."""
    expected = exact(transcribe(name, model, rules), HORIZON[name])
    assert_same_returns(returns(name, model, rules), expected, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "rules"), [case for case in EVERY if case not in QUICK])
def test_a_second_computation_agrees_on_all_other_models(name, model, rules):
    expected = exact(transcribe(name, model, rules), HORIZON[name])
    assert_same_returns(returns(name, model, rules), expected, 1e-6)


@pytest.mark.parametrize("model", [1, 2])
def test_a_second_computation_agrees_on_the_rows_the_coins_chose(model):
    """The coins are the builder's, so its own single-precision rows are propagated."""
    expected = exact(builder("overcooked", model, "as_run"), HORIZON["overcooked"])
    assert_same_returns(returns("overcooked", model, "as_run"), expected, 1e-4)


@pytest.mark.parametrize(("name", "rules"), [("ntu", "as_run"), ("abandoned-power-plant", "as_written")])
def test_the_command_prints_the_same_numbers(name, rules, capsys):
    assert run(["domains", name, "--rules", rules, "--exact", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in rows] == list(range(MAIN[name]))
    for row in rows:
        found = returns(name, row["model"], rules)
        for key in ("value_iteration", "random", "optimal_value"):
            assert row[key] == pytest.approx(getattr(found, key), abs=1e-9)


def test_the_command_knows_the_pool(capsys):
    assert run(["domains", "ntu", "--exact", "--json", "--pool"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["value_iteration"] for row in rows] == pytest.approx([98.0] * 6, abs=1e-6)
