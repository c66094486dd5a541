"""`jatpo domains`, the registry behind it, and domains that users add."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jatpo.domains as domains
from jatpo.cli.main import run
from jatpo.domains.compare import compare, compare_all, groups, reachable
from jatpo.domains.exact import TIE, exact_returns, optimal_values
from jatpo.errors import JatpoError
from jatpo.ties import share_best

DOCS = Path(__file__).parent.parent.parent / "docs"
DOCUMENT = DOCS / "domains.md"
BOTH = ("as_run", "as_written")
PAPER = {
    "gridworld": (4, 32, [626] * 4, 5, 81, 0.2, 50),
    "pursuit-task": (4, 4, [626] * 4, 5, 81, 0.2, 75),
    "pursuit-teammate": (2, 2, [626] * 2, 5, 81, 0.15, 85),
    "pursuit-both": (8, 8, [626] * 8, 5, 81, 0.15, 85),
    "abandoned-power-plant": (2, 2, [105, 97], 6, 6, 0.2, 50),
    "ntu": (4, 6, [241] * 4, 5, 81, 0.2, 75),
    "isr": (3, 3, [1807] * 3, 5, 81, 0.2, 75),
    "mit": (3, 3, [2163] * 3, 5, 81, 0.2, 75),
    "pentagon": (3, 3, [2653] * 3, 5, 81, 0.2, 75),
    "cit": (3, 3, [4831] * 3, 5, 81, 0.1, 85),
    "overcooked": (4, 4, [1730] * 4, 4, 1730, 0.0, 50),
}


def answer(capsys, *arguments):
    """What a command prints with --json."""
    assert run(["domains", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def complaint(capsys, *arguments):
    """The error of a command."""
    assert run(["domains", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def block(name):
    """A Python file that the documentation shows."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "worlds.md").read_text(), re.DOTALL)
    return next(text for text in blocks if text.startswith(f"# {name}\n"))


@pytest.mark.parametrize("rules", BOTH)
def test_the_list_has_the_papers_sizes(capsys, rules):
    rows = {row["name"]: row for row in answer(capsys, "--rules", rules)}
    fields = ("models", "pool", "states", "actions", "observations", "noise", "horizon")
    assert {name: tuple(row[field] for field in fields) for name, row in rows.items()} == PAPER
    assert sum(row["pool"] for row in rows.values()) == 70
    discounts = {name: row["discount"] for name, row in rows.items()}
    assert discounts.pop("abandoned-power-plant") == (0.90 if rules == "as_run" else 0.95)
    assert set(discounts.values()) == {0.95}


def test_the_command_does_not_import_jax():
    code = "import sys; from jatpo.cli.main import run; run(sys.argv[1:]); sys.exit('jax' in sys.modules)"
    for view in (
        ["domains"],
        ["domains", "ntu"],
        ["domains", "ntu", "--exact"],
        ["domains", "ntu", "--compare"],
    ):
        assert subprocess.run([sys.executable, "-c", code, *view], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", PAPER)
def test_one_domain_shows_map_models_and_rules(capsys, name):
    shown = answer(capsys, name)
    assert len(shown["map"].splitlines()) > 1
    assert [entry["model"] for entry in shown["models"]] == list(range(PAPER[name][0]))
    assert len({entry["label"] for entry in shown["models"]}) == PAPER[name][0]
    differing = {part["name"] for part in shown["parameters"] if part["differs"]}
    assert differing == {part.name for part in domains.get(name).differences()} != set()
    assert run(["domains", name, "--rules", "as_written"]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in differing) and shown["models"][0]["label"] in text


def test_all_tasks_of_ntu_coincide_as_run_and_none_as_written(capsys):
    for options in ([], ["--pool"]):
        found = answer(capsys, "ntu", "--compare", *options)
        assert all(pair["coincide"] and not pair["distinguishable"] for pair in found["pairs"])
        assert len(found["groups"]) == 1
    assert len(answer(capsys, "ntu", "--compare", "--rules", "as_written")["groups"]) == 4
    run(["domains", "ntu", "--compare"])
    assert "All 4 models coincide exactly." in capsys.readouterr().out


def test_two_tasks_of_mit_coincide(capsys):
    found = answer(capsys, "mit", "--compare")
    assert found["groups"] == [[0], [1, 2]]
    assert [pair["coincide"] for pair in found["pairs"]] == [False, False, True]
    run(["domains", "mit", "--compare"])
    assert "Models 1, 2 coincide exactly." in capsys.readouterr().out


def test_the_plants_tasks_have_other_states(capsys):
    (pair,) = answer(capsys, "abandoned-power-plant", "--compare")["pairs"]
    assert not pair["comparable"] and pair["teammate"] is None and not pair["coincide"]


def test_exact_returns_as_json(capsys):
    rows = answer(capsys, "mit", "--exact")
    assert [row["model"] for row in rows] == [0, 1, 2]
    assert [row["value_iteration"] for row in rows] == pytest.approx([254 / 3] * 3, abs=1e-9)
    assert all(row["random"] < row["value_iteration"] for row in rows)
    assert {"model", "value_iteration", "random", "optimal_value"} <= set(rows[0])
    assert answer(capsys, "mit", "--exact", "--model", "2") == rows[2:]
    assert len(answer(capsys, "gridworld", "--exact", "--pool")) == 32


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gridword"], "did you mean 'gridworld'"),
        (["ntu", "--rules", "as_writen"], "did you mean 'as_written'"),
        (["ntu", "--model", "6"], "choose from 0 to 5"),
        (["ntu", "--model", "-1"], "choose from 0 to 5"),
        (["--exact"], "name one"),
        (["ntu", "--exact", "--compare"], "choose one of them"),
        (["ntu", "--compare", "--model", "1"], "leave out --model"),
    ],
)
def test_wrong_requests_are_one_line_with_a_remedy(capsys, arguments, words):
    error = complaint(capsys, *arguments)
    assert error.startswith("jatpo: ") and error.count("\n") == 1 and words in error


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: domains.make("pentagone"), "did you mean 'pentagon'"),
        (lambda: domains.make("ntu", 6), "choose from 0 to 5"),
        (lambda: domains.make("ntu", 1.0), "choose from 0 to 5"),
        (lambda: domains.make("ntu", rules="asrun"), "did you mean 'as_run'"),
        (lambda: domains.make("ntu", nois=0.1), "did you mean 'noise'"),
        (lambda: domains.make("ntu", noise=1.5), "a number from 0 to 1"),
        (lambda: domains.make("ntu", teammate="optimum"), "did you mean 'optimal'"),
        (lambda: domains.make("ntu", map="S.G\nG"), "map row 1 has 1 cells"),
        (lambda: domains.make("ntu", map="S.GxG"), "holds 'x'"),
        (lambda: domains.make("gridworld", goals=((0, 0), (9, 9))), "9,9 is not an open cell"),
        (lambda: domains.make("pursuit-both", size=4), "an odd number"),
        (lambda: domains.make("pursuit-both", lineup=("greedy n/w",)), "did you mean 'greedy n/s'"),
        (lambda: domains.load("nowhere/domain.py"), "check the path"),
        (lambda: domains.load("no_such_module"), "install it"),
    ],
)
def test_wrong_calls_name_the_remedy(call, words):
    with pytest.raises(JatpoError, match=re.escape(words)):
        call()


