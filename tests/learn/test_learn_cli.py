"""`jatpo learn`: output, files that work, resuming, errors."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tiny_team
from jatpo import domains
from jatpo.cli.main import run
from jatpo.files import load
from jatpo.solve import default_directory


@pytest.fixture(autouse=True)
def meeting(monkeypatch, tmp_path):
    """A domain with a teammate to learn, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JATPO_CACHE", raising=False)
    with tiny_team.registered() as name:
        yield name


def call(capsys, *arguments):
    code = run([str(part) for part in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def simulated(capsys, name, *options, count=60):
    arguments = ("learn", name, "--simulate", count, "--agent", "random", "--out", "h.jsonl", *options)
    code, out, err = call(capsys, *arguments, "--quiet")
    assert (code, err) == (0, "")
    return out


def test_simulated_histories(capsys, meeting, tmp_path):
    assert simulated(capsys, meeting, count=3) == "h.jsonl: 3 histories of 8 steps\n"
    lines = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    assert set(lines[0]) == {"actions", "observations"}
    assert set(lines[0]["actions"]) <= {"left", "right"} and len(lines[0]["observations"]) == 8
    answer = json.loads(simulated(capsys, meeting, "--horizon", 5, "--json", count=2))
    assert answer == {"histories": 2, "steps": 5, "agent": "random", "out": "h.jsonl"}


def test_the_noise_goes_into_a_library_that_evaluate_takes(capsys, meeting):
    simulated(capsys, meeting, "--noise", 0.35, "--model", 0, count=200)
    code, out, err = call(
        capsys,
        "learn",
        meeting,
        "--from",
        "h.jsonl",
        "--what",
        "noise",
        "--model",
        0,
        "--out",
        "fitted",
        "-q",
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "noise of meeting, starting from model 0 (model 0)"
    row = next(line for line in lines[1:] if line.startswith("noise "))
    start, level = (float(word) for word in row.split()[1:])
    assert start == pytest.approx(0.1) and 0.2 < level < 0.5
    assert lines[-1] == "the library is in fitted; try: jatpo evaluate fitted"
    library = load("fitted")
    assert library.num_models == 2 and library.labels[1] == "model 1"
    assert library.origins[0].overrides["noise"] == pytest.approx(level, rel=1e-3)
    assert "noise" not in library.origins[1].overrides
    assert call(capsys, "evaluate", "fitted", "--agents", "random", "--trials", 4, "-q")[0] == 0


def test_the_prior(capsys, meeting):
    """By EM: the gradient often stays at its start."""
    simulated(capsys, meeting, "--model", 1)
    command = ("learn", meeting, "--from", "h.jsonl", "--what", "prior", "--json", "-q")
    code, out, _ = call(capsys, *command, "--out", "fitted")
    assert code == 0
    answer = json.loads(out)
    fits = {name: json.loads(call(capsys, *command, "--method", name)[1]) for name in ("em", "gradient")}
    assert answer["curve"] == fits["em"]["curve"] != fits["gradient"]["curve"]
    assert answer["prior"]["model 1"] > 0.8
    assert answer["curve"]
    np.testing.assert_allclose(load("fitted").prior, list(answer["prior"].values()), rtol=1e-6)


@pytest.mark.parametrize("method", ["gradient", "em"])
def test_a_teammate_becomes_one_more_model(method, capsys, meeting):
    simulated(capsys, meeting, "--model", 1)
    options = ("--steps", 30, "--method", method, "--out", "fitted", "--json", "-q")
    code, out, _ = call(capsys, "learn", meeting, "--from", "h.jsonl", *options)
    assert code == 0
    answer = json.loads(out)
    assert answer["model"] == 1  # the one that explains the histories best
    assert answer["log_likelihood"] >= answer["start_log_likelihood"]
    library = load("fitted")
    assert library.labels == ("model 0", "model 1", "learned teammate, from model 1")
    np.testing.assert_allclose(library.prior, [1 / 3] * 3, rtol=1e-6)
    assert library.members[2].states == domains.make(meeting).states
    assert library.horizon == tiny_team.HORIZON
    assert call(capsys, "evaluate", "fitted", "--agents", "random", "--trials", 4, "-q")[0] == 0


def test_a_teammate_in_place_of_its_start(capsys, meeting):
    simulated(capsys, meeting, count=10)
    options = ("--model", 0, "--by", "mate", "--steps", 5, "--replace", "--out", "fitted", "-q")
    code, out, _ = call(capsys, "learn", meeting, "--from", "h.jsonl", *options)
    assert code == 0
    assert "distance of the policy, largest" in out
    assert load("fitted").labels == ("learned teammate, from model 0", "model 1")


def test_files_can_learn_noise_and_keep_the_rest(capsys, meeting):
    from jatpo.files import write_pomdp

    write_pomdp(domains.make(meeting), "one.POMDP")
    simulated(capsys, "one.POMDP", count=20)
    options = ("--from", "h.jsonl", "--what", "noise", "--steps", 5, "--out", "fitted", "-q")
    assert call(capsys, "learn", "one.POMDP", *options)[0] == 0
    (model,) = load("fitted").members
    assert (model.to_dense().observation > 0).all()  # any reading is possible now
    code, _, err = call(capsys, "learn", "one.POMDP", "--from", "h.jsonl", "-q")
    assert code == 2
    assert "one.POMDP" in err and "teammate" in err


def test_the_same_command_goes_on(capsys, meeting, tmp_path):
    simulated(capsys, meeting)
    arguments = (
        "learn",
        meeting,
        "--from",
        "h.jsonl",
        "--what",
        "prior",
        "--method",
        "gradient",
        "--json",
        "-q",
    )
    first = json.loads(call(capsys, *arguments)[1])
    assert list((default_directory() / "learn").glob("fit-*/step-*"))
    again = json.loads(call(capsys, *arguments)[1])
    assert again == first  # the seconds, too: nothing was computed again


WRONG = {
    "nothing": ((), "no histories to learn from: give --from HISTORIES.jsonl"),
    "no file": (("--from", "gone.jsonl"), "file gone.jsonl does not exist"),
    "bad line": (("--from", "bad.jsonl"), "bad.jsonl:2: step 0 has action \"lefft\"; did you mean 'left'?"),
    "what": (
        ("--from", "h.jsonl", "--what", "noisy"),
        "no thing to learn is called 'noisy'; did you mean 'noise'?",
    ),
    "method": (("--from", "h.jsonl", "--method", "ems"), "no method is called 'ems'; did you mean 'em'?"),
    "model": (("--from", "h.jsonl", "--model", 2), "meeting has no model 2: choose from 0 to 1"),
    "prior of one": (("--from", "h.jsonl", "--what", "prior", "--model", 0), "a prior is over all models"),
    "by": (
        ("--from", "h.jsonl", "--by", "mat"),
        "no variable of the states is called 'mat'; did you mean 'mate'?",
    ),
    "both": (("--from", "h.jsonl", "--simulate", 3), "--simulate writes histories: give --out FILE.jsonl"),
    "no out": (("--simulate", 3), "--simulate writes histories: give --out FILE.jsonl"),
    "in use": (
        ("--from", "h.jsonl", "--out", "."),
        ". exists already: choose another directory or remove it",
    ),
    "true model": (
        ("--simulate", 3, "--agent", "random", "--out", "x", "--model", 5),
        "library 'meeting' has no model 5",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_one_line(name, capsys, meeting, tmp_path):
    good = '{"actions": ["left"], "observations": ["met"]}\n'
    (tmp_path / "h.jsonl").write_text(good)
    (tmp_path / "bad.jsonl").write_text(good + good.replace("left", "lefft"))
    arguments, message = WRONG[name]
    code, out, err = call(capsys, "learn", meeting, *arguments, "-q")
    assert (code, out) == (2, "")
    assert err.startswith(f"jatpo: {message}") and err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "h.jsonl"]


@pytest.mark.slow
def test_the_page_says_what_python_prints(capsys):
    """Its Python blocks run one after the other and print what their comments say."""
    page = (Path(__file__).parent.parent.parent / "docs" / "learning-python.md").read_text()
    code = "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(compile(code, "learning-python.md", "exec"), {})
    wanted = re.findall(r"^print\(.*# (True|False)$", code, re.MULTILINE)
    assert len(wanted) == 3
    assert capsys.readouterr().out.splitlines() == wanted
