"""Likelihoods, posteriors and Baum-Welch by enumerating every path of states (and of hidden choices).

A hidden choice u makes P(y | x, a) = sum_u policy[x, u] P_u(y | x, a): the teammate's action. Everything is a sum
over all paths of products of plain floats, so only tiny models and short histories are possible.
"""

from itertools import product

import numpy as np


def likelihood(transition, observation, initial, actions, observations) -> float:
    """The probability of the observations given the actions."""
    moves, signs = np.asarray(transition).tolist(), np.asarray(observation).tolist()

    def walk(t, x, weight):
        if t == len(actions):
            return weight
        a, z = actions[t], observations[t]
        onward = ((y, chance * signs[a][y][z]) for y, chance in enumerate(moves[a][x]))
        return sum(walk(t + 1, y, weight * chance) for y, chance in onward if chance != 0)

    return sum(walk(0, x, weight) for x, weight in enumerate(np.asarray(initial).tolist()) if weight != 0)


def filtered_log_likelihood(transition, observation, initial, actions, observations) -> float:
    """The same for long histories: one matrix at a time, rescaled, in doubles."""
    belief, total = np.array(initial, float), 0.0
    for a, z in zip(actions, observations, strict=True):
        belief = (belief @ transition[a]) * observation[a][:, z]
        total += np.log(belief.sum())
        belief = belief / belief.sum()
    return total


def mixture(models, prior, actions, observations):
    """The marginal log likelihood and the posterior over models (transition, observation, initial)."""
    joint = np.array(
        [p * likelihood(*model, actions, observations) for p, model in zip(prior, models, strict=True)]
    )
    return np.log(joint.sum()), joint / joint.sum()


def differences(function, point, step: float = 1e-6):
    """The gradient of a function of an array by central differences."""
    point = np.array(point, float)
    gradient = np.zeros_like(point)
    for at in np.ndindex(point.shape):
        kept = point[at]
        sides = []
        for sign in (1, -1):
            point[at] = kept + sign * step
            sides.append(function(point))
        point[at] = kept
        gradient[at] = (sides[0] - sides[1]) / (2 * step)
    return gradient


def choice_counts(policy, moves, observation, initial, actions, observations):
    """How often each hidden choice u was made in each state x, in expectation given the history [X, U].

    `moves` is P_u(y | x, a) as [U, A, X, Y].
    """
    num_states, num_choices = policy.shape
    counts, total = np.zeros_like(policy), 0.0
    steps = len(actions)
    for path in product(range(num_states), repeat=steps + 1):
        if initial[path[0]] == 0:
            continue
        for choices in product(range(num_choices), repeat=steps):
            weight = initial[path[0]]
            for t, (a, z) in enumerate(zip(actions, observations, strict=True)):
                x, y, u = path[t], path[t + 1], choices[t]
                weight *= policy[x, u] * moves[u, a, x, y] * observation[a, y, z]
            total += weight
            for t in range(steps):
                counts[path[t], choices[t]] += weight
    return counts / total


def failure_counts(level, kernels, transition, initial, actions, observations):
    """Expected failures and trials when O = sum_j ε^j (1-ε)^(d-j) kernels[j], by enumerating j at every step."""
    degree, num_states = len(kernels) - 1, len(initial)
    failed = total = 0.0
    for path in product(range(num_states), repeat=len(actions) + 1):
        for choices in product(range(degree + 1), repeat=len(actions)):
            weight = initial[path[0]]
            for t, (a, z) in enumerate(zip(actions, observations, strict=True)):
                j = choices[t]
                chance = level**j * (1 - level) ** (degree - j)
                weight *= transition[a][path[t]][path[t + 1]] * chance * kernels[j][a][path[t + 1]][z]
            total += weight
            failed += weight * sum(choices)
    return failed / total, degree * len(actions)
