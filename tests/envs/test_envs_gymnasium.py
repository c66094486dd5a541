"""Gymnasium's environments: its own checker, seeds, and the vector against single ones."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from jatpo import domains
from jatpo.envs.gymnasium import ID, AdHocEnv, AdHocVectorEnv
from jatpo.errors import JatpoError

TIGER = str(Path(__file__).parent.parent / "data" / "tiger.POMDP")
QUICK = ("gridworld", "pursuit-task", "abandoned-power-plant", "ntu", "overcooked")
CHOSEN = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in domains.names()]


def play(env, seed, actions):
    """Everything an episode returns."""
    return [env.reset(seed=seed), *(env.step(action) for action in actions)]


@pytest.mark.parametrize("source", [*CHOSEN, TIGER])
def test_gymnasiums_checker_passes_without_a_warning(source):
    check_env(gymnasium.make(ID, source=source).unwrapped)


def test_spaces_horizon_and_rewards():
    env = AdHocEnv(TIGER, horizon=4)
    assert env.observation_space.n == 3 and env.action_space.n == 3
    observation, info = env.reset(seed=5)
    assert observation == 2 and info["model"] == 0
    for time in range(4):
        hidden = info["state"]
        observation, reward, terminated, truncated, info = env.step(1)
        assert reward == [-100, 10][hidden] and observation in (0, 1)
        assert (terminated, truncated) == (False, time == 3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_seeds_hold():
    actions = np.random.default_rng(0).integers(5, size=50)
    env = AdHocEnv("gridworld")
    first = play(env, 7, actions)
    second = play(env, None, actions)
    assert play(AdHocEnv("gridworld"), 7, actions) == play(env, 7, actions) == first
    assert play(env, None, actions) == second != first
    assert play(env, 8, actions) != first


def test_every_step_has_its_own_chance():
    """The tiger does not move while one listens, and 15 of 100 noises mislead."""
    env = AdHocEnv(TIGER, horizon=400)
    _, info = env.reset(seed=0)
    misled = sum(env.step(0)[0] != info["state"] for _ in range(400))
    assert abs(misled - 60) < 4 * np.sqrt(400 * 0.15 * 0.85)


@pytest.mark.parametrize("source", ["abandoned-power-plant", "gridworld"])
def test_a_vector_is_single_environments_side_by_side(source):
    vector = gymnasium.make_vec(ID, num_envs=3, source=source, horizon=4)
    assert isinstance(vector.unwrapped, AdHocVectorEnv)
    assert vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    single = SyncVectorEnv([lambda: AdHocEnv(source, horizon=4)] * 3)
    assert vector.observation_space == single.observation_space
    assert vector.action_space == single.action_space
    ended = 0
    for seed in (11, None, [5, 3, 5]):
        assert_same(vector.reset(seed=seed), single.reset(seed=seed))
        for step in range(12):
            actions = np.random.default_rng(step).integers(vector.single_action_space.n, size=3)
            ours, theirs = vector.step(actions), single.step(actions)
            assert_same(ours, theirs)
            ended += int(ours[3].sum())
    assert ended == 3 * 3 * 2


def assert_same(ours, theirs):
    """The same arrays with the same types, and the same infos."""
    *arrays, infos = ours
    *wanted, others = theirs
    assert infos.keys() == others.keys()
    for mine, other in (*zip(arrays, wanted, strict=True), *((infos[key], others[key]) for key in infos)):
        np.testing.assert_array_equal(mine, other, strict=True)


def test_a_vector_without_a_seed_differs_from_the_next():
    vectors = [AdHocVectorEnv("gridworld", 64) for _ in range(2)]
    starts = [vector.reset()[1]["state"] for vector in vectors]
    assert (starts[0] != starts[1]).any() and (starts[0] != starts[0][0]).any()


def test_what_a_vector_returned_is_not_written_again():
    vector = AdHocVectorEnv(TIGER, 2)
    first, infos = vector.reset(seed=0)
    first[:], infos["state"][:] = -1, -1
    observations, _, _, truncated, infos = vector.step([0, 0])
    assert (observations >= 0).all() and (infos["state"] >= 0).all()
    truncated[:] = True


def test_rendering():
    env = AdHocEnv("ntu", render_mode="ansi")
    _, info = env.reset(seed=0)
    assert env.render() == domains.render_text("ntu", info["state"], model=info["model"])
    tiger = AdHocEnv(TIGER, render_mode="ansi")
    _, info = tiger.reset(seed=0)
    assert tiger.render() == ("tiger-left", "tiger-right")[info["state"]]
    picture = AdHocEnv("ntu", render_mode="rgb_array")
    picture.reset(seed=0)
    first = picture.render()
    assert first.dtype == np.uint8 and first.shape[2] == 3 and len(np.unique(first)) > 3
    picture.reset(seed=2)
    assert (picture.render() != first).any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: AdHocEnv("ntu", render_mode="human"), "choose from ansi, rgb_array"),
        (lambda: AdHocVectorEnv("ntu", 0), "num_envs .*0"),
        (lambda: play(AdHocEnv(TIGER), 0, [3]), "choose from 0 to 2"),
        (lambda: play(AdHocVectorEnv(TIGER, 2), 0, [[0, 3]]), "2 numbers from 0 to 2"),
        (lambda: play(AdHocVectorEnv(TIGER, 2), 0, [[0]]), "2 numbers from 0 to 2"),
        (lambda: AdHocVectorEnv(TIGER, 2).reset(seed=[1]), "1 seeds for 2 environments"),
    ],
)
def test_mistakes_name_the_remedy(call, words):
    with pytest.raises(JatpoError, match=words):
        call()


def test_acting_before_a_reset_is_refused():
    for env, actions in ((AdHocEnv(TIGER), 0), (AdHocVectorEnv(TIGER, 1), [0])):
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(actions)


@pytest.mark.parametrize(
    ("package", "module"),
    [("gymnasium", "gymnasium"), ("gymnasium", "pettingzoo"), ("pettingzoo", "pettingzoo")],
)
def test_without_the_extra_one_sentence_says_what_to_install(package, module):
    code = f"""
import sys
sys.modules[{package!r}] = None
import jatpo.envs
from jatpo.errors import JatpoError
assert jatpo.envs.make("ntu").num_actions == 5
for kind in (JatpoError, ImportError):
    try:
        jatpo.envs.{module}
    except kind as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == second
    assert f"jatpo.envs.{module}" in first and f"pip install 'jatpo[{module}]'" in first
