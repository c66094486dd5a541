"""Particle filters against the exact filter of small tables, which enumerates state paths."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.library import Library
from jatpo.simulators import Exact, Particles, SimulatorLibrary
from oracles import belief as filtering
from random_models import build, example

STEPS = 4
SEEDS = 3000
PROPOSALS = ("bootstrap", "adapted", "merged")
ACTIONS, OBSERVATIONS = np.array([0, 2, 1, 0], np.int32), np.array([1, 0, 3, 2], np.int32)


def simulator(case="hard zeros", seed=0):
    truth = example(case, seed)
    library = Library.from_models([build(truth, "blocked")])
    return truth, SimulatorLibrary.from_tables(library).entry(0)


@partial(jax.jit, static_argnums=0)
def walk(representation, model, key, actions, observations):
    """The log evidences [T], the last belief and the effective sizes [T]."""
    first, later = jax.random.split(key)

    def step(belief, given):
        key, action, observation = given
        belief, log_evidence, found = representation.update(key, model, belief, action, observation)
        return belief, (log_evidence, found)

    start = representation.start(first, model)
    keys = jax.random.split(later, actions.shape[0])
    belief, (logs, found) = jax.lax.scan(step, start, (keys, actions, observations))
    return logs, belief, found


def history_of(truth, model):
    """A history that the model can explain."""
    states, actions, seen = [], [], []
    random = np.random.default_rng(0)
    state = random.choice(truth.sizes[1], p=truth.initial)
    for _ in range(STEPS):
        action = random.integers(truth.sizes[0])
        state = random.choice(truth.sizes[1], p=truth.transition[action, state])
        seen.append(random.choice(truth.sizes[2], p=truth.observation[action, state]))
        actions.append(action)
        states.append(state)
    return np.array(actions, np.int32), np.array(seen, np.int32)


@pytest.mark.parametrize("opening", [0, 1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("case", ["plain", pytest.param("hard zeros", marks=pytest.mark.slow)])
def test_the_evidence_is_unbiased(case, proposal, opening):
    """The mean over many seeds of the product of evidences, with three particles for five states.

    With opening=1 three of the five start states are drawn, with 4 all are listed.
    """
    truth, model = simulator(case)
    actions, seen = history_of(truth, model)
    exact = np.exp(np.sum(filtering.history(*truth[:2], truth.initial, actions, seen)[1]))
    keys = jax.random.split(jax.random.key(1), SEEDS)
    representation = Particles(3, proposal, floor=1e-30, opening=opening)
    logs = jax.vmap(walk, in_axes=(None, None, 0, None, None))(representation, model, keys, actions, seen)[0]
    estimates = np.exp(np.sum(np.asarray(logs, np.float64), axis=1))
    error = estimates.std() / np.sqrt(SEEDS)
    assert abs(estimates.mean() - exact) < 4 * error + 1e-5 * exact
    assert error < 0.1 * exact  # else it would say little
    assert (
        proposal == "merged" or estimates.std() > 0.01 * exact
    )  # with all states at hand nothing would vary


@pytest.mark.parametrize("proposal", ["adapted", "merged"])
def test_with_room_for_all_candidates_the_filter_is_exact(proposal):
    truth, model = simulator("plain", 2)
    actions, seen = history_of(truth, model)
    wanted, evidences = filtering.history(*truth[:2], truth.initial, actions, seen)
    count = 5 if proposal == "merged" else 5 * 5**STEPS
    logs, belief, _ = walk(Particles(count, proposal), model, jax.random.key(0), actions, seen)
    np.testing.assert_allclose(logs, evidences, rtol=1e-4)
    found = Particles(count, proposal).dense(belief, truth.sizes[1])
    np.testing.assert_allclose(found, wanted[-1], rtol=1e-3, atol=1e-6)


def test_many_particles_agree_with_the_exact_filter():
    truth, model = simulator("plain", 1)
    actions, seen = history_of(truth, model)
    representation = Particles(20_000)
    logs, belief, found = walk(representation, model, jax.random.key(0), actions, seen)
    exact_logs, exact, _ = walk(Exact(), model, jax.random.key(0), actions, seen)
    values = np.random.default_rng(0).normal(size=(2, truth.sizes[1])).astype(np.float32)
    np.testing.assert_allclose(logs, exact_logs, atol=0.05)
    np.testing.assert_allclose(
        representation.expectation(belief, values), Exact().expectation(exact, values), atol=0.05
    )
    size = np.asarray(found.size)
    assert ((size > 1000) & (size <= 20_001)).all()


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_depletion_leaves_a_stated_evidence_and_new_particles(proposal):
    _, model = simulator("never seen")
    representation = Particles(8, proposal, floor=1e-3)
    logs, belief, found = walk(
        representation, model, jax.random.key(0), ACTIONS[:2], np.array([1, 0], np.int32)
    )
    assert float(logs[0]) == pytest.approx(np.log(1e-3))
    assert int(belief.depleted) == 1 and found.dropped.tolist() == [1, 0]
    assert float(jnp.sum(belief.weights)) == pytest.approx(1, abs=1e-5) and np.isfinite(logs).all()


def test_seeds_hold_and_nothing_is_compiled_again():
    truth, model = simulator("plain")
    actions, seen = history_of(truth, model)
    representation = Particles(7)
    first = walk(representation, model, jax.random.key(5), actions, seen)
    compiled = walk._cache_size()
    again = walk(representation, model, jax.random.key(5), actions, seen)
    other = walk(representation, model, jax.random.key(6), actions, seen)
    assert walk._cache_size() == compiled
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first[0], other[0])


def log_evidence_of(model, actions, seen):
    """The log evidence of a history as a function of factors of O, a key and a filter."""

    def log_evidence(scale, key, representation):
        weaker = model.world.observation.with_probability(model.world.observation.probability * scale)
        own = type(model)(model.world.replace(observation=weaker), model.number, model.discount, model.size)
        return jnp.sum(walk(representation, own, key, actions, seen)[0])

    return log_evidence


@pytest.mark.parametrize("proposal", [pytest.param("bootstrap", marks=pytest.mark.slow), "merged"])
def test_the_gradient_of_the_evidence_is_unbiased(proposal):
    """By the probabilities of O."""
    truth, model = simulator("plain")
    actions, seen = history_of(truth, model)

    log_evidence = log_evidence_of(model, actions, seen)

    def evidence(*given):
        return jnp.exp(log_evidence(*given))

    kinds = np.random.default_rng(0).uniform(0.5, 1, model.world.observation.probability.shape)
    scale = jnp.asarray(kinds, jnp.float32)
    exact = np.asarray(jax.grad(evidence)(scale, jax.random.key(0), Exact()))
    assert np.abs(exact).max() > 0
    keys = jax.random.split(jax.random.key(2), SEEDS)
    of_seed = jax.vmap(jax.grad(evidence), in_axes=(None, 0, None))
    found = np.asarray(of_seed(scale, keys, Particles(3, proposal)), np.float64)
    error = found.std(axis=0) / np.sqrt(SEEDS)
    assert (np.abs(found.mean(axis=0) - exact) <= 5 * error + 1e-4 * np.abs(exact).max()).all()
    assert error.max() < 0.2 * np.abs(exact).max()


def test_the_gradient_of_the_log_evidence_has_a_bias_that_falls():
    """As stated: significant with two particles for five states, and less than half of that with four."""
    truth, model = simulator("plain")
    actions, seen = history_of(truth, model)
    slope = jax.grad(log_evidence_of(model, actions, seen))
    scale = jnp.ones(model.world.observation.probability.shape, jnp.float32)
    exact = np.asarray(slope(scale, jax.random.key(0), Exact()), np.float64)
    keys = jax.random.split(jax.random.key(2), SEEDS)
    bias, error = {}, {}
    for count in (2, 4):
        found = jax.vmap(slope, in_axes=(None, 0, None))(scale, keys, Particles(count, "merged"))
        found = np.asarray(found, np.float64)
        bias[count] = found.mean(axis=0) - exact
        error[count] = found.std(axis=0) / np.sqrt(SEEDS)
    assert (np.abs(bias[2]) > 5 * error[2]).any()
    assert np.abs(bias[4]).max() + 4 * error[4].max() < 0.5 * np.abs(bias[2]).max()


def test_an_unknown_proposal_is_refused():
    with pytest.raises(JatpoError, match="no proposal is called 'adapt'; did you mean 'adapted'"):
        Particles(3, "adapt")
