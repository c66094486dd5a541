"""The best that can be done without knowing the model, by enumeration of all policies that look at the history.

A model is (P[a, x, y], O[a, y, z], R[x, a], initial [X], discount); models of a library may differ in X. A policy gives
an action for every sequence of observations shorter than the horizon. All in float64, with nested loops; nothing of
jatpo is used.
"""

from itertools import product

import numpy as np


def histories(num_observations: int, horizon: int) -> list[tuple[int, ...]]:
    """Every sequence of observations after which an action is still to be taken."""
    return [seen for length in range(horizon) for seen in product(range(num_observations), repeat=length)]


def policies(num_actions: int, num_observations: int, horizon: int):
    """Every deterministic policy, as a dictionary from histories to actions."""
    known = histories(num_observations, horizon)
    for actions in product(range(num_actions), repeat=len(known)):
        yield dict(zip(known, actions, strict=True))


def policy_value(model, policy, horizon: int) -> float:
    """The expected discounted return of a policy in one model."""
    transition, observation, reward, initial, discount = model
    states, symbols = range(len(initial)), range(observation.shape[2])

    def ahead(seen: tuple[int, ...], x: int) -> float:
        if len(seen) == horizon:
            return 0.0
        a = policy[seen]
        total = float(reward[x, a])
        for y in states:
            for z in symbols:
                chance = transition[a, x, y] * observation[a, y, z]
                if chance > 0:
                    total += discount * chance * ahead((*seen, z), y)
        return total

    return sum(float(initial[x]) * ahead((), x) for x in states if initial[x] > 0)


def best_value(models, prior, horizon: int) -> float:
    """The best expected return over a prior, of a policy that is the same in all models."""
    num_actions, _, num_observations = models[0][1].shape
    return max(
        sum(p * policy_value(model, policy, horizon) for p, model in zip(prior, models, strict=True) if p > 0)
        for policy in policies(num_actions, num_observations, horizon)
    )


def staged(model, horizon: int):
    """The same model for `horizon` steps and nothing after: states (t, x) in rows of t, and an end at last."""
    transition, observation, reward, initial, discount = model
    num_actions, size, num_observations = observation.shape
    states = horizon * size + 1
    moves = np.zeros((num_actions, states, states))
    signs = np.zeros((num_actions, states, num_observations))
    gains = np.zeros((states, num_actions))
    moves[:, -1, -1] = 1
    signs[:, -1, 0] = 1  # nothing depends on what is seen in the end
    for t in range(horizon):
        here = slice(t * size, (t + 1) * size)
        signs[:, here], gains[here] = observation, reward
        if t + 1 < horizon:
            moves[:, here, (t + 1) * size : (t + 2) * size] = transition
        else:
            moves[:, here, -1] = 1
    start = np.zeros(states)
    start[:size] = initial
    return moves, signs, gains, start, discount
