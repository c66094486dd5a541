"""Point-based backups and bounds by nested loops.

A model is P[a, x, y], O[a, y, z], R[x, a] and the discount, in this order.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from oracles import mdp


class Backup(NamedTuple):
    """What a backup at one belief finds."""

    q: np.ndarray  # [A]
    choice: list[list[int | None]]  # [A][Z], the best vector; None for an observation that cannot follow
    margin: np.ndarray  # [A], how much worse the second best choice for some observation is


def backup(transition, observation, reward, discount: float, vectors, belief) -> Backup:
    """q(b, a) and the vectors behind it."""
    num_actions, num_states, num_observations = observation.shape
    q, choice, margin = np.zeros(num_actions), [], np.full(num_actions, np.inf)
    for a in range(num_actions):
        q[a] = sum(belief[x] * reward[x, a] for x in range(num_states))
        choice.append([])
        for z in range(num_observations):
            joint = [
                sum(belief[x] * transition[a, x, y] for x in range(num_states)) * observation[a, y, z]
                for y in range(num_states)
            ]
            scores = sorted(
                (sum(w * v for w, v in zip(joint, vector, strict=True)), -i)
                for i, vector in enumerate(vectors)
            )
            possible = sum(joint) > 0
            choice[a].append(-scores[-1][1] if possible else None)
            if possible:
                q[a] += discount * scores[-1][0]
                margin[a] = min([margin[a], *(scores[-1][0] - score for score, _ in scores[-2:-1])])
    return Backup(q, choice, margin)


def assemble(transition, observation, reward, discount: float, vectors, action: int, choice):
    """R(x, a) + γ sum_y P(y | x, a) sum_z O(z | y, a) v_z(y) [X] with v_z = vectors[choice[z]]."""
    num_states, num_observations = observation.shape[1:]
    alpha = np.array(reward[:, action], float)
    for x, y, z in product(range(num_states), range(num_states), range(num_observations)):
        alpha[x] += discount * transition[action, x, y] * observation[action, y, z] * vectors[choice[z]][y]
    return alpha


def blind_sweep(transition, reward, discount: float, vectors):
    """One more step of each action forever [A, X]."""
    num_actions, num_states = transition.shape[:2]
    new = np.array(reward.T, float)
    for a, x, y in product(range(num_actions), range(num_states), range(num_states)):
        new[a, x] += discount * transition[a, x, y] * vectors[a][y]
    return new


def qmdp(transition, reward, discount: float):
    """q* of the state that is seen, as vectors [A, X]: the best of all stationary policies."""
    return mdp.optimal(transition, reward, discount)[0].T


def informed_sweep(transition, observation, reward, discount: float, vectors):
    """R(x, a) + γ sum_z max_v sum_y P(y | x, a) O(z | y, a) v(y) [A, X]."""
    num_actions, num_states, num_observations = observation.shape
    new = np.zeros((num_actions, num_states))
    for a, x in product(range(num_actions), range(num_states)):
        new[a, x] = reward[x, a]
        for z in range(num_observations):
            new[a, x] += discount * max(
                sum(transition[a, x, y] * observation[a, y, z] * vector[y] for y in range(num_states))
                for vector in vectors
            )
    return new


def informed(transition, observation, reward, discount: float, tolerance: float = 1e-10):
    """The fast informed bound [A, X], swept down from `qmdp`."""
    vectors = qmdp(transition, reward, discount)
    while True:
        new = informed_sweep(transition, observation, reward, discount, vectors)
        if np.abs(new - vectors).max() < tolerance * (1 - discount):
            return new
        vectors = new


def look_ahead(transition, observation, reward, discount: float, vectors, belief, depth: int) -> float:
    """The best of `depth` steps and then the best of `vectors`, for a belief of any size."""
    if depth == 0:
        return max(sum(b * v for b, v in zip(belief, vector, strict=True)) for vector in vectors)
    num_actions, num_states, num_observations = observation.shape
    values = []
    for a in range(num_actions):
        predicted = [
            sum(belief[x] * transition[a, x, y] for x in range(num_states)) for y in range(num_states)
        ]
        ahead = sum(
            look_ahead(
                transition, observation, reward, discount, vectors,
                [predicted[y] * observation[a, y, z] for y in range(num_states)], depth - 1,
            )
            for z in range(num_observations)
        )  # fmt: skip
        values.append(sum(belief[x] * reward[x, a] for x in range(num_states)) + discount * ahead)
    return max(values)
