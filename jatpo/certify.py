"""Check both bounds of a solution without any code of the solvers: a certificate for the interval.

*Below.* A finite-state controller: vectors α_i with an action and a successor for each observation. With
δ = min(0, min_{i,x} (R + γ P Σ_z O α_{i,z} - α_i)(x)), the controller earns at least α_i + δ / (1 - γ) from node i.

*Above.* F[a, x] with R + γ Σ_z max_a' P O F_a' ≤ F_a + δ bounds V by B(b) = max_a F_a·b + δ / (1 - γ). Nodes (b_i, u_i)
that claim to be backed up are generators; W(b), the least Σ λ_i u_i + B(rest) over all b = Σ λ_i b_i + rest, is convex
and homogeneous, so its backup H W is too, and H W(b_i) ≤ u_i + δ at all generators implies H W ≤ W + δ, hence
V ≤ W + δ / (1 - γ). H W(b_i) is bounded by naming, for each action and observation, one node: with
r = min_x s(x) / b_j(x) a successor s satisfies W(s) ≤ r u_j + Σ_x (s - r b_j)(x) c(x). Nodes that claim no backup
get what B, the corners c or one other node give them, computed here.

What is claimed (vectors, u of generators, F) is only ever compared; everything else is computed from the model.

Error: a sum of n products of floats has a relative error of at most 1.01 n 2^-53 of the sum of absolute values
(Higham 2002, eq. 3.5). `checked` widens every comparison by ε times that sum, with ε = 2^-52 (X + Z + S + 16) for rows
of at most S entries, so a check that passes holds in real numbers. `exact` uses rationals.

Shapes: A actions, X states, Z observations, V vectors, N nodes, H rows, E edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from jatpo.errors import JatpoError
from jatpo.model import Sparse

INFORMED, CORNERS, BACKED_UP = -1, -2, -3  # what bounds a node, if no other node does
CHUNK = 1 << 21  # entries of successors computed at once


class Evidence(NamedTuple):
    """What a solver claims. Beliefs and edges in compressed rows; node 0 is the initial belief."""

    values: np.ndarray  # [V, X]
    action: np.ndarray  # [V]
    successor: np.ndarray  # [V, Z] vector to continue with
    informed: np.ndarray  # [A, X] F
    belief: tuple[np.ndarray, np.ndarray, np.ndarray]  # first entry [N + 1], states, weights
    upper: np.ndarray  # [N] u; only that of generators is used
    source: np.ndarray  # [N] INFORMED, CORNERS, BACKED_UP or the node that bounds it
    corner: np.ndarray  # [X] the node at this single state, -1 for none
    row: np.ndarray  # [N, A] the row of an action, -1 for F
    edge: tuple[
        np.ndarray, np.ndarray, np.ndarray
    ]  # first edge [H + 1], observation, node that bounds the successor


class Certificate(NamedTuple):
    """lower ≤ V(initial) ≤ upper, and how it is known: "checked" in floats with an error term, or "exact"."""

    lower: float
    upper: float
    level: str


class _Model(NamedTuple):
    transition: list[sparse.csr_array]  # [A] of [X, X]
    observation: list[np.ndarray]  # [A] of [X, Z]
    reward: np.ndarray  # [A, X]
    initial: np.ndarray  # [X]
    discount: float
    error: float


def certify(model: Sparse, num_observations: int, evidence: Evidence) -> Certificate:
    """The interval that `evidence` proves in float64; evidence that is no evidence is refused."""
    m = _tables(model, num_observations)
    _require_shape(m, evidence)
    rate = m.discount * (1 + m.error) * max(float(part.sum(axis=1).max()) for part in m.transition)
    rate *= max(float(part.sum(axis=1).max()) for part in m.observation)
    _require(rate < 1, f"the discount {m.discount} with rounding reaches 1")
    lower, short = _below(m, evidence)
    value, over = _above(m, evidence)
    far = 1 / (1 - rate) * (1 + 8 * m.error)
    certificate = Certificate(float(lower + short * far), float(value + over * far), "checked")
    _require(certificate.lower <= certificate.upper, f"the certified bounds cross: {certificate}")
    return certificate


def _tables(model: Sparse, num_observations: int) -> _Model:
    X, A = model.reward.shape
    transition, observation = [], []
    for a in range(A):
        x, y, p = (part[model.transition[0] == a] for part in model.transition[1:])
        transition.append(sparse.csr_array((p, (x, y)), (X, X)))
        seen = np.zeros((X, num_observations))
        y, z, p = (part[model.observation[0] == a] for part in model.observation[1:])
        np.add.at(seen, (y, z), p)
        observation.append(seen)
    longest = max(int(np.diff(part.indptr).max()) for part in transition)
    error = 2.0**-52 * (X + num_observations + longest + 16)
    return _Model(transition, observation, model.reward.T.copy(), model.initial, float(model.discount), error)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise JatpoError(f"the solution is not valid evidence: {problem}; solve the model again")


def _require_shape(m: _Model, e: Evidence) -> None:
    """Every array has its shape, every index its range, every number is finite."""
    A, X = m.reward.shape
    V, N, H = len(e.values), len(e.upper), len(e.edge[0]) - 1
    shapes = (
        ("values", e.values, (V, X)), ("action", e.action, (V,)), ("informed", e.informed, (A, X)),
        ("successor", e.successor, (V, m.observation[0].shape[1])), ("source", e.source, (N,)),
        ("corner", e.corner, (X,)), ("row", e.row, (N, A)), ("first", e.belief[0], (N + 1,)),
        ("weights", e.belief[2], e.belief[1].shape), ("children", e.edge[2], e.edge[1].shape),
    )  # fmt: skip
    for name, array, shape in shapes:
        _require(array.shape == shape, f"{name} has shape {array.shape}, expected {shape}")
    ranges = (
        ("action", e.action, 0, A), ("successor", e.successor, 0, V), ("state", e.belief[1], 0, X),
        ("source", e.source, BACKED_UP, N), ("corner", e.corner, -1, N), ("row", e.row, -1, H),
        ("observation", e.edge[1], 0, m.observation[0].shape[1]), ("child", e.edge[2], 0, N),
    )  # fmt: skip
    for name, array, low, high in ranges:
        _require(bool(((array >= low) & (array < high)).all()), f"{name} is out of [{low}, {high})")
    for name, array in (
        ("values", e.values),
        ("informed", e.informed),
        ("upper", e.upper),
        ("weights", e.belief[2]),
    ):
        _require(bool(np.isfinite(array).all()), f"{name} is not finite")
    _require(V > 0 and N > 0, "there is no vector or no node")
    for name, first, size in (("belief", e.belief[0], e.belief[1].size), ("edge", e.edge[0], e.edge[1].size)):
        rising = bool((np.diff(first) >= (name == "belief")).all())
        _require(rising and first[0] == 0 and first[-1] == size, f"{name} rows do not follow each other")
    _require(bool((e.belief[2] > 0).all()), "a belief has a weight that is not positive")
    owner = np.repeat(np.arange(N), np.diff(e.belief[0]))
    inside = owner[1:] == owner[:-1]
    _require(bool((np.diff(e.belief[1])[inside] > 0).all()), "the states of a belief are not in order")
    place = np.repeat(np.arange(H), np.diff(e.edge[0]))
    repeated = np.unique(place * (e.edge[1].max(initial=0) + 1) + e.edge[1]).size < e.edge[1].size
    _require(not repeated, "a row has two edges for one observation")
    start = np.zeros(X)
    start[e.belief[1][: e.belief[0][1]]] = e.belief[2][: e.belief[0][1]]
    _require(np.array_equal(start, m.initial), "node 0 is not the initial belief of the model")
    at = np.flatnonzero(e.corner >= 0)
    single = (np.diff(e.belief[0])[e.corner[at]] == 1) & (e.belief[1][e.belief[0][e.corner[at]]] == at)
    _require(bool(single.all()), "a corner is not at its state")


def _below(m: _Model, e: Evidence) -> tuple[float, float]:
    """(value of the best vector at the start, most that a vector exceeds its backup by, at most 0)."""
    score = e.values @ m.initial - m.error * (np.abs(e.values) @ m.initial)
    best = int(score.argmax())
    needed = np.zeros(len(e.values), bool)
    fresh = np.array([best])
    while len(fresh):
        needed[fresh] = True
        fresh = np.unique(e.successor[fresh])
        fresh = fresh[~needed[fresh]]
    short = 0.0
    for a in range(len(m.reward)):
        which = np.flatnonzero(needed & (e.action == a))
        if len(which):
            plan, size = (_plan(m, a, values, e.successor[which]) for values in (e.values, np.abs(e.values)))
            rest = m.reward[a] + plan - e.values[which]
            rest -= m.error * (np.abs(m.reward[a]) + size + np.abs(e.values[which]))
            short = min(short, float(rest.min()))
    return float(score[best]), short


def _plan(m: _Model, a: int, values: np.ndarray, successor: np.ndarray) -> np.ndarray:
    """γ P_a Σ_z O_a(z) values[successor(z)] [n, X]."""
    arrived = np.zeros((len(successor), values.shape[1]))
    for z in range(successor.shape[1]):
        seen = np.flatnonzero(m.observation[a][:, z])
        arrived[:, seen] += m.observation[a][seen, z] * values[successor[:, z]][:, seen]
    return m.discount * (m.transition[a] @ arrived.T).T


def _above(m: _Model, e: Evidence) -> tuple[float, float]:
    """(bound at the initial belief, most that a backup exceeds its claim by, at least 0)."""
    over = _informed_excess(m, e.informed)
    corners, upper = _node_bounds(m, e)
    size = np.maximum(np.abs(corners), np.abs(e.informed).max(axis=0))
    for a in range(len(m.reward)):
        for nodes, rows in _batches(m, e, a):
            excess = _backup(m, e, a, nodes, rows, corners, upper, size) - e.upper[nodes]
            over = max(over, float((excess + m.error * np.abs(e.upper[nodes])).max()))
    return float(upper[0]), over


def _informed_excess(m: _Model, informed: np.ndarray) -> float:
    """Most that the backup of F exceeds F by, at least 0."""
    over = 0.0
    for a, reward in enumerate(m.reward):
        total, size = np.zeros_like(reward), np.zeros_like(reward)
        for z in np.flatnonzero(m.observation[a].any(axis=0)):
            part = m.observation[a][:, z, None] * informed.T
            total += (m.transition[a] @ part).max(axis=1)
            size += (m.transition[a] @ np.abs(part)).max(axis=1)
        excess = reward + m.discount * total - informed[a]
        excess += m.error * (np.abs(reward) + m.discount * size + np.abs(informed[a]))
        over = max(over, float(excess.max()))
    return over


def _node_bounds(m: _Model, e: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """(corners [X], bounds of all nodes [N]): generators as they claim, the others computed, sources first."""
    first, states, weights = e.belief
    corners = e.informed.max(axis=0)
    at = np.flatnonzero(e.corner >= 0)
    at = at[e.source[e.corner[at]] == BACKED_UP]
    value = e.upper[e.corner[at]] / weights[first[e.corner[at]]]
    corners[at] = np.minimum(corners[at], value + m.error * np.abs(value))
    linear = np.add.reduceat(weights * corners[states], first[:-1])
    error = (
        2
        * m.error
        * np.add.reduceat(
            weights * np.maximum(np.abs(corners), np.abs(e.informed).max(axis=0))[states], first[:-1]
        )
    )
    informed = np.max([np.add.reduceat(weights * part[states], first[:-1]) for part in e.informed], axis=0)
    upper = np.minimum(linear, informed) + error
    ready = e.source < 0
    generator = e.source == BACKED_UP
    upper[generator] = e.upper[generator]
    waiting = np.flatnonzero(~ready)
    while len(waiting):  # a cycle of sources keeps the linear bound, which is true as well
        turn = waiting[ready[e.source[waiting]]]
        if not len(turn):
            break
        other = e.source[turn]
        ratio = _ratio(e, np.repeat(turn, np.diff(first)[turn]), *_entries(e, turn), other, len(m.initial))
        given = linear[turn] + ratio * (upper[other] - linear[other]) + 2 * (error[turn] + error[other])
        upper[turn] = np.minimum(upper[turn], np.where(upper[other] < linear[other], given, upper[turn]))
        ready[turn] = True
        waiting = waiting[~ready[waiting]]
    return corners, upper


def _entries(e: Evidence, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    place = _places(e.belief[0], nodes)
    return e.belief[1][place], e.belief[2][place]


def _places(first: np.ndarray, which: np.ndarray) -> np.ndarray:
    count = first[which + 1] - first[which]
    return np.repeat(first[which] - np.cumsum(count) + count, count) + np.arange(count.sum())


def _ratio(e: Evidence, owner, states, masses, other: np.ndarray, X: int) -> np.ndarray:
    """min_x s(x) / b_j(x) for measures s (entries in order of owner) and the node `other` of each owner."""
    _, position = np.unique(owner, return_inverse=True)
    key = position * X + states
    count = np.diff(e.belief[0])[other]
    x, weight = _entries(e, other)
    wanted = np.repeat(np.arange(len(other)), count) * X + x
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    found = np.where(key[place] == wanted, masses[place] / weight, 0.0)
    return np.minimum.reduceat(found, np.cumsum(count) - count) * (1 - 2.0**-50)


def _batches(m: _Model, e: Evidence, a: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Generators in parts, each with its rows of action `a` (-1 where F stands for it)."""
    nodes = np.flatnonzero(e.source == BACKED_UP)
    step = max(1, CHUNK // len(m.initial))
    for start in range(0, len(nodes), step):
        yield nodes[start : start + step], e.row[nodes[start : start + step], a]


def _backup(m, e, a: int, nodes, rows, corners, upper, size) -> np.ndarray:
    """A bound on R(b, a) + γ Σ_z W(s_z) at each of `nodes`, from above [n]."""
    n, X = len(nodes), len(m.initial)
    states, weights = _entries(e, nodes)
    owner = np.repeat(np.arange(n), np.diff(e.belief[0])[nodes])
    belief = sparse.csr_array((weights, (owner, states)), (n, X))
    arrived = sparse.csr_array(belief @ m.transition[a])
    arrived.sort_indices()
    row = np.repeat(np.arange(n), np.diff(arrived.indptr))
    mass = arrived.data * m.observation[a].sum(axis=1)[arrived.indices]  # rows of O may not sum to 1 exactly
    linear = np.bincount(row, mass * corners[arrived.indices], n)  # Σ_z c·s_z
    gain = _edge_gains(m, e, a, rows, arrived, row, corners, upper)
    errors = m.error * (belief @ np.abs(m.reward[a]) + 4 * m.discount * (arrived @ size))
    backed = belief @ m.reward[a] + m.discount * (linear + gain)
    plain = belief @ e.informed[a]
    return np.where(rows < 0, plain, backed) + errors + m.error * (belief @ np.abs(e.informed[a]))


def _edge_gains(m, e, a: int, rows, arrived, row, corners, upper) -> np.ndarray:
    """Σ_z r (u_j - c·b_j), at most 0 for each z, over the edges of each row [n]."""
    n, X = len(rows), len(corners)
    gain = np.zeros(n)
    known = np.flatnonzero(rows >= 0)
    place = _places(e.edge[0], rows[known])
    owner = np.repeat(known, e.edge[0][rows[known] + 1] - e.edge[0][rows[known]])
    seen, child = e.edge[1][place], e.edge[2][place]
    first, states, weights = e.belief
    for z in np.unique(seen):
        at = np.flatnonzero(seen == z)
        use = np.isin(row, owner[at])
        mass = arrived.data[use] * m.observation[a][arrived.indices[use], z]
        ratio = _ratio(e, row[use], arrived.indices[use], mass, child[at], X)
        other, other_states = child[at], _places(first, child[at])
        count = np.diff(first)[other]
        linear = np.bincount(
            np.repeat(np.arange(len(at)), count), weights[other_states] * corners[states[other_states]]
        )
        gain[owner[at]] += ratio * np.minimum(upper[other] - linear, 0.0)
    return gain
