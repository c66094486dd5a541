"""Sampling: which index a uniform number picks, and frequencies against probabilities."""

from contextlib import nullcontext

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import environment
from jatpo.library import Library
from jatpo.storage import pick
from oracles import belief as paths
from oracles import sampling as oracle
from random_models import build, example, plain

STORAGES = ("dense", "blocked")
LARGEST = np.float32(1 - 2.0**-24)  # the largest float32 below 1
TRIALS = 3000  # of each state and action

reset = jax.jit(jax.vmap(environment.reset, in_axes=(0, None)))
step = jax.jit(jax.vmap(environment.step, in_axes=(0, None, 0, 0)))
pick_many = jax.jit(jax.vmap(pick, in_axes=(0, None)))


@jax.jit
def sample_all(model, uniforms):
    """The successor and the observation for every (uniform, state, action) [U, X, A]."""

    def one(uniform, state, action):
        return model.transition.sample(uniform, state, action), model.observation.sample(
            uniform, state, action
        )

    over_actions = jax.vmap(one, in_axes=(None, None, 0))
    over_states = jax.vmap(over_actions, in_axes=(None, 0, None))
    states, actions = jnp.arange(model.num_states), jnp.arange(model.num_actions)
    return jax.vmap(over_states, in_axes=(0, None, None))(uniforms, states, actions)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "same observation", "deterministic", "alone"])
def test_a_uniform_picks_the_same_outcome_in_both_storages(case, storage):
    """The one of the oracle, unless the uniform is so near an edge that rounding decides."""
    truth, model = example(case), build(example(case), storage)
    uniforms = np.random.default_rng(5).random(40, np.float32)
    arrived, seen = map(np.asarray, sample_all(model, uniforms))
    num_actions, num_states, _ = truth.sizes
    checked = 0
    for i, x, a in np.ndindex(len(uniforms), num_states, num_actions):
        for found, weights in ((arrived, truth.transition[a, x]), (seen, truth.observation[a, x])):
            if oracle.distance_to_edge(uniforms[i], weights) > 1e-6:
                assert found[i, x, a] == oracle.inverse(uniforms[i], weights)
                checked += 1
    assert checked > 0.99 * 2 * len(uniforms) * num_states * num_actions


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "same observation", "deterministic", "alone"])
def test_extreme_uniforms_pick_possible_outcomes(case, storage):
    truth, model = example(case), build(example(case), storage)
    extremes = np.zeros(40, np.float32)
    extremes[20:] = LARGEST
    arrived, seen = map(np.asarray, sample_all(model, extremes))
    for x, a in np.ndindex(truth.sizes[1], truth.sizes[0]):
        successors, signs = np.flatnonzero(truth.transition[a, x]), np.flatnonzero(truth.observation[a, x])
        assert (arrived[0, x, a], arrived[-1, x, a]) == (successors[0], successors[-1])
        assert (seen[0, x, a], seen[-1, x, a]) == (signs[0], signs[-1])


weights = arrays.arrays(
    np.float32, 6, elements=st.one_of(st.just(0.0), st.floats(2.0**-20, 1.0, width=32)), fill=st.nothing()
)


@hypothesis.given(
    weights.filter(lambda w: w.any()),
    st.one_of(st.sampled_from([0.0, float(LARGEST)]), st.floats(0, float(LARGEST), width=32)),
)
def test_pick(weights, uniform):
    found = int(pick_many(np.array([uniform], np.float32), weights)[0])
    assert weights[found] > 0
    if oracle.distance_to_edge(uniform, weights) > 1e-6:
        assert found == oracle.inverse(uniform, weights)


def test_edges_belong_to_the_next_outcome():
    uniforms = np.array([0, 0.25, 0.5, LARGEST], np.float32)
    assert pick_many(uniforms, np.array([0.25, 0.25, 0.5], np.float32)).tolist() == [0, 1, 2, 2]
    assert pick_many(uniforms, np.array([0, 3, 0, 3, 0], np.float32)).tolist() == [1, 1, 3, 3]


def test_pick_never_takes_a_zero_in_a_long_row():
    """A parallel cumulated sum moves by rounding also where the weight is 0: at the edges it matters."""
    random = np.random.default_rng(1)
    for _ in range(10):
        weights = (random.random(600) * (random.random(600) < 0.3)).astype(np.float32)
        weights[[0, -100]] += 1
        weights[-99:] = 0
        weights /= weights.sum()
        edges = np.cumsum(weights).astype(np.float32)
        uniforms = np.concatenate(
            [edges, np.nextafter(edges, np.float32(0)), np.nextafter(edges, np.float32(2))]
        )
        uniforms[-1] = LARGEST
        found = np.asarray(pick_many(uniforms.clip(0, LARGEST), weights))
        assert (weights[found] > 0).all()
        assert found[-1] == 500  # the last one with a weight


