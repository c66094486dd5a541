"""A POMDP as a simulator, so that every domain with a table exists in both forms.

The entries of a library share one table in which action k·A + a is action a of model k (`joined`), and differ in their
number k only: a step of a trial touches the rows of its own model, and no table is copied.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.filter import safe_log
from jatpo.model import POMDP
from jatpo.simulators.simulator_protocol import Simulator, fixed, simulator_class
from jatpo.storage import pick


@simulator_class
class TabularSimulator(Simulator):
    """Model `number` of stacked models; a state is its number."""

    world: POMDP  # P and O of all models joined, reward [X, K·A]; the start beliefs stay [K, X]
    number: Any  # [] int32, k
    discount: Any  # []
    size: int = fixed(default=1)  # A

    shared: ClassVar = ("world",)
    lists_starts: ClassVar = True
    lists_successors: ClassVar = True

    @property
    def num_actions(self) -> int:
        return self.size

    @property
    def start(self) -> Array:
        """The start belief [X]."""
        return self.world.initial[self.number]

    def of_world(self, action: Array) -> Array:
        """The action of the joined table [] for an action of this model."""
        return self.number * self.size + action

    def initial(self, key: Array) -> Array:
        return pick(jax.random.uniform(key, (), self.world.dtype), self.start)

    def step(self, key: Array, state: Array, action: Array) -> tuple[Array, Array, Array]:
        joined = self.of_world(action)
        uniform = jax.random.uniform(key, (), self.world.dtype)
        arrived = self.world.transition.sample(uniform, state, joined)
        return arrived, self.world.reward[state, joined], jnp.zeros((), bool)

    def observe(self, key: Array, state: Array, action: Array) -> Array:
        uniform = jax.random.uniform(key, (), self.world.dtype)
        return self.world.observation.sample(uniform, state, self.of_world(action))

    def log_observation(self, state: Array, action: Array, observation: Array) -> Array:
        joined = self.of_world(action)
        return safe_log(self.world.observation.likelihood_at(state[None], joined, observation)[0])

    def starts(self) -> tuple[Array, Array]:
        return jnp.arange(self.start.shape[0], dtype=jnp.int32), self.start

    def successors(self, state: Array, action: Array) -> tuple[Array, Array]:
        states, probability = self.world.transition.successors(state[None], self.of_world(action))
        return states[0].astype(jnp.int32), probability[0]

    def code(self, state: Array) -> Array:
        return state

    def features(self, observation: Array) -> Array:
        return jax.nn.one_hot(observation, self.world.num_observations, dtype=jnp.float32)


def joined_table(models: POMDP) -> POMDP:
    """Stacked models [K, ...] as a table with K·A actions; the start beliefs stay [K, X]."""
    num_models, num_states, num_actions = models.reward.shape
    reward = jnp.swapaxes(models.reward, 0, 1).reshape(num_states, num_models * num_actions)
    transition, observation = models.transition.joined(), models.observation.joined(num_actions)
    return POMDP(transition, observation, reward, models.initial, models.discount)


def tabular_entries(models: POMDP) -> list[TabularSimulator]:
    """Stacked models [K, ...] as simulators that share one table."""
    num_models, _, num_actions = models.reward.shape
    world = joined_table(models)
    numbers = jnp.arange(num_models, dtype=jnp.int32)
    return [TabularSimulator(world, numbers[k], models.discount[k], num_actions) for k in range(num_models)]
