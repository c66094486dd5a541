"""Solutions and runs on disk: kept whole, trusted only if whole, and a killed run is resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import jax
import numpy as np
import pytest

from jatpo import disk
from jatpo.events import Event
from jatpo.solve import QMDP, Anytime, Choice, Perseus, Stop, ValueIteration, cache
from jatpo.solve.backup import TILE
from jatpo.solve.cache import Cache, entry_key
from jatpo.solve.problem import prepare
from random_models import build, example
from small_pomdps import ring, tiger
from solution_checks import assert_same
from solving import changed, chosen, in_class, solve, states_of

PERSEUS = chosen(Perseus, beliefs=100, stages=12, steps=30, batch=16)
ANYTIME = chosen(Anytime, stages=6, walkers=16, steps=20, keep=128)
SOLVERS = {"perseus": PERSEUS, "anytime": ANYTIME}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A directory with a finished solution, and the solution."""
    directory = tmp_path_factory.mktemp("finished")
    return directory, solve([build(tiger())], PERSEUS, jax.random.key(0), cache=directory)[0]


def key_of(model, choice: Choice, seed: int = 0) -> str:
    return entry_key(model.exact_hash(), *choice, seed)


def names_in(directory: Path) -> list[str]:
    """All that an entry holds, drafts too."""
    return sorted(path.name for entry in directory.iterdir() for path in entry.iterdir())


# What is kept


def test_a_solution_comes_back(finished):
    directory, wanted = finished
    assert names_in(directory) == ["solution"]
    found = Cache(directory).load_solution(key_of(build(tiger()), PERSEUS))
    assert_same(found, wanted)
    assert found.seconds == wanted.seconds
    assert found.policy.vectors.dtype == wanted.policy.vectors.dtype
    assert found.policy.actions.dtype == np.int32
    assert Cache(directory).load_solution("0" * 24) is None
    assert Cache(directory / "nowhere").load_solution("0" * 24) is None


def test_exact_solutions_are_kept_too(tmp_path):
    model, settings = build(tiger()), chosen(ValueIteration)
    wanted = solve([model], settings, jax.random.key(0), cache=tmp_path)[0]
    assert_same(Cache(tmp_path).load_solution(key_of(model, settings)), wanted)


@pytest.mark.parametrize("solver", ["perseus", pytest.param("anytime", marks=pytest.mark.slow)])
def test_a_run_comes_back(solver, tmp_path, x64):
    """Its state after a stage, bit for bit and with the same room; older states are gone."""
    problem, key = prepare([build(tiger())])[0], jax.random.key(0)
    choice = in_class(changed(SOLVERS[solver], capacity=3 * TILE), compiled=True)  # NumPy needs no room
    states, kept = states_of(problem, choice, key), Cache(tmp_path)
    for state in states[1:4]:
        kept.save_run("somewhere", state.stages, 2.5, choice.solver.pack(state))
    assert names_in(tmp_path) == [f"run-{states[3].stages:06d}"]
    arrays, seconds = kept.load_run("somewhere")
    found, count = choice.solver.unpack(problem, key, arrays), int(states[3].vectors.count)
    assert seconds == 2.5
    for each in ("alpha", "count"):
        np.testing.assert_array_equal(getattr(found.vectors, each), getattr(states[3].vectors, each))
    np.testing.assert_array_equal(found.vectors.action[:count], states[3].vectors.action[:count])
    jax.tree.map(np.testing.assert_array_equal, found[1:], states[3][1:])
    assert found.vectors.alpha.dtype == found.points.beliefs.dtype == np.float64
    assert kept.load_run("elsewhere") is None


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


def test_settings_stops_and_seeds_change_the_key():
    """Every option by itself, every limit, and the kind of solver."""
    choices = [PERSEUS, ANYTIME, chosen(QMDP), chosen(ValueIteration)]
    bases = (PERSEUS, changed(ANYTIME, off_policy=0, exploration=0), chosen(QMDP))
    choices += [
        changed(each, **{name: value + 1})
        for each in bases
        for name, value in (asdict(each.solver) | asdict(each.stop)).items()
    ]
    keys = [key_of(build(tiger()), each, seed) for each in choices for seed in (0, 1)]
    assert len(set(keys)) == len(keys) > 30
    assert all(len(key) == 24 and set(key) <= set("0123456789abcdef") for key in keys)


def test_numbers_that_are_equal_give_one_key():
    first, second = (
        Choice(Anytime(off_policy=0), Stop(seconds=10)),
        Choice(Anytime(off_policy=0.0), Stop(10.0)),
    )
    assert key_of(build(tiger()), first) == key_of(build(tiger()), second)


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
    events: list[Event] = []
    found = Cache(directory, events.append).load_solution(key)
    return found, [event.note for event in events]


@pytest.mark.parametrize("harm", [_truncate, _flip, _delete])
def test_damage_to_any_file(harm, finished, tmp_path, capfd):
    """Is found, reports in one line with the name, and put aside; nothing else is printed, least of all a traceback."""
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
        assert _note_reader(directory, key) == (None, [])  # reports once
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
    assert found is None and len(notes) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "FORMAT", cache.FORMAT + 1)
        Cache(tmp_path).save_solution("e" * 24, wanted)
    found, notes = _note_reader(tmp_path, "e" * 24)
    assert found is None and len(notes) == 1


