"""Libraries of random models with policies, and histories to filter, for the tests of agents."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import random_models
from jatpo.evaluate.action_values import action_values
from jatpo.evaluate.agents import ATPO
from jatpo.evaluate.agents.belief_policies import state_actions
from jatpo.evaluate.agents.joint_planner import commit_values
from jatpo.evaluate.agents.protocol import Agent, Context, informed, permit
from jatpo.evaluate.recurrent_network import random_network
from jatpo.evaluate.scenario import Scenario, context_of
from jatpo.library import Library
from jatpo.mdp import value_iteration_library
from jatpo.solve.policy import Policy, stack


class Ready(NamedTuple):
    """A scenario, and what is solved for its library."""

    scenario: Scenario
    solved: dict[str, Any]

    @property
    def library(self) -> Library:
        return self.scenario.library

    @property
    def prior(self) -> Array:
        return self.scenario.prior

    def replace(self, **arrays):
        """The same with other arrays in its scenario."""
        return Ready(self.scenario.replace(**arrays), self.solved)


def examples(
    count: int = 3, seed: int = 0, sizes=(5, 3, 4), zeros: float = 0.3
) -> list[random_models.Example]:
    """Models with different numbers of states, actions and observations in common."""
    random = np.random.default_rng(seed)
    return [random_models.plain(random, sizes[k % len(sizes)], 3, 4, zeros=zeros) for k in range(count)]


def same_size(count: int = 3, seed: int = 0, zeros: float = 0.3) -> list[random_models.Example]:
    return examples(count, seed, sizes=(5,), zeros=zeros)


def random_policies(models, seed: int = 0, vectors: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng([seed, 1])
    sizes = [(len(model.initial), model.reward.shape[1]) for model in models]
    return [(random.normal(scale=5, size=(vectors, x)), random.integers(a, size=vectors)) for x, a in sizes]


def stacked(policies, library: Library) -> Policy:
    dtype = library.prior.dtype
    return stack(
        [Policy(np.asarray(v, dtype), np.asarray(a, np.int32)) for v, a in policies], library.num_states
    )


def ready(models, storage="dense", prior=None, policies=None, needs=("policies",)):
    """Everything to know about a library, with what agents `needs` solved or made up."""
    library = Library.from_models([random_models.build(model, storage) for model in models], prior)
    solved = {"policies": stacked(random_policies(models) if policies is None else policies, library)}
    if "q" in needs:
        solved["q"] = value_iteration_library(library.models, 1e-5, 10_000).q
    if "state_actions" in needs:
        solved["state_actions"] = state_actions(value_iteration_library(library.models, 1e-5, 10_000).q)
    if "commit_values" in needs:
        solved["commit_values"] = commit_values(library.models, solved["q"])
    if "joint" in needs:
        solved["joint"] = random_joint(library)
    if "action_values" in needs:
        solved["action_values"] = action_values(library, solved["policies"], points=4)
    if "classifier" in needs:
        sizes = library.num_observations, library.num_actions, 8, library.num_models
        network = random_network(jax.random.key(0), *sizes)
        solved["classifier"] = network._replace(out=jax.random.normal(jax.random.key(1), network.out.shape))
    return Ready(Scenario(library), solved)


def random_joint(library: Library, seed: int = 0, vectors: int = 6) -> Policy:
    """Vectors [V, K, X] for all models at once."""
    random = np.random.default_rng([seed, 2])
    alpha = random.normal(scale=5, size=(vectors, *library.state_mask.shape)).astype(library.prior.dtype)
    return Policy(
        jnp.asarray(alpha), jnp.asarray(random.integers(library.num_actions, size=vectors), jnp.int32)
    )


def context(task, agent: Agent, num_trials: int, truth=None) -> Context:
    """What the agent is given in trials with these true models."""
    truth = jnp.zeros(num_trials, jnp.int32) if truth is None else truth
    prior = jnp.broadcast_to(task.prior[:, None], (task.prior.shape[0], num_trials))
    return permit(agent, context_of(*task, prior), jnp.asarray(informed(agent)), truth)


@cache
def compiled(function):
    """One program of a function for all tests."""
    return jax.jit(function)


def call(agent: Agent, part: str, *arguments):
    """One of an agent's methods, compiled; agents of one class share the program."""
    return compiled(getattr(type(agent), part))(jax.tree.map(jnp.asarray, agent), *arguments)


def told_by(known: Context, memory) -> dict:
    """What ATPO and the like report."""
    return jax.tree.map(np.asarray, call(ATPO(), "report", known, memory))


def chances_of(known: Context, memory):
    """The probabilities [A, N] with which ATPO and the like act."""
    return np.asarray(call(ATPO(), "act", keys(memory.log_evidence.shape[-1]), known, memory))


def keys(count: int, seed: int = 0) -> Array:
    return jax.random.split(jax.random.key(seed), count)


def possible_history(models, prior, length: int, seed: int, true_model: int | None = None):
    """Actions and observations that at least one model of positive prior can produce."""
    random = np.random.default_rng(seed)
    k = int(random.choice(len(models), p=prior)) if true_model is None else true_model
    model = models[k]
    x = random.choice(len(model.initial), p=model.initial)
    actions, observations = [], []
    for _ in range(length):
        a = int(random.integers(model.reward.shape[1]))
        x = random.choice(len(model.initial), p=model.transition[a, x])
        actions.append(a)
        observations.append(int(random.choice(model.observation.shape[2], p=model.observation[a, x])))
    return actions, observations


def filtered(task, agent: Agent, histories):
    """The memory after histories [(actions, observations), ...] of equal length, one for each trial."""
    count = len(histories)
    known = context(task, agent, count)
    memory = call(agent, "init", keys(count), known, None)
    for t in range(len(histories[0][0])):
        actions = jnp.array([history[0][t] for history in histories], jnp.int32)
        seen = jnp.array([history[1][t] for history in histories], jnp.int32)
        memory = call(agent, "update", keys(count), known, memory, actions, seen)
    return memory, known
