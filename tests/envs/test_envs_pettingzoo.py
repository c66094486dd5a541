"""Two agents in one domain: PettingZoo's checkers, and the domain's own dynamics with its own teammate."""

from pathlib import Path

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from jatpo import domains
from jatpo.domains import MMDP, World
from jatpo.domains.description import from_array
from jatpo.envs.pettingzoo import TeamEnv
from jatpo.envs.team import draw
from jatpo.errors import JatpoError
from jatpo.files import load
from oracles.domains import transcribe

TIGER = str(Path(__file__).parent.parent / "data" / "tiger.POMDP")
QUICK = ("gridworld", "pursuit-task", "abandoned-power-plant", "ntu", "overcooked")
CHOSEN = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in domains.names()]
BOTH = ("as_run", "as_written")
CHECKED = 150  # states of each model, of those that can be reached and others


def random_actions(env, random):
    return {agent: int(random.integers(env.action_space(agent).n)) for agent in env.agents}


@pytest.mark.parametrize("name", CHOSEN)
def test_pettingzoos_checkers_pass(name):
    parallel_api_test(TeamEnv(name))
    parallel_seed_test(lambda: TeamEnv(name))


def test_seeds_hold():
    def play(env, seed):
        random, told = np.random.default_rng(0), [env.reset(seed=seed)]
        mate = env.library_teammate(seed=1)
        while env.agents:
            action = int(random.integers(5))
            told.append(env.step({"agent": action, "teammate": mate(env.state()[1], action)}))
        return told

    env = TeamEnv("gridworld")
    first = play(env, 4)
    assert play(env, 4) == play(TeamEnv("gridworld"), 4) == first and len(first) == 51
    assert play(env, None) != first and play(env, 5) != first


def by_name(names, distribution):
    """A distribution as a dictionary, with what is listed twice added up."""
    found = {}
    for value, chance in zip(*distribution, strict=True):
        if chance > 0:
            found[names[value]] = found.get(names[value], 0.0) + float(chance)
    return found


LARGE = ("mit", "cit")


@pytest.mark.parametrize("rules", BOTH)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in domains.names()]
)
def test_with_the_librarys_teammate_the_process_is_the_pomdp(name, rules):
    """sum_b teammate(b | x, a) P(y | x, a, b) = P(y | x, a), and the same O, R and start, by computation."""
    env = TeamEnv(name, rules)
    for k in (0, len(env.teams) - 1):
        team, truth = env.teams[k], transcribe(name, k, rules)
        states, actions = team.mmdp.states, team.mmdp.actions
        assert by_name(states, team.start()) == pytest.approx(truth.start, abs=1e-12)
        chosen = np.random.default_rng(k).permutation(len(states))[:CHECKED]
        for x in {*chosen.tolist(), len(states) - 1}:
            for a, action in enumerate(actions):
                found = {}
                for b, chance in enumerate(team.teammate(x, a)):
                    assert team.reward(x, a, b) == truth.reward(states[x])
                    for y, p in by_name(states, team.arrivals(x, a, b)).items():
                        found[y] = found.get(y, 0.0) + chance * p
                found = {y: p for y, p in found.items() if p > 0}
                assert found == pytest.approx(truth.transition(states[x], action), abs=1e-12)
                seen = by_name(env.library.members[k].observations, team.observations(x, a))
                assert seen == pytest.approx(truth.observation(action, states[x]), abs=1e-12)


