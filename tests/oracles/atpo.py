"""ATPO by one joint table over (model, state), by enumeration of state paths, and trials by plain loops.

A model is (P[a, x, y], O[a, y, z], R[x, a], initial [X], ...); models of a library may differ in X. All in
float64, with nested loops; nothing of jatpo is used.
"""

from collections.abc import Sequence

import numpy as np


def joint_start(models, prior) -> list[list[float]]:
    """The table w[k][x] = prior(k) initial_k(x)."""
    return [[p * float(b) for b in model[3]] for p, model in zip(prior, models, strict=True)]


def joint_step(models, table, action: int, observation: int) -> list[list[float]]:
    """The table after one step, not normalised: w'[k][y] = sum_x w[k][x] P_k(y | x, a) O_k(z | y, a)."""
    after = []
    for model, weights in zip(models, table, strict=True):
        states = range(len(weights))
        moves, signs = model[0][action], model[1][action]
        after.append([sum(weights[x] * moves[x][y] for x in states) * signs[y][observation] for y in states])
    return after


def joint_history(models, prior, actions: Sequence[int], observations: Sequence[int]):
    """Posterior [K], beliefs (a list of [X_k]) and log evidence of the last step, after a possible history.

    A model that the history rules out has posterior 0 and no belief (None).
    """
    table = joint_start(models, prior)
    before = 1.0
    for action, observation in zip(actions, observations, strict=True):
        before = sum(map(sum, table))
        table = joint_step(models, table, action, observation)
    total = sum(map(sum, table))
    posterior = np.array([sum(weights) / total for weights in table])
    beliefs = [np.array(weights) / sum(weights) if sum(weights) > 0 else None for weights in table]
    return posterior, beliefs, float(np.log(total / before))


def path_weight(model, actions, observations) -> np.ndarray:
    """The summed weight of all state paths of one model that end in each state [X]."""
    transition, observation, initial = model[0], model[1], model[3]
    ending = np.zeros(len(initial))

    def walk(t: int, x: int, weight: float) -> None:
        if weight == 0:
            return
        if t == len(actions):
            ending[x] += weight
            return
        for y in range(len(initial)):
            chance = transition[actions[t]][x][y] * observation[actions[t]][y][observations[t]]
            walk(t + 1, y, weight * chance)

    for x, weight in enumerate(initial):
        walk(0, x, float(weight))
    return ending


def enumerated(models, prior, actions, observations):
    """Posterior [K] and beliefs by enumeration of all state paths of all models."""
    endings = [path_weight(model, actions, observations) for model in models]
    weights = np.array([p * ending.sum() for p, ending in zip(prior, endings, strict=True)])
    beliefs = [ending / ending.sum() if ending.sum() > 0 else None for ending in endings]
    return weights / weights.sum(), beliefs


def floored_step(models, posterior, beliefs, action: int, observation: int, floor: float):
    """The published program's step: `floor` is added to beliefs and posterior before they are normalised."""
    updated, weights = [], []
    for model, belief, p in zip(models, beliefs, posterior, strict=True):
        joint = joint_step([model], [list(belief)], action, observation)[0]
        weights.append(sum(joint) * p + floor)
        raised = np.array(joint) + floor
        updated.append(raised / raised.sum())
    return np.array(weights) / sum(weights), updated


def greedy_actions(
    scores: Sequence[float], actions: Sequence[int], num_actions: int, tie: float
) -> np.ndarray:
    """Uniform over the actions whose score is within `tie` of the best [A]."""
    best = max(scores)
    chosen = {int(a) for score, a in zip(scores, actions, strict=True) if score >= best - tie}
    return np.array([1 / len(chosen) if a in chosen else 0.0 for a in range(num_actions)])


def mixture(policies, posterior, beliefs, num_actions: int, tie: float) -> np.ndarray:
    """sum_k p(k) pi_k(a | b_k) [A]; policies are (vectors [V, X_k], actions [V])."""
    chances = np.zeros(num_actions)
    for (vectors, actions), p, belief in zip(policies, posterior, beliefs, strict=True):
        if p > 0:
            scores = [
                sum(float(v) * float(b) for v, b in zip(vector, belief, strict=True)) for vector in vectors
            ]
            chances += p * greedy_actions(scores, actions, num_actions, tie)
    return chances


def pick(uniform: float, weights) -> int:
    """The index at which the cumulated weights pass `uniform`."""
    total = 0.0
    for index, weight in enumerate(weights):
        total += float(weight)
        if uniform < total:
            return index
    return max(i for i, weight in enumerate(weights) if weight > 0)


def expected_return(model, policy, horizon: int) -> float:
    """The undiscounted return of a policy [x, a], by propagating the distribution over states."""
    transition, reward, states = model[0], model[2], np.array(model[3], float)
    total = 0.0
    for _ in range(horizon):
        onward = np.zeros_like(states)
        for x, weight in enumerate(states):
            for a, chance in enumerate(policy[x]):
                total += weight * chance * reward[x][a]
                onward += weight * chance * np.asarray(transition[a][x])
        states = onward
    return total


def look_ahead(model, vectors, belief) -> np.ndarray:
    """q(b, a) [A] = R(b, a) + γ sum_z max_v sum_y O(z | y, a) predicted_a(y) v(y)."""
    transition, observation, reward, _, discount = model
    num_actions, num_states, num_observations = np.shape(observation)
    values = np.zeros(num_actions)
    for a in range(num_actions):
        values[a] = sum(belief[x] * reward[x][a] for x in range(num_states))
        for z in range(num_observations):
            seen = [
                sum(belief[x] * transition[a][x][y] for x in range(num_states)) * observation[a][y][z]
                for y in range(num_states)
            ]
            values[a] += discount * max(
                sum(s * v for s, v in zip(seen, vector, strict=True)) for vector in vectors
            )
    return values
