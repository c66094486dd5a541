"""Alpha vectors: values, actions with ties, look-ahead and padding, against nested loops."""

from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.library import Library
from jatpo.mdp import TIE
from jatpo.solve import policy
from jatpo.solve.policy import NEVER, Policy
from oracles import policy as oracle
from random_models import build, example, plain, rows

STORAGES = ("dense", "blocked")
NUM_ACTIONS = 3

value = jax.jit(policy.value)
probabilities = jax.jit(partial(policy.action_probabilities, num_actions=NUM_ACTIONS))
probabilities_columns = jax.jit(partial(policy.action_probabilities_columns, num_actions=NUM_ACTIONS))
q = jax.jit(policy.q)


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    with jax.enable_x64(True) if request.param == "float64" else nullcontext():
        yield request.param


def random_policy(seed: int, states: int = 5, vectors: int = 6, dtype="float32") -> Policy:
    """Vectors with values around 50; actions in no order, so that several vectors share one."""
    random = np.random.default_rng(seed)
    numbers = random.normal(50, 5, size=(vectors, states)).astype(dtype)
    return Policy(
        jnp.asarray(numbers), jnp.asarray(random.integers(NUM_ACTIONS, size=vectors).astype(np.int32))
    )


def random_beliefs(seed: int, count: int = 7, states: int = 5, dtype="float32") -> np.ndarray:
    """Rows [count, X], some entries 0, the first ones certain."""
    beliefs = rows(np.random.default_rng(seed), count, states, zeros=0.4)
    beliefs[:2] = np.eye(states)[:2]
    return beliefs.astype(dtype)


def test_value(precision):
    found = random_policy(0, dtype=precision)
    for belief in random_beliefs(1, dtype=precision):
        wanted = oracle.value(np.asarray(found.vectors), belief)
        assert float(value(found, belief)) == pytest.approx(wanted, rel=float(4 * np.finfo(precision).eps))


def test_action_probabilities(precision):
    """One belief, and columns, with ties made by a copy of each vector under the next action."""
    single = random_policy(2, dtype=precision)
    ties = Policy(
        np.tile(single.vectors, (2, 1)), np.append(single.actions, (single.actions + 1) % NUM_ACTIONS)
    )
    for found in (Policy(ties.vectors[:6], ties.actions[:6]), ties):
        beliefs = random_beliefs(3, dtype=precision)
        columns = probabilities_columns(found, beliefs.T)
        for i, belief in enumerate(beliefs):
            wanted = oracle.action_probabilities(found.vectors, found.actions, belief, NUM_ACTIONS, TIE)
            np.testing.assert_allclose(probabilities(found, belief), wanted)
            np.testing.assert_allclose(columns[:, i], wanted)
    assert set(np.unique(wanted)) == {0.0, 0.5}


@pytest.mark.parametrize(("gap", "wanted"), [(TIE / 2, [0.5, 0.5, 0]), (TIE * 2, [0, 1, 0])])
def test_ties_have_a_width(gap, wanted):
    found = Policy(np.float32([[2.0, 4.0], [2.0 + gap, 4.0 + gap], [0, 0]]), np.int32([0, 1, 2]))
    belief = np.float32([0.5, 0.5])
    np.testing.assert_allclose(probabilities(found, belief), wanted)
    np.testing.assert_allclose(probabilities_columns(found, belief[:, None])[:, 0], wanted)


def test_vectors_of_one_action_count_once():
    """Two best vectors of action 2 and one of action 0: the actions share evenly, not the vectors."""
    found = Policy(np.float32([[1, 1], [1, 1], [1, 1], [0, 0]]), np.int32([2, 2, 0, 1]))
    belief = np.float32([0.25, 0.75])
    np.testing.assert_allclose(probabilities(found, belief), [0.5, 0, 0.5])
    np.testing.assert_allclose(probabilities_columns(found, belief[:, None])[:, 0], [0.5, 0, 0.5])


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "never seen", "same observation"])
def test_look_ahead(case, storage, precision):
    truth = example(case)
    model, found = build(truth, storage), random_policy(4, dtype=precision)
    vectors = np.asarray(found.vectors, float)
    for belief in random_beliefs(5, 3, dtype=precision):
        wanted = oracle.q(*truth[:3], truth.discount, vectors, belief.astype(float))
        np.testing.assert_allclose(q(model, found, belief), wanted, rtol=20 * np.finfo(precision).eps)


def test_look_ahead_in_a_model_of_one_state():
    truth = example("one state")
    model, found = build(truth, "blocked"), random_policy(9, states=1)
    wanted = truth.reward[0] + truth.discount * float(np.max(found.vectors))
    np.testing.assert_allclose(q(model, found, np.ones(1, np.float32)), wanted, rtol=2e-6)


@pytest.mark.parametrize("storage", STORAGES)
def test_stacked_policies_of_a_library(storage):
    """Padding in vectors and states changes no value, no action and no look-ahead."""
    truths = [example("hard zeros"), plain(np.random.default_rng(6), states=3, zeros=0.3)]
    library = Library.from_models([build(truth, storage) for truth in truths])
    policies = [random_policy(7, 5, 6), random_policy(8, 3, 2)]
    policies[1] = policies[1]._replace(
        vectors=policies[1].vectors - 90
    )  # all values below the padding's zeros
    stacked = policy.stack(policies, library.num_states)
    assert (stacked.vectors.shape, stacked.actions.shape) == ((2, 6, 5), (2, 6))
    assert stacked.actions.dtype == np.int32
    beliefs = np.zeros((2, 5), np.float32)
    for k, truth in enumerate(truths):
        beliefs[k, : len(truth.initial)] = random_beliefs(9, 3, len(truth.initial))[2]
    values = jax.vmap(policy.value)(stacked, beliefs)
    chances = jax.vmap(partial(policy.action_probabilities, num_actions=NUM_ACTIONS))(stacked, beliefs)
    ahead = jax.jit(jax.vmap(policy.q))(library.models, stacked, beliefs)
    for k, (truth, alone) in enumerate(zip(truths, policies, strict=True)):
        vectors, belief = np.asarray(alone.vectors, float), beliefs[k, : len(truth.initial)].astype(float)
        assert float(values[k]) == pytest.approx(oracle.value(vectors, belief), rel=1e-6)
        wanted = oracle.action_probabilities(vectors, alone.actions, belief, NUM_ACTIONS, TIE)
        np.testing.assert_allclose(chances[k], wanted)
        wanted = oracle.q(*truth[:3], truth.discount, vectors, belief)
        np.testing.assert_allclose(ahead[k], wanted, rtol=5e-6, atol=1e-5)


def test_padding_never_wins():
    """Not at the lowest values a policy may have, nor for a belief that is all on one state."""
    lowest = Policy(np.float32([[-1e8, -1e8]]), np.int32([2]))
    stacked = policy.stack([lowest, random_policy(1, 2, 4)], 2)
    first = Policy(stacked.vectors[0], stacked.actions[0])
    assert np.asarray(first.vectors[1:] == np.float32(NEVER)).all()
    for belief in np.float32([[1, 0], [0.5, 0.5], [1e-30, 1]]):
        assert float(value(first, belief)) == pytest.approx(-1e8)
        np.testing.assert_array_equal(probabilities(first, belief), [0, 0, 1])