def test_steps_follow_the_process():
    """Every step is possible, earns the reward of the state it leaves, and all that is possible happens."""
    env = TeamEnv("abandoned-power-plant", horizon=40)
    random, met, possible = np.random.default_rng(2), set(), set()
    for episode in range(150):
        seen, _ = env.reset(seed=episode)
        assert seen["agent"] == 6 and seen["teammate"] == env.state()[1]
        assert env.team.mmdp.initial[seen["teammate"]] > 0
        while env.agents:
            k, x = env.state().tolist()
            actions = random_actions(env, random)
            a, b = actions["agent"], actions["teammate"]
            seen, rewards, over, ended, infos = env.step(actions)
            y = int(env.state()[1])
            outcomes = by_name(range(env.team.num_states), env.teams[k].arrivals(x, a, b))
            assert y in outcomes and seen["teammate"] == y and infos["agent"] == {"model": k, "state": y}
            assert seen["agent"] in env.teams[k].observations(y, a)[0]
            assert rewards == dict.fromkeys(("agent", "teammate"), env.teams[k].reward(x, a, b))
            assert not any(over.values()) and set(ended.values()) == {not env.agents}
            met.add((k, x, a, b, y))
            possible |= {(k, x, a, b, to) for to in outcomes}
    assert {k for k, *_ in met} == {0, 1} and len(met) > 0.8 * len(possible)


def test_each_agent_moves_itself():
    env = TeamEnv("ntu")
    order = [env.team.mmdp.actions.index(name) for name in ("right", "stay")]
    moved = set()
    for seed in range(20):
        env.reset(seed=seed)
        before = env.team.mmdp.states[env.state()[1]].split()
        env.step({"agent": order[0], "teammate": order[1]})
        after = env.team.mmdp.states[env.state()[1]].split()
        if after != ["absorbing"]:
            assert after[3] == before[3]  # the teammate stays
            moved.add(after[1] != before[1])
    assert True in moved


def test_the_teammate_may_mind_the_agents_action():
    env = TeamEnv("overcooked")
    env.reset(seed=0)
    mate = env.library_teammate(seed=0)
    minds = [x for x in range(env.team.num_states) if np.ptp(env.team.policy[:, x], axis=0).any()]
    assert minds
    with pytest.raises(JatpoError, match="the agent's action"):
        mate(minds[0])
    assert mate.probabilities(minds[0], 3) == pytest.approx(env.team.policy[3, minds[0]])
    assert 0 <= mate(minds[0], 3) < 4


def test_the_teammate_follows_the_episodes_model():
    env = TeamEnv("pursuit-teammate")
    mate = env.library_teammate(seed=0)
    differing = np.flatnonzero((env.teams[0].policy != env.teams[1].policy).any(axis=(0, 2)))
    for k in range(2):
        while env.state()[0] != k or not env.agents:
            env.reset()
        found = mate.probabilities(int(differing[0]))
        assert found.tolist() == env.teams[k].policy[0, differing[0]].tolist()


def test_draw_never_takes_what_cannot_happen():
    class Fixed:
        def __init__(self, value):
            self.random = lambda: value

    values, chances = np.array([7, 8, 9, 10]), np.array([0.0, 0.25, 0.75, 0.0])
    below = np.nextafter(1, 0)
    found = [draw(Fixed(value), (values, chances)) for value in (0.0, 0.2499, 0.25, 0.9, below)]
    assert found == [8, 8, 9, 9, 9]
    tenths = np.append(np.full(10, 0.1), 0.0)
    assert draw(Fixed(below), (np.arange(11), tenths)) == 9


def corridor(order, replies=("wait", "push")):
    """Two places; the agent goes to the one it names, and a teammate who pushes sends it to the other.

    The teammate pushes more often, and the sensor is perfect, when the agent goes right.
    """
    places = {"left": 0, "right": 1}
    to = np.array([places[name] for name in order])
    successors = (to[:, None, None] ^ np.arange(len(replies))[None, :, None] % 2)[..., None]
    mmdp = MMDP.episodic(
        ["at left", "at right"],
        order,
        replies,
        np.broadcast_to(successors, (2, len(replies), 2, 1)),
        np.ones(1),
        np.zeros(2, bool),
        np.array([1.0, 0.0]),
        0.9,
    )
    sensor = {"left": [[0.9, 0.1], [0.2, 0.8], [1, 0]], "right": [[1, 0], [0, 1], [1, 0]]}
    seen = tuple(f"see {name}" for name in order)
    views = np.array([sensor[name] for name in order])[:, :, to]  # [A, X, Z], what is seen in this order too
    waits = {"left": 0.75, "right": 0.5}
    rest = len(replies) - 1
    policy = np.array([[[waits[name], *np.full(rest, (1 - waits[name]) / rest)]] * 3 for name in order])
    return World("corridor", mmdp, lambda: policy, from_array(views), seen)


