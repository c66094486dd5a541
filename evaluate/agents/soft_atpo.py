"""Soft ATPO: the mixture of `atpo.py` with soft policies, differentiable in all that it is made of.

    p_0(k) ∝ prior(k) exp(tilt z_k)                    z_k: the value of model k's start, standardised
    p'(k)  ∝ evidence_k ^ temper p(k)
    pi(a)  = sum_k p(k) pi_k(a | b_k)                  pi_k: softmax at `temperature` (solve/soft.py)

With temperature 0, temper 1 and tilt 0 it is ATPO. The tilt is a prior that has a meaning in every library:
above 0 the agent begins hopeful (it favours models in which much can be earned), below 0 wary.

Gradients flow into the parameters, the prior, the models of the library and the alpha vectors, also where
models are ruled out: no NaN comes from a probability of 0, and a model that is ruled out passes none.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agents.atpo import ATPO, Mixture
from jatpo.evaluate.agents.protocol import Context, agent_class, static
from jatpo.filter import log_total, safe_log
from jatpo.mdp import TIE
from jatpo.solve.policy import Policy
from jatpo.solve.soft_policy import action_values_columns, soften


@agent_class
class SoftATPO(ATPO):
    """ATPO with soft policies; all of its parameters can be trained."""

    flat: bool = static(default=False)  # has no gradient
    name: str = "soft_atpo"
    temperature: float | Array = 1.0  # of every model's policy, in units of value; 0 is the hard policy
    tilt: float | Array = 0.0  # of the prior, towards models with a high value

    def init(self, keys: Array, context: Context, seen: None) -> Mixture:
        """Every model's start belief, and the tilted prior."""
        del seen
        prior = context.prior
        members = prior > 0
        tilt = jnp.asarray(self.tilt, prior.dtype)
        tilted = jnp.where(members, safe_log(prior) + tilt * start_scores(context), -jnp.inf)
        total, _ = log_total(tilted, members)
        return self.begin(context, keys.shape[0], tilted - total[None, :])

    def model_policies(self, context: Context, memory: Mixture) -> Array:
        """pi_k(a | b_k) of every model [K, A, N]."""
        temperature = jnp.asarray(self.temperature, memory.log_posterior.dtype)
        values = model_values(context, self.written_out(context, memory))
        return jax.vmap(lambda values: soften(values, temperature))(values)


def start_scores(context: Context) -> Array:
    """z_k [K, N]: v_k at the start belief, with mean 0 and deviation 1 over a trial's library.

    All 0 where the values differ by no more than rounding does.
    """
    policies: Policy = context.solved["policies"]
    starts = context.library.models.initial
    values = jnp.max(jnp.einsum("kvx,kx->kv", policies.vectors, starts), axis=1)[:, None]  # [K, 1]
    members = (context.prior > 0).astype(values.dtype)
    share = members / jnp.sum(members, axis=0, keepdims=True)
    centred = values - jnp.sum(share * values, axis=0, keepdims=True)
    variance = jnp.sum(share * centred**2, axis=0, keepdims=True)
    differ = variance > TIE**2
    return jnp.where(differ, centred / jnp.sqrt(jnp.where(differ, variance, 1)), 0)


def model_values(context: Context, memory: Mixture) -> Array:
    """u_k(a | b_k), the best vector of every model and action [K, A, N]."""
    num_actions = context.actions.shape[0]
    return jax.vmap(lambda p, b: action_values_columns(p, b, num_actions))(
        context.solved["policies"], memory.beliefs
    )