def test_what_is_damaged_is_computed_anew(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    key = next(path.name for path in finished[0].iterdir())
    _flip(tmp_path / "copy" / key / "solution", 2)
    events: list[Event] = []
    directory = tmp_path / "copy"
    found = solve([build(tiger())], PERSEUS, jax.random.key(0), cache=directory, on_event=events.append)[0]
    assert_same(found, finished[1])
    assert len([event for event in events if event.note]) == 1
    names = names_in(tmp_path / "copy")
    assert len(names) == 2 and names[0] == "solution" and names[1].endswith(".damaged")
    assert_same(Cache(tmp_path / "copy").load_solution(key), finished[1])


@pytest.mark.parametrize("harm", [_truncate, _flip, _delete])
def test_a_damaged_run_begins_anew(harm, tmp_path):
    """And one that is whole is resumed; the result is the same each time."""
    model, key = build(tiger()), jax.random.key(0)
    state = states_of(prepare([model])[0], PERSEUS, key)[5]
    entry = key_of(model, PERSEUS)
    for damaged in (False, True):
        directory, events = tmp_path / str(damaged), []
        Cache(directory).save_run(entry, 5, 1.0, PERSEUS.solver.pack(state))
        if damaged:
            harm(directory / entry / "run-000005", 3)
        found = solve([model], PERSEUS, key, cache=directory, on_event=events.append)[0]
        stages = [event.figures["stage"] for event in events if not event.note]
        assert stages[0] == (1 if damaged else 6)
        assert len([event for event in events if event.note]) == damaged
        assert_same(found, solve([model], PERSEUS, key)[0])
    assert not [name for name in names_in(tmp_path / "False") if name.startswith("run-")]


def test_a_state_that_another_process_drops_is_no_damage(tmp_path, monkeypatch):
    """It has continued and removes what this one was about to read."""
    state = states_of(prepare([build(tiger())])[0], PERSEUS, jax.random.key(0))[3]
    events: list[Event] = []
    kept = Cache(tmp_path, events.append)
    kept.save_run("somewhere", 3, 1.0, PERSEUS.solver.pack(state))
    monkeypatch.setattr(disk, "_file_digests", lambda path: shutil.rmtree(path) or {})
    assert kept.load_run("somewhere") is None
    assert not events and names_in(tmp_path) == []


def test_an_interrupted_run_is_kept(tmp_path):
    """Ctrl-C leaves the last state on disk, says so, and the next call resumes it."""
    model, key, events = build(tiger()), jax.random.key(0), []

    def interrupt(event: Event) -> None:
        events.append(event)
        if event.figures.get("stage") == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve([model], PERSEUS, key, cache=tmp_path, on_event=interrupt)
    assert names_in(tmp_path) == ["run-000004"] and events[-1].note
    reports: list[dict] = []
    found = solve([model], PERSEUS, key, reports, cache=tmp_path)[0]
    assert reports[0]["stage"] == 5
    assert_same(found, solve([model], PERSEUS, key)[0])


# Killed


CHILD = """
import json, os, signal, sys
import jax
from jatpo.solve import SOLVERS, Stop, solve_models
sys.path.insert(0, os.environ["TESTS"])
from random_models import build
from small_pomdps import ring

solver, directory, how = sys.argv[1:]
options, limits = json.loads(os.environ["SETTINGS"])
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
rename = os.rename

def dying(source, target):
    # the second state is written but has not got its name
    if str(target).endswith("run-000002"):
        kill()
    rename(source, target)

notes = []

def progress(event):
    if event.note:
        notes.append(event.note)
        return
    stage = event.figures["stage"] - 1  # the state of the one before is on disk
    print(stage, flush=True)
    if how == "between stages" and stage == 3:
        kill()

if how == "while saving":
    os.rename = dying
key = jax.random.key(7)
chosen = SOLVERS.get(solver)(**options), Stop(**limits)
solve_models([build(ring())], *chosen, key=key, cache=directory, on_event=progress, save_every=0.0)
print(json.dumps(notes))
"""


def start(solver: str, directory: Path, how: str = "never") -> subprocess.Popen:
    """A process that solves `ring` with seed 7 into `directory` and saves after every stage."""
    settings = asdict(SOLVERS[solver].solver), asdict(SOLVERS[solver].stop)
    environment = {
        **os.environ,
        "TESTS": str(Path(__file__).parent.parent / "helpers"),
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
def test_a_killed_run_is_resumed(solver, how, resumed, tmp_path):
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
    events: list[Event] = []
    key = jax.random.key(7)
    found = solve([build(ring())], SOLVERS[solver], key, cache=tmp_path, on_event=events.append)[0]
    assert not [event for event in events if event.note]
    first = events[0].figures["stage"] - 1
    assert first == resumed if resumed else first >= 1
    assert_same(found, solve([build(ring())], SOLVERS[solver], key)[0])
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
    found = Cache(tmp_path).load_solution(key_of(build(ring()), PERSEUS, 7))
    assert_same(found, solve([build(ring())], PERSEUS, jax.random.key(7))[0])
