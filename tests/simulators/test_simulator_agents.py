"""Agents with filters, in tables and in simulators; the planner against a look-ahead written out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jatpo
from jatpo.beliefs import Support
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import (
    ATPO,
    JointPlanner,
    Preferences,
    Random,
    SimulatorATPO,
    SimulatorCommit,
    SimulatorInformed,
)
from jatpo.evaluate.agents.joint_planner import commit_values
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.simulator_scenario import SimulatorScenario
from jatpo.library import Library
from jatpo.mdp import value_iteration_library
from jatpo.simulators import Exact, OnTable, Particles, Simulator, SimulatorLibrary, simulator_class
from random_models import build, example

TRIALS, HORIZON = 96, 5


@pytest.fixture(scope="module")
def solved():
    library = Library.from_models([build(example("plain", seed), "blocked") for seed in range(3)])
    return jatpo.solve_library(library, jatpo.QMDP(), key=jax.random.key(0), stop=jatpo.Stop())


def play(agent, solved, scenario=None, **options):
    scenario = scenario or jatpo.Scenario(solved.library)
    return jatpo.rollout(jax.random.key(1), agent, scenario, solved, HORIZON, trials=TRIALS, **options)


@pytest.mark.parametrize(
    "filter",
    [
        pytest.param(Exact(), id="exact", marks=pytest.mark.slow),
        pytest.param(OnTable(Support(5)), id="list", marks=pytest.mark.slow),
        pytest.param(Particles(5, "merged"), id="merged"),
    ],
)
def test_with_an_exact_filter_it_is_atpo(solved, filter):
    """The same trials, the same posterior and the same actions, up to rounding."""
    ours = play(SimulatorATPO(filter=filter), solved, record=("posterior", "actions"))
    theirs = play(ATPO(), solved, record=("posterior", "actions"))
    np.testing.assert_array_equal(ours.records["actions"], theirs.records["actions"])
    np.testing.assert_allclose(ours.records["posterior"], theirs.records["posterior"], atol=2e-5)
    np.testing.assert_array_equal(ours.returns, theirs.returns)


@pytest.mark.slow
def test_tables_as_simulators_give_the_same_distribution(solved):
    """Other random numbers, so mean returns agree within their errors."""
    library = SimulatorLibrary.from_tables(solved.library)
    ours = play(SimulatorATPO(filter=Exact()), solved, SimulatorScenario(library), record=("posterior",))
    theirs = play(ATPO(), solved)
    error = np.hypot(ours.returns.std(), theirs.returns.std()) / np.sqrt(TRIALS)
    assert abs(ours.returns.mean() - theirs.returns.mean()) < 4 * error
    assert ours.records["posterior"].shape == (TRIALS, HORIZON + 1, 3)


@simulator_class
class Door(Simulator):
    """A door behind which a prize waits: the right one is `door`. The observation is a hint of `clarity`."""

    door: int | jax.Array
    clarity: float | jax.Array
    discount: float | jax.Array = 0.9
    actions = ("left", "right", "listen")

    def initial(self, key):
        return jnp.int32(0)

    def step(self, key, state, action):
        opened = action < 2
        reward = jnp.where(opened, jnp.where(action == self.door, 10.0, -10.0), -1.0)
        return jnp.where(opened, 1, state).astype(jnp.int32), reward, opened

    def final(self, state):
        return state == 1

    def observe(self, key, state, action):
        return {"hint": jnp.where(jax.random.bernoulli(key, self.clarity), self.door, 1 - self.door)}

    def log_observation(self, state, action, observation):
        heard = action == 2
        right = jnp.where(observation["hint"] == self.door, self.clarity, 1 - self.clarity)
        return jnp.log(jnp.where(heard, right, 0.5))

    def preferences(self, state):
        return jax.nn.one_hot(self.door, 3, dtype=jnp.float32)


def doors(clarity=0.85):
    numbers = [jnp.float32(clarity), jnp.float32(0.9)]
    models = [Door(jnp.int32(door), *numbers) for door in range(2)]
    return SimulatorLibrary.from_simulators(models, name="doors", horizon=HORIZON)


SMALL = Particles(4)


@pytest.fixture(scope="module")
def results():
    agents = [kind(filter=SMALL) for kind in (SimulatorATPO, SimulatorCommit, SimulatorInformed)]
    agents += [JointPlanner(filter=SMALL, particles=4, outcomes=8, depth=2, horizon=2), Random()]
    scenario = SimulatorScenario(doors())
    key = jax.random.key(0)
    return {
        each.name: jatpo.rollout(key, each, scenario, trials=TRIALS, record=("actions", "steps"))
        for each in agents
    }


def test_the_planner_pays_for_information(results):
    """It listens first, which no mixture of policies does: each of them opens a door at once."""
    planner = results["joint_planner"]
    assert (planner.records["actions"][:, 0] == 2).all() and planner.returns.mean() > 5
    assert (
        abs(results["particle_atpo"].returns.mean()) < 4
        and abs(results["particle_commit"].returns.mean()) < 4
    )
    assert (results["particle_informed"].returns == 10).all()


def test_a_trial_that_is_done_earns_nothing_more(results):
    for trials in results.values():
        steps, actions = trials.records["steps"], trials.records["actions"]
        numbers = np.arange(TRIALS)
        opened = actions[numbers, steps - 1] < 2
        assert (opened | (steps == HORIZON)).all()
        assert all((actions[i, : steps[i] - 1] == 2).all() for i in numbers)
        assert (np.abs(np.abs(trials.returns + steps - 1)[opened]) == 10).all()


def test_seeds_hold_alone_and_in_a_batch():
    scenario, agent = SimulatorScenario(doors()), SimulatorATPO(filter=SMALL)
    many = jatpo.rollout(jax.random.key(3), agent, scenario, trials=50)
    one = jatpo.rollout(jax.random.key(3), agent, scenario, trials=[37])
    assert one.returns[0] == many.returns[37] and one.truth[0] == many.truth[37]


def test_the_planner_s_values_are_those_of_a_lookahead_by_hand():
    """Two doors, two steps: opening is worth 0; listening -1 + discount times what the better door is worth then."""
    library, clarity = doors(0.8), 0.8
    planner = JointPlanner(filter=SMALL, particles=2, outcomes=20, depth=2, horizon=1)
    scenario = SimulatorScenario(library)
    from jatpo.evaluate.scenario import context_of

    context = context_of(scenario, {"commit_values": ()}, scenario.prior[:, None])
    memory = planner.begin(jax.random.key(0), context, scenario.prior)
    keys = jax.random.split(jax.random.key(1), 200)
    found = jax.jit(jax.vmap(lambda key: planner.action_values(key, context, memory)))(keys).mean(axis=0)
    # At depth 1 a node is opened at once: 10 (2 p - 1) for the likelier door, whose probability is the clarity.
    np.testing.assert_allclose(found, [0, 0, -1 + 0.9 * 10 * (2 * clarity - 1)], atol=0.35)


def test_commit_values_are_those_of_policies(solved):
    """By a linear solve of (1 - discount P) v = r in NumPy."""
    q = value_iteration_library(solved.library.models, 1e-6, 10_000).q
    found = np.asarray(commit_values(solved.library.models, q))
    for j in range(3):
        best = np.asarray(q[j]).argmax(axis=1)
        for k, seed in enumerate(range(3)):
            truth, x = example("plain", seed), np.arange(5)
            moves, rewards = truth.transition[best, x], truth.reward[x, best]
            np.testing.assert_allclose(
                found[j, k], np.linalg.solve(np.eye(5) - 0.9 * moves, rewards), rtol=2e-3
            )


def test_a_player_of_simulators():
    player = jatpo.agent(SimulatorATPO(filter=SMALL), doors(), seed=1)
    player.reset()
    assert player.act() in (0, 1) and player.probabilities.tolist() == [0.5, 0.5, 0]
    player.observe("listen", {"hint": 1})
    assert player.posterior == pytest.approx([0.15, 0.85], abs=1e-3)
    with pytest.raises(JatpoError, match="the observation is 3"):
        player.observe("listen", 3)


def test_agents_refuse_what_they_cannot_play(solved):
    scenario = SimulatorScenario(doors())
    for agent, sentence in (
        (ATPO(), "agent 'atpo' cannot run: it plays in libraries of tables, and doors is made of simulators"),
        (SimulatorATPO(filter=Exact()), "needs tables: use Particles"),
    ):
        with pytest.raises(JatpoError, match=sentence):
            jatpo.rollout(jax.random.key(0), agent, scenario, trials=1)
    with pytest.raises(JatpoError, match="Preferences needs simulators"):
        play(SimulatorATPO(policy=Preferences()), solved)


def test_results_of_different_filters_are_told_apart():
    few, many = (fingerprint(SimulatorATPO(filter=Particles(count))) for count in (10, 20))
    assert few != many and few["parameters"]["filter"] == {
        "class": "Particles", "count": 10, "proposal": "bootstrap", "resample_below": 0.5, "floor": 1e-6, "opening": 16
    }  # fmt: skip
