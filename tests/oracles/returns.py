"""Soft ATPO by plain loops, and its expected return by enumeration of all histories, in float64.

A model is (P[a, x, y], O[a, y, z], R[x, a], initial [X], ...). Numbers are a mapping: temperature, temper, floor,
tilt, prior [K]. Gradients are central differences of the exact return; nothing of jatpo is used.
"""

from typing import NamedTuple

import numpy as np


def action_values(vectors, actions, belief, num_actions):
    """The best inner product among the vectors of each action; None for an action without one."""
    best = [None] * num_actions
    for vector, action in zip(np.asarray(vectors), np.asarray(actions), strict=True):
        score = float(np.dot(vector, belief))
        if best[action] is None or score > best[action]:
            best[action] = score
    return best


def soft_policy(vectors, actions, belief, num_actions, temperature, tie):
    """Softmax over the actions that have a vector; those within `tie` of the best count as the best."""
    values = action_values(vectors, actions, belief, num_actions)
    top = max(value for value in values if value is not None) - tie
    weights = [0.0 if v is None else np.exp((min(v, top) - top) / temperature) for v in values]
    return np.array(weights) / sum(weights)


class Beliefs(NamedTuple):
    """What the agent holds: the posterior [K] and a belief for every model."""

    posterior: np.ndarray
    beliefs: list


class SoftATPO:
    """The agent; policies are (vectors [V, X_k], actions [V]) of every model."""

    def __init__(self, models, policies, tie):
        self.models, self.policies, self.tie = models, policies, tie
        self.num_actions, _, self.num_observations = np.shape(models[0][1])

    def start(self, numbers):
        values = [
            max(float(np.dot(vector, model[3])) for vector in vectors)
            for model, (vectors, _) in zip(self.models, self.policies, strict=True)
        ]
        spread = np.std(values)
        scores = (np.array(values) - np.mean(values)) / spread if spread > 0 else np.zeros(len(values))
        weights = np.asarray(numbers["prior"]) * np.exp(numbers["tilt"] * scores)
        return Beliefs(weights / weights.sum(), [np.array(model[3], float) for model in self.models])

    def act(self, numbers, held):
        chances = np.zeros(self.num_actions)
        for p, belief, (vectors, actions) in zip(held.posterior, held.beliefs, self.policies, strict=True):
            own = soft_policy(vectors, actions, belief, self.num_actions, numbers["temperature"], self.tie)
            chances += p * own
        return chances

    def observe(self, numbers, held, action, seen):
        weights, beliefs = [], []
        for p, belief, model in zip(held.posterior, held.beliefs, self.models, strict=True):
            predicted = [
                sum(belief[x] * model[0][action][x][y] for x in range(len(belief)))
                for y in range(len(belief))
            ]
            joint = np.array([predicted[y] * model[1][action][y][seen] for y in range(len(belief))])
            weights.append(p * joint.sum() ** numbers["temper"] + numbers["floor"])
            raised = joint + numbers["floor"]
            beliefs.append(raised / raised.sum() if raised.sum() > 0 else np.array(predicted))
        posterior = held.posterior if sum(weights) == 0 else np.array(weights) / sum(weights)
        return Beliefs(posterior, beliefs)

    def history(self, numbers, actions, observations):
        held = self.start(numbers)
        for action, seen in zip(actions, observations, strict=True):
            held = self.observe(numbers, held, action, seen)
        return held

    def expected_return(self, numbers, truth, horizon):
        """The undiscounted return in world `truth`, summed over every history."""
        model = self.models[truth]
        states = range(len(model[3]))

        def onward(held, reach, steps):
            """`reach` is the probability of the history so far and of each state [X]."""
            if steps == 0 or reach.sum() == 0:
                return 0.0
            chances, total = self.act(numbers, held), 0.0
            for a in range(self.num_actions):
                total += chances[a] * sum(reach[x] * model[2][x][a] for x in states)
                arrived = np.array([sum(reach[x] * model[0][a][x][y] for x in states) for y in states])
                for z in range(self.num_observations):
                    after = chances[a] * arrived * np.array([model[1][a][y][z] for y in states])
                    if steps > 1 and after.sum() > 0:
                        total += onward(self.observe(numbers, held, a, z), after, steps - 1)
            return total

        return onward(self.start(numbers), np.array(model[3], float), horizon)

    def mean_return(self, numbers, horizon):
        """Over true models drawn alike."""
        count = len(self.models)
        return sum(self.expected_return(numbers, k, horizon) for k in range(count)) / count

    def slopes(self, numbers, horizon, step=1e-5):
        """Central differences of `mean_return` in every number; for the prior one for each entry."""
        found = {}
        for name, value in numbers.items():
            value = np.asarray(value, float)
            slope = np.zeros(value.shape)
            for place in np.ndindex(value.shape):
                sides = []
                for sign in (1, -1):
                    moved = value.copy()
                    moved[place] += sign * step
                    sides.append(self.mean_return({**numbers, name: moved}, horizon))
                slope[place] = (sides[0] - sides[1]) / (2 * step)
            found[name] = slope
        return found
