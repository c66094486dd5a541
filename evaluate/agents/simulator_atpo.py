"""ATPO with any filter and any policies, for simulators and for tables: `particle_atpo` and its relatives.

    p'(k) ∝ evidence_k p(k)             pi(a) = sum_k p(k) pi_k(a | b_k)

with beliefs and evidence of a filter that may need random numbers, such as particles. The methods are written for one
trial and mapped over N. Tables are turned into simulators on the way, so that the same agent meets the same trials as
`atpo` does, and differs from it by its filter only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo import filter
from jatpo.beliefs import Representation
from jatpo.evaluate.agents.atpo import report_posterior
from jatpo.evaluate.agents.protocol import Context, agent_class, static
from jatpo.evaluate.agents.simulator_policies import SimulatorPolicy, Usual, has_tables
from jatpo.filter import safe_log
from jatpo.simulators import Particles, SimulatorLibrary, simulators_of
from jatpo.simulators.table_filter import refused

PARTICLES = Particles(1000, "bootstrap")


class Inferred(NamedTuple):
    """Beliefs of every model, log posterior, and of the last step the evidence and how good the beliefs are."""

    beliefs: tuple[Any, ...]  # one for each group, [k, ...]
    log_posterior: Array  # [K]
    log_evidence: Array  # []
    size: Array  # [K], effective particles, or states with weight
    dropped: Array  # [K], the share of the probability dropped so far; a depleted model adds 1
    impossible: Array  # [] int32


@agent_class
class SimulatorATPO:
    """The mixture of all models' policies, weighted by the posterior of a filter."""

    filter: Representation = static(default=PARTICLES)
    policy: SimulatorPolicy = static(default=Usual())
    temper: float | Array = 1.0
    flat: bool | Array = False
    name: str = "particle_atpo"
    knows: str = "library"
    sees = "observation"
    plays = ("tables", "simulators")

    @property
    def needs(self) -> tuple[str, ...]:
        return self.policy.needs

    def refuses(self, library: Any) -> str | None:
        """Filters and policies of tables cannot run on simulators."""
        return refused(self.filter, has_tables(library)) or self.policy.refuses(library)

    def init(self, keys: Array, context: Context, seen: Any) -> Any:
        """Start beliefs, and the prior; all arrays end in N."""
        del seen
        return jax.vmap(lambda key, prior: self.begin(key, context, prior), (0, 1), -1)(keys, context.prior)

    def act(self, keys: Array, context: Context, memory: Any) -> Array:
        """sum_k p(k) pi_k(a | b_k) [A, N]."""
        return jax.vmap(lambda key, own: self.decide(key, context, own), (0, -1), -1)(keys, memory)

    def update(self, keys: Array, context: Context, memory: Any, actions: Array, seen: Any) -> Any:
        """Filter every model's belief, then weigh the models by their evidence."""

        def of_trial(key: Array, own: Any, prior: Array, action: Array, observation: Any) -> Any:
            return self.infer(key, context, own, prior, action, observation)

        return jax.vmap(of_trial, (0, -1, 1, 0, -1), -1)(keys, memory, context.prior, actions, seen)

    def report(self, context: Context, memory: Any) -> dict[str, Array]:
        """Posterior, entropy, log evidence, impossible steps, effective sizes and what was dropped."""
        own = self.inferred(memory)
        return {
            **report_posterior(context, own.log_posterior),
            "log_evidence": own.log_evidence,
            "impossible": own.impossible,
            "effective_size": own.size,
            "dropped": own.dropped,
        }

    def inferred(self, memory: Any) -> Inferred:
        """The part of the memory that every relative of this agent has."""
        return memory

    def begin(self, key: Array, context: Context, prior: Array) -> Any:
        """`init` of one trial, with its prior [K]."""
        library = simulators_of(context.library)
        members = (prior > 0).astype(prior.dtype)
        first = jnp.where(self.flat, members / jnp.sum(members), prior)
        beliefs = library.each(lambda model: self.filter.start(key, model))
        nothing = jnp.zeros(prior.shape, prior.dtype)
        never = jnp.zeros((), jnp.int32)
        return Inferred(beliefs, safe_log(first), jnp.zeros((), prior.dtype), nothing, nothing, never)

    def decide(self, key: Array, context: Context, memory: Any) -> Array:
        """`act` of one trial [A]."""
        del key
        policies = self.model_policies(context, memory)
        return jnp.exp(memory.log_posterior) @ policies

    def model_policies(self, context: Context, memory: Inferred) -> Array:
        """pi_k(a | b_k) of every model [K, A]."""
        library = simulators_of(context.library)

        def of_model(model: Any, belief: Any, part: Any) -> Array:
            return self.policy.probabilities(self.filter, model, belief, part)

        parts = self.policy.parts(context, library)
        return library.ordered(library.each(of_model, memory.beliefs, parts))

    def infer(
        self, key: Array, context: Context, memory: Any, prior: Array, action: Array, observation: Any
    ) -> Any:
        """`update` of one trial."""
        library = simulators_of(context.library)
        beliefs, logs, found = filtered(self.filter, key, library, memory.beliefs, action, observation)
        dtype = prior.dtype
        nothing, temper = jnp.zeros((), dtype), jnp.asarray(self.temper, dtype)
        columns = memory.log_posterior[:, None], logs.astype(dtype)[:, None], (prior > 0)[:, None]
        after, total = filter.posterior(*columns, nothing, temper)
        impossible = memory.impossible + (total[0] == -jnp.inf).astype(jnp.int32)
        size, dropped = found.size.astype(dtype), memory.dropped + found.dropped.astype(dtype)
        return Inferred(beliefs, after[:, 0], total[0], size, dropped, impossible)


