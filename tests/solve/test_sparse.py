"""The solver for large models: bounds on models with a known value, vectors that are policies' values, its default."""

import jax
import numpy as np
import pytest

from jatpo.beliefs import Dense, Support
from jatpo.bench.local_family import local_model
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
    """Beliefs stay local: one round gives an interval, by walks whose beliefs are lists."""
    model = local_model(100_000)
    assert SOLVERS.get("sparse")().representation(model) == Support(512)
    found = solved(model, 1, steps=20)
    blind = solved(model, 1, steps=1)
    assert blind.lower <= found.lower < found.upper
    assert found.num_vectors > model.num_actions


def test_walks_hold_their_beliefs_as_lists_where_these_are_short():
    chosen = SOLVERS.get("sparse")(support=50).representation
    assert chosen(local_model(1000)) == Support(50)
    assert chosen(local_model(400)) == Dense()  # as many states as a list would save
    wide = local_model(1000)
    assert chosen(wide.replace(initial=np.full(1000, 1e-3, np.float32))) == Dense()


def test_lists_and_all_states_give_vectors_below_the_same_bound():
    """Walks by either representation back up vectors of policies, so both stay below what is attainable."""
    model = local_model(300)
    solver = SOLVERS.get("sparse")(steps=15, support=25, capacity=64)
    assert solver.representation(model) == Support(25)
    listed = solve_models([model], solver, Stop(stages=3), key=jax.random.key(0))[0]
    dense = solve_models(
        [model], SOLVERS.get("sparse")(steps=15, support=300), Stop(stages=3), key=jax.random.key(0)
    )[0]
    best = solve_models([model], SOLVERS.get("graph")(), Stop(seconds=4), key=jax.random.key(0))[0]
    for found in (listed, dense):
        assert found.lower <= best.upper
        assert found.upper >= best.lower
        assert found.lower > float(np.asarray(model.reward).min()) / (1 - 0.95)


def test_only_vectors_that_are_kept_are_returned():
    """The row that takes what is not kept is not in the policy, and the lower bound is that of the policy."""
    model = build(tiger(discount=0.5), "blocked")
    found = solved(model, 5, steps=20, capacity=8, support=2)
    assert found.num_vectors <= 8
    value = float(found.value(np.asarray(model.initial)))
    assert value > -1e6
    assert value == pytest.approx(found.lower, abs=0.01)
