"""Pursuit on a torus against the paper's domain by enumeration, and its larger forms against what a hunt is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jatpo
from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.simulators import build
from jatpo.simulators.torus_pursuit import ACTIONS, Hunt


def hunts(size):
    """Every state of two hunters, in the order of the paper's table: offsets from -(N // 2)."""
    reach = np.arange(-(size // 2), size // 2 + 1)
    cells = np.stack(np.meshgrid(reach, reach, reach, reach, indexing="ij"), axis=-1).reshape(-1, 4) % size
    cells = np.vstack([cells, np.zeros((1, 4), int)]).astype(np.int32)
    over = np.arange(len(cells)) == len(cells) - 1
    return Hunt(cells[:, None, :2], cells[:, 2:], over)


@pytest.mark.parametrize("task", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_two_hunters_are_the_paper_s_domain(task):
    """Successors, rewards, likelihoods and starts of every state, by the published table on the torus."""
    library = build("torus-pursuit:size=5,agents=2,sensor=cells,noise=0.2,teammates=greedy")
    table = domains.describe("pursuit-task", task, "as_written")
    model, states = library.entry(task), hunts(5)
    codes = np.asarray(jax.vmap(model.code)(states))
    number = {int(code): x for x, code in enumerate(codes)}
    assert len(number) == table.num_states
    a, x, y, p = table.transition
    wanted = np.zeros((len(ACTIONS), len(codes), len(codes)))
    wanted[a, x, y] = p
    a, x, z, p = table.observation
    sensor = np.zeros((len(ACTIONS), len(codes), 81))
    sensor[a, x, z] = p
    listed = jax.jit(jax.vmap(jax.vmap(model.successors, (0, None)), (None, 0)))(
        states, jnp.arange(5, dtype=jnp.int32)
    )
    arrived = np.vectorize(number.get)(np.asarray(jax.vmap(jax.vmap(jax.vmap(model.code)))(listed[0])))
    found = np.zeros_like(wanted)
    for action in range(5):
        np.add.at(
            found[action], (np.arange(len(codes))[:, None], arrived[action]), np.asarray(listed[1][action])
        )
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    key = jax.random.key(0)
    _, rewards, _ = jax.jit(jax.vmap(model.step, (None, 0, None)))(key, states, jnp.int32(1))
    np.testing.assert_allclose(rewards, table.reward[:, 1])
    seen = jnp.arange(81, dtype=jnp.int32)
    logs = jax.jit(jax.vmap(jax.vmap(model.log_observation, (None, None, 0)), (0, None, None)))(
        states, jnp.int32(0), seen
    )
    np.testing.assert_allclose(np.exp(logs), sensor[0], atol=1e-6)
    keys = jax.random.split(key, 3000)
    starts = np.vectorize(number.get)(np.asarray(jax.vmap(lambda key: model.code(model.initial(key)))(keys)))
    assert (table.initial[starts] > 0).all() and len(set(starts.tolist())) > 580


def test_a_step_is_one_of_the_successors_and_what_is_seen_has_its_probability():
    """For three hunters with a window, in reachable states."""
    model = build("torus-pursuit:size=4,agents=3,reach=1,noise=0.1").entry(5)

    @jax.jit
    def walk(key):
        first, *later = jax.random.split(key, 4)
        state, action = model.initial(first), jnp.int32(2)
        arrived, _, _ = model.step(later[0], state, action)
        listed, probability = model.successors(state, action)
        seen = model.observe(later[1], arrived, action)
        codes = jax.vmap(model.code)(listed)
        return (
            model.code(arrived),
            codes,
            probability,
            seen,
            model.log_observation(arrived, action, seen),
            arrived,
        )

    keys = jax.random.split(jax.random.key(0), 50)
    arrived, codes, probability, seen, logs, states = jax.vmap(walk)(keys)
    assert (arrived[:, None] == codes).any(axis=1).all() and np.allclose(probability.sum(axis=1), 1)
    assert seen.shape == (50, 3, 9) and seen.dtype == bool
    for k in range(5):  # by hand, bit by bit
        others = np.vstack([states.teammates[k], states.prey[k]])
        total = 0.0
        for who, offset in enumerate(others):
            for place, (along, across) in enumerate(np.ndindex(3, 3)):
                here = ((offset - (across - 1, along - 1)) % 4 == 0).all()
                total += np.log(0.9 if here == seen[k, who, place] else 0.1)
        assert float(logs[k]) == pytest.approx(total, rel=1e-4)


@pytest.mark.slow
def test_preferences_win_the_hunt():
    """With the state known and the teammates assigned, the hunt is won in most trials."""
    model = build("torus-pursuit:size=6,agents=3,teammates=assigned").entry(1)

    def step(carry, key):
        state, total = carry
        move, draw = jax.random.split(key)
        action = jax.random.categorical(draw, jnp.log(model.preferences(state)))
        state, reward, _ = model.step(move, state, action)
        return (state, total + reward), None

    @jax.jit
    @jax.vmap
    def play(key):
        keys = jax.random.split(key, 61)
        (state, total), _ = jax.lax.scan(step, (model.initial(keys[0]), jnp.float32(0)), keys[1:])
        return state.over, total

    over, total = play(jax.random.split(jax.random.key(0), 100))
    assert over.mean() > 0.8 and (total[over] > 35).all()


def test_parameters_are_checked():
    assert (
        len(jatpo.load("torus-pursuit")) == 8 and jatpo.load("torus-pursuit:agents=4,size=10").num_models == 4
    )
    for text, sentence in (
        ("torus-pursuit:sizes=3", "no parameter of torus-pursuit is called 'sizes'; did you mean 'size'?"),
        ("torus-pursuit:size=big", "size of torus-pursuit must be a whole number, got 'big'"),
        ("torus-pursuit:agents=7", "a hunt by 7 agents is not possible: choose from 2 to 4"),
        ("torus-pursuit:size", "'size' in 'torus-pursuit:size' is not a parameter"),
    ):
        with pytest.raises(JatpoError, match=sentence.replace("?", "\\?")):
            jatpo.load(text)
