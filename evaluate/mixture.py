"""Agents that filter a belief in every model and mix the models' policies: ATPO, Perseus, random picker.

    p'(k) ∝ evidence_k p(k)             pi(a) = sum_k p(k) pi_k(a | b_k)          (problem.md, "One step")

The three are one agent. ATPO starts from the library's prior and learns. Perseus (informed) starts certain
of the true model, and the random picker holds p uniform: neither learns. `temper` is the power of the
evidence in the posterior: 1 learns by Bayes' rule, 0 not at all. The posterior is kept in log space; a
model that is ruled out has -inf and stays there. When all models are ruled out at once, the posterior stays
as it was, and `impossible` counts it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate import columns
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.solve.policy import Policy, action_probabilities_columns


class Settings(NamedTuple):
    """Traced, so that the three agents share one compiled program."""

    floor: float | Array = (
        0.0  # added to beliefs and posterior before normalising; the published program had 1e-8
    )
    temper: float | Array = 1.0  # power of the evidence in the posterior
    flat: bool | Array = False  # start from a uniform p whatever the prior


class Mixture(NamedTuple):
    """Beliefs, log posterior, and of the last step the log evidence; how often nothing explained it."""

    beliefs: Array  # [K, X, N]
    log_posterior: Array  # [K, N]
    log_evidence: Array  # [N]
    impossible: Array  # [N] int32


def init(keys: Array, knowledge: Knowledge, seen: None) -> Mixture:
    """Every model's start belief, and the prior."""
    del seen
    num_trials = keys.shape[0]
    prior = knowledge.prior
    members = (prior > 0).astype(prior.dtype)
    uniform = members / jnp.sum(members, axis=0, keepdims=True)
    return Mixture(
        columns.initial(knowledge.library, num_trials),
        safe_log(jnp.where(knowledge.parameters.flat, uniform, prior)),
        jnp.zeros(num_trials, prior.dtype),
        jnp.zeros(num_trials, jnp.int32),
    )


def policy(keys: Array, knowledge: Knowledge, memory: Mixture) -> Array:
    """sum_k p(k) pi_k(a | b_k) [A, N]."""
    del keys
    return mix(memory.log_posterior, model_policies(knowledge, memory))


def model_policies(knowledge: Knowledge, memory: Mixture) -> Array:
    """pi_k(a | b_k) of every model [K, A, N]."""
    policies: Policy = knowledge.solved["policies"]
    num_actions = knowledge.actions.shape[0]
    return jax.vmap(lambda p, b: action_probabilities_columns(p, b, num_actions))(policies, memory.beliefs)


def observe(knowledge: Knowledge, memory: Mixture, actions: Array, seen: Array) -> Mixture:
    """Filter every model's belief, then weigh the models by their evidence."""
    settings, dtype = knowledge.parameters, memory.beliefs.dtype
    floor, temper = jnp.asarray(settings.floor, dtype), jnp.asarray(settings.temper, dtype)
    beliefs, evidence = columns.update(knowledge.library, memory.beliefs, actions, seen, floor)
    members = knowledge.prior > 0
    log_posterior, total = weigh(memory.log_posterior, evidence, members, floor, temper)
    impossible = memory.impossible + (total == -jnp.inf).astype(jnp.int32)
    return Mixture(beliefs, log_posterior, total, impossible)


def weigh(log_posterior: Array, log_evidence: Array, members: Array, floor: Array, temper: Array) -> tuple:
    """The log posterior after evidence [K, N], and the log evidence of the mixture [N].

    Bayes' rule with the evidence to the power `temper`; `floor` > 0 lets models come back that were ruled
    out.
    """
    learns = temper > 0
    weighed = log_posterior + jnp.where(learns, temper, 1) * log_evidence
    floored = jnp.where(members, jnp.logaddexp(weighed, safe_log(floor)), -jnp.inf)
    total = jax.nn.logsumexp(floored, axis=0, keepdims=True)
    possible = total > -jnp.inf
    updated = jnp.where(possible & learns, floored - jnp.where(possible, total, 0), log_posterior)
    return updated, jax.nn.logsumexp(log_posterior + log_evidence, axis=0)


def mix(log_posterior: Array, policies: Array) -> Array:
    """Policies [K, A, N] weighed by the posterior [K, N]: [A, N]."""
    return jnp.sum(jnp.exp(log_posterior)[:, None, :] * policies, axis=0)


def safe_log(weights: Array) -> Array:
    """log with -inf for 0, and no warning or NaN in its gradient."""
    positive = weights > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, weights, 1)), -jnp.inf)


def report_posterior(knowledge: Knowledge, log_posterior: Array) -> dict[str, Array]:
    """The posterior [K, N] and its entropy [N], from 0 (certain) to 1 (uniform over the trial's library)."""
    posterior = jnp.exp(log_posterior)
    nats = -jnp.sum(jnp.where(posterior > 0, posterior * log_posterior, 0), axis=0)
    members = jnp.sum((knowledge.prior > 0).astype(nats.dtype), axis=0)
    scale = jnp.where(members > 1, jnp.log(jnp.maximum(members, 2)), 1)
    return {"posterior": posterior, "entropy": nats / scale}


def report(knowledge: Knowledge, memory: Mixture) -> dict[str, Array]:
    """What can be recorded at every step."""
    return {
        **report_posterior(knowledge, memory.log_posterior),
        "log_evidence": memory.log_evidence,
        "impossible": memory.impossible,
        "beliefs": memory.beliefs,
    }


def _agent(name: str, knows: str, **settings: Any) -> Agent:
    parameters = Settings(**settings)
    return Agent(name, "observation", knows, init, policy, observe, report, ("policies",), parameters)


ATPO = _agent("atpo", "library")
PERSEUS = _agent("perseus", "true model", temper=0.0)
RANDOM_PICKER = _agent("random_picker", "library", temper=0.0, flat=True)
