"""Check both bounds of a solution without any code of the solvers: a certificate for the interval.

*Below.* A finite-state controller: vectors α_i with an action and a successor for each observation. With
δ = min(0, min_{i,x} (R + γ P Σ_z O α_{i,z} - α_i)(x)) and the rate ρ = γ times the largest row sum of P·O, the
controller earns at least α_i·b + |b| δ / (1 - ρ) from node i; |b| = Σ_x b(x) is 1 but for rounding.

*Above.* Let B(b) = max_a F_a·b, and let δ_F ≥ 0 be the most by which R + γ Σ_z max_a' P O F_a' exceeds F_a at a state:
then H B ≤ B + δ_F |b| for the backup H. Nodes (b_i, u_i) that claim to be backed up are generators; W(b), the least
Σ λ_i u_i + B(rest) over all b = Σ λ_i b_i + rest, is convex and homogeneous, so its backup H W is too, and
H W(b_i) ≤ u_i + δ |b_i| at all generators with δ ≥ δ_F implies H W ≤ W + δ |b|, hence V ≤ W + |b| δ / (1 - ρ).
H W(b_i) is bounded by naming, for each action and observation, one node: with r = min_x s(x) / b_j(x) a successor s
satisfies W(s) ≤ r u_j + Σ_x (s - r b_j)(x) c(x), where c(x) ≥ W at the single state x; an action without named nodes
counts F_a·b_i + δ_F |b_i|. Nodes that claim no backup get what B, c or one other node give them, computed here.

What is claimed (vectors, u of generators, F) is only ever compared; everything else is computed from the model.

Error: a sum of n products of floats has a relative error of at most 1.01 n 2^-53 of the sum of absolute values
(Higham 2002, eq. 3.5), and no sum here has more than 2 X + Z + S + 16 of them behind it. `checked` widens every
comparison by ε times the sum of absolute values, ε = 2^-51 (X + Z + S + 16) for rows of P of at most S entries (at
least twice what is needed, for the error of the error term), and by 1e-100, which covers underflow since claims above
1e100 and weights below 1e-100 are refused. So a check that passes holds in real numbers. `exact` uses rationals.

Shapes: A actions, X states, Z observations, V vectors, N nodes, H rows, E edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from jatpo.checked_model import Sparse
from jatpo.errors import JatpoError
from jatpo.evidence import BACKED_UP, LARGEST, LEAST, Evidence, require, require_form, typed

CHUNK = 1 << 21  # numbers computed at once


class Certificate(NamedTuple):
    """lower ≤ V(initial) ≤ upper, and how it is known: "checked" in floats with an error term, or "exact"."""

    lower: float
    upper: float
    level: str


class _Model(NamedTuple):
    transition: list[sparse.csr_array]  # [A] of [X, X]
    observation: list[sparse.csc_array]  # [A] of [X, Z]
    seen: list[tuple[np.ndarray, np.ndarray]]  # [A] the same as (y Z + z in order, probability)
    arrive: np.ndarray  # [A, X] Σ_z O, which may not be 1 exactly
    reward: np.ndarray  # [A, X]
    initial: np.ndarray  # [X]
    discount: float
    rate: float
    error: float


def certify(model: Sparse, num_observations: int, evidence: Evidence) -> Certificate:
    """The interval that `evidence` proves in float64; evidence that is no evidence is refused."""
    e = typed(evidence)
    m = _tables(restricted(model, e.states), num_observations)
    require_form(e, len(m.reward), num_observations, m.initial)
    value, short = _below(m, e)
    lower = _moved(m, value, short, -1)
    value, over = _above(m, e)
    certificate = Certificate(lower, _moved(m, value, over, 1), "checked")
    require(certificate.lower <= certificate.upper, f"the certified bounds cross: {certificate}")
    return certificate


def _moved(m: _Model, value: float, residual: float, sign: int) -> float:
    """value ± |b| residual / (1 - ρ) at the initial belief, rounded outward."""
    far = residual * float(m.initial.sum()) / (1 - m.rate) * (1 + 8 * m.error)
    bound = value + sign * (far + m.error * (abs(value) + far))
    require(bool(np.isfinite(bound)), "its bounds are not finite")
    return float(bound)


def restricted(model: Sparse, states: np.ndarray | None) -> Sparse:
    """The model of `states` [X] only, -1 for a state that it lacks; no transition from them may lead elsewhere."""
    if states is None:
        return model
    count = len(model.initial)
    kept = np.flatnonzero(states >= 0)
    require(bool(((states >= -1) & (states < count)).all()), f"states is out of [-1, {count})")
    require(np.unique(states[kept]).size == kept.size, "a state of the model stands twice")
    place = np.full(count, -1)
    place[states[kept]] = kept
    a, x, y, p = (part[place[model.transition[1]] >= 0] for part in model.transition)
    require(bool((place[y[p > 0]] >= 0).all()), "a state that can be reached is missing")
    require(bool((place[model.initial > 0] >= 0).all()), "a state of the initial belief is missing")
    oa, oy, oz, op = (part[place[model.observation[1]] >= 0] for part in model.observation)
    reward, initial = np.zeros((len(states), model.reward.shape[1])), np.zeros(len(states))
    reward[kept], initial[kept] = model.reward[states[kept]], model.initial[states[kept]]
    use = p > 0
    transition = a[use], place[x[use]], place[y[use]], p[use]
    return Sparse(transition, (oa, place[oy], oz, op), reward, initial, model.discount)


def _tables(model: Sparse, num_observations: int) -> _Model:
    X, A = model.reward.shape
    for name, part in (
        ("probabilities", model.transition[3]),
        ("probabilities", model.observation[3]),
        ("initial", model.initial),
    ):
        if not ((part >= 0) & (part < 2)).all():
            raise JatpoError(f"the model has {name} that are not in [0, 1]: correct the model")
    transition, observation, seen = [], [], []
    for a in range(A):
        x, y, p = (part[model.transition[0] == a] for part in model.transition[1:])
        transition.append(sparse.csr_array((p.astype(np.float64), (x, y)), (X, X)))
        y, z, p = (part[model.observation[0] == a] for part in model.observation[1:])
        rows = sparse.csr_array((p.astype(np.float64), (y, z)), (X, num_observations))
        rows.sum_duplicates()
        key = np.repeat(np.arange(X), np.diff(rows.indptr)) * num_observations + rows.indices
        seen.append((key, rows.data))
        observation.append(sparse.csc_array(rows))
    longest = max(int(np.diff(part.indptr).max()) for part in transition)
    error = 2.0**-51 * (X + num_observations + longest + 16)
    arrive = np.stack([part.sum(axis=1) for part in observation])
    rate = float(model.discount) * (1 + error) * float(arrive.max())
    rate *= max(float(part.sum(axis=1).max()) for part in transition)
    if not 0 <= rate < 1:
        raise JatpoError(f"the discount {model.discount} times the row sums of the model is not below 1")
    reward = np.ascontiguousarray(model.reward.T, np.float64)
    if not (np.abs(reward) <= LARGEST).all():
        raise JatpoError(f"the rewards must be in [-{LARGEST:g}, {LARGEST:g}]")
    initial = np.asarray(model.initial, np.float64)
    return _Model(transition, observation, seen, arrive, reward, initial, float(model.discount), rate, error)


def _below(m: _Model, e: Evidence) -> tuple[float, float]:
    """(value of the best vector at the start, most that a vector exceeds its backup by, at least 0)."""
    score = e.values.dot(m.initial) - m.error * np.abs(e.values).dot(m.initial) - LEAST
    best = int(score.argmax())
    needed = np.zeros(len(e.values), bool)
    fresh = np.array([best])
    while len(fresh):
        needed[fresh] = True
        fresh = np.unique(e.successor[fresh])
        fresh = fresh[~needed[fresh]]
    short = 0.0
    step = max(1, CHUNK // len(m.initial))
    for a, reward in enumerate(m.reward):
        which = np.flatnonzero(needed & (e.action == a))
        for part in (which[start : start + step] for start in range(0, len(which), step)):
            plan, size = (_plan(m, a, values, e.successor[part]) for values in (e.values, np.abs(e.values)))
            excess = e.values[part] - reward - plan
            excess += m.error * (np.abs(reward) + size + np.abs(e.values[part])) + LEAST
            short = _worst(short, excess)
    return float(score[best]), short


def _worst(known: float, excess: np.ndarray) -> float:
    """The larger of `known` and all of `excess`, which must be finite."""
    require(bool(np.isfinite(excess).all()), "its numbers overflow")
    return max(known, float(excess.max(initial=known)))


def _plan(m: _Model, a: int, values: np.ndarray, successor: np.ndarray) -> np.ndarray:
    """γ P_a Σ_z O_a(z) values[successor(z)] [n, X]."""
    arrived = np.zeros((len(successor), values.shape[1]))
    seen = m.observation[a]
    for z in range(successor.shape[1]):
        part = slice(seen.indptr[z], seen.indptr[z + 1])
        y = seen.indices[part]
        arrived[:, y] += seen.data[part] * values[successor[:, z, None], y]
    return m.discount * (m.transition[a] @ arrived.T).T


class _Bounds(NamedTuple):
    """What is known above, before the backups are compared."""

    corners: np.ndarray  # [X] c
    upper: np.ndarray  # [N] ≥ W(b)
    linear: np.ndarray  # [N] c·b
    size: np.ndarray  # [N] |c|·b
    mass: np.ndarray  # [N] |b|, from below
    informed: float  # δ_F


def _above(m: _Model, e: Evidence) -> tuple[float, float]:
    """(bound at the initial belief, most that a backup exceeds its claim by for a belief of mass 1, at least 0)."""
    known = _node_bounds(m, e, _informed_excess(m, e.informed))
    over = known.informed
    generators = np.flatnonzero(e.source == BACKED_UP)
    step = max(1, CHUNK // len(m.initial))
    for nodes in (generators[start : start + step] for start in range(0, len(generators), step)):
        for a in range(len(m.reward)):
            bound, error = _backup(m, e, known, a, nodes)
            excess = bound - e.upper[nodes] + error + m.error * np.abs(e.upper[nodes]) + LEAST
            over = _worst(over, np.maximum(excess, 0.0) / known.mass[nodes] * (1 + m.error))
    return float(known.upper[0]), over


def _informed_excess(m: _Model, informed: np.ndarray) -> float:
    """Most that the backup of F exceeds F by, at least 0."""
    over = 0.0
    for a, reward in enumerate(m.reward):
        total, size = np.zeros_like(reward), np.zeros_like(reward)
        columns, seen = sparse.csc_array(m.transition[a]), m.observation[a]
        for z in range(len(seen.indptr) - 1):
            entries = slice(seen.indptr[z], seen.indptr[z + 1])
            y = seen.indices[entries]
            if len(y):
                part = seen.data[entries, None] * informed[:, y].T
                total += (columns[:, y] @ part).max(axis=1)
                size += (columns[:, y] @ np.abs(part)).max(axis=1)
        excess = reward + m.discount * total - informed[a]
        excess += m.error * (np.abs(reward) + m.discount * size + np.abs(informed[a])) + LEAST
        over = _worst(over, excess)
    return over


def _node_bounds(m: _Model, e: Evidence, over: float) -> _Bounds:
    """The bounds of all nodes: generators as they claim, the others computed, sources first."""
    first, states, weights = e.belief
    corners = e.informed.max(axis=0)
    at = np.flatnonzero(e.corner >= 0)
    at = at[e.source[e.corner[at]] == BACKED_UP]
    value = e.upper[e.corner[at]] / weights[first[e.corner[at]]]
    corners[at] = np.minimum(corners[at], value + m.error * np.abs(value) + LEAST)
    total = lambda vector: np.add.reduceat(weights * vector[states], first[:-1])  # noqa: E731
    linear, size, most = total(corners), total(np.abs(corners)), total(np.abs(e.informed).max(axis=0))
    error = m.error * (size + most) + LEAST
    upper = np.minimum(linear, np.max([total(part) for part in e.informed], axis=0)) + error
    mass = total(np.ones(len(corners))) * (1 - m.error)
    generator = e.source == BACKED_UP
    upper[generator] = e.upper[generator]
    known = _Bounds(corners, upper, linear, size, mass, over)
    key = np.repeat(np.arange(len(upper)), np.diff(first)) * len(corners) + states
    ready, waiting = e.source < 0, np.flatnonzero(e.source >= 0)
    while len(
        turn := waiting[ready[e.source[waiting]]]
    ):  # a cycle keeps the linear bound, which is true as well
        group, x, _ = _entries(e, e.source[turn])
        gain, rounding = _gain(
            m, e, known, e.source[turn], _find(key, weights, turn[group] * len(corners) + x)
        )
        upper[turn] = np.minimum(upper[turn], linear[turn] + gain + error[turn] + rounding)
        ready[turn] = True
        waiting = waiting[~ready[waiting]]
    return known


def _entries(e: Evidence, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(position in `nodes`, state, weight) of each entry of their beliefs."""
    first, states, weights = e.belief
    place = _ragged(first, nodes)
    return np.repeat(np.arange(len(nodes)), first[nodes + 1] - first[nodes]), states[place], weights[place]