def test_models_matched_by_name_have_one_order(tmp_path, registries):
    domains.register("forth")(lambda model: corridor(("left", "right")))
    domains.register("back")(lambda model: corridor(("right", "left")))
    (tmp_path / "library.toml").write_text(
        'match = "name"\n[[model]]\ndomain = "forth"\n[[model]]\ndomain = "back"\n'
    )
    env = TeamEnv(tmp_path)
    for team, model in zip(env.teams, env.library.members, strict=True):
        assert model.actions == team.mmdp.actions == ("left", "right")
        dense = model.to_dense()
        for a, x in np.ndindex(2, 3):
            row = np.zeros(3)
            for b, chance in enumerate(team.teammate(x, a)):
                np.add.at(row, team.arrivals(x, a, b)[0], chance * team.arrivals(x, a, b)[1])
            assert row == pytest.approx(dense.transition[a, x], abs=1e-6)
            symbols, chances = team.observations(x, a)
            assert chances == pytest.approx(dense.observation[a, x, symbols], abs=1e-6)
    assert by_name(range(3), env.teams[0].arrivals(0, 1, 0)) == {1: 1.0}
    np.testing.assert_array_equal(env.teams[0].policy, env.teams[1].policy)


def test_the_agent_sees_what_its_action_shows(registries):
    domains.register("forth")(lambda model: corridor(("left", "right")))
    env = TeamEnv("forth", horizon=200)
    seen, _ = env.reset(seed=0)
    right = {False: 0, True: 0}
    for step in range(200):
        action = step % 2
        seen, *_ = env.step({"agent": action, "teammate": step // 2 % 2})
        right[action == 1] += seen["agent"] == seen["teammate"]
    assert right[True] == 100 and 70 < right[False] < 98


def test_models_without_a_teammate_are_refused(tmp_path, registries):
    with pytest.raises(JatpoError, match="model 'tiger' of tiger"):
        TeamEnv(TIGER)
    with pytest.raises(JatpoError, match="teammate"):
        TeamEnv(load(TIGER))
    domains.register("whole")(lambda model: corridor(("left", "right")).describe())
    with pytest.raises(JatpoError, match="'whole'"):
        TeamEnv("whole")
    domains.register("forth")(lambda model: corridor(("left", "right")))
    domains.register("more")(lambda model: corridor(("left", "right"), ("wait", "push", "rest")))
    (tmp_path / "library.toml").write_text('[[model]]\ndomain = "forth"\n[[model]]\ndomain = "more"\n')
    with pytest.raises(JatpoError, match=r"wait, push, rest in model .* and wait, push in"):
        TeamEnv(tmp_path)


def test_mistakes_name_the_remedy():
    with pytest.raises(JatpoError, match="choose from ansi"):
        TeamEnv("ntu", render_mode="human")
    with pytest.raises(JatpoError, match=r"horizon .*0"):
        TeamEnv("ntu", horizon=0)
    env = TeamEnv("abandoned-power-plant", horizon=1)
    with pytest.raises(JatpoError, match="call reset"):
        env.step({"agent": 0, "teammate": 0})
    env.reset(seed=0)
    with pytest.raises(JatpoError, match="'teammate' has no action 4: choose from 0 to 3"):
        env.step({"agent": 5, "teammate": 4})
    with pytest.raises(JatpoError, match="'teammate'"):
        env.step({"agent": 5})
    env.step({"agent": 5, "teammate": 3})
    with pytest.raises(JatpoError, match="call reset"):
        env.step({"agent": 0, "teammate": 0})


def test_rendering():
    env = TeamEnv("ntu", render_mode="ansi")
    env.reset(seed=0)
    model, state = env.state().tolist()
    assert env.render() == domains.render_text("ntu", state, model=model)
