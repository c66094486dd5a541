"""Beliefs and evidence by enumerating state paths.

A path x0, x1, ..., xT has the weight initial(x0) prod_t P(x_t | x_{t-1}, a_t) O(z_t | x_t, a_t). Everything
the filter says is a ratio of sums of such weights. An observation of None is one that was not seen.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np


def path_weights(transition, observation, initial, actions: Sequence[int], seen: Sequence[int | None]):
    """The summed weight of all paths that end in each state [X]."""
    ending = [0.0] * len(initial)
    moves, signs = transition.tolist(), observation.tolist()

    def walk(t: int, x: int, weight: float) -> None:
        if t == len(actions):
            ending[x] += weight
            return
        for y, chance in enumerate(moves[actions[t]][x]):
            onward = weight * chance * (1.0 if seen[t] is None else signs[actions[t]][y][seen[t]])
            if onward != 0:
                walk(t + 1, y, onward)

    for x, weight in enumerate(initial.tolist()):
        walk(0, x, weight)
    return np.array(ending)


def history(transition, observation, initial, actions: Sequence[int], observations: Sequence[int]):
    """The belief [X] and the log evidence after each step, as two lists.

    An impossible observation counts as not seen from then on: the belief is the predicted one.
    """
    beliefs, log_evidences = [], []
    seen: list[int | None] = []
    for t, z in enumerate(observations, 1):
        without = path_weights(transition, observation, initial, actions[:t], [*seen, None])
        with_it = path_weights(transition, observation, initial, actions[:t], [*seen, z])
        possible = with_it.sum() > 0
        seen.append(z if possible else None)
        ending = with_it if possible else without
        beliefs.append(ending / ending.sum())
        log_evidences.append(np.log(with_it.sum() / without.sum()) if possible else -np.inf)
    return beliefs, log_evidences


def evidence(transition, observation, belief, action: int):
    """The probability of each observation after `action` [Z]."""
    num_states, num_observations = observation.shape[1:]
    chances = np.zeros(num_observations)
    for x, y, z in product(range(num_states), range(num_states), range(num_observations)):
        chances[z] += belief[x] * transition[action, x, y] * observation[action, y, z]
    return chances


def log_weight(transition, observation, initial, actions, observations) -> float:
    """The log of the summed weight of all paths: the log evidence of the whole history."""
    return float(np.log(path_weights(transition, observation, initial, actions, observations).sum()))


def log_weight_gradient(transition, observation, initial, actions, observations, step: float = 1e-6):
    """Central differences of `log_weight` by every entry of the three arrays, as three arrays.

    Entries are moved one at a time and not renormalised; the weights are polynomials in them, so that also
    an entry of 0 has two sides.
    """
    arrays = [np.array(part, float) for part in (transition, observation, initial)]
    gradients = [np.zeros_like(part) for part in arrays]
    for part, gradient in zip(arrays, gradients, strict=True):
        for at in np.ndindex(part.shape):
            kept = part[at]
            part[at] = kept + step
            above = log_weight(*arrays, actions, observations)
            part[at] = kept - step
            below = log_weight(*arrays, actions, observations)
            part[at] = kept
            gradient[at] = (above - below) / (2 * step)
    return gradients
