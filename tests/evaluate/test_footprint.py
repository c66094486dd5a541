"""`jatpo plan`: bytes before anything is made, what fits, and what to change where it does not."""

import json

import jax
import numpy as np
import pytest

from jatpo import beliefs, memory
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.evaluate.footprint import Part, belief_bytes, check, footprint, remedies, stage_bytes
from jatpo.library import Library
from jatpo.solve import SOLVERS
from jatpo.solve.driver import solve_models
from jatpo.solve.stopping import Stop
from random_models import build, example

MODELS = Part("models", "models", 2, 50)


def small_library():
    return Library.from_models([build(example("hard zeros", seed), "blocked") for seed in range(2)])


def test_the_parts_are_those_of_the_arrays():
    library = small_library()
    solver = SOLVERS.get("perseus")(beliefs=7, capacity=128)
    parts = {part.name: part for part in footprint(library, solver, vectors=3, devices=2)}
    own = sum(leaf.nbytes for model in library.members for leaf in jax.tree.leaves(model))
    assert parts["models as they were read"].nbytes == own
    assert parts["belief points"].nbytes == 7 * 5 * 4
    assert parts["policies"].nbytes == 2 * 3 * (5 * 4 + 4)
    assert parts["models stacked"].nbytes >= sum(leaf.nbytes for leaf in jax.tree.leaves(library.models))


def test_beliefs_are_those_of_the_representation():
    """X = 5 states: a belief and what it becomes twice, that again with levels, and lists of states and weights."""
    model = build(example("hard zeros"), "blocked")
    library, successors = Library.from_models([model]), model.transition.successor.shape[-1]
    listed = 2 * (4 + 4) + 4 + 4
    wanted = {"dense": 60, "scaled": 120, "support=2": listed + 2 * (2 * successors * 8 + 8)}
    assert {name: belief_bytes(beliefs.representation(name), library) for name in wanted} == wanted


@pytest.mark.parametrize(
    "text", ["sparse", "support", "support=0", "support=many", "dense=3", "compacting=-1", ""]
)
def test_unknown_representations_are_refused(text, capsys):
    assert run(["plan", "ntu", "--belief", text]) == 2
    assert "belief" in capsys.readouterr().err


def test_stages_are_added_to_the_models():
    parts = [MODELS, Part("solve", "points", 10, 8, "--set keep"), Part("play", "beliefs", 1, 30)]
    assert stage_bytes(parts) == {"solve": 180, "play": 130}


def test_what_to_change_fits_and_one_more_does_not():
    points, walks = (
        Part("solve", "points", 100, 8, "--set keep"),
        Part("solve", "walks", 5, 20, "--set walkers"),
    )
    assert remedies([MODELS, points, walks], 500) == "--set keep=37 (now 100)"
    assert 37 * 8 + 100 + 100 <= 500 < 38 * 8 + 100 + 100
    both = remedies(
        [MODELS, Part("solve", "a", 100, 8, "--set a"), Part("solve", "b", 90, 8, "--set b")], 500
    )
    assert both == "--set a=26 --set b=23"
    assert 100 + 26 * 8 + 23 * 8 <= 500
    assert remedies([MODELS], 10) == ""


def test_a_refusal_has_the_figures():
    wanted = "'x' needs 900 B to solve and 500 B of memory are free: choose --set keep=37"
    with pytest.raises(JatpoError, match=wanted):
        check([MODELS, Part("solve", "points", 100, 8, "--set keep")], "'x'", 500)
    check([MODELS], "'x'", 500)


def test_a_solve_that_does_not_fit_is_refused(monkeypatch):
    model = build(example("hard zeros"), "blocked")
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    wanted = r"solving model '0' by 'perseus' needs .+ 1\.0 kB are free: lower '--set beliefs'"
    with pytest.raises(JatpoError, match=wanted):
        solve_models([model], SOLVERS.get("perseus")(), Stop(stages=1), key=jax.random.key(0))


def test_the_command(capsys, monkeypatch):
    assert run(["plan", "ntu", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["needed"]["solve"] > 241 * 4 * 5000
    assert np.isclose(
        sum(part["bytes"] for part in planned["parts"] if part["stage"] != "play"), planned["needed"]["solve"]
    )
    assert run(["plan", "ntu", "--json", "--belief", "support=8"]) == 0
    assert json.loads(capsys.readouterr().out)["needed"]["play"] < planned["needed"]["play"]
    monkeypatch.setattr(memory, "free_bytes", lambda: 6_000_000)
    assert run(["plan", "ntu"]) == 2
    output = capsys.readouterr()
    assert "belief points" in output.out
    assert "'ntu' needs" in output.err
    assert "--set beliefs=" in output.err
