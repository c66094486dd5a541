"""The solver for large models: bounds on models with a known value, vectors that are policies' values, its default."""

import jax
import numpy as np
import pytest

from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import SOLVERS, Request, Status, Stop, choose, solve_models
from jatpo.solve.defaults import LARGE_STATES
from oracles import pomdp_exact
from random_models import build
from small_pomdps import tiger
from solution_checks import parts_of


def solved(model, stages, **options):
    (found,) = solve_models(
        [model], SOLVERS.get("sparse")(**options), Stop(stages=stages), key=jax.random.key(0)
    )
    return found


def test_the_interval_holds_and_the_policy_gets_near():
    model = build(tiger(discount=0.5), "blocked")
    low, high = pomdp_exact.interval(*parts_of(model), np.asarray(model.initial, float), 7)
    found = solved(model, 8, steps=20, capacity=64, support=2)
    assert found.lower <= high
    assert found.upper >= low
    assert found.lower >= low - 0.05
    assert found.status is Status.STAGES_DONE


@pytest.mark.slow
def test_points_that_leave_states_out_still_give_lower_bounds():
    """With one state a point is always certain of it, and what is made of that must not be believed."""
    model = build(tiger(discount=0.5), "blocked")
    _, high = pomdp_exact.interval(*parts_of(model), np.asarray(model.initial, float), 7)
    found = solved(model, 8, steps=20, capacity=64, support=1)
    for weight in np.linspace(0, 1, 11):
        belief = np.array([weight, 1 - weight])
        _, high = pomdp_exact.interval(*parts_of(model), belief, 7)
        assert float(found.value(belief.astype(np.float32))) <= high + 1e-4


def test_large_models_are_solved_by_it():
    def chosen(num_states, **request):
        return choose(Request(**request), num_models=1, horizon=50, num_states=num_states)

    assert chosen(LARGE_STATES).solver.name != "sparse"
    large = chosen(LARGE_STATES + 1)
    assert (large.solver.name, large.stop.seconds) == ("sparse", 60.0)
    assert chosen(LARGE_STATES + 1, solver="qmdp").solver.name == "qmdp"


@pytest.mark.slow
def test_room_runs_out_and_vectors_that_are_used_stay():
    model = build(tiger(discount=0.5), "blocked")
    few = solved(model, 12, steps=20, capacity=4, support=2)
    assert few.num_vectors <= 4
    assert few.lower >= solved(model, 1, steps=1, capacity=4, support=2).lower


@pytest.mark.slow
def test_a_hundred_thousand_states():
    """Successors within 50 states, so that beliefs stay local: one round gives an interval."""
    random = np.random.default_rng(0)
    states, actions, following, readings = 100_000, 5, 5, 20
    a, x, _ = np.unravel_index(np.arange(actions * states * following), (actions, states, following))
    y = (x + random.integers(-50, 51, size=len(x))) % states
    p = random.random(len(x)) + 0.1
    p /= np.repeat(p.reshape(-1, following).sum(axis=1), following)
    sensor = random.dirichlet(np.ones(readings), size=40)[random.integers(40, size=states)]
    rows = np.tile(np.repeat(np.arange(states), readings), actions)
    where = (
        np.repeat(np.arange(actions), states * readings),
        rows,
        np.tile(np.arange(readings), actions * states),
    )
    initial = np.zeros(states)
    initial[500:510] = 0.1
    model = POMDP.from_sparse(
        (a, x, y, p),
        (*where, np.tile(sensor.ravel(), actions)),
        random.normal(size=(states, actions)),
        initial,
        0.95,
    )
    library = Library.from_models([model])
    found = solved(library.member(0), 1, steps=20)
    assert found.lower < found.upper
    assert found.num_vectors > actions
