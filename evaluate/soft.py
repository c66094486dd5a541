"""Soft ATPO: the mixture of `mixture.py` with soft policies, differentiable in all that it is made of.

    p_0(k) ∝ prior(k) exp(tilt z_k)                    z_k: the value of model k's start, standardised
    p'(k)  ∝ evidence_k ^ temper p(k)
    pi(a)  = sum_k p(k) pi_k(a | b_k)                  pi_k: softmax at `temperature` (solve/soft.py)

With temperature 0, temper 1 and tilt 0 it is ATPO. The tilt is a prior that has a meaning in every library:
above 0 the agent begins hopeful (it favours models in which much can be earned), below 0 wary.

Gradients flow into the parameters, the prior, the models of the library and the alpha vectors, also where
models are ruled out: no NaN comes from a probability of 0, and a model that is ruled out passes none. The
functions are those of an agent (`agent.py`), with the trial on the last axis.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import belief
from jatpo.evaluate import columns
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.mixture import Mixture, mix, report, safe_log
from jatpo.mdp import TIE
from jatpo.model import POMDP
from jatpo.solve.policy import Policy
from jatpo.solve.soft import action_values_columns, soften


class Settings(NamedTuple):
    """Traced: a sweep over them compiles once."""

    temperature: float | Array = 1.0  # of every model's policy, in units of value; 0 is the hard policy
    temper: float | Array = 1.0  # power of the evidence in the posterior; 0 does not learn
    floor: float | Array = 0.0  # added to beliefs and posterior before normalising
    tilt: float | Array = 0.0  # of the prior, towards models with a high value


def init(keys: Array, knowledge: Knowledge, seen: None) -> Mixture:
    """Every model's start belief, and the tilted prior."""
    del seen
    num_trials, prior = keys.shape[0], knowledge.prior
    members = prior > 0
    tilt = jnp.asarray(knowledge.parameters.tilt, prior.dtype)
    tilted = jnp.where(members, safe_log(prior) + tilt * start_scores(knowledge), -jnp.inf)
    total, _ = log_total(tilted, members)
    nothing_yet = jnp.zeros(num_trials, prior.dtype), jnp.zeros(num_trials, jnp.int32)
    return Mixture(columns.initial(knowledge.library, num_trials), tilted - total[None, :], *nothing_yet)


def start_scores(knowledge: Knowledge) -> Array:
    """z_k [K, N]: v_k at the start belief, with mean 0 and deviation 1 over a trial's library.

    All 0 where the values differ by no more than rounding does.
    """
    policies: Policy = knowledge.solved["policies"]
    starts = knowledge.library.models.initial
    values = jnp.max(jnp.einsum("kvx,kx->kv", policies.vectors, starts), axis=1)[:, None]  # [K, 1]
    members = (knowledge.prior > 0).astype(values.dtype)
    share = members / jnp.sum(members, axis=0, keepdims=True)
    centred = values - jnp.sum(share * values, axis=0, keepdims=True)
    variance = jnp.sum(share * centred**2, axis=0, keepdims=True)
    differ = variance > TIE**2
    return jnp.where(differ, centred / jnp.sqrt(jnp.where(differ, variance, 1)), 0)


def policy(keys: Array, knowledge: Knowledge, memory: Mixture) -> Array:
    """sum_k p(k) pi_k(a | b_k) [A, N]."""
    del keys
    return mix(memory.log_posterior, model_policies(knowledge, memory))


def model_values(knowledge: Knowledge, memory: Mixture) -> Array:
    """u_k(a | b_k), the best vector of every model and action [K, A, N]."""
    num_actions = knowledge.actions.shape[0]
    return jax.vmap(lambda p, b: action_values_columns(p, b, num_actions))(
        knowledge.solved["policies"], memory.beliefs
    )


def model_policies(knowledge: Knowledge, memory: Mixture) -> Array:
    """pi_k(a | b_k) of every model [K, A, N]."""
    temperature = knowledge.parameters.temperature
    return jax.vmap(lambda values: soften(values, temperature))(model_values(knowledge, memory))


