"""Optimal values of small POMDPs by enumeration: of policy trees, of the beliefs that can be reached, and, where
these are finitely many, of the whole infinite horizon.

A model is P[a, x, y], O[a, y, z], R[x, a] and the discount, in this order.
"""

from collections.abc import Callable
from itertools import product

import numpy as np

from oracles import mdp

Leaf = Callable[[np.ndarray], float]


def after(transition, observation, belief, action: int, seen: int):
    """The probability of `seen` after `action`, and the belief it leaves (None if it cannot follow)."""
    joint = [
        sum(belief[x] * transition[action, x, y] for x in range(len(belief))) * observation[action, y, seen]
        for y in range(len(belief))
    ]
    chance = sum(joint)
    return chance, np.array(joint) / chance if chance > 0 else None


def branches(transition, observation, belief, action: int):
    """Every (probability, belief) that can follow `action`."""
    predicted = belief @ transition[action]
    for z in range(observation.shape[2]):
        joint = predicted * observation[action, :, z]
        chance = joint.sum()
        if chance > 0:
            yield chance, joint / chance


def tree_value(transition, observation, reward, discount, belief, horizon: int, leaf: Leaf = lambda b: 0.0):
    """The best expected return of `horizon` steps and then `leaf` of the belief reached."""
    if horizon == 0:
        return leaf(belief)
    model = (transition, observation, reward, discount)
    return max(
        belief @ reward[:, a]
        + discount
        * sum(
            chance * tree_value(*model, onward, horizon - 1, leaf)
            for chance, onward in branches(transition, observation, belief, a)
        )
        for a in range(transition.shape[0])
    )


def policy_trees(transition, observation, reward, discount, horizon: int):
    """The value vector of every deterministic policy of `horizon` steps, one for each tree of actions [n, X]."""
    num_actions, num_states, num_observations = observation.shape
    if horizon == 0:
        return [np.zeros(num_states)]
    shorter = policy_trees(transition, observation, reward, discount, horizon - 1)
    trees = []
    for a, plan in product(range(num_actions), product(shorter, repeat=num_observations)):
        vector = np.array(reward[:, a], float)
        for x, y, z in product(range(num_states), range(num_states), range(num_observations)):
            vector[x] += discount * transition[a, x, y] * observation[a, y, z] * plan[z][y]
        trees.append(vector)
    return trees


def blind(transition, reward, discount):
    """The value vector of each action taken forever [A, X]."""
    always = ([a] * len(reward) for a in range(len(transition)))
    return np.array([mdp.policy_values(transition, reward, discount, policy) for policy in always])


def interval(transition, observation, reward, discount, belief, horizon: int):
    """Two numbers with the optimum of the infinite horizon between them.

    After `horizon` steps it is worth at least the best blind policy, at most what seeing the state would give.
    """
    model = (transition, observation, reward, discount)
    below, (_, above) = blind(transition, reward, discount), mdp.optimal(transition, reward, discount)
    lowest = tree_value(*model, belief, horizon, lambda b: float(np.max(below @ b)))
    return lowest, tree_value(*model, belief, horizon, lambda b: float(above @ b))


def policy_interval(transition, observation, reward, discount, choose, belief, horizon: int):
    """Two numbers with the value of acting by `choose(belief) -> [A]` probabilities forever between them."""
    lowest, highest = np.min(reward) / (1 - discount), np.max(reward) / (1 - discount)

    def value(belief, horizon: int):
        if horizon == 0:
            return np.array([lowest, highest])
        total = np.zeros(2)
        for a, weight in enumerate(choose(belief)):
            if weight > 0:
                ahead = sum(
                    c * value(b, horizon - 1) for c, b in branches(transition, observation, belief, a)
                )
                total = total + weight * (belief @ reward[:, a] + discount * ahead)
        return total

    return tuple(value(belief, horizon))


def closed(transition, observation, reward, discount, initial, most: int = 500, same: float = 1e-12):
    """The optimum of the infinite horizon where at most `most` beliefs can be reached; beliefs within `same`
    of each other count as one."""
    found, following = [np.array(initial, float)], []
    while len(following) < len(found):
        belief = found[len(following)]
        steps = [list(branches(transition, observation, belief, a)) for a in range(len(transition))]
        following.append(
            [[(chance, _place(found, onward, same)) for chance, onward in step] for step in steps]
        )
        assert len(found) <= most, "more beliefs than this oracle is for"
    value = np.zeros(len(found))
    while True:
        new = np.array([_best(found[i], following[i], reward, discount, value) for i in range(len(found))])
        if np.abs(new - value).max() < 1e-11 * (1 - discount):
            return new[0]
        value = new


def _place(found: list, belief, same: float) -> int:
    """The index of `belief` in `found`, where it is entered if it is new."""
    for i, other in enumerate(found):
        if np.abs(other - belief).max() < same:
            return i
    found.append(belief)
    return len(found) - 1


def _best(belief, following, reward, discount, value) -> float:
    return max(
        belief @ reward[:, a] + discount * sum(chance * value[i] for chance, i in step)
        for a, step in enumerate(following)
    )