def _ragged(first: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The entries of `rows`, one row after another."""
    count = first[rows + 1] - first[rows]
    return np.repeat(first[rows] - np.cumsum(count) + count, count) + np.arange(count.sum())


def _find(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The value of each of `wanted` among `keys`, which are in order; 0 where it is missing."""
    if not len(keys):
        return np.zeros(len(wanted))
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0.0)


def _gain(
    m: _Model, e: Evidence, known: _Bounds, other: np.ndarray, masses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(r (u_j - c·b_j), at most 0; its rounding) with r = min_x s(x) / b_j(x) for each node j of `other` [n].

    `masses` are s(x) at the entries of the beliefs of `other`.
    """
    group, _, weights = _entries(e, other)
    start = np.searchsorted(group, np.arange(len(other)))
    ratio = np.minimum.reduceat(masses / weights, start) * (1 - 2.0**-50)
    gain = ratio * np.minimum(known.upper[other] - known.linear[other], 0.0)
    return gain, m.error * ratio * (np.abs(known.upper[other]) + known.size[other])


def _backup(
    m: _Model, e: Evidence, known: _Bounds, a: int, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A bound on R(b, a) + γ Σ_z W(s_z) at each of `nodes`, and its rounding [n] each."""
    n, X = len(nodes), len(m.initial)
    owner, states, weights = _entries(e, nodes)
    belief = sparse.csr_array((weights, (owner, states)), (n, X))
    arrived = sparse.csr_array(belief @ m.transition[a])
    arrived.sort_indices()
    mass = sparse.csr_array(
        (arrived.data * m.arrive[a][arrived.indices], arrived.indices, arrived.indptr), (n, X)
    )
    gain, rounding = _edge_gains(m, e, known, a, nodes, arrived)
    bound = belief @ m.reward[a] + m.discount * (mass @ known.corners + gain)
    error = belief @ np.abs(m.reward[a]) + m.discount * (mass @ np.abs(known.corners))
    plain = belief @ e.informed[a] + known.informed * (belief @ np.ones(X))
    size = belief @ np.abs(e.informed[a]) + known.informed * (belief @ np.ones(X))
    without = e.row[nodes, a] < 0
    return np.where(without, plain, bound), np.where(
        without, m.error * size, m.error * error + m.discount * rounding
    )


def _edge_gains(
    m: _Model, e: Evidence, known: _Bounds, a: int, nodes: np.ndarray, arrived: sparse.csr_array
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_z of `_gain` over the edges of each of `nodes` under an action, and of its rounding [n] each."""
    X, Z = len(m.initial), len(m.observation[a].indptr) - 1
    gain, rounding = np.zeros(len(nodes)), np.zeros(len(nodes))
    key = np.repeat(np.arange(len(nodes)), np.diff(arrived.indptr)) * X + arrived.indices
    has = np.flatnonzero(e.row[nodes, a] >= 0)
    rows = e.row[nodes[has], a]
    edges = _ragged(e.edge[0], rows)
    owner = np.repeat(has, e.edge[0][rows + 1] - e.edge[0][rows])
    sizes = np.cumsum(np.diff(e.belief[0])[e.edge[2][edges]])
    for part in _parts(sizes):
        seen, child = e.edge[1][edges[part]], e.edge[2][edges[part]]
        group, x, _ = _entries(e, child)
        mass = _find(key, arrived.data, owner[part][group] * X + x)
        mass *= _find(*m.seen[a], x * Z + seen[group])
        for total, each in zip((gain, rounding), _gain(m, e, known, child, mass), strict=True):
            total += np.bincount(owner[part], each, len(nodes))
    return gain, rounding


def _parts(sizes: np.ndarray) -> Iterator[slice]:
    """Slices of items of which each part has about CHUNK entries; `sizes` are cumulated."""
    start = 0
    while start < len(sizes):
        done = sizes[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(sizes, done + CHUNK)))
        yield slice(start, stop)
        start = stop
