"""Whether any history can distinguish two models, decided exactly where the models are small enough.

The probability of the observations z_1..z_t after the actions a_1..a_t is b T(a_1, z_1) ... T(a_t, z_t) 1, with the
start b and T(a, z)[x, y] = P(y | x, a) O(z | y, a). With both models side by side and d = (b, -b'), no history
distinguishes them if and only if every d T(a_1, z_1) ... T(a_t, z_t) sums to 0. These vectors span a space of at most
X + X' dimensions, so only those are continued that are independent of the earlier ones (Tzeng, A polynomial-time
algorithm for the equivalence of probabilistic automata, SIAM J. Comput. 1992).

Most pairs that can be distinguished are so by random histories. Where these show nothing, states that behave alike are
merged: the coarsest partition in which the states of a class have the same observations and the same probabilities of
all classes. If the starts then agree, as they do after a renumbering, no history distinguishes the models. Otherwise
the search runs on the classes, up to `LIMIT`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jatpo.domains.description import Description

NEGLIGIBLE = 1e-10  # relative differences below this are rounding
HISTORIES, STEPS = 16, 80  # random histories that are tried first
LIMIT = 1e9  # products that the search may take


class Rows(NamedTuple):
    """The entries of a kernel for one action: row, column, probability."""

    row: np.ndarray
    column: np.ndarray
    probability: np.ndarray


class Process(NamedTuple):
    """Kernels for each action over n states, those of both models; the number of observations."""

    moves: tuple[Rows, ...]
    views: tuple[Rows, ...]
    size: int
    num_observations: int


def distinguishable(
    first: Description, second: Description, reached: tuple[np.ndarray, np.ndarray]
) -> bool | None:
    """Whether some history has another probability in one model than in the other; None where that is too much work.

    Both have the same actions and observations; only the states that are `reached` [X] count.
    """
    process = _side_by_side(first, second, reached)
    difference = np.concatenate([first.initial[reached[0]], -second.initial[reached[1]]])
    if _differs_at_random(process, difference):
        return True
    classes = _classes(process)
    process, difference = _merged(process, classes), np.bincount(classes, difference)
    difference[np.abs(difference) <= NEGLIGIBLE] = 0
    if not difference.any():
        return False
    return _differs_at_random(process, difference) or _search(process, difference)


def _side_by_side(first: Description, second: Description, reached: tuple[np.ndarray, np.ndarray]) -> Process:
    sizes = [int(keep.sum()) for keep in reached]
    parts = []
    for model, keep, begin in zip((first, second), reached, (0, sizes[0]), strict=True):
        number = np.where(keep, begin + np.cumsum(keep) - 1, -1)
        parts.append((model, number))
    moves, views = [], []
    for a in range(first.num_actions):
        moves.append(_joined(_rows(model.transition, a, number, number) for model, number in parts))
        readings = np.arange(first.num_observations)
        views.append(_joined(_rows(model.observation, a, number, readings) for model, number in parts))
    return Process(tuple(moves), tuple(views), sum(sizes), first.num_observations)


def _rows(kernel: tuple[np.ndarray, ...], action: int, row: np.ndarray, column: np.ndarray) -> Rows:
    """The entries of one action, renumbered; those of rows with a negative number are left out."""
    a, i, j, p = kernel
    mine = (a == action) & (row[i] >= 0)
    return Rows(row[i[mine]], column[j[mine]], p[mine])


def _joined(parts: Iterator[Rows]) -> Rows:
    return Rows(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _differs_at_random(process: Process, start: np.ndarray) -> bool:
    """Whether a random history has different probabilities, each observation drawn by how much it has of both."""
    random = np.random.default_rng(0)
    for _ in range(HISTORIES):
        vector = start
        for _ in range(STEPS):
            action = random.integers(len(process.moves))
            after = _after(vector, process.moves[action], process.views[action], process)
            if after is None:
                return True
            if not len(after.total):
                break
            weights = after.total / after.total.sum()
            vector = after.of([random.choice(len(weights), p=weights)])[0]
    return False


def _search(process: Process, start: np.ndarray) -> bool | None:
    """Whether a history is found whose probabilities differ; None if that takes more than `LIMIT` products."""
    queue, basis, work = deque([start / np.abs(start).sum()]), np.zeros((0, process.size)), 0.0
    while queue:
        vector = queue.popleft()
        for moves, views in zip(process.moves, process.views, strict=True):
            after = _after(vector, moves, views, process)
            if after is None:
                return True
            size = float(len(after.total) * process.size)
            work += size * (4 * len(basis) + 1) + len(moves.row) + len(views.row)
            if work > LIMIT:
                return None
            fresh, basis = _independent(after.of(range(len(after.total))), basis)
            work += size * len(fresh)
            queue.extend(fresh)
    return False


class After(NamedTuple):
    """The vectors after each observation that is possible, as entries: number, state, value; and their lengths."""

    number: np.ndarray
    state: np.ndarray
    value: np.ndarray
    total: np.ndarray  # [Z'], of the absolute values
    size: int

    def of(self, numbers: Sequence[int]) -> np.ndarray:
        """Vectors by number [m, n], of length 1."""
        found = np.zeros((len(numbers), self.size))
        for place, number in enumerate(numbers):
            mine = self.number == number
            np.add.at(found[place], self.state[mine], self.value[mine] / self.total[number])
        return found


def _after(vector: np.ndarray, moves: Rows, views: Rows, process: Process) -> After | None:
    """What follows `vector` under one action; None if some observation has different probabilities."""
    arrived = np.bincount(moves.column, vector[moves.row] * moves.probability, process.size)
    mass = np.bincount(moves.column, np.abs(vector)[moves.row] * moves.probability, process.size)
    arrived[np.abs(arrived) <= NEGLIGIBLE * mass] = 0  # opposite numbers of both models
    parts = arrived[views.row] * views.probability
    total = np.bincount(views.column, parts, process.num_observations)
    most = np.bincount(views.column, mass[views.row] * views.probability, process.num_observations)
    if np.any(np.abs(total) > NEGLIGIBLE * most):
        return None
    there = parts != 0
    _, number = np.unique(views.column[there], return_inverse=True)
    lengths = np.bincount(number, np.abs(parts[there]))
    return After(number, views.row[there], parts[there], lengths, process.size)


def _independent(vectors: np.ndarray, basis: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Those of `vectors` [Z', n] that are independent of `basis` [m, n] and of each other; the larger basis."""
    rest = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for _ in range(2):  # twice is enough (Parlett)
        rest = rest - (rest @ basis.T) @ basis
    fresh, more = [], [basis]
    for number in range(len(rest)):
        length = np.linalg.norm(rest[number])
        if length > NEGLIGIBLE * 10:
            own = rest[number] / length
            rest[number + 1 :] -= np.outer(rest[number + 1 :] @ own, own)
            fresh.append(vectors[number])
            more.append(own[None])
    return fresh, np.concatenate(more)


