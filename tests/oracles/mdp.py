"""Optimal values of the fully observed problem: every stationary policy by a linear solve, short horizons by
nested loops."""

from itertools import product

import numpy as np


def policy_values(transition, reward, discount: float, policy):
    """The values [X] of always doing `policy[x]`, from (1 - γ P) v = R. Needs a discount below 1."""
    num_states = len(reward)
    moves = np.array([transition[policy[x], x] for x in range(num_states)])
    gains = np.array([reward[x, policy[x]] for x in range(num_states)])
    return np.linalg.solve(np.eye(num_states) - discount * moves, gains)


def optimal(transition, reward, discount: float):
    """q* [X, A] and v* [X]: the best of all A^X policies, state by state."""
    num_actions, num_states = transition.shape[:2]
    policies = product(range(num_actions), repeat=num_states)
    v = np.max([policy_values(transition, reward, discount, policy) for policy in policies], axis=0)
    return one_step(transition, reward, discount, v), v


def one_step(transition, reward, discount: float, after):
    """q [X, A] of one step that is worth `after` [X] where it ends."""
    num_actions, num_states = transition.shape[:2]
    q = np.zeros((num_states, num_actions))
    for x, a in product(range(num_states), range(num_actions)):
        q[x, a] = reward[x, a]
        for y in range(num_states):
            q[x, a] += discount * transition[a, x, y] * after[y]
    return q


def finite(transition, reward, discount: float, horizon: int):
    """q [T, X, A] and v [T, X], the first entries with T steps to go."""
    q, after = [], np.zeros(len(reward))
    for _ in range(horizon):
        q.insert(0, one_step(transition, reward, discount, after))
        after = q[0].max(axis=1)
    return np.array(q), np.array(q).max(axis=2)


def best_plan(transition, reward, discount: float, horizon: int, start: int) -> float:
    """The value of `start` over all plans: one action for each (step, state), tried one by one."""
    num_actions, num_states = transition.shape[:2]
    plans = product(product(range(num_actions), repeat=num_states), repeat=horizon)
    return max(_plan_value(transition, reward, discount, plan, start) for plan in plans)


def _plan_value(transition, reward, discount: float, plan, start: int) -> float:
    chances, total = np.eye(len(reward))[start], 0.0
    for t, choice in enumerate(plan):
        total += discount**t * sum(chances[x] * reward[x, choice[x]] for x in range(len(reward)))
        chances = sum(chances[x] * transition[choice[x], x] for x in range(len(reward)))
    return total


def greedy(q, tolerance: float):
    """Uniform over the actions within `tolerance` of the best [X, A]."""
    chances = np.zeros_like(q)
    for x, row in enumerate(q):
        best = [a for a, value in enumerate(row) if value >= max(row) - tolerance]
        for a in best:
            chances[x, a] = 1 / len(best)
    return chances
