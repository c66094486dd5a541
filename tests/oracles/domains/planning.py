"""Value iteration in float64 over dictionaries of successors, and exact returns by propagation."""

from collections.abc import Callable

import numpy as np

TIE = 1e-6


def tabulate(states: list, actions: list, successors: Callable) -> tuple[np.ndarray, np.ndarray]:
    """successors(state, action) -> {state: probability} as padded arrays next[X,A,S], probability[X,A,S]."""
    position = {state: index for index, state in enumerate(states)}
    rows = [[successors(state, action) for action in actions] for state in states]
    width = max(len(row) for per_state in rows for row in per_state)
    after = np.zeros((len(states), len(actions), width), dtype=np.int64)
    chance = np.zeros((len(states), len(actions), width))
    for x, per_state in enumerate(rows):
        for a, row in enumerate(per_state):
            for s, (state, probability) in enumerate(row.items()):
                after[x, a, s] = position[state]
                chance[x, a, s] = probability
    return after, chance


def value_iteration(after: np.ndarray, chance: np.ndarray, reward: np.ndarray, discount: float) -> np.ndarray:
    """q[X,A] of the discounted optimum; the reward[X] is that of the current state."""
    value = np.zeros(len(reward))
    for _ in range(100_000):
        q = reward[:, None] + discount * (chance * value[after]).sum(axis=2)
        improved = q.max(axis=1)
        change = np.abs(improved - value).max()
        value = improved
        if change < 1e-11:
            return q
    raise AssertionError("value iteration did not converge")


def greedy(q: np.ndarray) -> np.ndarray:
    """policy[X,A]: uniform over the actions within TIE of the best."""
    best = (q >= q.max(axis=1, keepdims=True) - TIE).astype(float)
    return best / best.sum(axis=1, keepdims=True)


def optimal_joint_actions(
    states: list, joint: list, successors: Callable, reward: Callable, discount: float
) -> dict:
    """{state: its optimal joint actions, in the order of `joint`} of a two-agent MMDP."""
    after, chance = tabulate(states, joint, successors)
    q = value_iteration(after, chance, np.array([reward(state) for state in states]), discount)
    best = q >= q.max(axis=1, keepdims=True) - TIE
    return {state: [joint[j] for j in np.flatnonzero(best[x])] for x, state in enumerate(states)}


def teammate_part(optimal: dict) -> dict:
    """{state: {teammate action: probability}}, uniform over the optimal (agent, teammate) pairs."""
    policy = {}
    for state, pairs in optimal.items():
        chances: dict = {}
        for _, teammate in pairs:
            chances[teammate] = chances.get(teammate, 0.0) + 1.0 / len(pairs)
        policy[state] = chances
    return policy


def expected_return(
    after: np.ndarray,
    chance: np.ndarray,
    reward: np.ndarray,
    start: np.ndarray,
    policy: np.ndarray,
    horizon: int,
) -> float:
    """The undiscounted sum of `horizon` rewards, by propagating the state distribution."""
    belief, total = start.copy(), 0.0
    for _ in range(horizon):
        total += float(belief @ reward)
        flow = belief[:, None, None] * policy[:, :, None] * chance
        belief = np.bincount(after.ravel(), weights=flow.ravel(), minlength=len(reward))
    return total


def exact(model, horizon: int) -> dict[str, float]:
    """Returns of the value-iteration and random agents, and the discounted optimum from the start.

    `model` offers states, actions, transition(state, action), reward(state), start and discount.
    """
    after, chance = tabulate(model.states, model.actions, model.transition)
    reward = np.array([model.reward(state) for state in model.states])
    start = np.array([model.start.get(state, 0.0) for state in model.states])
    q = value_iteration(after, chance, reward, model.discount)
    even = np.full(q.shape, 1.0 / len(model.actions))
    return {
        "value_iteration": expected_return(after, chance, reward, start, greedy(q), horizon),
        "random": expected_return(after, chance, reward, start, even, horizon),
        "optimal_value": float(start @ q.max(axis=1)),
    }
