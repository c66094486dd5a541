"""A library as an environment with the interface of gymnax: pure functions of a key, for jit, vmap and scan.

    env = make("gridworld")
    observation, state = env.reset(key, env.default_params)
    observation, state, reward, done, info = env.step(key, state, action, env.default_params)

An episode draws its true model from the prior and its hidden state from that model's start belief, and is
done after `horizon` steps. Before the first action there is no observation: `reset` returns the index Z, one
past the last observation, of which `jax.nn.one_hot(observation, Z)` makes zeros.

Shapes: A actions, X states, Z observations, K models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import environment
from jatpo.errors import JatpoError
from jatpo.evaluate.world import joined
from jatpo.files import load
from jatpo.files.sources import Source
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.storage import pick

Step = tuple[Array, "State", Array, Array, dict[str, Array]]


class Params(NamedTuple):
    """What the functions depend on, all of it traced: another prior or horizon compiles nothing."""

    world: POMDP  # the models joined: action k·A + a is action a of model k
    start: Array  # [K, X], cumulative start beliefs, so that a reset in every step is cheap
    prior: Array  # [K]
    horizon: Array  # [] int32

    @property
    def num_models(self) -> int:
        return self.prior.shape[0]

    @property
    def num_actions(self) -> int:
        return self.world.num_actions // self.num_models

    @property
    def num_observations(self) -> int:
        return self.world.num_observations


class State(NamedTuple):
    """The state of an episode, which is hidden from the agent."""

    model: Array  # [] int32, the true model
    state: Array  # [] int32, the hidden state
    time: Array  # [] int32, steps taken


def reset(key: Array, params: Params) -> tuple[Array, State]:
    """(no observation, the start of an episode)."""
    model_key, state_key = jax.random.split(key)
    model = pick(jax.random.uniform(model_key, dtype=params.prior.dtype), params.prior)
    uniform = jax.random.uniform(state_key, dtype=params.start.dtype)
    state = jnp.searchsorted(params.start[model], uniform, side="right").astype(jnp.int32)
    return jnp.int32(params.num_observations), State(model, state, jnp.int32(0))


def step_env(key: Array, state: State, action: Array | int, params: Params) -> Step:
    """(observation, state, reward, done, info) of one step; the reward is that of acting in the state before.

    `info` has the true model, the hidden state and the observation on arrival.
    """
    action = jnp.clip(jnp.asarray(action, jnp.int32), 0, params.num_actions - 1)
    joint = state.model * params.num_actions + action
    arrived, observation, reward = environment.step(key, params.world, state.state, joint)
    after = State(state.model, arrived, state.time + 1)
    info = {"model": state.model, "state": arrived, "observation": observation}
    return observation, after, reward, after.time >= params.horizon, info


def step(key: Array, state: State, action: Array | int, params: Params) -> Step:
    """`step_env`; once done, observation and state are those of a new episode, `info` is of the old one."""
    step_key, reset_key = jax.random.split(key)
    observation, after, reward, done, info = step_env(step_key, state, action, params)
    first = reset(reset_key, params)
    observation, after = jax.tree.map(lambda new, old: jnp.where(done, new, old), first, (observation, after))
    return observation, after, reward, done, info


@dataclass(frozen=True)
class Discrete:
    """The numbers 0 to n - 1."""

    n: int
    shape: tuple[int, ...] = ()
    dtype: type = jnp.int32

    def sample(self, key: Array) -> Array:
        return jax.random.randint(key, self.shape, 0, self.n, self.dtype)

    def contains(self, x: Array) -> Array:
        return (x >= 0) & (x < self.n)


@dataclass(frozen=True, eq=False)
class Environment:
    """A library to act in. `step` starts a new episode when one is done, `step_env` does not."""

    library: Library
    default_params: Params

    @property
    def name(self) -> str:
        return self.library.name

    @property
    def num_models(self) -> int:
        return self.default_params.num_models

    @property
    def num_states(self) -> int:
        """The size of the largest state space."""
        return self.default_params.world.num_states

    @property
    def num_actions(self) -> int:
        return self.default_params.num_actions

    @property
    def num_observations(self) -> int:
        return self.default_params.num_observations

    @property
    def horizon(self) -> int:
        return int(self.default_params.horizon)

    def action_space(self, params: Params | None = None) -> Discrete:
        """The actions."""
        return Discrete((params or self.default_params).num_actions)

    def observation_space(self, params: Params | None = None) -> Discrete:
        """The observations and, as the last, no observation."""
        return Discrete((params or self.default_params).num_observations + 1)

    def reset(self, key: Array, params: Params | None = None) -> tuple[Array, State]:
        """See `reset`."""
        return reset(key, params or self.default_params)

    def step(self, key: Array, state: State, action: Array | int, params: Params | None = None) -> Step:
        """See `step`."""
        return step(key, state, action, params or self.default_params)

    def step_env(self, key: Array, state: State, action: Array | int, params: Params | None = None) -> Step:
        """See `step_env`."""
        return step_env(key, state, action, params or self.default_params)


def make(
    source: Source,
    rules: str = "as_run",
    *,
    pool: bool = False,
    horizon: int | None = None,
    prior: Sequence[float] | np.ndarray | None = None,
) -> Environment:
    """The environment of a domain, one of its models (``gridworld:2``), a .POMDP file or a library."""
    library = load(source, rules=rules, pool=pool)
    if prior is not None:
        library = library.with_prior(prior)
    horizon = library.horizon if horizon is None else horizon
    if horizon < 1:
        raise JatpoError(f"the horizon must be at least 1, got {horizon}")
    start, steps = jax.device_put((_cumulative(np.asarray(library.models.initial)), np.int32(horizon)))
    return Environment(library, Params(joined(library.models), start, library.prior, steps))


def _cumulative(initial: np.ndarray) -> np.ndarray:
    """Cumulative start beliefs [K, X], exactly 1 from the last possible state on."""
    cumulative = np.cumsum(initial, axis=1, dtype=np.float64)
    return (cumulative / cumulative[:, -1:]).astype(initial.dtype)
