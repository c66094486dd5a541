"""Bounds hold for the numbers that were given, not for what float32 makes of them."""

import dataclasses
from fractions import Fraction

import jax
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.solve import QMDP, Anytime, Perseus, Stop, ValueIteration, driver, solve_models
from jatpo.solve.first_bounds import first_bounds
from jatpo.solve.gap_search import Search, SearchState, advance
from jatpo.solve.graph import GraphSearch
from jatpo.solve.problem import prepare, restrict
from oracles import rational_value
from random_models import build, example

SOLVERS = {
    "graph": (GraphSearch(), Stop(stages=8)),
    "perseus": (Perseus(beliefs=40, tolerance=1e-3), Stop(stages=40)),
    "qmdp": (QMDP(), Stop()),
    "value-iteration": (ValueIteration(), Stop()),
}
KEY = jax.random.key(0)


def stored(model) -> POMDP:
    """`model` in float32, with its numbers kept."""
    return POMDP.from_sparse(*model, num_observations=int(model.observation[2].max()) + 1, dtype=np.float32)


def awkward(seed: int):
    """A layered model whose numbers float32 does not hold, and its value."""
    model = rational_value.layered(np.random.default_rng(seed))
    return model, rational_value.layered_value(model)


@pytest.mark.parametrize("storage", ["dense", "blocked"])
def test_a_model_knows_its_numbers(storage):
    model = build(example("hard zeros"), storage, dtype=np.float32)
    given = example("hard zeros")
    exact = model.exact()
    np.testing.assert_array_equal(exact.reward, given.reward)
    assert exact.discount == given.discount != float(model.discount)
    np.testing.assert_allclose(exact.transition[3], given.transition[given.transition > 0], rtol=1e-15)
    assert (model.to_sparse().reward != exact.reward).any()
    assert [part.dtype for part in exact.transition] == [np.int64, np.int64, np.int64, np.float64]


def test_its_numbers_go_where_the_model_goes_and_no_further():
    model = build(example("unreachable"), "dense", dtype=np.float32)
    other = model.with_storage("blocked")
    np.testing.assert_array_equal(other.exact().transition[3], model.exact().transition[3])
    kept = np.array([0, 1, 3, 4])
    np.testing.assert_array_equal(restrict(model, kept).exact().reward, model.exact().reward[kept])
    assert model.replace(discount=model.discount / 2).exact().discount == float(model.discount) / 2
    mapped = jax.tree.map(lambda leaf: leaf, model)
    np.testing.assert_array_equal(mapped.exact().reward, model.to_sparse().reward)


def test_its_digest_covers_what_float32_drops():
    one, other = (build(example("plain")._replace(discount=d), dtype=np.float32) for d in (0.9, 0.9 + 1e-12))
    assert one.content_hash() == other.content_hash() and one.exact_hash() != other.exact_hash()
    double = POMDP.from_dense(*one.to_dense(), dtype=np.float32)
    assert double.exact_hash() == double.content_hash() == one.content_hash()


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 400))]
)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_contains_the_value_of_the_given_model(name, seed):
    model, value = awkward(1000 + seed)
    [found] = solve_models([stored(model)], *SOLVERS[name], key=KEY)
    assert Fraction(found.lower) <= value <= Fraction(found.upper)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 400))
def test_the_search_contains_the_value_of_thousands(first):
    for seed in range(first, first + 400):
        random = np.random.default_rng([5, seed])
        if seed % 2:
            model, value = rational_value.stopping(random)
            low, high = (
                Fraction(value) * (1 - Fraction(1, 10**15)),
                Fraction(value) * (1 + Fraction(1, 10**15)),
            )
        else:
            model = rational_value.layered(random)
            low = high = rational_value.layered_value(model)
        search = SearchState(stored(model).exact(), int(model.observation[2].max()) + 1)
        for _ in range(4):
            advance(search, Search(gap=0.0), seed=0)
            assert Fraction(search.lower) <= high and low <= Fraction(search.upper), seed


