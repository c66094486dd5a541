"""Two rules that make one action of the models' policies, with ATPO's filter: `map` and `vote`.

    map     pi = pi_k(. | b_k) of the model k with the largest p(k)
    vote    a  = argmax_a sum_k p(k) pi_k(a | b_k)

ATPO draws from the mixture, so it follows every model in turn, in proportion to p. These two commit themselves: to
a model, or to what most of the probability asks for. Ties are shared uniformly.
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


MAP = _agent("map", vote=False)
VOTE = _agent("vote", vote=True)