def test_overrides_reach_the_model():
    plain = domains.describe("mit", 0)
    assert domains.describe("mit", 0, discount=0.5).discount == 0.5
    written = domains.describe("mit", 0, rules="as_written")
    presets = {part.name: part.as_written for part in domains.get("mit").differences()}
    switched = domains.describe("mit", 0, **presets)
    assert compare(written, switched).coincide and not compare(plain, written).coincide
    small = domains.describe("gridworld", goals=((0, 0), (1, 0)), width=2, height=1)
    assert small.states[:2] == ("agent 0,0 teammate 0,0", "agent 0,0 teammate 1,0") and small.num_states == 5


def test_library_follows_the_map():
    tasks = domains.library("ntu", pool=True, map="SG.\nG.S\n..G")
    assert len(tasks) == 3 and len(domains.library("ntu")) == 4


def test_a_process_is_solved_once():
    first, second = (domains.get("ntu").structure(k).mmdp for k in (0, 1))
    assert first is not second and first.value_iteration() is second.value_iteration()
    slower = domains.get("ntu").structure(0, discount=0.9).mmdp
    assert slower.value_iteration() is not first.value_iteration()


def two_states(slip, reward=1.0, start=(1.0, 0.0, 0.0), stray=0.0):
    """From state 0 the action `go` reaches 1 but for `slip`; state 2 is never reached; states are seen."""
    go = [[slip, 1 - slip, 0], [0, 1, 0], [stray, 0, 1 - stray]]
    return domains.Description.from_dense(
        [go, np.eye(3)],
        [np.eye(3)] * 2,
        [[0, 0], [reward, reward], [0, 0]],
        start,
        0.5,
        states=("0", "1", "2"),
        actions=("go", "stay"),
        observations=("0", "1", "2"),
    ).checked()


def test_comparison_of_two_small_models():
    assert reachable(two_states(0.1)).tolist() == [True, True, False]
    pair = compare(two_states(0.1), two_states(0.4, reward=3.0))
    assert pair.transition == pytest.approx((1, 6, 0.3)) and pair.observation == (0, 6, 0.0)
    assert pair.reward == (1, 3, 2.0) and pair.distinguishable and not pair.coincide
    hidden = compare(two_states(0.1), two_states(0.1, stray=0.5))
    assert hidden.transition == (1, 6, 0.5) and not hidden.distinguishable and not hidden.coincide
    moved = compare(two_states(0.1), two_states(0.1, start=(0.5, 0.5, 0.0)))
    assert moved.start == 0.5 and moved.distinguishable
    every = compare_all([two_states(0.1), two_states(0.2), two_states(0.1)])
    assert groups(every, 3) == [[0, 2], [1]]


