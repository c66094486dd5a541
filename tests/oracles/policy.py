"""What alpha vectors say about a belief, by nested loops."""

import numpy as np


def scores(vectors, belief) -> list[float]:
    """The inner product of every vector with `belief`."""
    return [sum(float(b) * float(v) for b, v in zip(belief, vector, strict=True)) for vector in vectors]


def value(vectors, belief) -> float:
    """The largest inner product."""
    return max(scores(vectors, belief))


def action_probabilities(vectors, actions, belief, num_actions: int, tie: float):
    """Uniform over the actions of the vectors within `tie` of the best [A]."""
    found = scores(vectors, belief)
    best = {int(a) for a, score in zip(actions, found, strict=True) if score >= max(found) - tie}
    return np.array([1 / len(best) if a in best else 0.0 for a in range(num_actions)])


def q(transition, observation, reward, discount: float, vectors, belief):
    """One step of look-ahead [A]: for each observation the vector that is best for the belief it leads to."""
    num_actions, num_states, num_observations = observation.shape
    values = np.zeros(num_actions)
    for a in range(num_actions):
        values[a] = sum(belief[x] * reward[x, a] for x in range(num_states))
        arriving = [sum(belief[x] * chance for x, chance in enumerate(column)) for column in transition[a].T]
        for z in range(num_observations):
            joint = [arriving[y] * observation[a, y, z] for y in range(num_states)]
            chance = sum(joint)
            if chance > 0:
                values[a] += discount * chance * value(vectors, [weight / chance for weight in joint])
    return values
