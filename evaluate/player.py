"""One agent in a user's own loop: a robot, a game, another simulator.

    player = Player.atpo(models, policies, seed=0)
    player.reset()
    while running:
        action = player.act()
        player.observe(action, observation=robot.execute(action))

It is the agent of the rollouts with N = 1: the same functions, compiled once at the first `reset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError, unknown
from jatpo.evaluate.agent import Agent, Functions, Knowledge, Memory, choose, permit
from jatpo.evaluate.task import knowledge_of, make_task
from jatpo.library import Library
from jatpo.model import POMDP


@partial(jax.jit, static_argnames="agent")
def _begin(
    agent: Functions, key: Array, episode: Array, knowledge: Knowledge, seen: Array | None
) -> tuple[Array, Memory, Array]:
    """The episode's key, the memory before the first action, the probabilities of the actions [A, 1]."""
    key = jax.random.fold_in(key, episode)
    first, plan = jax.random.split(jax.random.fold_in(key, 0))
    memory = agent.init(first[None], knowledge, seen)
    return key, memory, agent.policy(plan[None], knowledge, memory)


@partial(jax.jit, static_argnames="agent")
def _advance(
    agent: Functions,
    key: Array,
    step: Array,
    knowledge: Knowledge,
    memory: Memory,
    action: Array,
    seen: Array | None,
) -> tuple[Memory, Array]:
    """The memory after one step and the probabilities of the actions that follow [A, 1]."""
    memory = agent.observe(knowledge, memory, action, seen)
    plan = jax.random.fold_in(key, step)
    return memory, agent.policy(plan[None], knowledge, memory)


@jax.jit
def _choose(key: Array, step: Array, probabilities: Array) -> Array:
    uniform = jax.random.uniform(jax.random.fold_in(key, step), (1,), probabilities.dtype)
    return choose(uniform, probabilities)[0]


class Player:
    """An agent that acts in one world at a time. Actions and observations are given by number or name."""

    def __init__(
        self,
        agent: Agent,
        models: Sequence[POMDP] | Library,
        solved: dict[str, Any] | None = None,
        *,
        prior: Sequence[float] | None = None,
        true_model: int | None = None,
        seed: int = 0,
    ) -> None:
        """`solved` holds what the agent needs ("policies", "q"); an informed agent needs `true_model`."""
        task = make_task(models, solved, prior=prior)
        reason = agent.refuses(task.library)
        missing = [name for name in agent.needs if name not in task.solved]
        if reason or missing:
            raise JatpoError(
                f"agent '{agent.name}' cannot run: {reason or 'it needs solved ' + ' and '.join(missing)}"
            )
        if agent.informed and true_model is None:
            raise JatpoError(f"agent '{agent.name}' knows the true model: say which one with true_model=")
        self.agent = agent
        self._names = task.library.names[0] if task.library.names else None
        truth = jnp.full(1, 0 if true_model is None else true_model, jnp.int32)
        parameters = jax.tree.map(jnp.asarray, agent.parameters)
        everything = knowledge_of(task, parameters, task.prior[:, None])
        self._knowledge = permit(agent.functions, everything, jnp.asarray(agent.informed), truth)
        self._num_actions, self._num_observations = task.library.num_actions, task.library.num_observations
        self._num_states = task.library.num_states
        self._seed = jax.random.key(seed)
        self._episode = -1
        self._memory: Memory = None

    def reset(self, state: int | str | None = None) -> None:
        """Begin an episode; agents that see states need the first one."""
        seen = self._seen(state, first=True)
        self._episode += 1
        self._step = 0
        self._key, self._memory, self._probabilities = _begin(
            self.agent.functions, self._seed, np.uint32(self._episode), self._knowledge, seen
        )

    def act(self) -> int:
        """The number of the next action, drawn from `probabilities`."""
        self._check_begun()
        return int(_choose(self._key, self._next_step(), self._probabilities))

    def observe(self, action: int | str, observation: int | str | None = None) -> None:
        """Take in that `action` was done and what was seen then (for agents that see states: the state)."""
        self._check_begun()
        number = self._number("action", action, self._num_actions, 1)
        seen = self._seen(observation)
        self._memory, self._probabilities = _advance(
            self.agent.functions,
            self._key,
            self._next_step(),
            self._knowledge,
            self._memory,
            np.full(1, number, np.int32),
            seen,
        )

    @property
    def probabilities(self) -> np.ndarray:
        """The probabilities of the next action [A]."""
        self._check_begun()
        return np.asarray(self._probabilities[:, 0])

    @property
    def posterior(self) -> np.ndarray:
        """The probability of each model [K]."""
        return self._report("posterior")

    @property
    def beliefs(self) -> np.ndarray:
        """The belief over the states of each model [K, X]."""
        return self._report("beliefs")

    def report(self) -> dict[str, np.ndarray]:
        """Everything the agent tells of its memory, by name."""
        self._check_begun()
        told = self.agent.report(self._knowledge, self._memory)
        return {name: np.asarray(part[..., 0]) for name, part in told.items()}

    def _report(self, name: str) -> np.ndarray:
        told = self.report()
        if name not in told:
            raise JatpoError(
                f"agent '{self.agent.name}' has no {name}; it reports {', '.join(told) or 'nothing'}"
            )
        return told[name]

    def _next_step(self) -> np.uint32:
        """A number for the next key of this episode."""
        self._step += 1
        return np.uint32(self._step)

    def _check_begun(self) -> None:
        if self._memory is None:
            raise JatpoError("no episode has begun: call reset() first")

    def _seen(self, seen: int | str | None, first: bool = False) -> np.ndarray | None:
        """What the agent sees [1]; None where it declared so, and before the first action."""
        sees = self.agent.sees
        if sees == "nothing" or (sees == "observation" and first):
            return None
        if seen is None:
            raise JatpoError(f"agent '{self.agent.name}' sees the {sees}: give it")
        size, field = (self._num_states, 0) if sees == "state" else (self._num_observations, 2)
        return np.full(1, self._number(sees, seen, size, field), np.int32)

    def _number(self, kind: str, value: int | str, size: int, field: int) -> int:
        """The number of an action, observation or state given by number or name."""
        if isinstance(value, str):
            names = (self._names[field] if self._names else None) or ()
            if value not in names:
                raise unknown(kind, value, names)
            return names.index(value)
        if not 0 <= int(value) < size:
            raise JatpoError(f"there is no {kind} {value}: choose from 0 to {size - 1}")
        return int(value)