def filtered(
    representation: Representation,
    key: Array,
    library: SimulatorLibrary,
    beliefs: tuple[Any, ...],
    action: Array,
    observation: Any,
) -> tuple[tuple[Any, ...], Array, Any]:
    """Beliefs of every group, log evidence [K] and diagnostics [K] of one trial; all models share the key."""

    def of_model(model: Any, belief: Any) -> Any:
        return representation.update(key, model, belief, action, observation)

    found = library.each(of_model, beliefs)
    logs, diagnostics = library.ordered([(each[1], each[2]) for each in found])
    return tuple(each[0] for each in found), logs, diagnostics


def SimulatorInformed(**parameters: Any) -> SimulatorATPO:
    """The agent that knows the true model and follows its policy."""
    return SimulatorATPO(**{"name": "particle_informed", "knows": "true model", "temper": 0.0} | parameters)


class Following(NamedTuple):
    """What ATPO keeps, and the model that is followed."""

    inferred: Inferred
    followed: Array  # [] int32


@agent_class
class SimulatorCommit(SimulatorATPO):
    """The policy of the most probable model, kept until another is more probable by far."""

    name: str = "particle_commit"
    loyalty: float | Array = 0.2

    def inferred(self, memory: Following) -> Inferred:
        return memory.inferred

    def begin(self, key: Array, context: Context, prior: Array) -> Following:
        first = super().begin(key, context, prior)
        return Following(first, _likeliest(first))

    def decide(self, key: Array, context: Context, memory: Following) -> Array:
        return self.model_policies(context, memory.inferred)[memory.followed]

    def infer(
        self, key: Array, context: Context, memory: Following, prior: Array, action: Array, observation: Any
    ) -> Following:
        after = super().infer(key, context, memory.inferred, prior, action, observation)
        own = after.log_posterior[memory.followed]
        limit = jnp.max(after.log_posterior) + safe_log(jnp.asarray(self.loyalty, own.dtype))
        stays = (own > -jnp.inf) & (own >= limit)
        return Following(after, jnp.where(stays, memory.followed, _likeliest(after)))


def _likeliest(memory: Inferred) -> Array:
    return jnp.argmax(memory.log_posterior).astype(jnp.int32)