def observe(knowledge: Knowledge, memory: Mixture, actions: Array, seen: Array) -> Mixture:
    """Filter every model's belief, then weigh the models by their evidence."""
    settings, dtype = knowledge.parameters, memory.beliefs.dtype
    floor, temper = jnp.asarray(settings.floor, dtype), jnp.asarray(settings.temper, dtype)

    def of_model(model: POMDP, mask: Array, beliefs: Array) -> tuple[Array, Array]:
        predicted = columns.push(model.transition, beliefs, actions)
        weights = columns.likelihood(model.observation, actions, seen)
        after, evidence = condition_columns(predicted, weights)
        return raise_floor(after, evidence, mask, floor), evidence

    library = knowledge.library
    beliefs, evidence = jax.vmap(of_model)(library.models, library.state_mask, memory.beliefs)
    log_posterior, total = weigh(memory.log_posterior, evidence, knowledge.prior > 0, floor, temper)
    impossible = memory.impossible + (total == -jnp.inf).astype(jnp.int32)
    return Mixture(beliefs, log_posterior, total, impossible)


condition_columns = jax.vmap(belief.condition, in_axes=(1, 1), out_axes=(1, 0))
"""`belief.condition` of columns [X, N]: unlike `columns.condition` its gradient squares no small evidence."""


def raise_floor(beliefs: Array, log_evidence: Array, mask: Array, floor: Array) -> Array:
    """(evidence b + floor) / (evidence + floor |X|) over the real states, for beliefs [X, N]."""
    real = mask.astype(beliefs.dtype)
    added = floor * jnp.sum(real)
    total = jnp.exp(log_evidence) + added
    share = jnp.where(total > 0, added / jnp.where(total > 0, total, 1), 0)[None, :]
    return (1 - share) * beliefs + share * (real / jnp.sum(real))[:, None]


def weigh(
    log_posterior: Array, log_evidence: Array, members: Array, floor: Array, temper: Array
) -> tuple[Array, Array]:
    """`mixture.weigh` with gradients: the log posterior [K, N] after evidence [K, N], and its total [N].

    Every operation is given finite numbers, also where its result is not used, since 0 times infinity would
    come back as NaN in a gradient.
    """
    seen, held = log_evidence > -jnp.inf, log_posterior > -jnp.inf
    alive = seen & held
    prior, evidence = jnp.where(held, log_posterior, 0), jnp.where(seen, log_evidence, 0)
    learns, floored = temper > 0, floor > 0
    weighed = prior + jnp.where(learns, temper, 1) * evidence
    low = jnp.log(jnp.where(floored, floor, 1))
    lifted = jnp.where(floored, jnp.where(alive, jnp.logaddexp(weighed, low), low), weighed)
    possible_models = members & (alive | floored)
    total, possible = log_total(lifted, possible_models)
    updated = jnp.where(possible_models, lifted - total[None, :], -jnp.inf)
    after = jnp.where((possible & learns)[None, :], updated, log_posterior)
    explained, explicable = log_total(prior + evidence, alive)
    return after, jnp.where(explicable, explained, -jnp.inf)


def log_total(logs: Array, held: Array) -> tuple[Array, Array]:
    """log sum exp [N] over those of `logs` [K, N] that are held, 0 where none is, and whether one is [N]."""
    some = jnp.any(held, axis=0)
    peak = jax.lax.stop_gradient(jnp.max(jnp.where(held, logs, -jnp.inf), axis=0))
    peak = jnp.where(some, peak, 0)
    below = jnp.where(held, logs - peak[None, :], 0)
    total = jnp.sum(jnp.where(held, jnp.exp(below), 0), axis=0)
    return jnp.where(some, peak + jnp.log(jnp.where(some, total, 1)), 0), some


SOFT_ATPO = Agent(
    "soft_atpo", "observation", "library", init, policy, observe, report, ("policies",), Settings()
)
