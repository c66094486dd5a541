"""The benchmark of the core, on a small model: what it builds and what it prints."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from jatpo.cli import bench
from jatpo.errors import JatpoError
from jatpo.model import POMDP

SMALL = ["core", "--states", "300", "--actions", "3", "--successors", "4", "--beliefs", "10", "--chunk", "4"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(bench.app, [*SMALL, *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("form", bench.FORMS)
def test_figures(form):
    figures = json.loads(run("--form", form, "--json"))
    sizes = {"states": 300, "actions": 3, "successors": 4, "beliefs": 10, "chunk": 4, "form": form}
    assert figures.items() >= sizes.items()
    assert figures["model_bytes"] > 300 * 3 * 4 * 8
    assert 50e6 < figures["build_peak_bytes"] <= figures["peak_bytes"]
    seconds = [figures[f"{part}_seconds"] for part in ("build", "compile", "update")]
    assert min(seconds) > 0
    assert figures["updates_per_second"] == pytest.approx(10 / seconds[2])


def test_table():
    lines = run().splitlines()
    assert lines[0] == "300 states, 3 actions, 4 successors; 10 beliefs in chunks of 4 (columns)"
    measures = [line.split("  ")[0] for line in lines[1:]]
    assert measures == [
        "measure",
        "build and validate",
        "compile the update",
        "update",
        "model",
        "peak memory of building",
        "peak memory",
    ]


def test_the_random_model():
    parts = bench.random_model(200, 3, 7, seed=1)
    model = POMDP.from_sparse(*parts, num_observations=bench.OBSERVATIONS, storage="blocked")
    assert model.transition.successor.shape == (3, 200, 7)
    assert (np.asarray(model.transition.probability) > 0).all()  # seven different successors, none merged
    assert model.observation.kind.shape == (1, 200)
    other = bench.random_model(200, 3, 7, seed=2)
    assert not np.array_equal(parts[0][2], other[0][2])


def test_bad_options():
    with pytest.raises(JatpoError, match=r"^no form is called 'column'; did you mean 'columns'\?$"):
        run("--form", "column")
    with pytest.raises(
        JatpoError, match=r"^a state cannot have 11 successors among 10 states: ask for fewer$"
    ):
        run("--states", "10", "--successors", "11")


def test_the_top_level_is_light():
    code = "import sys, jatpo.cli.bench; print(*sorted({'jax', 'numpy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "\n"
