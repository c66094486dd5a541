"""Agents that see the state, and the one that sees nothing: value iteration, BOPA, random.

    p'(k) ∝ P_k(y | x, a) p(k)          pi(a) = sum_k p(k) greedy(q*_k(x, .))(a)

Value iteration is BOPA that starts certain of the true model. BOPA needs one state space common to all
models, since a state has to mean the same in each of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agents.atpo import mix, report_posterior
from jatpo.evaluate.agents.protocol import Context, Defaults, agent_class
from jatpo.filter import posterior, safe_log
from jatpo.library import Library
from jatpo.mdp import greedy
from jatpo.storage import Transition


class StateMixture(NamedTuple):
    """The state, the log posterior, and as in `Mixture` the log evidence of the last step and the impossible ones."""

    state: Array  # [N] int32
    log_posterior: Array  # [K, N]
    log_evidence: Array  # [N]
    impossible: Array  # [N] int32


@agent_class
class BOPA(Defaults):
    """The mixture of the models' greedy policies at the state, weighted by the posterior."""

    temper: float | Array = 1.0  # power of the evidence in the posterior: 0 does not learn
    name: str = "bopa"
    knows: str = "library"
    sees = "state"
    needs = ("q",)

    def init(self, keys: Array, context: Context, seen: Array) -> StateMixture:
        """The start states and the prior."""
        num_trials, prior = keys.shape[0], context.prior
        nothing_yet = jnp.zeros(num_trials, prior.dtype), jnp.zeros(num_trials, jnp.int32)
        return StateMixture(seen, safe_log(prior), *nothing_yet)

    def act(self, keys: Array, context: Context, memory: StateMixture) -> Array:
        """sum_k p(k) greedy(q*_k(x, .)) [A, N], ties uniform."""
        del keys
        q = context.solved["q"][:, memory.state]  # [K, N, A]
        return mix(memory.log_posterior, jnp.swapaxes(greedy(q), 1, 2))

    def update(
        self, keys: Array, context: Context, memory: StateMixture, actions: Array, seen: Array
    ) -> StateMixture:
        """Weigh the models by the probability of the transition that was seen."""
        del keys
        probability = arrival(context.library.models.transition, memory.state, actions, seen)
        temper = jnp.asarray(self.temper, probability.dtype)
        evidence = safe_log(probability)
        none = jnp.zeros_like(temper)
        log_posterior, total = posterior(memory.log_posterior, evidence, context.prior > 0, none, temper)
        impossible = memory.impossible + (total == -jnp.inf).astype(jnp.int32)
        return StateMixture(seen, log_posterior, total, impossible)

    def report(self, context: Context, memory: StateMixture) -> dict[str, Array]:
        """Posterior, entropy, log evidence and impossible steps."""
        found = {"log_evidence": memory.log_evidence, "impossible": memory.impossible}
        return {**report_posterior(context, memory.log_posterior), **found}

    def refuses(self, library: Library) -> str | None:
        """Why no state of one model can be looked up in another, or None; who knows the model does not care."""
        if self.knows == "true model":
            return None
        sizes = [int(size) for size in library.state_mask.sum(axis=1)]
        if len(set(sizes)) > 1:
            return f"the models have different state spaces ({', '.join(map(str, sizes))} states)"
        named = {names.states for names in library.names if names.states is not None}
        return "the models have different state spaces (other state names)" if len(named) > 1 else None


def ValueIteration(**parameters: Any) -> BOPA:
    """The agent that knows the true model and sees its state: the best any agent can do."""
    return BOPA(**{"name": "value_iteration", "knows": "true model", "temper": 0.0} | parameters)


def arrival(transition: Transition, states: Array, actions: Array, arrived: Array) -> Array:
    """P_k(y | x, a) of stacked models, for states x, actions a and states y [N]: [K, N]."""
    return jax.vmap(lambda own: jax.vmap(own.probability_of)(states, actions, arrived))(transition)


@agent_class
class Random(Defaults):
    """Every action alike."""

    name: str = "random"
    sees = "nothing"
    knows = "nothing"
    plays = ("tables", "simulators")

    def init(self, keys: Array, context: Context, seen: None) -> tuple:
        """Nothing."""
        del keys, context, seen
        return ()

    def act(self, keys: Array, context: Context, memory: tuple) -> Array:
        """The uniform distribution [A, N]."""
        del memory
        num_actions = context.actions.shape[0]
        return jnp.full((num_actions, keys.shape[0]), 1 / num_actions)

    def update(self, keys: Array, context: Context, memory: tuple, actions: Array, seen: None) -> tuple:
        """Nothing."""
        del keys, context, actions, seen
        return memory
