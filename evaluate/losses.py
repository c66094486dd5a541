"""The loss of acting by a mixture, and the bound of the paper's proposition.

    loss(a | k) = v_k(b_k) - q_k(b_k, a) ≥ 0
    L_t(p)      = sum_k p(k) sum_a pi_k(a | b_k) loss(a | k*)
    sum_t L_t(p_t) ≤ sum_t L_t(q) + (1/η) sum_t KL(q || p_t) + T η R_max² / (2 (1-γ)²)    for any q, η > 0

q_k is one step of look-ahead on the alpha vectors and v_k its best action's value, so that no loss is
negative. The paper sets η = sqrt(T/2) ("paper"), which does not give the constants it prints; η = sqrt(2/T)
("consistent") gives its last term, with sqrt(T/2) before the divergence.

`history_losses` replays a trial from its actions and observations through an agent's own filter. The sum over actions
is exact, so nothing is sampled, and for soft ATPO the gradient is that of a smooth function. The history is given:
these are gradients of the loss of what would have been done in the places that were visited, and not of what other
actions would have led to (that is `returns.py`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agents.atpo import ATPO, Mixture
from jatpo.evaluate.agents.protocol import Parts
from jatpo.evaluate.scenario import Scenario, context_of
from jatpo.evaluate.turn import turn
from jatpo.model import POMDP
from jatpo.solve.policy import Policy, q


def losses(model: POMDP, policy: Policy, belief: Array) -> Array:
    """loss(a | k) of every action at `belief` [X]: [A]."""
    values = q(model, policy, belief)
    return jnp.max(values) - values


def losses_many(model: POMDP, policy: Policy, beliefs: Array) -> Array:
    """`losses` at beliefs [B, X]: [B, A], one after the other, since each look-ahead is large."""
    return jax.lax.map(lambda belief: losses(model, policy, belief), beliefs)


def mixture_loss(weights: Array, policies: Array, loss: Array) -> Array:
    """L_t(p) []: weights p [K], policies pi_k(a | b_k) [K, A], loss(a | k*) [A]."""
    return weights @ (policies @ loss)


def divergence(weights: Array, posterior: Array) -> Array:
    """KL(q || p) [] of weights q [K] from the posterior p [K]; inf where p rules out what q does not."""
    held = weights > 0
    possible = posterior > 0
    ratio = jnp.log(jnp.where(held, weights, 1)) - jnp.log(jnp.where(possible, posterior, 1))
    terms = jnp.where(possible, weights * ratio, jnp.inf)
    return jnp.sum(jnp.where(held, terms, 0))


def etas(steps: int) -> dict[str, float]:
    """The two choices of η for T = `steps`."""
    return {"paper": math.sqrt(steps / 2), "consistent": math.sqrt(2 / steps)}


def bound(
    comparator_loss: Array,
    divergence_sum: Array,
    steps: int,
    largest_reward: float,
    discount: float,
    eta: float,
) -> Array:
    """The right side for sum_t L_t(q) and sum_t KL(q || p_t), from the last but one line of the proof."""
    spread = largest_reward / (1 - discount)
    return comparator_loss + divergence_sum / eta + steps * eta * spread**2 / 2


def printed_bound(
    comparator_loss: Array, divergence_sum: Array, steps: int, largest_reward: float, discount: float
) -> Array:
    """The right side as printed: c1 = sqrt(2/T), c2 = sqrt(T/2) R_max²/(1-γ)². No η gives both."""
    spread = largest_reward / (1 - discount)
    return comparator_loss + math.sqrt(2 / steps) * divergence_sum + math.sqrt(steps / 2) * spread**2


class Sums(NamedTuple):
    """L_t(p_t), L_t(q), KL(q || p_t), of every step [T] or summed over them []."""

    mixture: Array
    comparator: Array
    divergence: Array


def history_losses(
    agent: ATPO, scenario: Scenario, solved: Parts, truth: Array, actions: Array, observations: Array
) -> Sums:
    """The losses before each step [T] of a history with actions and observations [T]; q is certain of the truth [].

    For agents that keep a `Mixture`: ATPO and soft ATPO.
    """
    context = context_of(scenario, solved, scenario.prior[:, None])
    model, policy = jax.tree.map(lambda leaf: leaf[truth], (scenario.library.models, solved["policies"]))
    certain = (jnp.arange(scenario.prior.shape[0], dtype=jnp.int32) == truth).astype(scenario.prior.dtype)
    keys = jax.random.key(0)[None]  # these agents draw no numbers

    def step(memory: Mixture, taken: tuple[Array, Array]) -> tuple[Mixture, Sums]:
        policies = agent.model_policies(context, memory)[..., 0]  # [K, A]
        posterior = jnp.exp(memory.log_posterior[:, 0])
        loss = losses(model, policy, agent.written_out(context, memory).beliefs[truth, :, 0])
        ours, best = (mixture_loss(weights, policies, loss) for weights in (posterior, certain))
        recorded = (taken[0][None], taken[1][None], None)
        after, _ = turn(agent, context, memory, keys, lambda _: recorded)
        return after, Sums(ours, best, divergence(certain, posterior))

    return jax.lax.scan(step, agent.init(keys, context, None), (actions, observations))[1]


@jax.jit
def summed_losses(*history: Any) -> Sums:
    """`history_losses` summed over the steps: three numbers."""
    return jax.tree.map(jnp.sum, history_losses(*history))
