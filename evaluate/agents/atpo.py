"""Agents that filter a belief in every model and mix the models' policies: ATPO, the informed agent, random picker.

    p'(k) ∝ evidence_k p(k)             pi(a) = sum_k p(k) pi_k(a | b_k)

The three are one agent. ATPO starts from the library's prior and learns. The informed agent (Perseus) starts certain
of the true model, and the random picker holds p uniform: neither learns. The posterior is kept in log space; a
model that is ruled out has -inf and stays there. When all models are ruled out at once, the posterior stays
as it was, and `impossible` counts it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import filter
from jatpo.beliefs import Dense, Representation, each_model, start_library, update_library
from jatpo.evaluate.agents.belief_policies import BeliefPolicy, LikeliestState, Vectors
from jatpo.evaluate.agents.protocol import Context, Defaults, agent_class, static
from jatpo.filter import safe_log
from jatpo.library import Library


class Mixture(NamedTuple):
    """Beliefs, log posterior, and of the last step the log evidence; how often nothing explained it."""

    beliefs: Any  # [K, X, N], or what another representation holds, [K, ..., N]
    log_posterior: Array  # [K, N]
    log_evidence: Array  # [N]
    impossible: Array  # [N] int32
    rest: Any = ()  # [K, N], see `filter.posterior_carried`; () with plain beliefs


@agent_class
class ATPO(Defaults):
    """The mixture of all models' policies, weighted by the posterior."""

    floor: float | Array = (
        0.0  # added to beliefs and posterior before normalising; the published program: 1e-8
    )
    temper: float | Array = 1.0  # power of the evidence in the posterior: 1 is Bayes' rule, 0 does not learn
    flat: bool | Array = False  # start from a uniform p whatever the prior
    name: str = "atpo"
    knows: str = "library"
    belief: Representation = static(default=Dense())  # how the belief in every model is held
    policy: BeliefPolicy = static(default=Vectors())  # what a model's policy does with its belief
    sees = "observation"

    @property
    def needs(self) -> tuple[str, ...]:
        return self.policy.needs

    def init(self, keys: Array, context: Context, seen: None) -> Any:
        """Every model's start belief, and the prior."""
        del seen
        prior = context.prior
        members = (prior > 0).astype(prior.dtype)
        uniform = members / jnp.sum(members, axis=0, keepdims=True)
        return self.begin(context, keys.shape[0], safe_log(jnp.where(self.flat, uniform, prior)))

    def begin(self, context: Context, num_trials: int, log_prior: Array) -> Mixture:
        """Every model's start belief with a log prior [K, N]."""
        nothing_yet = jnp.zeros(num_trials, log_prior.dtype), jnp.zeros(num_trials, jnp.int32)
        if self.belief.plain:
            return Mixture(filter.initial(context.library, num_trials), log_prior, *nothing_yet)
        beliefs = start_library(self.belief, None, context.library, num_trials)
        return Mixture(beliefs, log_prior, *nothing_yet, jnp.zeros_like(log_prior))

    def act(self, keys: Array, context: Context, memory: Any) -> Array:
        """sum_k p(k) pi_k(a | b_k) [A, N]."""
        del keys
        return mix(memory.log_posterior, self.model_policies(context, memory))

    def model_policies(self, context: Context, memory: Mixture) -> Array:
        """pi_k(a | b_k) of every model [K, A, N]."""
        return self.policy.columns(context, self.belief, memory.beliefs)

    def expectations(self, memory: Mixture, values: Array) -> Array:
        """sum_x b_k(x) values(k, ..., x) of every model [K, ..., N], for `values` [K, ..., X]."""
        return each_model(self.belief, self.belief.expectation_columns, memory.beliefs, values)

    def written_out(self, context: Context, memory: Mixture) -> Mixture:
        """The memory with the probability of every state [K, X, N] for its beliefs."""
        num_states = context.library.num_states

        def of_model(beliefs: Any) -> Array:
            return self.belief.dense_columns(beliefs, num_states)

        return memory._replace(beliefs=each_model(self.belief, of_model, memory.beliefs))

    def update(self, keys: Array, context: Context, memory: Any, actions: Array, seen: Array) -> Any:
        """Filter every model's belief, then weigh the models by their evidence."""
        del keys
        dtype = memory.log_posterior.dtype
        floor, temper = jnp.asarray(self.floor, dtype), jnp.asarray(self.temper, dtype)
        library, beliefs, members = context.library, memory.beliefs, context.prior > 0
        if self.belief.plain:
            beliefs, evidence = filter.update_library(library, beliefs, actions, seen, floor)
            after = *filter.posterior(memory.log_posterior, evidence, members, floor, temper), ()
        else:
            beliefs, evidence, _ = update_library(self.belief, None, library, beliefs, actions, seen)
            known = memory.log_posterior, memory.rest
            after = filter.posterior_carried(*known, evidence, members, temper)
        log_posterior, total, rest = after
        impossible = memory.impossible + (total == -jnp.inf).astype(jnp.int32)
        return Mixture(beliefs, log_posterior, total, impossible, rest)

    def report(self, context: Context, memory: Any) -> dict[str, Array]:
        """Posterior, entropy, log evidence, impossible steps and beliefs, and how good these are where that varies."""
        own = {} if self.belief.plain else self._quality(memory)
        return {
            **report_posterior(context, memory.log_posterior),
            "log_evidence": memory.log_evidence,
            "impossible": memory.impossible,
            "beliefs": self.written_out(context, memory).beliefs,
            **own,
        }

    def _quality(self, memory: Mixture) -> dict[str, Array]:
        """The states with weight, and the bound of what was dropped to what is kept: [K, N]."""

        def of_model(beliefs: Any) -> dict[str, Array]:
            def one(belief: Any) -> dict[str, Array]:
                return {"effective_size": self.belief.size(belief), "missing": self.belief.missing(belief)}

            return self.belief.of_columns(one, beliefs)

        return each_model(self.belief, of_model, memory.beliefs)

    def refuses(self, library: Library) -> str | None:
        """Why the representation of its beliefs cannot be used, or None."""
        if not isinstance(self.belief, Representation) or not self.belief.of_tables:
            return f"belief={self.belief!r} cannot hold beliefs of tables: use one of jatpo.beliefs, such as Scaled()"
        if self.belief.plain:
            return None
        if np.any(np.asarray(self.floor) > 0):
            return f"belief={self.belief!r} takes no floor, and floor={self.floor}: set one of them to its default"
        return self.belief.refuses(library)


