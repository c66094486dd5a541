"""Values of the fully observed problem against all policies and against nested loops."""

from contextlib import nullcontext
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import mdp
from jatpo.library import Library
from oracles import mdp as oracle
from random_models import CASES, Example, build, example, plain

STORAGES = ("dense", "blocked")
# sweeps stop at a change of `tolerance`, so values are off by at most tolerance γ / (1 - γ), and by rounding
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}

value_iteration = jax.jit(mdp.value_iteration)
finite_horizon = jax.jit(mdp.finite_horizon, static_argnums=1)


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    with jax.enable_x64(True) if request.param == "float64" else nullcontext():
        yield request.param


@cache
def optimal(case: str):
    model = example(case)
    return oracle.optimal(model.transition, model.reward, model.discount)


def close(solution, q, v, discount: float, precision: str) -> None:
    """Off by no more than the tolerance allows and rounding adds."""
    tolerance = TOLERANCE[precision]
    rounding = 8 * np.finfo(precision).eps * np.abs(q).max() / (1 - discount)
    assert solution.q.dtype == solution.v.dtype == precision
    assert solution.change <= tolerance
    bound = tolerance * discount / (1 - discount) + rounding
    np.testing.assert_allclose(solution.q, q, rtol=0, atol=bound)
    np.testing.assert_allclose(solution.v, v, rtol=0, atol=bound)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_value_iteration(case, storage):
    found = value_iteration(build(example(case), storage), TOLERANCE["float32"])
    close(found, *optimal(case), example(case).discount, "float32")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "hub", "one state"])
def test_value_iteration_in_double_precision(case, storage, x64):
    found = value_iteration(build(example(case), storage), TOLERANCE["float64"])
    close(found, *optimal(case), example(case).discount, "float64")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99])
def test_discounts(storage, discount, precision):
    truth = example("hard zeros")._replace(discount=discount)
    found = value_iteration(build(truth, storage), TOLERANCE[precision])
    close(found, *oracle.optimal(truth.transition, truth.reward, discount), discount, precision)
    if discount == 0:
        assert found.sweeps == 2  # the second sweep sees that nothing changes
        np.testing.assert_array_equal(found.q, build(truth).reward)


@pytest.mark.parametrize("storage", STORAGES)
def test_undiscounted_way_to_an_absorbing_state(storage):
    """A corridor of 4 cells: every step costs 1, walking on fails half the time, waiting never helps."""
    walk = np.diag([0.5, 0.5, 0.5, 1.0]) + np.diag([0.5, 0.5, 0.5], k=1)
    reward = np.array([[-1.0, -1.0]] * 3 + [[0.0, 0.0]])
    model = build(
        Example(np.stack([walk, np.eye(4)]), np.ones((2, 4, 1)), reward, np.eye(4)[0], 1.0), storage
    )
    found = value_iteration(model, 1e-6)
    np.testing.assert_allclose(found.v, [-6, -4, -2, 0], atol=1e-4)
    np.testing.assert_allclose(found.q[:, 1], [-7, -5, -3, 0], atol=1e-4)


def test_undiscounted_values_that_grow_for_ever_are_told():
    model = build(Example(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.ones((1, 1)), np.ones(1), 1.0))
    found = value_iteration(model, 1e-4, 37)
    assert (int(found.sweeps), float(found.change), float(found.v[0])) == (37, 1.0, 37.0)


@pytest.mark.parametrize("storage", STORAGES)
def test_library(storage, precision):
    """K models of different sizes at once, each against its own policies; padding is worth nothing."""
    models = [
        example("hard zeros"),
        example("one state"),
        plain(np.random.default_rng(4), 6, 3, 4, zeros=0.5),
    ]
    models[1] = models[1]._replace(discount=0.5)
    library = Library.from_models([build(model, storage) for model in models])
    found = jax.jit(mdp.value_iteration_library)(library.models, TOLERANCE[precision], 10_000)
    assert len(set(found.sweeps.tolist())) > 1
    for k, model in enumerate(models):
        size = len(model.initial)
        alone = jax.tree.map(lambda leaf: np.asarray(leaf)[k], found)  # noqa: B023
        assert not alone.v[size:].any()
        alone = alone._replace(q=alone.q[:size], v=alone.v[:size])
        wanted = oracle.optimal(model.transition, model.reward, model.discount)
        close(alone, *wanted, model.discount, precision)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "hub", "alone"])
