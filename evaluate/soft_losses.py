"""The losses of `losses.py` along a history, for soft ATPO: differentiable in its parameters and in the prior.

    L_t(p_t) = sum_k p_t(k) sum_a pi_k(a | b_k) loss(a | k*)

The sum over actions is exact, so nothing is sampled and the gradient is that of a smooth function. The history is
given: these are gradients of the loss of what would have been done in the places that were visited, and not
of what other actions would have led to (that is `returns.py`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate import losses, soft
from jatpo.evaluate.bound import Sums
from jatpo.evaluate.mixture import Mixture
from jatpo.evaluate.task import Task, knowledge_of


def history_losses(
    task: Task, parameters: soft.Settings, truth: Array, actions: Array, observations: Array
) -> Sums:
    """L_t(p_t), L_t(q), KL(q || p_t) before each step [T]; q is certain of the true model [].

    actions and observations [T]. `losses.bound` makes the proposition's bound of their sums.
    """
    knowledge = knowledge_of(task, parameters, task.prior[:, None])
    model, policy = jax.tree.map(lambda leaf: leaf[truth], (task.library.models, task.solved["policies"]))
    certain = (jnp.arange(task.prior.shape[0], dtype=jnp.int32) == truth).astype(task.prior.dtype)

    def step(memory: Mixture, taken: tuple[Array, Array]) -> tuple[Mixture, Sums]:
        action, seen = taken
        policies = soft.model_policies(knowledge, memory)[..., 0]  # [K, A]
        posterior = jnp.exp(memory.log_posterior[:, 0])
        loss = losses.losses(model, policy, memory.beliefs[truth, :, 0])
        ours = losses.mixture_loss(posterior, policies, loss)
        best = losses.mixture_loss(certain, policies, loss)
        after = soft.observe(knowledge, memory, action[None], seen[None])
        return after, Sums(ours, best, losses.divergence(certain, posterior))

    keys = jax.random.key(0)[None]  # not used: the mixture starts without chance
    _, sums = jax.lax.scan(step, soft.init(keys, knowledge, None), (actions, observations))
    return sums


summed_losses = jax.jit(lambda *history: jax.tree.map(jnp.sum, history_losses(*history)))
"""`history_losses` summed over the steps: three numbers."""