def Informed(**parameters: Any) -> ATPO:
    """The agent that knows the true model and follows its policy; `perseus` in the tables."""
    return ATPO(**{"name": "perseus", "knows": "true model", "temper": 0.0} | parameters)


def RandomPicker(**parameters: Any) -> ATPO:
    """The mixture with a uniform p that never changes: a model drawn anew at every step."""
    return ATPO(**{"name": "random_picker", "temper": 0.0, "flat": True} | parameters)


def StateATPO(**parameters: Any) -> ATPO:
    """ATPO whose models act for their most probable state; `state_atpo` in the tables."""
    return ATPO(**{"name": "state_atpo", "policy": LikeliestState()} | parameters)


def StateInformed(**parameters: Any) -> ATPO:
    """The agent that knows the true model and acts for its most probable state."""
    return Informed(**{"name": "state_informed", "policy": LikeliestState()} | parameters)


def mix(log_posterior: Array, policies: Array) -> Array:
    """Policies [K, A, N] weighed by the posterior [K, N]: [A, N]."""
    return jnp.sum(jnp.exp(log_posterior)[:, None, :] * policies, axis=0)


def report_posterior(context: Context, log_posterior: Array) -> dict[str, Array]:
    """The posterior [K, N] and its entropy [N], from 0 (certain) to 1 (uniform over the trial's library)."""
    posterior = jnp.exp(log_posterior)
    nats = -jnp.sum(jnp.where(posterior > 0, posterior * log_posterior, 0), axis=0)
    members = jnp.sum((context.prior > 0).astype(nats.dtype), axis=0)
    scale = jnp.where(members > 1, jnp.log(jnp.maximum(members, 2)), 1)
    return {"posterior": posterior, "entropy": nats / scale}
