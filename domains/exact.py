"""Exact returns of the agents that see the state, by propagating the state distribution: nothing is sampled.

q(x, a) = R(x, a) + discount * sum_y P(y | x, a) max_b q(y, b)
return of a policy over h steps = sum_t d_t . R_policy,   d_0 = start,   d_{t+1} = d_t P_policy
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jatpo.domains.description import Description
from jatpo.domains.mmdp import RESIDUAL, TIE
from jatpo.domains.sweeps import iterate_values
from jatpo.ties import share_best


class Values(NamedTuple):
    """q* [X, A] and v* [X] of the fully observed process."""

    q: np.ndarray
    v: np.ndarray


class Returns(NamedTuple):
    """Expected undiscounted returns of two agents, and the discounted optimum at the start."""

    value_iteration: float
    random: float
    optimal_value: float


def optimal_values(description: Description, limit: int = 100_000) -> Values:
    """Value iteration in float64 until no value moves by more than 1e-11."""
    a, x, y, p = description.transition
    rows = x * description.num_actions + a
    order = np.argsort(rows, kind="stable")
    y, weights = y[order], description.discount * p[order]
    starts = np.searchsorted(rows[order], np.arange(description.reward.size))
    reward = description.reward

    def sweep(values: np.ndarray) -> np.ndarray:
        return reward + np.add.reduceat(weights * values[y], starts).reshape(reward.shape)

    advice = f"choose a discount below {description.discount:g}"
    return Values(*iterate_values(sweep, reward.max(axis=1), 1, RESIDUAL, advice, limit)[:2])


def expected_return(description: Description, policy: np.ndarray, horizon: int) -> float:
    """The undiscounted return over `horizon` steps of an agent that sees the state, policy [X, A]."""
    a, x, y, p = description.transition
    weights = policy[x, a] * p
    reward = (policy * description.reward).sum(axis=1)
    states, total = description.initial, 0.0
    for _ in range(horizon):
        total += float(states.dot(reward))
        states = np.bincount(y, weights=states[x] * weights, minlength=description.num_states)
    return total


def exact_returns(description: Description, horizon: int) -> Returns:
    """The returns of the value-iteration agent (ties uniform) and of the random agent."""
    values = optimal_values(description)
    uniform = np.full(description.reward.shape, 1 / description.num_actions)
    return Returns(
        value_iteration=expected_return(description, share_best(values.q, TIE), horizon),
        random=expected_return(description, uniform, horizon),
        optimal_value=float(description.initial.dot(values.v)),
    )
