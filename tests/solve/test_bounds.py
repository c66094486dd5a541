"""Bounds from below and from above, against nested loops and against the optimum."""

import jax
import numpy as np
import pytest

from jatpo.library import Library
from jatpo.solve import bounds
from jatpo.solve.initial_bounds import fast_informed_bound, tables
from jatpo.solve.problem import prepare
from oracles import mdp, pomdp_exact
from oracles import point_based as oracle
from random_models import build, example, plain, rows
from small_pomdps import revealing, tiger, tiny
from solution_checks import parts_of

STORAGES = ("dense", "blocked")
CASES = ("plain", "hard zeros", "absorbing", "same observation", "never seen", "one state", "one observation")

WIDE = plain(np.random.default_rng(4), states=4, actions=5, observations=9, zeros=0.4)

blind = jax.jit(bounds.blind)
qmdp = jax.jit(bounds.qmdp)
informed = jax.jit(bounds.informed)
revealed = jax.jit(bounds.revealed)


def rounding_of(model, values) -> float:
    """What single precision may add up to over an infinite horizon."""
    return 4 * float(np.finfo(model.dtype).eps) * float(np.abs(values).max()) / (1 - float(model.discount))


def probes(count: int, states: int) -> np.ndarray:
    """Beliefs [count, X] to compare at."""
    return rows(np.random.default_rng([3, states]), count, states, zeros=0.3)


# The oracles against each other


@pytest.mark.parametrize("seed", range(3))
def test_the_tree_of_beliefs_agrees_with_all_policy_trees(seed):
    model = tiny(seed)[:3]
    for horizon in (1, 2, 3):
        trees = pomdp_exact.policy_trees(*model, 0.6, horizon)
        for belief in probes(4, 3):
            wanted = pomdp_exact.tree_value(*model, 0.6, belief, horizon)
            assert np.max(trees @ belief) == pytest.approx(wanted, rel=1e-12)


def test_the_optimum_of_tiger():
    """The literature has 19.3711 to 19.3721; the interval closes around what the closed set of beliefs gives."""
    truth = tiger()
    exact = pomdp_exact.closed(*truth[:3], truth.discount, truth.initial)
    assert 19.3711 <= exact <= 19.3721
    quick = tiger(discount=0.5)
    low, high = pomdp_exact.interval(*quick[:3], 0.5, quick.initial, 5)
    assert low <= pomdp_exact.closed(*quick[:3], 0.5, quick.initial) <= high


