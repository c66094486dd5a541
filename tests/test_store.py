"""Solutions and runs on disk: kept whole, trusted only if whole, and a killed run goes on as if nothing had been."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np
import pytest

from jatpo.solve import (
    AnytimeSettings,
    ExactSettings,
    PerseusSettings,
    driver,
    small,
    solve,
    solve_library,
    store,
)
from jatpo.solve.backup import TILE
from jatpo.solve.problem import prepare
from jatpo.solve.store import Store, entry_key
from random_models import build, example
from small_pomdps import ring, tiger
from solution_checks import assert_same

perseus = importlib.import_module("jatpo.solve.perseus")
PERSEUS = PerseusSettings(beliefs=100, stages=12, steps=30, batch=16)
ANYTIME = AnytimeSettings(seconds=0, gap=0, stages=6, walkers=16, steps=20, keep=128)
SOLVERS = {"perseus": PERSEUS, "anytime": ANYTIME}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A directory with a finished solution, and the solution."""
    directory = tmp_path_factory.mktemp("finished")
    return directory, solve_library([build(tiger())], PERSEUS, 0, directory)[0]


def key_of(model, settings, seed: int = 0) -> str:
    return driver._entry(model.content_hash(), settings, seed)


def names_in(directory: Path) -> list[str]:
    """All that an entry holds, drafts too."""
    return sorted(path.name for entry in directory.iterdir() for path in entry.iterdir())


# What is kept


def test_a_solution_comes_back(finished):
    directory, wanted = finished
    assert names_in(directory) == ["solution"]
    found = Store(directory).load_solution(key_of(build(tiger()), PERSEUS))
    assert_same(found, wanted)
    assert found.seconds == wanted.seconds
    assert found.policy.vectors.dtype == wanted.policy.vectors.dtype
    assert found.policy.actions.dtype == np.int32
    assert Store(directory).load_solution("0" * 24) is None
    assert Store(directory / "nowhere").load_solution("0" * 24) is None


def test_exact_solutions_are_kept_too(tmp_path):
    model, settings = build(tiger()), ExactSettings("value-iteration")
    wanted = solve_library([model], settings, 0, tmp_path)[0]
    assert_same(Store(tmp_path).load_solution(key_of(model, settings)), wanted)


@pytest.mark.parametrize("solver", ["perseus", pytest.param("anytime", marks=pytest.mark.slow)])
def test_a_run_comes_back(solver, tmp_path, x64, monkeypatch):
    """Its state after a stage, bit for bit and with the same room; older states are gone."""
    monkeypatch.setattr(small, "LARGEST", 0)  # what is small needs no room
    runs = states_of_a_run(build(tiger()), replace(SOLVERS[solver], capacity=3 * TILE))
    kept = Store(tmp_path)
    for run in runs[1:4]:
        kept.save_run("somewhere", run, with_beliefs=True)
    assert names_in(tmp_path) == [f"run-{runs[3].stages:06d}"]
    found, count = kept.load_run("somewhere"), int(runs[3].vectors.count)
    for each in ("alpha", "count"):
        np.testing.assert_array_equal(getattr(found.vectors, each), getattr(runs[3].vectors, each))
    np.testing.assert_array_equal(found.vectors.action[:count], runs[3].vectors.action[:count])
    jax.tree.map(np.testing.assert_array_equal, found[1:], runs[3][1:])
    assert found.vectors.alpha.dtype == found.beliefs.dtype == np.float64
    assert kept.load_run("elsewhere") is None


def states_of_a_run(model, settings) -> list:
    """All states that a solve passes through."""
    problem, key = prepare([model])[0], jax.random.key(0)
    if isinstance(settings, PerseusSettings):
        begin, advance = perseus.begin, perseus.advance
    else:
        upper = driver.upper_vectors(problem)
        begin = driver.anytime.begin

        def advance(*state):
            return driver.anytime.advance(*state, upper, 1e9)

    runs = [begin(problem, settings, key)]
    while not runs[-1].stopped:
        runs.append(advance(problem, settings, key, runs[-1]))
    return runs


# Keys


def test_any_number_of_a_model_changes_its_key():
    truth = example("hard zeros")
    changed = [truth, truth._replace(discount=0.91)]
    for part, rows in (("transition", 2), ("observation", 2), ("initial", 0)):
        array = getattr(truth, part).copy()
        row = next(row for row in np.ndindex(array.shape[:rows]) if np.sum(array[row] > 0.1) > 1)
        first, second = np.flatnonzero(array[row] > 0.1)[:2]
        array[row][first] += 1e-3
        array[row][second] -= 1e-3
        changed.append(truth._replace(**{part: array}))
    for at in np.ndindex(truth.reward.shape):
        reward = truth.reward.copy()
        reward[at] += 1e-3
        changed.append(truth._replace(reward=reward))
    keys = [key_of(build(each), PERSEUS) for each in changed]
    assert len(set(keys)) == len(keys) == 20
    alike = [build(truth, "blocked"), build(truth, states=list("abcde"))]
    assert {key_of(model, PERSEUS) for model in alike} == {keys[0]}


