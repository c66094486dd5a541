"""How the policy of a model acts on beliefs of ATPO's filter: by alpha vectors, or for the most probable state.

    Vectors()        pi(a | b): the action of the vector that is best at b, ties shared
    LikeliestState() the first action that is best by q*(x, .), x being the most probable state where that matters

The second is Nourbakhsh, Powers and Birchfield's most-likely-state rule (AI Magazine 16(2), 1995): it needs no solved
POMDP and looks at one state, so that a decision costs little more than the filter. It takes no action for what it
reveals. Where a state is found by acting as if it were known, as on grids that are too large for good vectors, it is
hard to beat; where information has to be bought it is the wrong one.

A policy is a frozen dataclass without arrays; `needs` names what has to be solved for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs import Representation, each_model
from jatpo.evaluate.agents.protocol import Context
from jatpo.mdp import greedy
from jatpo.solve.policy import Policy, scores_columns_to_probabilities


class BeliefPolicy:
    """What policies have in common."""

    needs: tuple[str, ...] = ()

    def columns(self, context: Context, belief: Representation, beliefs: Any) -> Array:
        """pi_k(a | b_k) of every model and trial [K, A, N], for `beliefs` [K, ..., N]."""
        raise NotImplementedError


@dataclass(frozen=True)
class Vectors(BeliefPolicy):
    """The actions of the best alpha vectors."""

    needs = ("policies",)

    def columns(self, context: Context, belief: Representation, beliefs: Any) -> Array:
        policies: Policy = context.solved["policies"]
        num_actions = context.actions.shape[0]
        scores = each_model(belief, belief.expectation_columns, beliefs, policies.vectors)  # [K, V, N]
        return jax.vmap(lambda own, actions: scores_columns_to_probabilities(own, actions, num_actions))(
            scores, policies.actions
        )


@dataclass(frozen=True)
class LikeliestState(BeliefPolicy):
    """The first of the best actions of the most probable state in which the action matters, if the state were known.

    Ties are not shared: who leaves a tie to chance goes back and forth where the state is hidden, and who keeps to one
    direction comes to a wall that reveals where it is. A state in which all actions are equally good, such as a
    final one, does not say what to do if it is not the true one.
    """

    needs = ("state_actions",)

    def columns(self, context: Context, belief: Representation, beliefs: Any) -> Array:
        actions = context.actions

        def of_model(own: Any, best: Array) -> Array:
            states = belief.of_columns(lambda held: belief.likeliest(held, best >= 0), own)  # [N]
            return (actions[:, None] == jnp.maximum(best[states], 0)[None, :]).astype(context.prior.dtype)

        return each_model(belief, of_model, beliefs, context.solved["state_actions"])


def state_actions(q: Array) -> Array:
    """The first of the best actions in every state [..., X] of q [..., X, A]; -1 where all are as good."""
    best = greedy(q) > 0
    return jnp.where(jnp.all(best, axis=-1), -1, jnp.argmax(best, axis=-1)).astype(jnp.int32)