def _classes(process: Process) -> np.ndarray:
    """The class of each state [n] in the coarsest partition that respects observations and moves.

    Rows are compared by two random combinations of their entries, which agree for rows that are equal.
    """
    random = np.random.default_rng(0)
    weights = random.random((2, process.num_observations))
    classes = _grouped(_projected(process.views, weights, process.size))
    while True:
        weights = random.random((2, classes.max() + 1))[:, classes]
        marks = _projected(process.moves, weights, process.size)
        finer = _grouped(np.vstack([classes[None].astype(np.float64), marks]))
        if finer.max() == classes.max():
            return classes
        classes = finer


def _projected(kernel: tuple[Rows, ...], weights: np.ndarray, size: int) -> np.ndarray:
    """Combinations of the rows of a kernel with `weights` [2, columns]: [2 A, n]."""
    return np.stack(
        [
            np.bincount(part.row, part.probability * each[part.column], size)
            for part in kernel
            for each in weights
        ]
    )


def _grouped(marks: np.ndarray) -> np.ndarray:
    """Numbers 0.. for the distinct columns of `marks`, up to rounding."""
    return np.unique(np.round(marks / NEGLIGIBLE), axis=1, return_inverse=True)[1].ravel()


def _merged(process: Process, classes: np.ndarray) -> Process:
    """The process over classes: the rows of one state of each stand for all."""
    first = np.unique(classes, return_index=True)[1]
    stands = np.zeros(process.size, bool)
    stands[first] = True

    def of(part: Rows, column: np.ndarray) -> Rows:
        mine = stands[part.row]
        return Rows(classes[part.row[mine]], column[part.column[mine]], part.probability[mine])

    readings = np.arange(process.num_observations)
    moves = tuple(of(part, classes) for part in process.moves)
    views = tuple(of(part, readings) for part in process.views)
    return Process(moves, views, len(first), process.num_observations)
