"""Domains with a size, RockSample, and the sources that name them: against slow transcriptions, matched by names."""

import os
import subprocess
import sys

import numpy as np
import pytest

import jatpo
from domain_worlds import RULES, TOLERANCE, assert_same_model, same
from jatpo import domains
from jatpo.domains import pairs
from jatpo.domains.rocksample import layout
from jatpo.errors import JatpoError
from jatpo.storage import lists
from oracles.domains import gridworld, maze, rocksample
from oracles.domains.rows import Rows


@pytest.mark.parametrize("rules", RULES)
def test_two_movers_and_a_world_are_the_same_model(rules, monkeypatch):
    wanted = gridworld.transcribe(1, rules, 0.2, size=6)
    written_out = domains.make("gridworld", 1, rules, size=6)
    assert_same_model(Rows(written_out), wanted)
    monkeypatch.setattr(pairs, "LARGE", 0)
    built = domains.make("gridworld", 1, rules, size=6)
    assert built.storage == "MoversTransition"
    assert_same_model(Rows(built), wanted)
    described = domains.describe("gridworld", 1, rules, size=6)
    np.testing.assert_allclose(described.transition[3].sum(), 5 * built.num_states, rtol=1e-12)
    assert_same_model(Rows(domains.to_pomdp(described)), wanted)
    assert built.observation.num_classes == written_out.observation.num_classes
    assert domains.scene("gridworld", model=1, size=6).stage.positions["agent"].shape == (built.num_states,)


def test_goals_and_horizon_grow_with_the_size():
    library = jatpo.load("gridworld:size=9,noise=0.1")
    assert (library.name, library.horizon, library.num_models) == ("gridworld:size=9,noise=0.1", 100, 4)
    assert library.labels[0] == "goals 0,8 and 0,6"
    assert library.origins[0].overrides == {"size": 9, "noise": 0.1}
    assert jatpo.load("gridworld:3,size=9").labels == ("goals 8,8 and 2,2",)
    assert domains.get("gridworld").labels(size=5) == domains.get("gridworld").labels()
    assert jatpo.load("gridworld").horizon == 50
    assert [jatpo.load(f"pursuit-task:0{size}").horizon for size in ("", ",size=5", ",size=7")] == [
        75,
        75,
        113,
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gridworld:size=4", "size=4 does not fit the gridworld: give 5 or more"),
        ("gridworld:sise=7", "domain 'gridworld' has no parameter 'sise'; did you mean 'size'"),
        ("gridworld:size=large", "size='large' does not fit domain 'gridworld'"),
        ("gridworld:1,2", "'gridworld:1,2' names no model"),
        ("rocksample:rocks=99", "RockSample with size=7 and rocks=99 is not possible"),
        ("rocksample:half_distance=0", "half_distance=0 is not a distance"),
    ],
)
def test_parameters_in_a_name_are_checked(source, message):
    with pytest.raises(JatpoError, match=message.replace("(", r"\(")):
        jatpo.load(source)


NTU_OF_SIZE_2 = """
######S.####
######..####
##G.....G.##
##........##
S...####..##
....####..##
##..####..S.
##..####....
##G.....G.##
##........##
####S.######
####..######
"""


def test_a_maze_of_twice_the_size(monkeypatch):
    """Four cells for each cell of the map; a mark stays in one of them, and the horizon grows with the distances."""
    monkeypatch.setitem(maze.MAPS, "ntu", NTU_OF_SIZE_2)
    wanted = maze.transcribe("ntu", 2, "as_written", 0.2)
    assert_same_model(Rows(domains.make("ntu", 2, "as_written", size=2)), wanted)
    library = jatpo.load("ntu:size=2")
    assert library.horizon == 2 * jatpo.load("ntu").horizon
    assert library.labels[1] == "goals 2,2 and 8,2"
    with pytest.raises(JatpoError, match="size=0 does not fit a maze"):
        jatpo.load("ntu:size=0")


def test_rocksample_against_its_rules():
    model = domains.make("rocksample", size=3, rocks=3, half_distance=4.0)
    places = [tuple(map(int, cell)) for cell in layout(3, 3, 0)]
    wanted, reward = rocksample.transcribe(3, places, half_distance=4.0)
    found = Rows(model)
    assert sorted(found.states) == sorted(wanted.states)
    assert found.actions == wanted.actions
    assert found.observations == wanted.observations
    assert same(found.start, wanted.start)
    for x, state in enumerate(found.states):
        for a, action in enumerate(found.actions):
            assert same(found.transition(state, action), wanted.transition(state, action)), (state, action)
            assert same(found.observation(action, state), wanted.observation(action, state)), (state, action)
            assert found.rewards[x, a] == pytest.approx(reward(state, action), abs=TOLERANCE)


def test_published_sizes_of_rocksample():
    model = jatpo.load("rocksample").member(0)
    assert (model.num_states, model.num_actions, model.num_observations) == (12_545, 13, 3)
    assert model.initial.sum() == pytest.approx(1)
    assert int((np.asarray(model.initial) > 0).sum()) == 256
    assert jatpo.load("rocksample:size=3,rocks=2").horizon == 18
    from jatpo.files.sources import named_sources

    assert "rocksample" not in named_sources(["all"])
    assert "rocksample" in domains.known()


@pytest.mark.parametrize("depends", [False, True])
def test_classes_of_observations_are_found_without_padding(depends):
    """The class of every state, of rows of lengths from 1 to 40, against a dictionary of rows."""
    random = np.random.default_rng(3)
    kinds = [random.choice(40, size=random.integers(1, 40), replace=False) for _ in range(6)]
    rows = [np.bincount(kind, minlength=40) / len(kind) for kind in kinds]
    table = np.array([[rows[random.integers(6)] for _ in range(30)] for _ in range(3)])
    table = table if depends else np.repeat(table[:1], 3, axis=0)
    a, y, z = np.nonzero(table)
    found = lists.observation_lists((a, y, z, table[a, y, z]), 3, 30, np.dtype(np.float32))
    seen: dict[bytes, int] = {}
    wanted = [[seen.setdefault(row.tobytes(), len(seen)) for row in own] for own in table]
    np.testing.assert_array_equal(found["kind"], wanted if depends else wanted[:1])
    for number, (symbols, p) in enumerate(zip(found["symbol"], found["probability"], strict=True)):
        row = np.zeros(40)
        np.add.at(row, symbols, p)
        place = np.argwhere(np.array(wanted) == number)[0]
        np.testing.assert_allclose(row, table[tuple(place)], rtol=1e-6)


@pytest.mark.slow
def test_a_million_states_in_little_memory():
    code = (
        "import resource, jatpo\n"
        "library = jatpo.load('gridworld:size=32'); library.models\n"
        "print(library.num_states, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=300, check=True
    )
    states, megabytes = map(int, done.stdout.split())
    assert states == 1_048_577
    assert megabytes < 2000
