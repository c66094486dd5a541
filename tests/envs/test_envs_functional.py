"""Libraries as pure reset and step functions."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import domains, environment, envs
from jatpo.domains.exact import exact_returns
from jatpo.errors import JatpoError
from jatpo.files import load

TIGER = Path(__file__).parent.parent / "data" / "tiger.POMDP"


@pytest.fixture(scope="module")
def plant():
    """Two models with different state spaces."""
    return envs.make("abandoned-power-plant")


@pytest.fixture(scope="module")
def gridworld():
    return envs.make("gridworld")


def rollout(env, params, key, horizon):
    """The rewards [T] of random actions."""
    first, rest = jax.random.split(key)

    def step(state, key):
        act, move = jax.random.split(key)
        _, state, reward, _, _ = env.step_env(move, state, env.action_space().sample(act), params)
        return state, reward

    return jax.lax.scan(step, env.reset(first, params)[1], jax.random.split(rest, horizon))[1]


def test_sizes_are_those_of_the_library(plant):
    assert (plant.num_models, plant.num_states, plant.num_actions, plant.num_observations) == (2, 105, 6, 6)
    assert plant.horizon == 50 and plant.name == "abandoned-power-plant"
    assert plant.action_space().n == 6 and plant.observation_space().n == 7
    assert envs.make("abandoned-power-plant", horizon=9).horizon == 9


def test_nothing_is_seen_before_the_first_action(plant):
    observation, state = jax.jit(plant.reset)(jax.random.key(0), plant.default_params)
    assert int(observation) == plant.num_observations and int(state.time) == 0
    assert not jax.nn.one_hot(observation, plant.num_observations).any()
    assert plant.observation_space().contains(observation)


@pytest.mark.parametrize("name", ["abandoned-power-plant", "gridworld"])  # dense and blocked
def test_a_step_is_that_of_the_true_model(name):
    env = envs.make(name)
    models = [domains.make(name, k) for k in range(env.num_models)]
    random = np.random.default_rng(3)
    step = jax.jit(jax.vmap(env.step_env, (0, 0, 0, None)))
    true_step = jax.jit(jax.vmap(environment.step, (0, None, 0, 0)))
    for k, model in enumerate(models):
        states = random.integers(model.num_states, size=300).astype(np.int32)
        actions = random.integers(env.num_actions, size=300).astype(np.int32)
        keys = jax.random.split(jax.random.key(k), 300)
        expected = true_step(keys, model, states, actions)
        before = envs.State(jnp.full(300, k, jnp.int32), jnp.asarray(states), jnp.zeros(300, jnp.int32))
        seen, after, reward, done, info = step(keys, before, actions, env.default_params)
        for found, wanted in zip((after.state, seen, reward), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert (after.model == k).all() and (after.time == 1).all() and not done.any()
        np.testing.assert_array_equal(info["state"], after.state)
        np.testing.assert_array_equal(info["observation"], seen)


def test_an_action_that_does_not_exist_is_no_action_of_the_next_model(plant):
    state = envs.State(*(jnp.int32(part) for part in (0, 0, 0)))
    step = jax.jit(plant.step_env)
    outcomes = [step(jax.random.key(4), state, action) for action in (5, 6, 11, 99)]
    assert len({(int(seen), int(after.state)) for seen, after, *_ in outcomes}) == 1


def test_models_are_drawn_from_the_prior_and_states_from_their_start(gridworld):
    prior = np.array([0.5, 0.25, 0.25, 0.0], np.float32)
    params = gridworld.default_params._replace(prior=jnp.asarray(prior))
    keys = jax.random.split(jax.random.key(8), 20_000)
    _, states = jax.jit(jax.vmap(gridworld.reset, (0, None)))(keys, params)
    counts = np.bincount(states.model, minlength=4)
    deviation = np.sqrt(len(keys) * prior * (1 - prior))
    assert counts[3] == 0 and (np.abs(counts - len(keys) * prior) <= 4 * deviation).all()
    starts = np.stack([domains.describe("gridworld", k).initial for k in range(4)])
    assert (starts[np.asarray(states.model), np.asarray(states.state)] > 0).all()


@pytest.mark.parametrize("name", ["abandoned-power-plant", "gridworld", "ntu"])
def test_every_start_state_has_its_share_of_the_uniform_numbers(name):
    """Reset takes the first state whose cumulated probability exceeds a uniform number below 1."""
    env = envs.make(name)
    edges = np.asarray(env.default_params.start, np.float64)
    shares = np.diff(edges, axis=1, prepend=0)
    assert (edges[:, -1] == 1).all()
    for k in range(env.num_models):
        initial = domains.describe(name, k).initial
        assert shares[k, : len(initial)] == pytest.approx(initial, abs=1e-7)
        assert not shares[k, : len(initial)][initial == 0].any() and not shares[k, len(initial) :].any()


@pytest.mark.parametrize(("uniform", "place"), [(0.0, 0), (1 - 2.0**-24, -1)])
def test_extreme_uniforms_pick_possible_starts(monkeypatch, uniform, place):
    def fixed(key, shape=(), dtype=jnp.float32):
        return jnp.full(shape, uniform, dtype)

    env = envs.make("ntu", prior=[0, 1, 0, 0])
    monkeypatch.setattr(jax.random, "uniform", fixed)
    _, state = env.reset(jax.random.key(0))
    possible = np.flatnonzero(domains.describe("ntu", 1).initial)
    assert possible[0] > 0 and (int(state.model), int(state.state)) == (1, possible[place])


def test_an_episode_is_done_at_the_horizon_and_the_next_begins():
    env = envs.make(TIGER, horizon=3)
    step = jax.jit(env.step)
    observation, state = jax.jit(env.reset)(jax.random.key(0))
    dones, times, seen = [], [], []
    for i in range(7):
        observation, state, _, done, info = step(jax.random.key(i), state, 0, env.default_params)
        dones.append(bool(done))
        times.append(int(state.time))
        seen.append(int(observation))
        assert int(info["observation"]) in (0, 1)
        assert int(observation) == (2 if done else int(info["observation"]))
    assert dones == [False, False, True] * 2 + [False] and times == [1, 2, 0, 1, 2, 0, 1]
    assert [number == 2 for number in seen] == dones
    later = jax.jit(env.step_env)(jax.random.key(0), envs.State(*(jnp.int32(part) for part in (0, 0, 5))), 0)
    assert int(later[1].time) == 6 and bool(later[3])


def test_random_actions_earn_their_exact_return(gridworld):
    keys = jax.random.split(jax.random.key(1), 4096)
    run = jax.jit(jax.vmap(lambda key: rollout(gridworld, gridworld.default_params, key, gridworld.horizon)))
    returns = np.asarray(run(keys)).sum(axis=1)
    exact = [exact_returns(domains.describe("gridworld", k), gridworld.horizon).random for k in range(4)]
    assert abs(returns.mean() - np.mean(exact)) < 4 * returns.std() / np.sqrt(len(returns))
    assert returns.std() > 1


def test_another_prior_and_horizon_compile_nothing(plant):
    traces = []

    @jax.jit
    def step(key, state, action, params):
        traces.append(1)
        return plant.step(key, state, action, params)

    params = plant.default_params
    _, state = plant.reset(jax.random.key(0), params)
    ends = []
    for changed in (params, params._replace(horizon=jnp.int32(1)), params._replace(prior=params.prior[::-1])):
        ends.append(bool(step(jax.random.key(1), state, jnp.int32(2), changed)[3]))
    assert len(traces) == 1 and ends == [False, True, False]


def test_a_users_library_is_an_environment(tmp_path):
    for name in ("one", "two"):
        shutil.copy(TIGER, tmp_path / f"{name}.POMDP")
    env = envs.make(tmp_path)
    assert env.num_models == 2 and env.library.labels == ("one", "two") and env.horizon == 50
    assert envs.make(load(tmp_path)).num_models == 2
    rewards = jax.jit(lambda key: rollout(env, env.default_params, key, 200))(jax.random.key(0))
    assert set(np.asarray(rewards).tolist()) == {-1.0, -100.0, 10.0}


def test_double_precision(x64):
    env = envs.make(TIGER)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    _, _, reward, _, _ = jax.jit(env.step)(jax.random.key(0), state, 0)
    assert reward.dtype == env.default_params.start.dtype == jnp.float64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": "gridwold"}, "did you mean 'gridworld'"),
        ({"source": "ntu", "rules": "asrun"}, "did you mean 'as_run'"),
        ({"source": "ntu", "horizon": 0}, r"horizon .*0"),
        ({"source": "ntu", "prior": [0.5, 0.5]}, "prior of ntu"),
    ],
)
def test_wrong_arguments_name_the_remedy(arguments, words):
    with pytest.raises(JatpoError, match=words):
        envs.make(**arguments)