def test_exact_returns_of_a_small_model():
    model = two_states(0.2)
    # v(1) = 1 / (1 - 0.5) = 2; v(0) = 0.5 (0.8 * 2 + 0.2 v(0)) = 8 / 9
    assert optimal_values(model).v == pytest.approx([8 / 9, 2, 0], abs=1e-9)
    assert share_best(optimal_values(model).q, TIE).tolist() == [[1, 0], [0.5, 0.5], [0.5, 0.5]]
    found = exact_returns(model, 3)
    assert found.value_iteration == pytest.approx(0.8 + 0.96)
    assert found.random == pytest.approx(0.4 + 0.64)


def test_the_documented_snippets_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(import.*?)```", DOCUMENT.read_text(), re.DOTALL)
    for snippet in snippets:
        exec(compile(snippet, DOCUMENT.name, "exec"), {})
    assert len(snippets) == 2 and (tmp_path / "mit.png").exists()
    assert capsys.readouterr().out.splitlines()[-1] == "[A ] .   .   .   ."


@pytest.mark.parametrize("name", ["hall", "meeting"])
def test_the_documented_domains_work_in_every_view(tmp_path, name):
    file = tmp_path / f"{name}.py"
    file.write_text(block(f"{name}.py"))
    assert len(file.read_text().splitlines()) < 40
    environment = {**os.environ, "JATPO_DOMAINS": str(file)}
    for view in ([], ["--compare"], ["--exact"]):
        command = [sys.executable, "-m", "jatpo", "domains", name, *view, "--json"]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)


def test_a_users_domain_is_a_domain_like_the_others(tmp_path, registries):
    file = tmp_path / "meeting.py"
    file.write_text(block("meeting.py"))
    assert domains.load(file) == ("meeting",)
    first, second = domains.library("meeting", noise=0.2)
    assert first.num_states == 50 and first.content_hash() != second.content_hash()
    assert domains.render_text("meeting", "agent 1 teammate 4") == " .   A   .   .   T   .   ."
    drift = compare(domains.describe("meeting", 0), domains.describe("meeting", 1))
    assert drift.teammate == pytest.approx((42, 42, 0.7))


def test_a_builder_may_return_a_description_or_a_pomdp(registries):
    @domains.register("plain")
    def plain(model, *, slip: float = 0.1):
        """One small model."""
        return two_states(slip)

    @domains.register("jax")
    def made(model):
        return domains.to_pomdp(two_states(0.1))

    assert domains.get("plain").summary == "One small model."
    assert compare(domains.describe("plain"), two_states(0.1)).coincide
    assert domains.make("jax").num_states == domains.describe("jax").num_states == 3
    assert domains.describe("jax").transition[3] == pytest.approx(two_states(0.1).transition[3])


def test_a_users_file_cannot_replace_a_built_in_domain(tmp_path, registries):
    file = tmp_path / "mine.py"
    file.write_text("from jatpo.domains import register\nregister('gridworld')(lambda model: None)\n")
    before = domains.get("gridworld")
    with pytest.raises(JatpoError, match=f"{file}.*'gridworld'"):
        domains.load(file)
    assert domains.get("gridworld") is before


def test_mistakes_in_a_users_file_are_named(tmp_path, registries):
    file = tmp_path / "broken.py"
    file.write_text("from jatpo.domains import register\nregister('broken')(lambda model, x: None)\n")
    with pytest.raises(JatpoError, match="no default for 'x'"):
        domains.load(file)
    file.write_text("1 / 0\n")
    with pytest.raises(JatpoError, match=r"broken\.py fails with ZeroDivisionError"):
        domains.load(file)
    domains.register("odd")(lambda model: 3)
    with pytest.raises(JatpoError, match="returned a int: return a World"):
        domains.describe("odd")
    domains.register("leaky")(lambda model: two_states_that_leak())
    with pytest.raises(JatpoError, match=r"transition\[a=0 \(go\), x=0 \(here\)\] sums to 0.9"):
        domains.describe("leaky")
    domains.register("slip")(lambda model: 1 / model)
    with pytest.raises(
        JatpoError, match=r"builder of 'slip' raised ZeroDivisionError: .* \(.*_cli\.py, line \d+\)"
    ):
        domains.describe("slip")


def test_a_description_needs_no_names():
    """As `POMDP.from_dense`; wrong axes are named."""
    arrays = np.full((2, 3, 3), 1 / 3), np.full((2, 3, 4), 0.25), np.zeros((3, 2)), np.full(3, 1 / 3), 0.9
    made = domains.Description.from_dense(*arrays).checked()
    assert (made.states, made.actions, made.observations[-1]) == (("0", "1", "2"), ("0", "1"), "3")
    with pytest.raises(JatpoError, match="axes look swapped"):
        domains.Description.from_dense(arrays[0].transpose(1, 2, 0), *arrays[1:])


def two_states_that_leak():
    """A row that does not sum to 1."""
    return domains.Description.from_dense(
        [[[0.9]]], [[[1.0]]], [[0.0]], [1.0], 0.9, states=["here"], actions=["go"], observations=["x"]
    )
