"""Small POMDPs that are easily named: solved by hand, from the literature, or hard in a way that is known."""

import numpy as np

from random_models import Example, plain, rows


def tiger(hearing: float = 0.85, discount: float = 0.95) -> Example:
    """Listen, open left, open right (Kaelbling, Littman & Cassandra 1998); the tiger is behind one door."""
    transition = np.full((3, 2, 2), 0.5)
    transition[0] = np.eye(2)
    observation = np.full((3, 2, 2), 0.5)
    observation[0] = [[hearing, 1 - hearing], [1 - hearing, hearing]]
    reward = np.array([[-1.0, -100, 10], [-1, 10, -100]])
    return Example(transition, observation, reward, np.full(2, 0.5), discount)


def corridor(length: int = 8, discount: float = 0.9, signs: int = 1) -> Example:
    """Go left or right from one end; staying at the other end is worth 1 a step and nothing else is.

    Nobody sees anything (`signs` = 1), or the parity of the place (2).
    """
    transition = np.zeros((2, length, length))
    for x in range(length):
        transition[0, x, max(x - 1, 0)] = 1
        transition[1, x, min(x + 1, length - 1)] = 1
    sensor = np.eye(signs)[np.arange(length) % signs]
    reward = np.zeros((length, 2))
    reward[-1, 1] = 1
    return Example(transition, np.repeat(sensor[None], 2, axis=0), reward, np.eye(length)[0], discount)


def ring(length: int = 10, discount: float = 0.95) -> Example:
    """Find place 0 on a ring with three dim lamps, then jump: it takes hundreds of vectors to do well."""
    transition = np.full((3, length, length), 1 / length)
    for action, step in ((0, 1), (1, -1)):
        transition[action] = 0.9 * np.roll(np.eye(length), step, axis=1) + 0.1 * np.eye(length)
    sensor = np.where(np.isin(np.arange(length), [0, 3, 4])[:, None], [0.8, 0.2], [0.2, 0.8])
    reward = np.full((length, 3), [-1.0, -1, -10])
    reward[0, 2] = 20
    return Example(
        transition, np.repeat(sensor[None], 3, axis=0), reward, np.full(length, 1 / length), discount
    )


def tiny(seed: int, discount: float = 0.6, zeros: float = 0.2) -> Example:
    """Three states, two actions, two observations: small enough for the tree of all beliefs."""
    return plain(np.random.default_rng([seed, 77]), 3, 2, 2, zeros=zeros, discount=discount)


def revealing(seed: int, discount: float = 0.9, states: int = 4, actions: int = 2) -> Example:
    """Two observations for each state, and no other state gives them; which ones depends on the action."""
    random = np.random.default_rng([seed, 78])
    observation = np.zeros((actions, states, 2 * states))
    for a in range(actions):
        pairs = random.permutation(2 * states).reshape(states, 2)
        np.put_along_axis(observation[a], pairs, rows(random, states, 2), axis=1)
    return plain(random, states, actions, 2 * states, zeros=0.3, discount=discount)._replace(
        observation=observation
    )


def permuted(model: Example, order: np.ndarray) -> Example:
    """The same model with its states in another order: new state i is old state `order[i]`."""
    return model._replace(
        transition=model.transition[:, order][:, :, order],
        observation=model.observation[:, order],
        reward=model.reward[order],
        initial=model.initial[order],
    )