# Vectors against nested loops


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_blind_policies(case, storage, x64):
    model = build(example(case), storage)
    transition, _, reward, discount = parts_of(model)
    exact = pomdp_exact.blind(transition, reward, discount)
    found = np.asarray(blind(model, 1e-9))
    np.testing.assert_allclose(found, exact, atol=1e-7)
    assert (found <= exact + 1e-10).all()
    start = np.full_like(found, reward.min() / (1 - discount))
    one = oracle.blind_sweep(transition, reward, discount, start)
    np.testing.assert_allclose(blind(model, 0.0, 1), one, atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_qmdp_and_the_fast_informed_bound(case, storage, x64):
    model = build(example(case), storage)
    parts = parts_of(model)
    transition, _, reward, discount = parts
    above = np.asarray(qmdp(model, 1e-9))
    wanted = oracle.qmdp(transition, reward, discount)
    np.testing.assert_allclose(above, wanted, atol=1e-7)
    assert (above >= wanted).all()
    start = wanted + np.random.default_rng(0).random(wanted.shape)
    one = oracle.informed_sweep(*parts, start)
    np.testing.assert_allclose(informed(model, start, 0.0, 1), one, rtol=1e-12)
    two = oracle.informed_sweep(*parts, one)
    np.testing.assert_allclose(informed(model, start, 0.0, 2), two, rtol=1e-12)
    np.testing.assert_allclose(informed(model, above, 1e-10, 1000), oracle.informed(*parts), atol=1e-7)


@pytest.mark.parametrize("storage", STORAGES)
def test_single_precision(storage):
    for case in ("hard zeros", "same observation"):
        model = build(example(case), storage)
        parts = parts_of(model)
        transition, _, reward, discount = parts
        start = np.asarray(qmdp(model))
        slack = 0.5 * rounding_of(model, start)
        np.testing.assert_allclose(start, oracle.qmdp(transition, reward, discount), atol=1e-3 + slack)
        np.testing.assert_allclose(informed(model, start, 1e-4), oracle.informed(*parts), atol=1e-3 + slack)
        exact = pomdp_exact.blind(transition, reward, discount)
        np.testing.assert_allclose(blind(model, 1e-4), exact, atol=1e-3 + slack)


@pytest.mark.parametrize("storage", STORAGES)
def test_models_of_a_library(storage, x64):
    """States that pad a model change no bound, not even where all rewards are large."""
    truths = [example("hard zeros"), plain(np.random.default_rng(6), states=3, zeros=0.3)]
    models = [build(truth._replace(reward=truth.reward + 50), storage) for truth in truths]
    library = Library.from_models(models)
    for k, alone in enumerate(models):
        padded, real = library.model(k), slice(alone.num_states)
        np.testing.assert_allclose(blind(padded)[:, real], blind(alone), rtol=1e-13)
        np.testing.assert_allclose(qmdp(padded)[:, real], qmdp(alone), rtol=1e-13)
        both = [np.asarray(informed(model, qmdp(model)))[:, real] for model in (padded, alone)]
        np.testing.assert_allclose(*both, rtol=1e-13)


# Against the optimum


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("seed", range(2))
def test_order_of_the_bounds(seed, storage, x64):
    """blind ≤ optimum ≤ fast informed ≤ QMDP at random beliefs, and all of them differ somewhere."""
    model = build(tiny(seed), storage)
    parts = parts_of(model)
    above = np.asarray(qmdp(model, 1e-9))
    vectors = [np.asarray(blind(model, 1e-9)), np.asarray(informed(model, above, 1e-9)), above]
    gaps = []
    for belief in probes(4, 3):
        low, high = pomdp_exact.interval(*parts, belief, 6)
        values = [float(np.max(part @ belief)) for part in vectors]
        assert values[0] <= high and low <= values[1]
        assert values[1] <= values[2]
        gaps.append([low - values[0], values[1] - high, values[2] - values[1]])
    assert (np.max(gaps, axis=0) > 1e-3).all()


@pytest.mark.parametrize("seed", range(2))
def test_iterations_hold_wherever_they_stop(seed, x64):
    """Blind policies rise towards their value, the fast informed bound falls towards its own."""
    model = build(tiny(seed))
    parts = parts_of(model)
    transition, _, reward, discount = parts
    exact, start = pomdp_exact.blind(transition, reward, discount), np.asarray(qmdp(model))
    bound = oracle.informed(*parts)
    below, above = np.full_like(exact, -np.inf), start
    for limit in range(1, 6):
        below, before = np.asarray(blind(model, 0.0, limit)), below
        above, former = np.asarray(informed(model, start, 0.0, limit)), above
        assert (before <= below + 1e-12).all() and (below <= exact + 1e-12).all()
        assert (former >= above - 1e-12).all() and (above >= bound - 1e-12).all()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("truth", [tiny(0, zeros=0.3), tiny(1, zeros=0.3), WIDE], ids=["0", "1", "wide"])
def test_two_steps_of_look_ahead(truth, storage):
    """The upper bound at the start is above the optimum, and no worse than one step in nested loops."""
    model = build(truth, storage)
    problem = prepare([model])[0]
    exact = problem.part.exact()
    count = problem.part.num_observations
    informed = fast_informed_bound(tables(exact, count))
    parts = problem.part.to_dense()._replace(reward=exact.reward, discount=exact.discount)
    most = float(np.max(informed @ exact.initial))
    one = oracle.look_ahead(*parts[:3], parts.discount, informed, exact.initial, 1)
    assert problem.upper <= min(one, most) + 1e-5
    low, _ = pomdp_exact.interval(*parts_of(model), np.asarray(model.initial, float), 3)
    assert low <= problem.upper


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("seed", range(2))
def test_rounding_breaks_no_bound(seed, discount):
    """Sweeps in single precision come to rest short of the optimum; near discount 1 that is a lot."""
    model = build(revealing(seed, discount))
    transition, _, reward, stored = parts_of(model)
    exact = mdp.optimal(transition, reward, stored)[0].T
    above, below = np.asarray(qmdp(model), float), np.asarray(revealed(model), float)
    assert (above >= exact).all() and (below <= exact).all()
    assert (above - below).max() <= 4 * rounding_of(model, exact) + 4e-4 / (1 - discount)


@pytest.mark.parametrize("discount", [0.99, 0.999])
def test_the_upper_bound_near_discount_one(discount):
    """Of models whose optimum is known: the state is revealed, or there is only one."""
    for truth in (
        revealing(0, discount),
        revealing(1, discount),
        example("one state")._replace(discount=discount),
    ):
        exact = np.max(truth.initial @ mdp.optimal(truth.transition, truth.reward, truth.discount)[0])
        found = prepare([build(truth)])[0].upper
        assert exact * (1 - 1e-12) <= found <= exact + 1e-9 * abs(exact)


def test_what_is_attained_where_the_state_is_revealed(x64):
    """From below, and one backup of it is no worse anywhere: so its policy attains it."""
    model = build(revealing(2))
    parts = parts_of(model)
    below = np.asarray(revealed(model, 1e-3))
    transition, _, reward, discount = parts
    assert (below <= mdp.optimal(transition, reward, discount)[0].T).all()
    assert (oracle.informed_sweep(*parts, below) >= below - 1e-12).all()


def test_nothing_is_compiled_twice():
    truth = example("hard zeros")
    models = [build(truth), build(truth._replace(reward=truth.reward * 2, discount=0.5))]
    start = np.full((3, 5), 100, np.float32)
    for function, arguments in ((blind, ()), (qmdp, ()), (informed, (start,))):
        first = function(models[0], *arguments)
        compiled = function._cache_size()
        assert not np.array_equal(function(models[1], *arguments), first)
        assert function._cache_size() == compiled
