"""Bounds of the search over a belief graph: they contain known values, tighten, and resume."""

from fractions import Fraction

import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.solve.gap_search import Search, SearchState, advance
from oracles import rational_value

SETTINGS = Search(gap=0.0)


def seeds(quick: int, count: int) -> list:
    """Seeds 0 up to `count` - 1, of which only the first `quick` run by default."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, count))]


def search(model, rounds: int, settings: Search = SETTINGS) -> SearchState:
    state = SearchState(model, observations(model))
    for _ in range(rounds):
        advance(state, settings, seed=0)
    return state


def observations(model) -> int:
    return int(model.observation[2].max()) + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(60))
def test_contains_the_value_of_a_layered_model_and_closes(seed, dtype):
    model = rational_value.layered(np.random.default_rng(seed), dtype)
    value = rational_value.layered_value(model)
    state = search(model, 6)
    assert Fraction(state.lower) <= value <= Fraction(state.upper)
    assert state.gap <= 1e-9 * max(np.abs(model.reward).max(), 1e-9) / (1 - model.discount)


@pytest.mark.parametrize("seed", seeds(6, 20))
def test_contains_the_value_of_a_stopping_problem(seed):
    model, value = rational_value.stopping(np.random.default_rng(seed))
    state = search(model, 8)
    assert state.lower <= value * (1 + 1e-15) and state.upper >= value * (1 - 1e-15)


@pytest.mark.parametrize("seed", range(25))
def test_meets_what_enumeration_leaves_open(seed):
    model = rational_value.cyclic(np.random.default_rng(seed))
    low, high = rational_value.enclosure(model, observations(model), 4)
    state = search(model, 6)
    assert state.lower <= high and state.upper >= low


def test_bounds_only_tighten():
    model = rational_value.cyclic(np.random.default_rng(3))
    state = SearchState(model, observations(model))
    for _ in range(8):
        lower, upper = state.lower, state.upper
        info = advance(state, Search(gap=0.0), seed=1)
        assert lower <= info.lower <= info.upper <= upper


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_resumed_is_uninterrupted(seed):
    model = rational_value.cyclic(np.random.default_rng(seed))
    model = model._replace(discount=0.95)
    settings = Search(gap=0.0)
    whole = search(model, 9, settings)
    state = search(model, 4, settings)
    state = SearchState.from_arrays(model, observations(model), state.to_arrays())
    for _ in range(5):
        advance(state, settings, seed=0)
    for name, value in whole.to_arrays().items():
        np.testing.assert_array_equal(value, state.to_arrays()[name], err_msg=name)


@pytest.mark.parametrize("rounds", range(3))
def test_a_young_search_can_be_kept(rounds):
    """Checkpoints take no empty arrays."""
    model = rational_value.cyclic(np.random.default_rng(3))
    state = search(model, rounds)
    kept = state.to_arrays()
    assert all(array.size for array in kept.values())
    again = SearchState.from_arrays(model, observations(model), kept)
    assert again.below.kept[1].shape[1:] == state.below.kept[1].shape[1:]
    assert advance(again, SETTINGS, 0) == advance(state, SETTINGS, 0)


def test_crossed_bounds_are_an_error():
    model = rational_value.cyclic(np.random.default_rng(5))._replace(discount=0.95)
    state = search(model, 1)
    state.below.values.all[:] += 1e6
    state.graph.lower_stamp.all[:] = 0
    with pytest.raises(JatpoError):
        for _ in range(3):
            advance(state, Search(gap=-np.inf), seed=0)


def test_vectors_are_attained_by_their_controller():
    """α ≤ R + γ P Σ_z O α_z for every vector, so α is at most the value of the controller."""
    model = rational_value.cyclic(np.random.default_rng(11))._replace(discount=0.9)
    values, actions, successor = search(model, 6).below.controller()
    X, A = model.reward.shape
    transition, observation = np.zeros((A, X, X)), np.zeros((A, X, observations(model)))
    transition[model.transition[:3]] = model.transition[3]
    observation[model.observation[:3]] = model.observation[3]
    for value, a, follow in zip(values, actions, successor, strict=True):
        arrived = (observation[a] * values[follow].T).sum(axis=1)
        assert (value <= model.reward[:, a] + model.discount * (transition[a] @ arrived)).all()
