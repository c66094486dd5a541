"""Models whose optimal value is known: layered ones by enumeration in rationals, stopping problems in closed form.

Shares no code with the solvers. Every float of a model is taken as the rational number it is.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Model(NamedTuple):
    """The fields of `jatpo.model.Sparse`."""

    transition: tuple[np.ndarray, ...]  # a, x, y, p
    observation: tuple[np.ndarray, ...]  # a, y, z, p
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float


def coordinates(array: np.ndarray) -> tuple[np.ndarray, ...]:
    where = np.nonzero(array)
    return (*where, array[where])


def sparse(transition, observation, reward, initial, discount) -> Model:
    """A model from dense P[a, x, y], O[a, y, z], R[x, a]."""
    return Model(coordinates(transition), coordinates(observation), reward, initial, discount)


def _rows(random: np.random.Generator, shape: tuple[int, ...], zeros: float) -> np.ndarray:
    """Random rows that sum to 1 exactly: multiples of 1/64."""
    rows = np.zeros(shape)
    for place in np.ndindex(*shape[:-1]):
        kept = random.random(shape[-1]) >= zeros
        kept[random.integers(shape[-1])] = True
        rows[place] = random.multinomial(64, kept / kept.sum()) / 64
    return rows


def layered(random: np.random.Generator, dtype: type = np.float64) -> Model:
    """A model that ends after two or three steps: its last layer absorbs and earns nothing."""
    depth, wide = int(random.integers(2, 4)), int(random.integers(1, 4))
    A, Z = int(random.integers(1, 4)), int(random.integers(1, 4))
    X = depth * wide + 1
    transition = np.zeros((A, X, X))
    for layer in range(depth):
        here = slice(layer * wide, (layer + 1) * wide)
        there = slice((layer + 1) * wide, (layer + 2) * wide if layer + 1 < depth else X)
        transition[:, here, there] = _rows(random, (A, wide, there.stop - there.start), 0.4)
    transition[:, -1, -1] = 1
    observation = _rows(random, (A, X, Z), 0.4)
    scale = 10.0 ** random.integers(-3, 9)
    reward = random.normal(size=(X, A)) * scale * random.choice([1e-6, 1.0], (X, A))
    reward = (reward, np.abs(reward), -np.abs(reward))[random.integers(3)]
    reward[-1] = 0
    initial = np.zeros(X)
    initial[:wide] = _rows(random, (1, wide), 0.3)[0]
    discount = float(random.choice([0.5, 0.95, 0.999, 0.99999]))
    return sparse(
        transition, observation, reward.astype(dtype).astype(np.float64), initial, float(dtype(discount))
    )


def rounded(random: np.random.Generator, model: Model) -> Model:
    """The model with rows of P and O that sum to 1 only up to float32, as rounding leaves them."""
    (*place, p), (*seen, q) = model.transition, model.observation
    p, q = (part * (1 + random.choice([-1e-7, 0, 1e-7], len(part))) for part in (p, q))
    return model._replace(transition=(*place, p), observation=(*seen, q))


def layered_value(model: Model) -> Fraction:
    """The optimal value of a model of `layered`, by enumerating all histories."""
    X, A = model.reward.shape
    transition = [
        [[(int(y), Fraction(p)) for y, p in _row(model.transition, a, x)] for x in range(X)] for a in range(A)
    ]
    seen = [
        [[(int(z), Fraction(p)) for z, p in _row(model.observation, a, y)] for y in range(X)]
        for a in range(A)
    ]
    reward = [[Fraction(value) for value in row] for row in model.reward]
    discount = Fraction(model.discount)

    def value(belief: dict[int, Fraction]) -> Fraction:
        if set(belief) <= {X - 1}:
            return Fraction(0)
        return max(after(belief, a) for a in range(A))

    def after(belief: dict[int, Fraction], a: int) -> Fraction:
        successors: dict[int, dict[int, Fraction]] = {}
        for x, weight in belief.items():
            for y, p in transition[a][x]:
                for z, q in seen[a][y]:
                    part = successors.setdefault(z, {})
                    part[y] = part.get(y, Fraction(0)) + weight * p * q
        gain = sum((weight * reward[x][a] for x, weight in belief.items()), Fraction(0))
        return gain + discount * sum((value(part) for part in successors.values()), Fraction(0))

    return value({x: Fraction(p) for x, p in enumerate(model.initial) if p > 0})


def _row(parts: tuple[np.ndarray, ...], a: int, row: int) -> list[tuple[int, float]]:
    mine = (parts[0] == a) & (parts[1] == row)
    return list(zip(parts[2][mine].tolist(), parts[3][mine].tolist(), strict=True))


def stopping(random: np.random.Generator) -> tuple[Model, float]:
    """Wait while the hidden state drifts unseen, then cash: V = max_n γ^n E[cash after n], with its value."""
    slow = 10.0 ** -random.uniform(0.5, 6)
    discount = float(random.choice([0.9, 0.99, 0.999]))
    gain, loss = 10.0 ** random.uniform(0, 6), -(10.0 ** random.uniform(0, 6)) * float(random.random() < 0.8)
    transition = np.zeros((2, 3, 3))  # poor, rich, over
    transition[0] = [[1 - slow, slow, 0], [0, 1, 0], [0, 0, 1]]
    transition[1, :, 2] = 1
    reward = np.zeros((3, 2))
    reward[:2, 1] = loss, gain
    share = float(random.choice([0.0, 0.25, 0.9997]))
    initial = np.array([1 - share, share, 0.0])
    steps = np.arange(200_000, dtype=np.longdouble)
    stay, go = (
        np.longdouble(transition[0, 0, 0]),
        np.longdouble(transition[0, 0, 1]),
    )  # as floats, not exactly 1 in sum
    poor = np.longdouble(initial[0]) * stay**steps
    rich = np.longdouble(initial[1]) + np.longdouble(initial[0]) * go * (1 - stay**steps) / (1 - stay)
    earned = np.longdouble(discount) ** steps * (poor * loss + rich * gain)
    return sparse(transition, np.ones((2, 3, 1)), reward, initial, discount), float(max(earned.max(), 0.0))


def cyclic(random: np.random.Generator) -> Model:
    """Any small model: cycles, hard zeros, one state, one observation."""
    X, A, Z = (int(random.integers(1, most)) for most in (6, 4, 5))
    reward = random.normal(size=(X, A)) * 10.0 ** random.integers(-2, 4)
    reward = (reward, np.abs(reward), -np.abs(reward))[random.integers(3)]
    parts = _rows(random, (A, X, X), 0.5), _rows(random, (A, X, Z), 0.5)
    return sparse(*parts, reward, _rows(random, (1, X), 0.4)[0], float(random.choice([0.3, 0.5, 0.7])))


def enclosure(model: Model, num_observations: int, depth: int) -> tuple[float, float]:
    """An interval that contains the optimal value: enumeration to `depth`, then the extreme rewards forever."""
    X, A = model.reward.shape
    transition, observation = np.zeros((A, X, X)), np.zeros((A, X, num_observations))
    transition[model.transition[:3]] = model.transition[3]
    observation[model.observation[:3]] = model.observation[3]

    def value(belief: np.ndarray, left: int) -> float:
        if not left or not belief.any():
            return 0.0
        best = -np.inf
        for a in range(A):
            joint = (belief @ transition[a])[:, None] * observation[a]
            future = sum(value(joint[:, z], left - 1) for z in range(num_observations))
            best = max(best, float(belief @ model.reward[:, a]) + model.discount * future)
        return best

    middle = value(model.initial, depth)
    tail = model.discount**depth / (1 - model.discount)
    slack = 1e-9 * np.abs(model.reward).max()
    return middle + tail * model.reward.min() - slack, middle + tail * model.reward.max() + slack