def outcomes(model, seed: int):
    """States, observations and rewards of TRIALS steps from every state with every action [X, A, TRIALS]."""
    shape = (model.num_states, model.num_actions, TRIALS)
    states, actions, _ = (part.ravel().astype(np.int32) for part in np.indices(shape))
    keys = jax.random.split(jax.random.key(seed), len(states))
    return [np.asarray(part).reshape(shape) for part in step(keys, model, states, actions)]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "same observation"])
def test_frequencies_of_steps(case, storage):
    """Successor and observation together, for every state and action."""
    truth, model = example(case), build(example(case), storage)
    num_actions, num_states, num_observations = truth.sizes
    arrived, seen, rewards = outcomes(model, seed=11)
    for x, a in np.ndindex(num_states, num_actions):
        counts = np.zeros((num_states, num_observations))
        np.add.at(counts, (arrived[x, a], seen[x, a]), 1)
        chances = truth.transition[a, x][:, None] * truth.observation[a]
        assert oracle.excess(counts.ravel(), chances.ravel()) < 1
        np.testing.assert_array_equal(rewards[x, a], np.float32(truth.reward[x, a]))


def test_the_criterion_sees_wrong_probabilities():
    """Frequencies of one action against the probabilities of another, and one impossible outcome."""
    truth = example("plain")
    arrived, _, _ = outcomes(build(truth), seed=11)
    counts = [np.bincount(arrived[0, a], minlength=5) for a in range(3)]
    assert oracle.excess(counts[0], truth.transition[0, 0]) < 1
    assert oracle.excess(counts[0], truth.transition[1, 0]) > 1
    assert oracle.excess([50, 50, 1], [0.5, 0.5, 0]) == np.inf


@pytest.mark.parametrize("storage", STORAGES)
def test_frequencies_of_resets(storage):
    truth = example("hard zeros")
    keys = jax.random.split(jax.random.key(3), 20_000)
    counts = np.bincount(np.asarray(reset(keys, build(truth, storage))), minlength=5)
    assert oracle.excess(counts, truth.initial) < 1
    assert counts.sum() == 20_000


@pytest.mark.parametrize(
    ("storage", "precision"), [("dense", "float64"), ("blocked", "float64"), ("blocked", "float32")]
)
def test_episodes_under_scan(storage, precision):
    """State and observation after three steps against the enumeration of state paths."""
    truth = example("unreachable")
    actions = np.array([2, 0, 1], np.int32)

    def episode(key, model):
        def advance(state, inputs):
            key, action = inputs
            state, observation, _ = environment.step(key, model, state, action)
            return state, observation

        start, *rest = jax.random.split(key, 4)
        return jax.lax.scan(advance, environment.reset(start, model), (jnp.stack(rest), actions))

    with jax.enable_x64(True) if precision == "float64" else nullcontext():
        keys = jax.random.split(jax.random.key(17), 20_000)
        last, seen = jax.jit(jax.vmap(episode, in_axes=(0, None)))(keys, build(truth, storage))
    assert last.dtype == seen.dtype == np.int32
    marginal = paths.path_weights(*truth[:2], truth.initial, actions, [None] * 3)
    joint = marginal[:, None] * truth.observation[actions[-1]]
    counts = np.zeros_like(joint)
    np.add.at(counts, (np.asarray(last), np.asarray(seen)[:, -1]), 1)
    assert oracle.excess(counts.ravel(), joint.ravel()) < 1


@pytest.mark.parametrize("storage", STORAGES)
def test_alone_as_in_a_batch(storage):
    """A trial does not depend on the others, and a key always gives the same."""
    model = build(example("hard zeros"), storage)
    keys = jax.random.split(jax.random.key(0), 5)
    states, actions = np.array([0, 1, 2, 3, 4], np.int32), np.array([0, 1, 2, 0, 1], np.int32)
    batch = step(keys, model, states, actions)
    for i in range(5):
        alone = jax.jit(environment.step)(keys[i], model, states[i], actions[i])
        assert [float(part) for part in alone] == [float(part[i]) for part in batch]


@pytest.mark.parametrize("storage", STORAGES)
def test_padding_of_a_library_is_never_entered(storage):
    models = [example("hard zeros"), plain(np.random.default_rng(2), states=2, zeros=0.3)]
    library = Library.from_models([build(model, storage) for model in models])
    padded = library.model(1)
    keys = jax.random.split(jax.random.key(5), 2000)
    assert np.asarray(reset(keys, padded)).max() == 1
    states = np.arange(2000, dtype=np.int32) % 2
    arrived, seen, _ = map(np.asarray, step(keys, padded, states, states))
    chances = models[1].transition[states, states, :].sum(axis=0)
    assert oracle.excess(np.bincount(arrived, minlength=5), np.append(chances, [0, 0, 0]) / 2000) < 1
    assert seen.max() < 4
