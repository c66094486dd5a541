"""Rules that make one action of the models' policies, with ATPO's filter: `map`, `vote` and `commit`.

    map      pi = pi_k(. | b_k) of the model k with the largest p(k)
    vote     a  = argmax_a sum_k p(k) pi_k(a | b_k)
    commit   pi = pi_j(. | b_j), where j = argmax_k p(k) v_k(b_k) is kept while p(j) >= loyalty max_k p(k)

ATPO draws from the mixture, so it follows every model in turn, in proportion to p. Where observations reveal little
until a goal is reached, it goes back and forth between the models' goals, and so do the first two where p is even: the
next step's largest p or vote may be another's. `commit` continues with the model that it has begun to follow. v_k is
the value of the MDP beneath model k. Ties of the first two are shared uniformly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agents.atpo import ATPO, Mixture, mix
from jatpo.evaluate.agents.belief_policies import LikeliestState
from jatpo.evaluate.agents.protocol import Context, agent_class
from jatpo.filter import safe_log
from jatpo.ties import share_best

TIE = 1e-5
"""Probabilities this close to the largest count as largest: above float32 noise, below what a step can reveal."""


@agent_class
class MostLikely(ATPO):
    """The policy of the most probable model, or with `vote` the action with the largest probability in the mixture."""

    name: str = "map"
    vote: bool | Array = False

    def act(self, keys: Array, context: Context, memory: Mixture) -> Array:
        """Either rule's probabilities [A, N]."""
        del keys
        policies = self.model_policies(context, memory)  # [K, A, N]
        likeliest = shared(jnp.exp(memory.log_posterior))
        followed = jnp.sum(likeliest[:, None, :] * policies, axis=0)
        voted = shared(mix(memory.log_posterior, policies))
        return jnp.where(self.vote, voted, followed)


def Vote(**parameters: Any) -> MostLikely:
    """The action with the largest probability in ATPO's mixture."""
    return MostLikely(**{"name": "vote", "vote": True} | parameters)


def StateCommit(**parameters: Any) -> Commit:
    """`commit` whose models act for their most probable state."""
    return Commit(**{"name": "state_commit", "policy": LikeliestState()} | parameters)


def shared(weights: Array, tie: float = TIE) -> Array:
    """1 in all, in equal shares for the largest `weights` along the first axis [n, N]."""
    return share_best(weights, tie, axis=0)


class Committed(NamedTuple):
    """What ATPO keeps, and the model that is followed."""

    mixture: Mixture
    followed: Array  # [N] int32


@agent_class
class Commit(ATPO):
    """The policy of one model, until the posterior favours another by far."""

    name: str = "commit"
    loyalty: float | Array = 0.2  # 0: forever, unless it is ruled out; above 1: choose anew at every step

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.policy.needs, "q")))

    def init(self, keys: Array, context: Context, seen: None) -> Committed:
        """ATPO's start, and the first model to follow."""
        memory = super().init(keys, context, seen)
        return Committed(memory, self._most_promising(context, memory))

    def act(self, keys: Array, context: Context, memory: Committed) -> Array:
        """The policy of the model that is followed [A, N]."""
        del keys
        policies = self.model_policies(context, memory.mixture)
        return jnp.take_along_axis(policies, memory.followed[None, None, :], axis=0)[0]

    def update(
        self, keys: Array, context: Context, memory: Committed, actions: Array, seen: Array
    ) -> Committed:
        """ATPO's filter; another model is followed where this one has fallen behind."""
        after = super().update(keys, context, memory.mixture, actions, seen)
        largest = jnp.max(after.log_posterior, axis=0)
        own = jnp.take_along_axis(after.log_posterior, memory.followed[None, :], axis=0)[0]
        loyalty = jnp.asarray(self.loyalty, own.dtype)
        stays = (own > -jnp.inf) & (own >= largest + safe_log(loyalty))
        return Committed(after, jnp.where(stays, memory.followed, self._most_promising(context, after)))

    def report(self, context: Context, memory: Committed) -> dict[str, Array]:
        """What ATPO reports, and the model that is followed."""
        return {**super().report(context, memory.mixture), "followed": memory.followed}

    def _most_promising(self, context: Context, memory: Mixture) -> Array:
        """The model with the largest p(k) v_k(b_k) [N]; values are counted from the lowest of any state."""
        values = jnp.max(context.solved["q"], axis=2)  # [K, X]
        lowest = jnp.min(jnp.where(context.library.state_mask, values, jnp.inf))
        worth = self.expectations(memory, values - lowest)
        posterior = jnp.exp(memory.log_posterior)
        return jnp.argmax(jnp.where(posterior > 0, posterior * worth, -1), axis=0).astype(jnp.int32)
