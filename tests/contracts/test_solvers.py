"""What every solver must do, ours and one from outside the package."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.events import Event
from jatpo.registry import load_extension
from jatpo.solve import SOLVERS, Request, Solver, Status, Stop, choose, solve_models
from oracles import pomdp_exact
from random_models import build, example
from small_pomdps import ring, tiger, tiny
from solution_checks import assert_same, parts_of
from solving import solve

OUTSIDE = Path(__file__).parent / "outside" / "grid_solver.py"
load_extension(OUTSIDE)
ALL = SOLVERS.names()
QUICK = {
    "anytime": {"walkers": 16, "steps": 20, "keep": 128},
    "perseus": {"beliefs": 100, "batch": 16},
    "sparse": {"steps": 20, "capacity": 64},
}
PLANT = "abandoned-power-plant"


def quick(name: str, stages: int = 6):
    """The solver with few stages, where it counts them."""
    stages = stages if "stages" in SOLVERS.get(name).limits else None
    return choose(Request(name, stages=stages, settings=QUICK.get(name, {})), num_models=2, horizon=30)


def test_one_from_outside_is_among_them():
    assert {"anytime", "graph", "perseus", "qmdp", "sparse", "value-iteration", "grid"} == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_the_protocol(name):
    solver = SOLVERS.get(name)()
    assert isinstance(solver, Solver) and solver.name == name
    with pytest.raises(dataclasses.FrozenInstanceError):
        solver.tolerance = 1
    assert hash(solver) == hash(SOLVERS.get(name)()) and solver == SOLVERS.get(name)()


KNOWN = {"tiger": tiger(discount=0.5), "tiny 0": tiny(0), "tiny 1": tiny(1)}


@cache
def value_of(truth):
    """An interval that holds the value of a known model, by enumeration."""
    model = build(KNOWN[truth])
    return pomdp_exact.interval(*parts_of(model), np.asarray(model.initial, float), 7)


@pytest.mark.parametrize("truth", KNOWN)
@pytest.mark.parametrize("name", ALL)
def test_the_bounds_hold(name, truth):
    model = build(KNOWN[truth])
    found = solve([model], quick(name), jax.random.key(0))[0]
    low, high = value_of(truth)
    slack = 1e-4 if name == "grid" else 0  # it reports what float32 gives
    assert found.lower <= high + slack and low - slack <= found.upper and found.gap >= 0
    assert found.policy.vectors.shape == (found.num_vectors, model.num_states)
    assert set(np.asarray(found.policy.actions).tolist()) <= set(range(model.num_actions))


@pytest.mark.parametrize("name", ALL)
def test_the_bounds_only_close_in(name):
    reports: list[dict] = []
    found = solve([build(ring())], quick(name), jax.random.key(1), reports)[0]
    lower, upper = np.array([(now["lower"], now["upper"]) for now in reports]).T
    assert np.all(np.diff(lower) >= -1e-4) and np.all(np.diff(upper) <= 0)
    assert (reports[-1]["lower"], reports[-1]["stage"]) == (found.lower, found.stages)


@pytest.mark.bits
@pytest.mark.parametrize("name", ALL)
def test_a_model_alone_and_in_company(name):
    models = [build(tiger()), build(tiger(0.7, discount=0.9))]
    for model, found in zip(models, solve(models, quick(name), jax.random.key(2)), strict=True):
        assert_same(found, solve([model], quick(name), jax.random.key(2))[0])


@pytest.mark.bits
@pytest.mark.parametrize("name", ALL)
def test_an_interrupted_solve_is_resumed(name, tmp_path):
    """To what an uninterrupted one gives; and once finished, it is loaded."""
    model, key, stages = build(ring()), jax.random.key(3), []

    def interrupt(event: Event) -> None:
        if not event.note:
            stages.append(event.figures["stage"])
            if len(stages) == 2 or not SOLVERS.get(name).limits:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve([model], quick(name), key, cache=tmp_path, on_event=interrupt)
    reports: list[dict] = []
    found = solve([model], quick(name), key, reports, cache=tmp_path)[0]
    if SOLVERS.get(name).limits:
        assert reports[0]["stage"] == 3
    wanted = solve([model], quick(name), key)[0]
    assert_same(found, wanted)
    reports.clear()
    assert_same(solve([model], quick(name), key, reports, cache=tmp_path)[0], wanted)
    assert not reports


@pytest.mark.parametrize("name", ALL)
def test_limits_are_honoured_or_refused(name):
    solver, limits = quick(name).solver, SOLVERS.get(name).limits
    stops = {"seconds": Stop(seconds=1e-6), "gap": Stop(gap=1e6), "stages": Stop(stages=2)}
    status = {"seconds": Status.TIME_UP, "gap": Status.GAP_REACHED, "stages": Status.STAGES_DONE}
    for limit, stop in stops.items():
        if limit not in limits:
            with pytest.raises(JatpoError, match=f"{name}.*{limit}"):
                solve_models([build(tiger())], solver, stop, key=jax.random.key(0))
            continue
        model = build(example("plain", 3) if limit == "stages" else tiger())  # not closed within two stages
        found = solve_models([model], solver, stop, key=jax.random.key(0))[0]
        assert found.status is status[limit] and found.stop == stop
        assert found.stages == (2 if limit == "stages" else 1)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_compiled_for_another_model_of_the_shape(name, caplog):
    models = [build(ring()), build(ring(discount=0.8))]
    solve(models[:1], quick(name), jax.random.key(0))
    with jax.log_compiles():
        solve(models[1:], quick(name), jax.random.key(1))
    compiled = [record.getMessage() for record in caplog.records if "Compiling" in record.getMessage()]
    assert not compiled


# In commands


@pytest.fixture
def workplace(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path / "solutions"))
    monkeypatch.setenv("JATPO_EXTENSIONS", str(OUTSIDE))
    return tmp_path / "solutions"


def entries(directory: Path) -> dict[str, int]:
    """Every file of the cache and when it was written."""
    return {str(path): path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def test_the_one_from_outside_works_in_commands(workplace, capsys):
    options = ["--solver", "grid", "--stages", "3", "--set", "tolerance=0.001", "--quiet"]
    assert run(["solve", PLANT, *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["solver"] for row in rows] == ["grid", "grid"] and rows[0]["settings"] == {"tolerance": 0.001}
    before = entries(workplace)
    assert run(["evaluate", PLANT, *options, "--agents", "atpo", "--trials", "8"]) == 0
    assert run(["solve", PLANT, "--solver", "grod"]) == 2
    assert "grid" in capsys.readouterr().err
    assert entries(workplace) == before


@pytest.mark.parametrize("options", [[], ["--solver", "anytime", "--stages", "1"]], ids=str)
def test_what_solve_has_solved_the_other_commands_load(options, workplace, capsys):
    assert run(["solve", PLANT, *options, "--quiet"]) == 0
    before = entries(workplace)
    assert len(list(workplace.iterdir())) == 2
    assert run(["evaluate", PLANT, *options, "--agents", "atpo", "--trials", "8", "--quiet"]) == 0
    assert run(["watch", PLANT, *options, "--json", "--quiet"]) == 0
    shared = ["--trials", "8", "--quiet", "--out", "results"]
    assert run(["experiment", "identification", PLANT, *options, *shared]) == 0
    assert entries(workplace) == before


def test_a_policy_at_its_capacity_is_reported_where_it_is_used(workplace, capsys):
    options = ["--set", "capacity=1", "--quiet"]
    for command in (
        ["solve", PLANT],
        ["evaluate", PLANT, "--agents", "atpo", "--trials", "8"],
        ["watch", PLANT, "--json"],
        ["experiment", "identification", PLANT, "--trials", "8"],
        ["reproduce", PLANT, "--trials", "8"],
    ):
        assert run([*command, *options]) == 0
        errors = capsys.readouterr().err
        assert errors.count("capacity") >= 2 and PLANT in errors