def test_settings_and_seeds_change_the_key():
    """Every setting by itself, and the kind of solver."""
    kinds = [PERSEUS, ANYTIME, ExactSettings()]
    different = [
        replace(each, **{name: "value-iteration" if isinstance(value, str) else value + 1})
        for each in (PERSEUS, replace(ANYTIME, off_policy=0, stray=0), ExactSettings())
        for name, value in asdict(each).items()
    ]
    keys = [key_of(build(tiger()), each, seed) for each in (*kinds, *different) for seed in (0, 1)]
    assert len(set(keys)) == len(keys) > 30
    assert all(len(key) == 24 and set(key) <= set("0123456789abcdef") for key in keys)


def test_the_order_of_settings_does_not_change_the_key():
    assert entry_key("m", {"a": 1, "b": 2}, 0) == entry_key("m", {"b": 2, "a": 1}, 0)
    assert entry_key("m", {"a": 1}, 23) != entry_key("m", {"a": 12}, 3)


# Damage


def _files(checkpoint: Path) -> list[Path]:
    return sorted(path for path in checkpoint.rglob("*") if path.is_file())


def _truncate(checkpoint: Path, number: int) -> None:
    file = _files(checkpoint)[number]
    file.write_bytes(file.read_bytes()[:-1])


def _flip(checkpoint: Path, number: int) -> None:
    file = _files(checkpoint)[number]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(bytes(content))


def _delete(checkpoint: Path, number: int) -> None:
    _files(checkpoint)[number].unlink()


