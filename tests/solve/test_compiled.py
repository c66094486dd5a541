"""Rounds in compiled code: they contain known values, and `jatpo.certify` proves their intervals."""

from fractions import Fraction

import numpy as np
import pytest

from jatpo.certify import certify
from jatpo.errors import JatpoError
from jatpo.solve import GraphSearch, compiled_engine, gap_search
from jatpo.solve.clock import END, Clock
from jatpo.solve.gap_search import Search, SearchState, advance
from oracles import rational_value
from random_models import plain

SETTINGS = Search(gap=0.0, compiled=True)


def seeds(quick: int, count: int) -> list:
    """Seeds 0 up to `count` - 1, of which only the first `quick` run by default."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Compiled code takes over from the first round."""
    monkeypatch.setattr(gap_search, "PLAIN", -1.0)


def observations(model) -> int:
    return int(model.observation[2].max()) + 1


def lasting(seed: int, discount: float):
    """A model that no search closes in some rounds."""
    return rational_value.sparse(*plain(np.random.default_rng(seed), 6, 3, 3, 0.3, discount))


def search(model, rounds: int, settings: Search = SETTINGS) -> SearchState:
    state = SearchState(model, observations(model))
    for _ in range(rounds):
        advance(state, settings, seed=0)
    return state


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", seeds(60, 1000))
def test_contains_the_value_of_a_layered_model_and_closes(seed, dtype):
    model = rational_value.layered(np.random.default_rng(seed), dtype)
    value = rational_value.layered_value(model)
    state = search(model, 6)
    assert Fraction(state.lower) <= value <= Fraction(state.upper)
    assert state.gap <= 1e-9 * max(np.abs(model.reward).max(), 1e-9) / (1 - model.discount)


@pytest.mark.parametrize("seed", seeds(20, 500))
def test_contains_the_value_of_a_stopping_problem(seed):
    model, value = rational_value.stopping(np.random.default_rng(seed))
    state = search(model, 12)
    assert state.lower <= value * (1 + 1e-15) and state.upper >= value * (1 - 1e-15)


@pytest.mark.parametrize("seed", seeds(25, 500))
def test_meets_what_enumeration_leaves_open(seed):
    model = rational_value.cyclic(np.random.default_rng(seed))
    low, high = rational_value.enclosure(model, observations(model), 4)
    state = search(model, 6)
    assert state.lower <= high and state.upper >= low


@pytest.mark.parametrize("discount", [0.9, 0.999])
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_an_independent_checker_proves_the_interval(seed, discount):
    model = lasting(seed, discount)
    state = search(model, 10)
    assert not state.closed and state.gap < state.first_gap
    proved = certify(model, observations(model), state.evidence())
    scale = 1e-9 * np.abs(model.reward).max() / (1 - discount)
    assert state.lower - scale <= proved.lower <= proved.upper <= state.upper + scale


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_both_ways_meet(seed):
    """The intervals overlap, and compiled rounds bring them as close as rounds in NumPy."""
    model = lasting(seed, 0.9)
    compiled, numpy = search(model, 20), search(model, 20, Search(gap=0.0))
    assert max(compiled.lower, numpy.lower) <= min(compiled.upper, numpy.upper)
    assert compiled.compiled is not None and numpy.compiled is None
    assert compiled.gap < 2 * numpy.gap < compiled.first_gap


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_resumed_is_uninterrupted(seed):
    model = lasting(seed, 0.99)
    whole = search(model, 9)
    state = search(model, 4)
    state = SearchState.from_arrays(model, observations(model), state.to_arrays())
    for _ in range(5):
        advance(state, SETTINGS, seed=0)
    for name, value in whole.to_arrays().items():
        np.testing.assert_array_equal(value, state.to_arrays()[name], err_msg=name)


def test_bounds_only_tighten():
    model = lasting(1, 0.95)
    state = SearchState(model, observations(model))
    for _ in range(10):
        lower, upper = state.lower, state.upper
        info = advance(state, SETTINGS, seed=1)
        assert lower <= info.lower < info.upper <= upper


def test_vectors_are_attained_by_their_controller():
    """α ≤ R + γ P Σ_z O α_z for every vector, so α is at most the value of the controller."""
    model = lasting(2, 0.9)
    values, actions, successor = search(model, 8).below.controller()
    X, A = model.reward.shape
    transition, observation = np.zeros((A, X, X)), np.zeros((A, X, observations(model)))
    transition[model.transition[:3]] = model.transition[3]
    observation[model.observation[:3]] = model.observation[3]
    assert len(values) > A
    for value, a, follow in zip(values, actions, successor, strict=True):
        arrived = (observation[a] * values[follow].T).sum(axis=1)
        assert (value <= model.reward[:, a] + model.discount * (transition[a] @ arrived)).all()


def test_compiled_searches_need_numba(monkeypatch):
    monkeypatch.setattr("jatpo.solve.graph.available", lambda: False)
    assert GraphSearch(compiled=0).compiled == GraphSearch().compiled == 0
    with pytest.raises(JatpoError, match="Numba"):
        GraphSearch(compiled=1)
    with pytest.raises(JatpoError, match="0 or 1"):
        GraphSearch(compiled=2)


def test_kernels_are_ready_once_they_were_needed():
    compiled_engine.kernels()
    assert compiled_engine.ready()


@pytest.mark.parametrize("compiled", [True, False])
def test_a_round_ends_when_its_time_is_up(compiled):
    """What is left by rounds that were cut short at any moment is sound, and rounds go on from it."""
    settings = Search(gap=0.0, compiled=compiled)
    model = lasting(3, 0.999)
    state, hands = SearchState(model, observations(model)), set()
    for turn in range(40):
        lower, upper = state.lower, state.upper
        clock = Clock(2e-4 * (turn % 10))
        advance(state, settings, 0, clock)
        hands.add(int(clock.hand[0]))
        assert lower <= state.lower <= state.upper <= upper
    assert END in hands
    proved = certify(model, observations(model), state.evidence())
    scale = 1e-9 * np.abs(model.reward).max() / (1 - model.discount)
    assert state.lower - scale <= proved.lower <= proved.upper <= state.upper + scale


def test_a_limit_that_is_not_reached_changes_nothing():
    model = lasting(1, 0.99)
    whole, timed = search(model, 6), SearchState(model, observations(model))
    for _ in range(6):
        advance(timed, SETTINGS, 0, Clock(1000.0))
    for name, value in whole.to_arrays().items():
        np.testing.assert_array_equal(value, timed.to_arrays()[name], err_msg=name)


def test_a_clock_waits_for_what_is_counted_apart():
    for apart, up in ((True, False), (False, True)):
        clock = Clock(-1.0, apart)
        clock.add(100.0)
        with clock.running():
            assert clock.up == up
