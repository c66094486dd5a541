"""Witnesses: all see the same histories, and each reports what it would report of them alone."""

import jax
import jax.numpy as jnp
import numpy as np

import jatpo
from jatpo.evaluate.agents import SimulatorATPO
from jatpo.evaluate.agents.witness import witnessed
from jatpo.evaluate.simulator_scenario import SimulatorScenario
from jatpo.simulators import Particles, SimulatorLibrary, simulator_class
from jatpo.simulators.particle_choice import _passed
from jatpo.simulators.simulator_protocol import Simulator

TRIALS, HORIZON = 16, 4


@simulator_class
class Coin(Simulator):
    """A coin of one bias; an action says whether it is looked at."""

    bias: float | jax.Array
    discount: float | jax.Array = 0.9
    actions = ("wait", "look")

    def initial(self, key):
        return jax.random.bernoulli(key, 0.5).astype(jnp.int32)

    def step(self, key, state, action):
        return jax.random.bernoulli(key, self.bias).astype(jnp.int32), jnp.float32(0), jnp.zeros((), bool)

    def observe(self, key, state, action):
        return jnp.where(action == 1, state, 0)

    def log_observation(self, state, action, observation):
        right = jnp.where(action == 1, state, 0) == observation
        return jnp.where(right, 0.0, -jnp.inf)

    def preferences(self, state):
        return jnp.full(2, 0.5, jnp.float32)


def coins():
    models = [Coin(jnp.float32(bias), jnp.float32(0.9)) for bias in (0.2, 0.8)]
    return SimulatorScenario(SimulatorLibrary.from_simulators(models, name="coins", horizon=HORIZON))


def exact(actions, observations):
    """The posterior of the second coin after a history, by hand."""
    weights = np.ones(2)
    for action, seen in zip(actions, observations, strict=True):
        if action == 1:
            weights *= np.array([0.2, 0.8]) if seen else np.array([0.8, 0.2])
    return weights[1] / weights.sum()


def test_witnesses_of_one_actor_answer_the_same_histories():
    """The few particles that act are poor; whoever watches with many has the exact posterior of what they did."""
    actor, names = SimulatorATPO(filter=Particles(2)), ("actions", "observations", "posterior")
    watchers = [SimulatorATPO(filter=Particles(count)) for count in (2, 1000)]
    play = [
        jatpo.rollout(jax.random.key(0), each, coins(), trials=TRIALS, record=names)
        for each in (actor, *(witnessed(actor, own) for own in watchers))
    ]
    for each in play[1:]:
        np.testing.assert_array_equal(each.records["actions"], play[0].records["actions"])
        np.testing.assert_array_equal(each.records["observations"], play[0].records["observations"])
    found = play[2].records["posterior"][:, -1, 1]
    histories = zip(play[2].records["actions"], play[2].records["observations"], strict=True)
    wanted = np.array([exact(*each) for each in histories])
    assert np.abs(found - wanted).max() < 0.2  # four standard deviations of 1,000 particles over four steps
    assert np.abs(play[1].records["posterior"][:, -1, 1] - wanted).max() > 0.2


def test_marks_find_their_place_as_by_a_binary_search():
    """For sizes around squares, with rates of 0, and marks beyond the last one."""
    random = np.random.default_rng(0)
    for size in (1, 2, 8, 9, 10, 101):
        reach = np.cumsum(random.exponential(size=size) * (random.random(size) < 0.6)).astype(np.float32)
        marks = np.concatenate([np.arange(12, dtype=np.float32), reach[: min(size, 5)]])
        found = _passed(jnp.asarray(reach), jnp.asarray(marks))
        np.testing.assert_array_equal(found, np.searchsorted(reach, marks, side="right"))