def _empty(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()


def _replace_by_a_file(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.write_text("not a checkpoint")


def _note_reader(directory: Path, key: str):
    notes: list[str] = []
    return Store(directory, notes.append).load_solution(key), notes


@pytest.mark.parametrize("harm", [_truncate, _flip, _delete])
def test_damage_to_any_file(harm, finished, tmp_path, capfd):
    """Is found, told in one line with the name, and put aside; nothing else is printed, least of all a traceback."""
    key = next(path.name for path in finished[0].iterdir())
    count = len(_files(finished[0]))
    assert count > 4
    for number in range(count):
        directory = tmp_path / str(number)
        shutil.copytree(finished[0], directory)
        harm(directory / key / "solution", number)
        found, notes = _note_reader(directory, key)
        assert found is None and len(notes) == 1
        aside = [name for name in names_in(directory) if name.endswith(".damaged")]
        assert names_in(directory) == aside and len(aside) == 1
        assert str(directory / key / "solution") in notes[0] and aside[0] in notes[0] and "\n" not in notes[0]
        assert _note_reader(directory, key) == (None, [])  # told once
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""


@pytest.mark.parametrize("harm", [_empty, _replace_by_a_file])
def test_something_else_in_its_place(harm, finished, tmp_path):
    key = next(path.name for path in finished[0].iterdir())
    shutil.copytree(finished[0], tmp_path / "copy")
    harm(tmp_path / "copy" / key / "solution")
    found, notes = _note_reader(tmp_path / "copy", key)
    assert found is None and len(notes) == 1 and "set aside" in notes[0]


def test_a_foreign_checkpoint(finished, tmp_path):
    """Whole, but made for something else: another key, or another version of the format."""
    directory, wanted = finished
    key = next(path.name for path in directory.iterdir())
    shutil.copytree(directory / key, tmp_path / ("f" * 24))
    found, notes = _note_reader(tmp_path, "f" * 24)
    assert found is None and "another model, other settings or another version" in notes[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "FORMAT", store.FORMAT + 1)
        Store(tmp_path).save_solution("e" * 24, wanted)
    found, notes = _note_reader(tmp_path, "e" * 24)
    assert found is None and "another model, other settings or another version" in notes[0]


def test_what_is_damaged_is_computed_anew(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    key = next(path.name for path in finished[0].iterdir())
    _flip(tmp_path / "copy" / key / "solution", 2)
    notes: list[str] = []
    found = solve_library([build(tiger())], PERSEUS, 0, tmp_path / "copy", note=notes.append)[0]
    assert_same(found, finished[1])
    assert len(notes) == 1
    names = names_in(tmp_path / "copy")
    assert len(names) == 2 and names[0] == "solution" and names[1].endswith(".damaged")
    assert_same(Store(tmp_path / "copy").load_solution(key), finished[1])


@pytest.mark.parametrize("harm", [_truncate, _flip, _delete])
def test_a_damaged_run_begins_anew(harm, tmp_path, monkeypatch):
    """And one that is whole goes on; the result is the same each time."""
    model, settings, told, notes = build(tiger()), PERSEUS, [], []
    runs = states_of_a_run(model, settings)
    key = key_of(model, settings)
    for damaged in (False, True):
        directory = tmp_path / str(damaged)
        Store(directory).save_run(key, runs[5], with_beliefs=False)
        if damaged:
            harm(directory / key / "run-000005", 3)
        told.clear()
        found = solve_library(
            [model], settings, 0, directory, lambda stage, **_: told.append(stage), note=notes.append
        )[0]
        assert told[0] == (0 if damaged else 5) and len(notes) == damaged
        assert_same(found, solve([model], settings, jax.random.key(0))[0])
    assert not [name for name in names_in(tmp_path / "False") if name.startswith("run-")]


def test_a_state_that_another_process_drops_is_no_damage(tmp_path, monkeypatch):
    """It goes on and removes what this one was about to read."""
    run = states_of_a_run(build(tiger()), PERSEUS)[3]
    notes: list[str] = []
    kept = Store(tmp_path, notes.append)
    kept.save_run("somewhere", run, with_beliefs=True)
    monkeypatch.setattr(store, "_digests", lambda path: kept._drop(path) or {})
    assert kept.load_run("somewhere") is None
    assert not notes and names_in(tmp_path) == []


# Killed


CHILD = """
import json, os, signal, sys
import jax
from jatpo.solve import AnytimeSettings, PerseusSettings, driver, solve_library, store
sys.path.insert(0, os.environ["TESTS"])
from random_models import build
from small_pomdps import ring

solver, directory, how = sys.argv[1:]
kind = {"perseus": PerseusSettings, "anytime": AnytimeSettings}[solver]
settings = kind(**json.loads(os.environ["SETTINGS"]))
driver.SAVE_EVERY = 0.0
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
rename = os.rename

def dying(source, target):
    # the second state is written but has not got its name
    if str(target).endswith("run-000002"):
        kill()
    rename(source, target)

def progress(stage, **_):
    print(stage, flush=True)
    if how == "between stages" and stage == 3:
        kill()

if how == "while saving":
    os.rename = dying
notes = []
solve_library([build(ring())], settings, 7, directory, progress, note=notes.append)
print(json.dumps(notes))
"""


def start(solver: str, directory: Path, how: str = "never") -> subprocess.Popen:
    """A process that solves `ring` with seed 7 into `directory` and saves after every stage."""
    settings = asdict(SOLVERS[solver])
    environment = {
        **os.environ,
        "TESTS": str(Path(__file__).parent),
        "SETTINGS": json.dumps(settings),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, solver, str(directory), how],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.bits
@pytest.mark.parametrize(
    ("solver", "how", "resumed"),
    [
        ("perseus", "while saving", 1),
        pytest.param("anytime", "between stages", 3, marks=pytest.mark.slow),
        ("anytime", "from outside", None),
    ],
)
def test_a_killed_run_goes_on(solver, how, resumed, tmp_path):
    """Not from the start, and to exactly what an uninterrupted run gives."""
    child = start(solver, tmp_path, how)
    if how == "from outside":
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= 2:
                child.kill()
                break
    output, errors = child.communicate()
    assert child.returncode == -signal.SIGKILL, output + errors
    assert not [name for name in names_in(tmp_path) if name == "solution"]
    told, notes = [], []
    found = solve_library(
        [build(ring())],
        SOLVERS[solver],
        7,
        tmp_path,
        lambda stage, **_: told.append(stage),
        note=notes.append,
    )[0]
    assert not notes
    assert told[0] == resumed if resumed else told[0] >= 1
    assert_same(found, solve_library([build(ring())], SOLVERS[solver], 7)[0])
    assert not [name for name in names_in(tmp_path) if name.startswith("run-")]


def test_two_processes_in_one_directory(tmp_path):
    """Both finish without a word of damage, and what they leave is whole."""
    children = [start("perseus", tmp_path) for _ in range(2)]
    for child in children:
        output, errors = child.communicate()
        assert child.returncode == 0, errors
        assert output.splitlines()[-1] == "[]"
        assert "Traceback" not in errors
    assert names_in(tmp_path) == ["solution"]
    found = Store(tmp_path).load_solution(key_of(build(ring()), PERSEUS, 7))
    assert_same(found, solve_library([build(ring())], PERSEUS, 7)[0])
