"""The checker: confirms true solutions, and never confirms more than is true from corrupted ones."""

from fractions import Fraction

import numpy as np
import pytest

from jatpo.certify import Evidence, certify
from jatpo.certify_exact import certify_exact
from jatpo.errors import JatpoError
from jatpo.solve.gap_search import Search, SearchState, advance
from oracles import rational_value


def solved(model, rounds: int = 5) -> tuple[SearchState, int]:
    num_observations = int(model.observation[2].max()) + 1
    state = SearchState(model, num_observations)
    for _ in range(rounds):
        advance(state, Search(gap=0.0), seed=0)
    return state, num_observations


@pytest.mark.parametrize("seed", range(25))
def test_certifies_the_bounds_of_the_search(seed):
    model = rational_value.layered(np.random.default_rng(seed))
    value = rational_value.layered_value(model)
    state, num_observations = solved(model)
    scale = np.abs(model.reward).max() / (1 - model.discount)
    for check in (certify, certify_exact):
        certificate = check(model, num_observations, state.evidence())
        assert Fraction(certificate.lower) <= value <= Fraction(certificate.upper)
        assert certificate.lower >= state.lower - 1e-9 * scale
        assert certificate.upper <= state.upper + 1e-9 * scale


@pytest.mark.parametrize("seed", range(25))
def test_rows_that_sum_to_one_only_up_to_rounding(seed):
    random = np.random.default_rng(seed)
    model = rational_value.rounded(random, rational_value.layered(random))
    value = rational_value.layered_value(model)
    state, num_observations = solved(model)
    assert Fraction(state.lower) <= value <= Fraction(state.upper)
    scale = np.abs(model.reward).max() / (1 - model.discount)
    for check in (certify, certify_exact):
        certificate = check(model, num_observations, state.evidence())
        assert Fraction(certificate.lower) <= value <= Fraction(certificate.upper)
        assert certificate.lower >= state.lower - 1e-9 * scale
        assert certificate.upper <= state.upper + 1e-9 * scale


@pytest.mark.parametrize("seed", range(8))
def test_certifies_cyclic_models(seed):
    model = rational_value.cyclic(np.random.default_rng(seed))
    state, num_observations = solved(model, 4)
    floats = certify(model, num_observations, state.evidence())
    scale = max(1.0, np.abs(model.reward).max()) / (1 - model.discount)
    assert floats.lower >= state.lower - 1e-10 * scale and floats.upper <= state.upper + 1e-10 * scale
    assert floats.level == "checked"


def corrupt(random: np.random.Generator, e: Evidence) -> Evidence:
    """One array of the evidence with some of its entries changed."""
    name = random.choice(
        ["values", "action", "successor", "informed", "upper", "source", "corner", "row", "belief", "edge"]
    )
    old = getattr(e, name)
    if isinstance(old, tuple):
        place = int(random.integers(3))
        return e._replace(**{name: tuple(_change(random, p) if i == place else p for i, p in enumerate(old))})
    return e._replace(**{name: _change(random, old)})


def _change(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    array = np.array(array)
    if not array.size:
        return array
    at = random.integers(array.size, size=int(random.integers(1, 4)))
    if array.dtype.kind == "f":
        array.flat[at] += random.choice([-1, 1]) * 10.0 ** random.integers(-9, 6)
    else:
        array.flat[at] = random.integers(array.min() - 1, array.max() + 2, len(at))
    return array


@pytest.mark.parametrize("seed", range(40))
def test_a_corrupted_solution_is_refused_or_proves_only_what_is_true(seed):
    random = np.random.default_rng(seed)
    model = rational_value.layered(random)
    value = rational_value.layered_value(model)
    state, num_observations = solved(model, 3)
    for _ in range(10):
        evidence = corrupt(random, state.evidence())
        try:
            certificate = certify(model, num_observations, evidence)
        except JatpoError:
            continue
        assert Fraction(certificate.lower) <= value <= Fraction(certificate.upper)


def test_claims_that_are_too_good_are_not_confirmed():
    model = rational_value.cyclic(np.random.default_rng(2))._replace(discount=0.9)
    state, num_observations = solved(model)
    e = state.evidence()
    higher = certify(model, num_observations, e._replace(values=e.values + 1.0))
    lower = certify(model, num_observations, e._replace(upper=e.upper - 1.0))
    assert higher.lower <= state.upper and lower.upper >= state.lower
    assert higher.lower < state.lower + 1e-9 and lower.upper > state.upper - 1e-9


def test_refuses_evidence_of_another_model():
    model = rational_value.cyclic(np.random.default_rng(2))
    state, num_observations = solved(model, 2)
    other = np.zeros_like(model.initial)
    other[model.initial.argmin()] = 1
    assert not np.array_equal(other, model.initial)
    with pytest.raises(JatpoError):
        certify(model._replace(initial=other), num_observations, state.evidence())