@pytest.mark.slow
def test_anytime_contains_the_value_of_the_given_model():
    solver = Anytime(walkers=16, steps=10, keep=64)
    for seed in range(6):
        model, value = awkward(seed)
        [found] = solve_models([stored(model)], solver, Stop(stages=2), key=KEY)
        assert Fraction(found.lower) <= value <= Fraction(found.upper)


def test_slow_drift_in_float32():
    """A belief that is almost its own successor: the discount and the drift are lost in float32."""
    for seed in range(4):
        model, value = rational_value.stopping(np.random.default_rng([3, seed]))
        [found] = solve_models([stored(model)], GraphSearch(), Stop(stages=6), key=KEY)
        assert found.lower <= value * (1 + 1e-15) and found.upper >= value * (1 - 1e-15)


def test_two_steps_of_look_ahead_bound_the_value():
    for seed in range(8):
        model, value = awkward(seed)
        bounds = first_bounds(stored(model))
        assert Fraction(bounds.lower) <= value <= Fraction(bounds.upper)
        assert abs(value) <= bounds.magnitude


def test_what_float32_does_not_hold_is_refused():
    model, _ = awkward(0)
    with pytest.raises(JatpoError, match=r"reward\[x=0, a=0\] is 1e\+39, and float32"):
        stored(model._replace(reward=np.full_like(model.reward, 1e39)))
    near = stored(model._replace(discount=1 - 1e-9))
    with pytest.raises(JatpoError, match=r"0\.999999999, which is 1 in float32: set JAX_ENABLE_X64=1"):
        solve_models([near], GraphSearch(), Stop(stages=1), key=KEY)
    large = stored(model._replace(reward=model.reward * 0 + 1e37, discount=0.99))
    with pytest.raises(JatpoError, match=r"values up to 1e\+39"):
        solve_models([large], GraphSearch(), Stop(stages=1), key=KEY)


def test_crossed_bounds_are_reported_as_a_defect():
    [problem] = prepare([stored(awkward(0)[0])])
    solver = GraphSearch()
    solution = solver.solution(problem, solver.init(problem, KEY))
    wrong = dataclasses.replace(solution, lower=solution.upper + 1)
    with pytest.raises(RuntimeError, match="above the upper bound"):
        driver._checked(problem, wrong, "model 0")
    for bad in (np.nan, np.inf):
        with pytest.raises(RuntimeError):
            driver._checked(problem, dataclasses.replace(solution, lower=bad), "model 0")


def test_the_lower_bound_is_attained_by_simulation():
    model = rational_value.cyclic(np.random.default_rng(4))._replace(discount=0.9)
    count = int(model.observation[2].max()) + 1
    search = SearchState(model, count)
    for _ in range(6):
        advance(search, Search(gap=0.0), seed=0)
    mean, error = simulate(model, search.below.controller(), count, np.random.default_rng(0), trials=20_000)
    assert error > 0 and search.lower <= mean + 4 * error + 1e-6  # of what is cut off
    assert search.upper >= mean - 4 * error


def simulate(model, controller, count, random, trials):
    """Mean discounted return of the controller from the node that is best at the start, and its standard error."""
    values, action, successor = controller
    X, A = model.reward.shape
    transition, observation = np.zeros((A, X, X)), np.zeros((A, X, count))
    transition[model.transition[:3]] = model.transition[3]
    observation[model.observation[:3]] = model.observation[3]
    node = np.full(trials, np.argmax(values @ model.initial))
    x = random.choice(X, size=trials, p=model.initial)
    total = np.zeros(trials)
    for t in range(200):
        a = action[node]
        total += model.discount**t * model.reward[x, a]
        x = _drawn(transition[a, x], random)
        node = successor[node, _drawn(observation[a, x], random)]
    return total.mean(), total.std() / np.sqrt(trials)


def _drawn(rows, random):
    return np.minimum(
        (rows.cumsum(axis=1) < random.random(len(rows))[:, None]).sum(axis=1), rows.shape[1] - 1
    )