def test_finite_horizon(case, storage, precision):
    truth = example(case)
    q, v = finite_horizon(build(truth, storage), 4)
    wanted_q, wanted_v = oracle.finite(truth.transition, truth.reward, truth.discount, 4)
    atol = 16 * np.finfo(precision).eps * np.abs(wanted_q).max()
    assert q.dtype == v.dtype == precision
    np.testing.assert_allclose(q, wanted_q, rtol=0, atol=atol)
    np.testing.assert_allclose(v, wanted_v, rtol=0, atol=atol)


@pytest.mark.parametrize("storage", STORAGES)
def test_finite_horizon_is_the_best_of_all_plans(storage):
    truth = plain(np.random.default_rng(6), states=2, actions=2, observations=1)
    _, v = finite_horizon(build(truth, storage), 3)
    for x in range(2):
        best = oracle.best_plan(truth.transition, truth.reward, truth.discount, 3, x)
        assert float(v[0, x]) == pytest.approx(best, abs=1e-5)


def test_horizons_of_none_and_one():
    model = build(example("plain"))
    q, v = finite_horizon(model, 0)
    assert (q.shape, v.shape) == ((0, 5, 3), (0, 5))
    q, v = finite_horizon(model, 1)
    np.testing.assert_array_equal(q[0], model.reward)


def test_long_horizons_approach_the_infinite_one():
    model = build(example("hard zeros")._replace(discount=0.5))
    _, v = finite_horizon(model, 40)
    np.testing.assert_allclose(v[0], value_iteration(model, 1e-6).v, atol=1e-5)
    assert not np.allclose(v[-1], v[0], atol=0.1)


def test_greedy_divides_ties_evenly():
    q = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 3.0, 3.0], [-1.0, -1.05, -1.2]], np.float32)
    wanted = [[0.5, 0.5, 0], [0, 1, 0], [1 / 3] * 3, [0.5, 0.5, 0]]
    np.testing.assert_allclose(mdp.greedy(jnp.asarray(q), 0.1), wanted, rtol=1e-6)
    np.testing.assert_allclose(mdp.greedy(jnp.asarray(q), 0.1), oracle.greedy(q, 0.1), rtol=1e-6)
    assert mdp.greedy(jnp.asarray(q), 0.0)[3].tolist() == [1, 0, 0]


@pytest.mark.parametrize("storage", STORAGES)
def test_greedy_policy_of_a_symmetric_model(storage):
    """Two actions that are copies of each other are tied wherever they are best."""
    truth = example("hard zeros")
    twins = truth._replace(
        transition=truth.transition[[0, 1, 0]],
        observation=truth.observation[[0, 1, 0]],
        reward=truth.reward[:, [0, 1, 0]],
    )
    q, _ = oracle.optimal(twins.transition, twins.reward, twins.discount)
    found = mdp.greedy(value_iteration(build(twins, storage)).q)
    np.testing.assert_allclose(found, oracle.greedy(q, mdp.TIE), rtol=1e-6)
    assert {tuple(row) for row in found.tolist()} == {(0.5, 0.0, 0.5), (0.0, 1.0, 0.0)}


def test_greedy_of_a_batch():
    q = np.random.default_rng(0).normal(size=(2, 4, 5, 3)).astype(np.float32)
    found = np.asarray(mdp.greedy(jnp.asarray(q)))
    np.testing.assert_allclose(
        found, np.reshape([oracle.greedy(part, 1e-3) for part in q.reshape(8, 5, 3)], q.shape)
    )
