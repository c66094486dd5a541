"""The upper bound at visited beliefs: above the optimum at every entry, and found again by its marks."""

import jax
import numpy as np
import pytest

from jatpo.solve import Anytime, upper_bound
from jatpo.solve.problem import prepare
from oracles import pomdp_exact
from random_models import build
from small_pomdps import corridor, tiger, tiny
from solution_checks import parts_of

SOLVER = Anytime(walkers=16, steps=8, keep=64)


def rounds(model, count: int, solver: Anytime = SOLVER):
    """The problem, its fast informed bound, and the run after some rounds with all visited beliefs."""
    [problem] = prepare([model])
    key, visited = jax.random.key(0), []
    run = solver.init(problem, key)
    for _ in range(count):
        run, _ = solver.step(problem, key, run)
        visited.append(np.asarray(run.points.beliefs, float))
    return problem, problem.upper_vectors, run, np.concatenate(visited, axis=1)


@pytest.mark.parametrize(
    ("seed", "storage"), [(0, "dense"), (1, "blocked"), pytest.param(2, "blocked", marks=pytest.mark.slow)]
)
def test_no_entry_is_below_the_optimum(seed, storage):
    """Where a belief is found again: at least what a tree of depth 5 proves attainable, at most the informed bound."""
    model = build(tiny(seed, discount=0.6), storage)
    problem, guide, run, beliefs = rounds(model, 3)
    table = run.table
    places = upper_bound.find(table, upper_bound.projections(problem).dot(beliefs), np)
    known = np.flatnonzero(table.value[places] < np.inf)
    assert len(known) > 10
    informed = np.max(np.asarray(guide, float).dot(beliefs), axis=0)
    tighter = 0
    for column in known[:: max(1, len(known) // 12)]:
        low, _ = pomdp_exact.interval(*parts_of(model), beliefs[:, column], 5)
        value = table.value[places[column]]
        assert low - 1e-4 <= value <= informed[column] + 1e-4
        tighter += value < informed[column] - 1e-3
    assert tighter


def test_the_oracle_one_step(x64):
    """U of a belief whose successors are not in the table is one step of look-ahead on the informed bound."""
    model = build(tiger())
    [problem] = prepare([model])
    guide = np.asarray(problem.upper_vectors)
    transition, observation, reward, discount = parts_of(model)
    belief = np.array([0.3, 0.7])
    visited = np.asarray(belief)[None, :, None]
    table = upper_bound.empty(np.dtype(float))
    _, found = upper_bound.tighten(problem, guide, table, visited, np.full((1, 1), -1e3), 0.0)
    q = []
    for action in range(3):
        after = belief @ transition[action]
        value = sum(np.max(guide @ (after * observation[action][:, z])) for z in range(2))
        q.append(belief @ reward[:, action] + discount * value)
    assert found[0, 0] == pytest.approx(min(max(q), np.max(guide @ belief)), abs=1e-9)


def test_marks_tell_beliefs_apart():
    """Every entry is found at its own marks; a belief that is a little different is not there."""
    model = build(tiny(1))
    problem, _, run, beliefs = rounds(model, 2)
    table, rows = run.table, upper_bound.projections(problem)
    used = np.flatnonzero(table.value < np.inf)
    assert len(used) and np.all(np.diff(table.marks[0, used]) >= 0)
    again = upper_bound.find(table, table.marks[:, used], np)
    np.testing.assert_allclose(table.marks[:, again], table.marks[:, used], atol=upper_bound.CLOSE)
    traced = np.asarray(jax.jit(upper_bound.find)(table, table.marks[:, used]))
    np.testing.assert_array_equal(traced, again)
    moved = 0.99 * beliefs + 0.01 * np.roll(beliefs, 1, axis=0)
    different = np.abs(moved - beliefs).max(axis=0) > 1e-3
    assert different.any()
    places = upper_bound.find(table, rows.dot(moved[:, different]), np)
    near = np.abs(table.marks[:, places] - rows.dot(moved[:, different])).max(axis=0)
    assert np.all((table.value[places] == np.inf) | (near <= upper_bound.CLOSE))


class FewEntries(Anytime):
    table = 9


def test_a_full_table_keeps_what_it_has():
    _, _, run, _ = rounds(build(tiny(2)), 3, FewEntries(**vars(SOLVER)))
    assert run.table.value.shape == (9,) and np.sum(np.isfinite(run.table.value)) == 8
    assert run.lower <= run.search.upper


def test_marks_do_not_depend_on_the_library_around_a_model():
    small, large = build(tiny(1)), build(corridor(9, signs=2))
    alone, among = (upper_bound.projections(prepare(models)[0]) for models in ([small], [small, large]))
    size = alone.shape[1]
    assert among.shape[1] > size
    np.testing.assert_array_equal(among[:, :size], alone)
    assert not among[:, size:].any()
