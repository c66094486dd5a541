"""Rules that make one action of the models' policies, with ATPO's filter: `map`, `vote` and `commit`.

    map      pi = pi_k(. | b_k) of the model k with the largest p(k)
    vote     a  = argmax_a sum_k p(k) pi_k(a | b_k)
    commit   pi = pi_j(. | b_j), where j = argmax_k p(k) v_k(b_k) is kept while p(j) >= loyalty max_k p(k)

ATPO draws from the mixture, so it follows every model in turn, in proportion to p. Where observations tell little until
a goal is reached, it goes back and forth between the models' goals, and so do the first two where p is even: the
next step's largest p or vote may be another's. `commit` goes on with the model that it has begun to follow. v_k is
the value of the MDP beneath model k. Ties of the first two are shared uniformly.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jatpo.evaluate import mixture
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.mixture import Mixture

TIE = 1e-5
"""Probabilities this close to the largest count as largest: above float32 noise, below what a step can tell."""


class Settings(NamedTuple):
    """Those of ATPO's filter, and whether to vote; traced, so that the two agents share one compiled program."""

    floor: float | Array = 0.0
    temper: float | Array = 1.0
    flat: bool | Array = False
    vote: bool | Array = False


def policy(keys: Array, knowledge: Knowledge, memory: Mixture) -> Array:
    """Either rule's probabilities [A, N]."""
    del keys
    policies = mixture.model_policies(knowledge, memory)  # [K, A, N]
    likeliest = shared(jnp.exp(memory.log_posterior))
    followed = jnp.sum(likeliest[:, None, :] * policies, axis=0)
    voted = shared(mixture.mix(memory.log_posterior, policies))
    return jnp.where(knowledge.parameters.vote, voted, followed)


def shared(weights: Array, tie: float = TIE) -> Array:
    """1 in all, in equal shares for the largest `weights` along the first axis [n, N]."""
    largest = (weights >= jnp.max(weights, axis=0, keepdims=True) - tie).astype(weights.dtype)
    return largest / jnp.sum(largest, axis=0, keepdims=True)


def _agent(name: str, vote: bool) -> Agent:
    parts = (mixture.init, policy, mixture.observe, mixture.report, ("policies",))
    return Agent(name, "observation", "library", *parts, Settings(vote=vote))


class Loyalty(NamedTuple):
    """Those of ATPO's filter, and how far the model that is followed may fall behind the most likely one."""

    floor: float | Array = 0.0
    temper: float | Array = 1.0
    flat: bool | Array = False
    loyalty: float | Array = 0.2  # 0: for ever, unless it is ruled out; above 1: choose anew at every step


class Committed(NamedTuple):
    """A `Mixture`, and the model that is followed."""

    beliefs: Array  # [K, X, N]
    log_posterior: Array  # [K, N]
    log_evidence: Array  # [N]
    impossible: Array  # [N] int32
    followed: Array  # [N] int32


def begin(keys: Array, knowledge: Knowledge, seen: None) -> Committed:
    """ATPO's start, and the first model to follow."""
    memory = mixture.init(keys, knowledge, seen)
    return Committed(*memory, followed=_most_promising(knowledge, memory))


def go_on(knowledge: Knowledge, memory: Committed, actions: Array, seen: Array) -> Committed:
    """ATPO's filter; another model is followed where this one has fallen behind."""
    after = mixture.observe(knowledge, Mixture(*memory[:4]), actions, seen)
    largest = jnp.max(after.log_posterior, axis=0)
    own = jnp.take_along_axis(after.log_posterior, memory.followed[None, :], axis=0)[0]
    loyalty = jnp.asarray(knowledge.parameters.loyalty, own.dtype)
    stays = (own > -jnp.inf) & (own >= largest + mixture.safe_log(loyalty))
    return Committed(*after, followed=jnp.where(stays, memory.followed, _most_promising(knowledge, after)))


def _most_promising(knowledge: Knowledge, memory: Mixture) -> Array:
    """The model with the largest p(k) v_k(b_k) [N]; values are counted from the lowest of any state."""
    values = jnp.max(knowledge.solved["q"], axis=2)  # [K, X]
    lowest = jnp.min(jnp.where(knowledge.library.state_mask, values, jnp.inf))
    worth = jnp.einsum("kx,kxn->kn", values - lowest, memory.beliefs)
    posterior = jnp.exp(memory.log_posterior)
    return jnp.argmax(jnp.where(posterior > 0, posterior * worth, -1), axis=0).astype(jnp.int32)


def follow(keys: Array, knowledge: Knowledge, memory: Committed) -> Array:
    """The policy of the model that is followed [A, N]."""
    del keys
    policies = mixture.model_policies(knowledge, Mixture(*memory[:4]))
    return jnp.take_along_axis(policies, memory.followed[None, None, :], axis=0)[0]


def report_followed(knowledge: Knowledge, memory: Committed) -> dict[str, Array]:
    """What ATPO tells, and the model that is followed."""
    return {**mixture.report(knowledge, Mixture(*memory[:4])), "followed": memory.followed}


MAP = _agent("map", vote=False)
VOTE = _agent("vote", vote=True)
_COMMITTED = (begin, follow, go_on, report_followed, ("policies", "q"))
COMMIT = Agent("commit", "observation", "library", *_COMMITTED, Loyalty())
