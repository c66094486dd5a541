"""First bounds on the optimal value: blind policies from below, the fast informed bound from above.

Both are fixed points of monotone contractions, found by policy iteration with sparse linear solves. Whatever the
iteration leaves is covered by MacQueen's correction: v + γ/(1-γ) min δ is a true lower bound and
F + γ/(1-γ) max δ a true upper bound for the change δ of one more sweep, however early the iteration stopped.
A last term covers rounding (`Tables.rounding`).

Shapes: A actions, X states, Z observations, E entries (a, x, z, y) of P·O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import bicgstab, splu

from jatpo.checked_model import Sparse
from jatpo.errors import JatpoError
from jatpo.validate import Coordinates

DIRECT = 2_000  # unknowns up to which a linear system is factorised at once
SOLVED = 8_000  # and up to which it is where iteration fails
BUDGET = 300_000_000  # products that sweeps of the fast informed bound may take
FILLED = 2_000_000  # entries up to which it is
ENTRIES = 40_000_000  # of P·O up to which the fast informed bound is computed
SWEEPS = 60  # of policy improvement
EPSILON = 4.8e-16  # 2 units in the last place and a little more, for each operation


class Tables(NamedTuple):
    """A model as float64 rows: P and O in compressed rows of (a, x) and (a, y)."""

    transition: sparse.csr_array  # [A X, X]
    observation: sparse.csr_array  # [A X, Z]
    reward: np.ndarray  # [A, X]
    initial: np.ndarray  # [X]
    discount: float
    rate: float  # γ times the largest row sum of P·O, which rounded probabilities may put above 1
    rounding: float  # relative error of a sum of products over a row of P, a row of O and all observations

    @property
    def num_states(self) -> int:
        return self.reward.shape[1]

    @property
    def num_actions(self) -> int:
        return self.reward.shape[0]

    @property
    def num_observations(self) -> int:
        return self.observation.shape[1]  # pyright: ignore[reportOptionalSubscript]: SciPy has no types


def tables(model: Sparse, num_observations: int) -> Tables:
    """The tables of `model`, whose observations are 0 up to `num_observations` - 1."""
    X, A = model.reward.shape
    transition = _compress(model.transition, A, X, X)
    observation = _compress(model.observation, A, X, num_observations)
    longest = sum(int(np.diff(part.indptr).max(initial=0)) for part in (transition, observation))
    rounding = EPSILON * (longest + num_observations + min(X, 10_000) + 8)
    reward = np.ascontiguousarray(model.reward.T)
    total = observation.sum(axis=1).reshape(A, X)
    arrive = [transition[a * X : (a + 1) * X] @ np.maximum(total[a], 1) for a in range(A)]
    rate = float(model.discount) * max(1.0, float(np.max(arrive))) * (1 + rounding)
    if rate >= 1:
        raise JatpoError(
            f"the discount {model.discount} times the row sums of the model reaches 1: use float64"
        )
    initial = np.array(model.initial)
    return Tables(transition, observation, reward, initial, float(model.discount), rate, rounding)


def blind_policies(t: Tables) -> np.ndarray:
    """Lower bounds on the value of repeating each action forever [A, X]."""
    A, X = t.num_actions, t.num_states
    arrive = _arrive(t)
    parts = [arrive[a * X : (a + 1) * X] for a in range(A)]
    values = np.stack([solve_discounted(parts[a], t.discount, t.reward[a]) for a in range(A)])
    new = t.reward + t.discount * np.stack([parts[a] @ values[a] for a in range(A)])
    change = (new - values).min(axis=1, keepdims=True)
    new += np.minimum(change, 0) * t.rate / (1 - t.rate) * (1 + t.rounding)
    return new - _slack(t, new, np.abs(change).max())


def blind_value(t: Tables) -> float:
    """What the best blind policy attains at the initial belief."""
    values = blind_policies(t)
    return float((values @ t.initial).max() - 2 * t.rounding * (np.abs(values) @ t.initial).max())


def observed_value(t: Tables, q: np.ndarray) -> float:
    """An upper bound: the value of observing the state from the first step on, from `q` [A, X] of the MDP."""
    values = q.max(axis=0)
    return float(values @ t.initial + 2 * t.rounding * (np.abs(values) @ t.initial))


def observed_next_value(t: Tables, values: np.ndarray) -> float:
    """An upper bound: the value of observing the state from the second step on, from `values` [A, X] of the MDP."""
    return float((values @ t.initial).max() + 2 * t.rounding * (np.abs(values) @ t.initial).max())


def fast_informed_bound(t: Tables) -> np.ndarray:
    """Upper bounds F on Q(x, a) [A, X] with Q(b, a) ≤ b·F_a; those of the MDP where P·O has too many entries."""
    values = _mdp(t)
    count = np.diff(t.observation.indptr)[_successor_rows(t)].sum()
    if count > ENTRIES:
        return values
    return _informed(t, values)


class Observed(NamedTuple):
    """Q of the MDP from above [A, X], how far above it may be, and the number of policy improvements."""

    q: np.ndarray
    excess: float
    improvements: int


def _mdp(t: Tables) -> np.ndarray:
    """Q of the MDP, from above [A, X]."""
    return observed(t, t.reward.max(axis=0)).q


def observed(t: Tables, start: np.ndarray) -> Observed:
    """Q of the MDP by policy iteration from values `start` [X]; what is left after `SWEEPS` is added and reported."""
    A, X = t.num_actions, t.num_states
    states = np.arange(X)
    arrive = _arrive(t)
    values, improvements = start, 0
    policy = np.full(X, -1)
    for _ in range(SWEEPS):
        q = t.reward + t.discount * (arrive @ values).reshape(A, X)
        better = q.max(axis=0) > q[policy, states] + 1e-12 * np.abs(q).max()
        change = better | (policy < 0)
        if not change.any():
            break
        policy = np.where(change, q.argmax(axis=0), policy)
        values = solve_discounted(arrive[policy * X + states], t.discount, t.reward[policy, states])
        improvements += 1
    new = t.reward + t.discount * (arrive @ values).reshape(A, X)
    change = new.max(axis=0) - values
    reach, most, least = t.rate / (1 - t.rate), max(change.max(), 0), max(-change.min(), 0)
    new += reach * most * (1 + t.rounding)
    slack = _slack(t, new, np.abs(change).max())
    return Observed(new + slack, float(reach * (most + least)), improvements)


class _Entries(NamedTuple):
    """The entries of P·O, in order of (a, x, z)."""

    successor: np.ndarray  # [E] y
    probability: np.ndarray  # [E] P(y | x, a) O(z | a, y)
    first: np.ndarray  # [G] where each group of one (a, x, z) begins
    row: np.ndarray  # [G] a X + x of each group
    group: np.ndarray  # [E]


def _informed(t: Tables, start: np.ndarray) -> np.ndarray:
    """F_a(x) = R(x, a) + γ Σ_z max_a' Σ_y P O F_a'(y), from above [A, X]."""
    A, X = t.num_actions, t.num_states
    entries = _entries(t)
    values = start
    if A * len(entries.successor) * SWEEPS > BUDGET:
        return _swept(t, entries, start)
    for _ in range(SWEEPS):
        new, chosen = _informed_sweep(t, entries, values)
        change = np.abs(new - values).max()
        if change <= 1e-13 * np.abs(new).max() / (1 - t.discount) or change * t.discount < 1e-9 * (
            1 - t.discount
        ):
            break
        column = chosen[entries.group] * X + entries.successor
        matrix = sparse.csr_array((entries.probability, (entries.row[entries.group], column)), (A * X, A * X))
        values = solve_discounted(matrix, t.discount, t.reward.ravel()).reshape(A, X)
    new, _ = _informed_sweep(t, entries, values)
    change = new - values
    new = new + t.rate / (1 - t.rate) * max(change.max(), 0) * (1 + t.rounding)
    return np.minimum(new + _slack(t, new, np.abs(change).max()), start)


def _swept(t: Tables, e: _Entries, values: np.ndarray) -> np.ndarray:
    """Some sweeps from `values` [A, X], an upper bound: each gives another one."""
    for _ in range(max(1, BUDGET // (len(values) * len(e.successor)))):
        new, _ = _informed_sweep(t, e, values)
        values = np.minimum(values, new + 2 * t.rounding * np.abs(values).max())
    return values


def _informed_sweep(t: Tables, e: _Entries, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    A, X = values.shape
    best = np.full(len(e.first), -np.inf)
    chosen = np.zeros(len(e.first), np.int64)
    for a in range(A):
        part = np.add.reduceat(e.probability * values[a, e.successor], e.first)
        chosen[part > best] = a
        np.maximum(best, part, out=best)
    total = np.bincount(e.row, best, A * X).reshape(A, X)
    return t.reward + t.discount * total, chosen


def _entries(t: Tables) -> _Entries:
    Z = t.num_observations
    rows = np.repeat(np.arange(t.reward.size), np.diff(t.transition.indptr))
    arrived = _successor_rows(t)
    count = np.diff(t.observation.indptr)[arrived]
    place = ragged(t.observation.indptr[arrived], count)
    key = np.repeat(rows, count) * Z + t.observation.indices[place]
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    probability = (np.repeat(t.transition.data, count) * t.observation.data[place])[order]
    successor = np.repeat(t.transition.indices, count)[order]
    sizes = np.diff(np.r_[first, len(key)])
    return _Entries(successor, probability, first, key[first] // Z, np.repeat(np.arange(len(first)), sizes))


def _successor_rows(t: Tables) -> np.ndarray:
    """The row a X + y of O for each entry of P."""
    X = t.num_states
    rows = np.repeat(np.arange(t.reward.size), np.diff(t.transition.indptr))
    return rows // X * X + t.transition.indices


def _arrive(t: Tables) -> sparse.csr_array:
    """Σ_z P(y | x, a) O(z | a, y) [A X, X]: not quite P where rounding keeps the rows of O from summing to 1."""
    mass = t.transition.data * t.observation.sum(axis=1)[_successor_rows(t)]
    rows = t.reward.size, t.num_states
    return sparse.csr_array((mass, t.transition.indices, t.transition.indptr), rows)


def _slack(t: Tables, values: np.ndarray, change: float) -> float:
    """The rounding of a bound found from `values` by one sweep and a correction."""
    return t.rounding * (np.abs(values).max() + abs(change) / (1 - t.rate)) / (1 - t.rate)


def solve_discounted(
    matrix: sparse.csr_array,
    discount: float,
    right: np.ndarray,
    start: np.ndarray | None = None,
    on_iteration: Callable[[np.ndarray], None] | None = None,
) -> np.ndarray:
    """About the solution of v = right + γ matrix v, by iteration from `start`; callers correct what is missing."""
    size = len(right)
    system = sparse.eye_array(size, format="csr") - discount * matrix
    if start is None and size <= DIRECT and matrix.nnz <= FILLED:
        return splu(sparse.csc_array(system)).solve(right)
    guess, failed = bicgstab(
        system, right, right if start is None else start, rtol=1e-11, maxiter=300, callback=on_iteration
    )
    if failed and start is None and size <= SOLVED and matrix.nnz <= FILLED:
        return splu(sparse.csc_array(system)).solve(right)
    for _ in range(5):
        guess = right + discount * (matrix @ guess)
    return guess


def _compress(coordinates: Coordinates, A: int, X: int, size: int) -> sparse.csr_array:
    """Rows (a, i) of `coordinates` (a, i, j, p) [A X, size]."""
    a, row, column, p = (np.asarray(part) for part in coordinates)
    row = a.astype(np.int64) * X + row
    part = sparse.csr_array((p.astype(np.float64), (row, column)), (A * X, size))
    part.sum_duplicates()
    part.sort_indices()
    return part


def ragged(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The indices start[i], ..., start[i] + count[i] - 1 for each i, one after another."""
    ends = count.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    out = (start - (ends - count)).repeat(count)
    out += np.arange(total)
    return out
