"""`jatpo bench`: the list, what the benchmarks print on small models, files."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import tiny_team
from jatpo.bench.benchmarks import BENCHMARKS, FORMS
from jatpo.cli import bench
from jatpo.errors import JatpoError

SMALL = ["core", "--states", "300", "--actions", "3", "--successors", "4", "--beliefs", "10", "--chunk", "4"]


def call(*arguments: str) -> str:
    result = CliRunner().invoke(bench.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def run(*arguments: str) -> str:
    return call(*SMALL, *arguments)


def test_without_a_name_the_benchmarks_are_listed():
    listed = [line.split()[0] for line in call().splitlines()[1:]]
    assert listed == list(BENCHMARKS) == ["core", "domains", "solve", "evaluate", "scale", "kernels", "learn"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_command_with_its_options(name):
    text = call(name, "--help")
    for option in ("--json", "--quiet", "--out"):
        assert option in text


def test_figures_can_be_written(tmp_path):
    run("--quiet", "--out", str(tmp_path))
    assert json.loads((tmp_path / "bench-core.json").read_text())["states"] == 300


def test_gradients_of_a_small_domain():
    with tiny_team.registered() as name:
        rows = json.loads(
            call("learn", name, "--histories", "4", "--steps", "5", "--repeats", "1", "--json", "-q")
        )
    assert [row["gradient"] for row in rows] == ["P, O, start", "noise", "teammate"]
    assert all(row["ratio"] == pytest.approx(row["gradient_ms"] / row["filter_ms"]) for row in rows)
    assert all(row["memory_mb"] > 0 for row in rows)
    assert rows[0]["all_beliefs_mb"] == pytest.approx(4 * 4 * 5 * 4 / 1e6)


def test_rollouts_of_a_small_domain():
    arguments = ["abandoned-power-plant", "--agents", "atpo, random", "--trials", "4", "--vectors", "3"]
    found = json.loads(call("evaluate", *arguments, "--json", "-q"))
    assert [row["agent"] for row in found["rollouts"]] == ["atpo", "random"]
    assert all(row["steps_per_s"] > 0 and row["ratio"] > 0 for row in found["rollouts"])
    assert found["latency"][0]["median_ms"] > 0 and found["growth"] == []


def test_the_plot_of_scale_has_an_axis_for_each_size():
    row = {"round_s": 0.3, "begin_s": 1.0, "build_s": 0.1}
    figures = {
        "states": [{"states": size, **row} for size in (1000, 10_000)],
        "models": [{"models": count, "seconds": count / 10} for count in (1, 2)],
        "devices": [{"devices": 1, "seconds": 2.0}],
    }
    drawn = BENCHMARKS["scale"].pictures(figures)
    assert list(drawn) == ["bench-scale.png"]
    assert drawn["bench-scale.png"].startswith(b"\x89PNG")
    titles = [table.title for table in BENCHMARKS["scale"].tables(figures)]
    assert titles == ["rounds over states", "ATPO over models", "ATPO over devices"]


@pytest.mark.slow
def test_scale_of_a_small_model():
    found = json.loads(call("scale", "--states", "1000", "--trials", "4", "--json", "-q"))
    (row,) = found["states"]
    assert row["states"] == 1000 and row["lower"] <= row["upper"] and row["round_s"] > 0
    assert [each["models"] for each in found["models"]] == [1, 2, 4, 8, 16, 32]
    assert found["devices"][0]["devices"] == 1


@pytest.mark.parametrize("form", FORMS)
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


def test_bad_options():
    with pytest.raises(JatpoError, match="'columns'"):
        run("--form", "column")
    with pytest.raises(JatpoError, match="11 successors among 10 states"):
        run("--states", "10", "--successors", "11")


def test_the_top_level_is_light():
    code = "import sys, jatpo.cli.bench; print(*sorted({'jax', 'numpy', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "\n"
