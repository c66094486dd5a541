"""A library with what was solved for it: on demand, with bounds, statuses, notes and digests; agents compared."""

import jax
import numpy as np
import pytest

import jatpo
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import ATPO, Bayes, Informed, Random
from jatpo.evaluate.solved import PROVIDERS, Solved, solve_library
from jatpo.events import Event
from jatpo.library import Library
from jatpo.solve import Perseus, Status, Stop
from random_models import build
from small_pomdps import tiger


@pytest.fixture
def library():
    """Two tigers, one of which is heard better."""
    one = tiger()
    heard = one.observation.copy()
    heard[one.observation == one.observation.max()] = 0.95
    heard[np.isclose(one.observation, 1 - one.observation.max())] = 0.05
    models = [build(one), build(one._replace(observation=heard / heard.sum(axis=2, keepdims=True)))]
    return Library.from_models(models, name="tigers", labels=["faint", "loud"], horizon=6)


def test_what_is_solved_and_what_is_added_on_demand(library, tmp_path):
    told: list[Event] = []
    options = {"key": jax.random.key(0), "stop": Stop(stages=4), "cache": tmp_path, "on_event": told.append}
    solved = solve_library(library, Perseus(beliefs=40, steps=10), **options)
    assert set(solved) == {"policies"} and set(solved.bounds) == set(solved.statuses) == {"faint", "loud"}
    for lower, upper in solved.bounds.values():
        assert lower <= upper + 1e-4
    assert not solved.notes
    trials = jatpo.rollout(jax.random.key(0), ATPO(), jatpo.Scenario(library), solved, trials=8)
    assert trials.returns.shape == (8,)
    assert solved["q"].shape == (2, library.num_states, library.num_actions)
    assert "joint" in solved and set(solved) == {"policies", "q"}
    digest, count = solved.digest("policies"), len(told)
    again = solve_library(library, Perseus(beliefs=40, steps=10), **options)
    assert again.digest("policies") == digest and len(told) == count  # loaded
    assert len(repr(solved).splitlines()) <= 10


def test_a_policy_that_ran_out_of_room_is_reported(library):
    told: list[Event] = []
    small = Perseus(beliefs=40, steps=10, capacity=2)
    solved = solve_library(library, small, key=jax.random.key(0), stop=Stop(stages=6), on_event=told.append)
    full = [label for label, status in solved.statuses.items() if status is Status.CAPACITY_REACHED]
    assert full
    assert len(solved.notes) == len(full)
    assert [event.note for event in told if event.note]


def test_a_solver_without_a_stop_stops_by_a_limit_that_it_honours(library):
    solved = solve_library(library, Perseus(beliefs=40, steps=10), key=jax.random.key(0))
    assert set(solved.statuses.values()) <= {Status.CONVERGED, Status.STAGES_DONE}


def test_what_nobody_solves_is_refused(library):
    with pytest.raises(JatpoError, match=r"tigers.*policies"):
        Solved(library)["policies"]
    with pytest.raises(JatpoError, match=r"'bayes'.*joint"):
        jatpo.rollout(jax.random.key(0), Bayes(), jatpo.Scenario(library), Solved(library), trials=1)
    with pytest.raises(JatpoError, match="polices"):
        Solved(library)["polices"]


def test_a_provider_of_ones_own(library):
    with PROVIDERS.restored():
        PROVIDERS.add("sizes", lambda solved: np.asarray(solved.library.state_mask.sum(axis=1)))
        solved = solve_library(library, key=jax.random.key(0), stop=Stop(seconds=0.2))
        np.testing.assert_array_equal(solved["sizes"], [library.num_states] * 2)


def test_the_quickstart(library):
    solved = jatpo.solve_library(library, key=jax.random.key(0), stop=jatpo.Stop(seconds=0.2))
    scenario = jatpo.Scenario(library)
    agents = (ATPO(), Informed(), Random())
    trials = {a.name: jatpo.rollout(jax.random.key(1), a, scenario, solved, trials=50) for a in agents}
    table = jatpo.compare(trials)
    rows = {row["agent"]: row for row in table.rows}
    assert rows["atpo"]["minus"] == 0
    difference = trials["perseus"].returns.astype(float) - trials["atpo"].returns
    assert rows["perseus"]["minus"] == pytest.approx(difference.mean(), abs=1e-4)
    assert "minus atpo" in str(table)
    other = jatpo.rollout(jax.random.key(2), Random(), scenario, solved, trials=50)
    with pytest.raises(JatpoError, match="'random'"):
        jatpo.compare(trials | {"random": other})
    player = jatpo.agent("atpo", solved)
    player.reset()
    assert 0 <= player.act() < library.num_actions
