"""Agents that see the state, and the one that sees nothing: value iteration, BOPA, random.

    p'(k) ∝ P_k(y | x, a) p(k)          pi(a) = sum_k p(k) greedy(q*_k(x, .))(a)

Value iteration is BOPA that starts certain of the true model. BOPA needs one state space common to all
models, since a state has to mean the same in each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.mixture import mix, report_posterior, safe_log, weigh
from jatpo.library import Library
from jatpo.mdp import greedy
from jatpo.storage import DenseTransition, Transition


class Settings(NamedTuple):
    """`temper` is the power of the evidence in the posterior: 0 does not learn."""

    temper: float | Array = 1.0


class StateMixture(NamedTuple):
    """The state, the log posterior, and as in `Mixture` what the last step told."""

    state: Array  # [N] int32
    log_posterior: Array  # [K, N]
    log_evidence: Array  # [N]
    impossible: Array  # [N] int32


def init(keys: Array, knowledge: Knowledge, seen: Array) -> StateMixture:
    """The start states and the prior."""
    num_trials, prior = keys.shape[0], knowledge.prior
    nothing_yet = jnp.zeros(num_trials, prior.dtype), jnp.zeros(num_trials, jnp.int32)
    return StateMixture(seen, safe_log(prior), *nothing_yet)


def policy(keys: Array, knowledge: Knowledge, memory: StateMixture) -> Array:
    """sum_k p(k) greedy(q*_k(x, .)) [A, N], ties uniform."""
    del keys
    q = knowledge.solved["q"][:, memory.state]  # [K, N, A]
    return mix(memory.log_posterior, jnp.swapaxes(greedy(q), 1, 2))


def observe(knowledge: Knowledge, memory: StateMixture, actions: Array, seen: Array) -> StateMixture:
    """Weigh the models by the probability of the transition that was seen."""
    probability = arrival(knowledge.library.models.transition, memory.state, actions, seen)
    temper = jnp.asarray(knowledge.parameters.temper, probability.dtype)
    evidence = safe_log(probability)
    none = jnp.zeros_like(temper)
    log_posterior, total = weigh(memory.log_posterior, evidence, knowledge.prior > 0, none, temper)
    impossible = memory.impossible + (total == -jnp.inf).astype(jnp.int32)
    return StateMixture(seen, log_posterior, total, impossible)


def arrival(transition: Transition, states: Array, actions: Array, arrived: Array) -> Array:
    """P_k(y | x, a) of stacked models, for states x, actions a and states y [N]: [K, N]."""
    if isinstance(transition, DenseTransition):
        return transition.probability[:, actions, states, arrived]
    successor = transition.successor[:, actions, states]  # [K, N, S]
    hit = successor == arrived[None, :, None]
    return jnp.sum(jnp.where(hit, transition.probability[:, actions, states], 0), axis=-1)


def report(knowledge: Knowledge, memory: StateMixture) -> dict[str, Array]:
    """What can be recorded at every step."""
    told = {"log_evidence": memory.log_evidence, "impossible": memory.impossible}
    return {**report_posterior(knowledge, memory.log_posterior), **told}


def different_states(library: Library) -> str | None:
    """Why no state of one model can be looked up in another, or None."""
    sizes = [int(size) for size in library.state_mask.sum(axis=1)]
    if len(set(sizes)) > 1:
        return f"the models have different state spaces ({', '.join(map(str, sizes))} states)"
    named = {names.states for names in library.names if names.states is not None}
    return "the models have different state spaces (other state names)" if len(named) > 1 else None


def _uniform(keys: Array, knowledge: Knowledge, memory: tuple) -> Array:
    """Every action alike [A, N]."""
    del memory
    num_actions = knowledge.actions.shape[0]
    return jnp.full((num_actions, keys.shape[0]), 1 / num_actions)


_OF_STATES = (init, policy, observe, report, ("q",))
VALUE_ITERATION = Agent("value_iteration", "state", "true model", *_OF_STATES, Settings(temper=0.0))
BOPA = Agent("bopa", "state", "library", *_OF_STATES, Settings(), different_states)
RANDOM = Agent(
    "random",
    "nothing",
    "nothing",
    init=lambda keys, knowledge, seen: (),
    policy=_uniform,
    observe=lambda knowledge, memory, actions, seen: memory,
)
