"""The checker: confirms true solutions, and never confirms more than is true from corrupted ones."""

from fractions import Fraction

import numpy as np
import pytest

from jatpo.certify import certify
from jatpo.certify_exact import certify_exact
from jatpo.errors import JatpoError
from jatpo.evidence import BACKED_UP, INFORMED, Evidence
from jatpo.solve import gap_search
from jatpo.solve.gap_search import Search, SearchState, advance
from oracles import rational_value


def solved(model, rounds: int = 5, compiled: bool = False) -> tuple[SearchState, int]:
    num_observations = int(model.observation[2].max()) + 1
    state = SearchState(model, num_observations)
    for _ in range(rounds):
        advance(state, Search(gap=0.0, compiled=compiled), seed=0)
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


ENGINES_AND_SEEDS = [  # how rounds are computed, and the seeds, the first few of which run by default
    pytest.param(compiled, seed, marks=() if seed < quick else pytest.mark.slow)
    for compiled, quick in ((False, 40), (True, 10))
    for seed in range(300)
]


@pytest.mark.parametrize(("compiled", "seed"), ENGINES_AND_SEEDS)
def test_a_corrupted_solution_is_refused_or_proves_only_what_is_true(compiled, seed, monkeypatch):
    monkeypatch.setattr(gap_search, "PLAIN", -1.0)
    random = np.random.default_rng(seed)
    model = rational_value.layered(random)
    value = rational_value.layered_value(model)
    state, num_observations = solved(model, 3, compiled)
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


# What the checker must not confirm: each of these was confirmed by a plausible but wrong rule.


def single(reward: tuple[float, ...], discount: float = 0.5, initial: float = 1.0):
    """One state, one observation: the value is max R / (1 - γ)."""
    one = np.ones((len(reward), 1, 1))
    return rational_value.sparse(one, one, np.array([reward]), np.array([initial]), discount)


def alone(A: int, informed: float, upper: float, source: int = BACKED_UP, weight: float = 1.0) -> Evidence:
    """One node at the only state, without rows."""
    whole = lambda *values: np.array(values, np.int64)  # noqa: E731
    return Evidence(
        values=np.array([[-1e3]]),
        action=whole(0),
        successor=whole(0).reshape(1, 1),
        informed=np.full((A, 1), informed),
        belief=(whole(0, 1), whole(0), np.array([weight])),
        upper=np.array([upper]),
        source=whole(source),
        corner=whole(0),
        row=np.full((1, A), -1),
        edge=(whole(0), whole(), whole()),
    )


BOTH = pytest.mark.parametrize("check", (certify, certify_exact))


@BOTH
def test_residuals_of_the_informed_bound_and_of_a_node_that_relies_on_it_add_up(check):
    """F = 1 exceeds nothing by 1/2, and u = 1/2 falls short of F by 1/2; the value is 2."""
    proved = check(single((1.0, 0.0)), 1, alone(2, 1.0, 0.5))
    assert proved.upper >= 2


@BOTH
def test_the_residual_of_a_light_belief_counts_by_its_mass(check):
    """Node 1 has 1/1000 of the mass: what it falls short by is a thousand times as much for a belief of mass 1."""
    model = single((1.0,))
    e = alone(1, 2.0, 1.0, source=1)
    whole = lambda *values: np.array(values, np.int64)  # noqa: E731
    e = e._replace(
        belief=(whole(0, 1, 2), whole(0, 0), np.array([1.0, 1e-3])),
        upper=np.array([1.0, 1e-3]),  # claims the value 1
        source=whole(1, BACKED_UP),
        corner=whole(-1),
        row=np.array([[-1], [0]]),
        edge=(whole(0, 1), whole(0), whole(1)),
    )
    assert check(model, 1, e).upper >= 2


@BOTH
def test_residuals_count_by_the_mass_of_the_initial_belief(check):
    model = single((1.0,), initial=1 + 2.0**-20)
    proved = check(model, 1, alone(1, 1.0, 0.0, INFORMED, 1 + 2.0**-20)._replace(values=np.array([[5.0]])))
    value = 2 * (1 + Fraction(1, 2**20))
    assert Fraction(proved.upper) >= value >= Fraction(proved.lower)


def test_claims_in_another_precision_are_computed_in_float64():
    model = single((0.1,), 0.99)
    e = alone(1, 10.0, 0.0, INFORMED)
    e = e._replace(informed=e.informed.astype(np.float32), values=np.full((1, 1), 10.0, np.float32))
    proved = certify(model, 1, e)
    exact = certify_exact(model, 1, e)
    assert proved.lower <= exact.lower <= exact.upper <= proved.upper


@pytest.mark.parametrize("value", (1e308, 1e200, np.inf, np.nan))
@pytest.mark.parametrize("name", ("values", "informed", "upper"))
def test_claims_that_overflow_are_refused(name, value):
    e = alone(1, 2.0, 2.0)
    with pytest.raises(JatpoError, match=name):
        certify(single((1.0,)), 1, e._replace(**{name: np.full_like(getattr(e, name), value)}))
