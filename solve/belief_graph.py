"""A graph of visited sparse beliefs with cached bounds, and its expansion, sound by convexity.

V is convex and homogeneous, so for a successor s = w b' + d with d ≥ 0 and corners c ≥ V at single states,
V(s) ≤ w V(b') + Σ_x d(x) c(x). Truncating small entries (d: what was dropped) and merging two beliefs of one support
(d: what is left of s after taking out as much of b' as it contains) therefore give inequalities, not approximations.

A *row* is one action at one node: `constant` + γ Σ w U[child] bounds the value of the node if that action is optimal.

Shapes: N nodes, A actions, X states, Z observations, B beliefs of a batch, H rows, E edges.
"""

from __future__ import annotations

import numpy as np

from jatpo.solve.initial_bounds import Tables, ragged

DROPPED = 1e-9  # share of a successor up to which an entry is truncated
MERGED = 4e-9  # share that two merged beliefs may differ by
IMPROBABLE = 1e-12  # observations up to this probability get no node
GRID = float(1 << 22)  # weights are rounded to this grid for the hash that proposes merges


INFORMED, CORNERS = -1, -2  # what gave a node its bound, where no other node did


class Pool:
    """An array that grows at its end; `all` is what it holds."""

    def __init__(self, start: np.ndarray) -> None:
        self._room = np.array(start)
        self.size = len(start)

    @property
    def all(self) -> np.ndarray:
        return self._room[: self.size]

    def append(self, more: np.ndarray) -> None:
        self.extend(len(more), more)

    def extend(self, count: int, value: np.ndarray | float) -> None:
        """Append `count` entries: an array of them or one value for all."""
        size = self.size + count
        if size > len(self._room):
            room = np.empty((max(size, 2 * len(self._room), 64), *self._room.shape[1:]), self._room.dtype)
            room[: self.size] = self.all
            self._room = room
        self._room[self.size : size] = value
        self.size = size

    @property
    def room(self) -> np.ndarray:
        """What it holds and the room behind that."""
        return self._room

    def take(self, room: np.ndarray, size: int) -> None:
        """Hold the first `size` of `room` from now on."""
        self._room, self.size = room, size


class Beliefs:
    """Sparse beliefs [B] in compressed rows."""

    def __init__(self, first: np.ndarray, count: np.ndarray, states: np.ndarray, weights: np.ndarray) -> None:
        self.first, self.count, self.states, self.weights = first, count, states, weights

    def __len__(self) -> int:
        return len(self.count)

    def owner(self) -> np.ndarray:
        """The belief of each entry."""
        return np.repeat(np.arange(len(self)), self.count)

    def dot(self, vector: np.ndarray) -> np.ndarray:
        """b·v [B] for `vector` [X]."""
        return np.bincount(self.owner(), self.weights * vector[self.states], len(self))

    def dot_all(self, vectors: np.ndarray) -> np.ndarray:
        """b·v [B, K] for `vectors` [K, X]."""
        if len(self) * vectors.shape[1] <= 1 << 22:
            return self.dense(vectors.shape[1]) @ vectors.T
        return np.stack([self.dot(vector) for vector in vectors], axis=1)

    def dense(self, num_states: int) -> np.ndarray:
        """[B, X]."""
        out = np.zeros((len(self), num_states))
        out[self.owner(), self.states] = self.weights
        return out


class Graph:
    """The nodes, rows and edges. All arrays; what a node holds besides is set by the bounds."""

    first: Pool  # [N] first entry of the belief
    count: Pool  # [N] entries of the belief
    signature: Pool  # [N] one bit for each state of the support, modulo 64
    digest: Pool  # [N] hash of the rounded belief
    upper: Pool  # [N] the least upper bound known
    lower: Pool  # [N]
    best: Pool  # [N] the vector that gave `lower`
    magnitude: Pool  # [N] ≥ |any bound|
    upper_stamp: Pool  # [N] points seen
    corner_stamp: Pool  # [N] version of the corners seen
    lower_stamp: Pool  # [N] vectors seen
    point: Pool  # [N] number of its point
    given: Pool  # [N] the upper bound that others give
    giver: Pool  # [N] who gave it
    expanded: Pool  # [N] whether it has a row
    row_node: Pool  # [H]
    row_action: Pool  # [H]
    row_first: Pool  # [H] first edge
    row_count: Pool  # [H] edges
    row_reward: Pool  # [H] b·R_a
    row_constant: Pool  # [H] with what was truncated and the rounding
    child: Pool  # [E]
    weight: Pool  # [E]
    seen: Pool  # [E] observation

    NODES = (
        ("first", np.int64), ("count", np.int64), ("signature", np.uint64), ("digest", np.uint64),
        ("upper", np.float64), ("lower", np.float64), ("best", np.int64), ("magnitude", np.float64),
        ("upper_stamp", np.int64), ("corner_stamp", np.int64), ("lower_stamp", np.int64),
        ("point", np.int64), ("given", np.float64), ("giver", np.int64), ("expanded", np.bool_),
    )  # fmt: skip
    ROWS = (
        ("row_node", np.int64), ("row_action", np.int64), ("row_first", np.int64), ("row_count", np.int64),
        ("row_reward", np.float64), ("row_constant", np.float64),
    )  # fmt: skip
    EDGES = (("child", np.int64), ("weight", np.float64), ("seen", np.int64))

    def __init__(self, tables: Tables, informed: np.ndarray, magnitude: np.ndarray) -> None:
        A, X = tables.reward.shape
        self.tables = tables
        self.informed = informed  # [A, X]
        self.state_magnitude = magnitude  # [X] ≥ |any bound at a single state|
        self.states = Pool(np.zeros(0, np.int64))
        self.weights = Pool(np.zeros(0))
        for name, kind in (*self.NODES, *self.ROWS, *self.EDGES):
            setattr(self, name, Pool(np.zeros(0, kind)))
        self.action_upper = Pool(np.zeros((0, A)))
        self.row = Pool(np.zeros((0, A), np.int64))
        self.found: dict[int, int] = {}
        rng = np.random.Generator(np.random.Philox(key=[7, 7]))
        self.bit = np.uint64(1) << (rng.permutation(X) % 64).astype(np.uint64)
        self.hash = rng.integers(1, 1 << 63, X, np.uint64) | np.uint64(1)

    @property
    def size(self) -> int:
        return self.first.size

    def pools(self) -> list[str]:
        """The names of the arrays that grow."""
        names = [name for name, _ in (*self.NODES, *self.ROWS, *self.EDGES)]
        return [*names, "states", "weights", "action_upper", "row"]

    def recall(self) -> None:
        """Make the index of nodes by hash anew."""
        self.found = {}
        for node, digest in enumerate(self.digest.all.tolist()):
            self.found.setdefault(digest, node)

    def beliefs(self, nodes: np.ndarray) -> Beliefs:
        """The beliefs of `nodes` [B]."""
        count = self.count.all[nodes]
        place = ragged(self.first.all[nodes], count)
        return Beliefs(np.cumsum(count) - count, count, self.states.all[place], self.weights.all[place])

    def edges(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The edges of `rows` [H], and the position in `rows` that each belongs to."""
        count = self.row_count.all[rows]
        return ragged(self.row_first.all[rows], count), np.repeat(np.arange(len(rows)), count)

    def evaluate(self, rows: np.ndarray) -> np.ndarray:
        """`constant` + γ Σ w U[child] [H], with an edge back to its own node solved for."""
        edges, owner = self.edges(rows)
        child, weight = self.child.all[edges], self.tables.discount * self.weight.all[edges]
        own = child == self.row_node.all[rows][owner]
        terms = weight * self.upper.all[child]
        if not own.any():
            return self.row_constant.all[rows] + np.bincount(owner, terms, len(rows))
        total = self.row_constant.all[rows] + np.bincount(owner, np.where(own, 0.0, terms), len(rows))
        loop = np.bincount(owner, np.where(own, weight, 0.0), len(rows))
        error = 4 * self.tables.rounding * self.magnitude.all[self.row_node.all[rows]]
        return np.where(loop > 0, (total + error) / np.maximum(1 - loop, 1e-300) + error, total)

    def add(self, beliefs: Beliefs) -> np.ndarray:
        """New nodes for `beliefs` with the informed bound above; returns their numbers."""
        new = np.arange(self.size, self.size + len(beliefs))
        signature, digest = self._sign(beliefs)
        self._append(self.NODES, {
            "first": self.states.size + beliefs.first, "count": beliefs.count,
            "signature": signature, "digest": digest, "best": -1, "point": -1, "corner_stamp": -1, "giver": INFORMED,
            "lower": -np.inf, "magnitude": beliefs.dot(self.state_magnitude),
        }, len(beliefs))  # fmt: skip
        self.states.append(beliefs.states)
        self.weights.append(beliefs.weights)
        error = 2 * self.tables.rounding * self.magnitude.all[new]
        self.action_upper.append(beliefs.dot_all(self.informed) + error[:, None])
        self.upper.all[new] = self.given.all[new] = self.action_upper.all[new].max(axis=1)
        self.row.append(np.full((len(beliefs), len(self.informed)), -1))
        return new

    def expand(self, nodes: np.ndarray, actions: np.ndarray, corners: np.ndarray) -> None:
        """Add the rows of `nodes` [H] under `actions` [H], none of which exists, with their children."""
        t = self.tables
        beliefs = self.beliefs(nodes)
        owner = beliefs.owner()
        reward = t.reward[actions[owner], beliefs.states]
        gain = np.bincount(owner, beliefs.weights * reward, len(nodes))
        error = np.bincount(owner, beliefs.weights * np.abs(reward), len(nodes))
        row, y, mass = predict(t, beliefs, actions)
        error += 2 * t.discount * np.bincount(row, mass * self.state_magnitude[y], len(nodes))
        successors, own, seen, probability, charge = observe(t, row, y, mass, actions, corners)
        child, weight, more = self._place(successors, probability, corners)
        charge += np.bincount(own, more, len(nodes))
        first = self.child.size + np.searchsorted(own, np.arange(len(nodes)))
        number = np.arange(self.row_node.size, self.row_node.size + len(nodes))
        self._append(self.ROWS, {
            "row_node": nodes, "row_action": actions, "row_first": first, "row_reward": gain,
            "row_count": np.bincount(own, minlength=len(nodes)),
            "row_constant": gain + t.discount * charge + t.rounding * error,
        }, len(nodes))  # fmt: skip
        self._append(self.EDGES, {"child": child, "weight": weight, "seen": seen}, len(child))
        self.row.all[nodes, actions] = number
        self.expanded.all[nodes] = True

    def _place(self, successors: Beliefs, probability: np.ndarray, corners: np.ndarray):
        """A node for each successor, found or new: (child, weight, charge) with p V(s) ≤ weight V(child) + charge."""
        _, digest = self._sign(successors)
        child = np.empty(len(successors), np.int64)
        fresh = []
        size = self.size
        for i, key in enumerate(digest.tolist()):
            node = self.found.get(key)
            if node is None:
                node = self.found[key] = size + len(fresh)
                fresh.append(i)
            child[i] = node
        if fresh:
            self.add(_pick(successors, np.array(fresh)))
        weight, charge = probability.copy(), np.zeros(len(child))
        old = np.ones(len(child), bool)
        old[fresh] = False
        if old.any():
            self._merge(successors, np.flatnonzero(old), child, weight, charge, corners)
        return child, weight, charge

    def _merge(self, successors, places, child, weight, charge, corners) -> None:
        """Check the proposed merges of `places`; where the inequality would be weak, add a node instead."""
        part, known = _pick(successors, places), self.beliefs(child[places])
        alike = part.count == known.count
        ratio = np.zeros(len(places))
        if alike.any():
            where = np.flatnonzero(alike)
            p, k = _pick(part, where), _pick(known, where)
            quotient = np.where(p.states == k.states, p.weights / k.weights, 0.0)
            ratio[where] = np.minimum.reduceat(quotient, p.first)
            good = ratio[where] >= 1 - MERGED
            scaled = np.minimum(ratio[where], 1.0)
            rest = np.maximum(p.weights - scaled[p.owner()] * k.weights, 0.0)
            extra = np.bincount(p.owner(), rest * corners[p.states], len(p))
            chosen = places[where[good]]
            charge[chosen] = weight[chosen] * extra[good]
            weight[chosen] *= scaled[good]
            alike[where[~good]] = False
        apart = places[~alike]
        if len(apart):
            child[apart] = self.add(_pick(successors, apart))

    def _sign(self, beliefs: Beliefs) -> tuple[np.ndarray, np.ndarray]:
        """Signature of the support and hash of the rounded weights [B] each."""
        if not len(beliefs):
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        signature = np.bitwise_or.reduceat(self.bit[beliefs.states], beliefs.first)
        rounded = (beliefs.weights * GRID + 0.5).astype(np.uint64) + np.uint64(1)
        return signature, np.add.reduceat(rounded * self.hash[beliefs.states], beliefs.first)

    def _append(self, fields, values: dict, size: int) -> None:
        for name, _ in fields:
            getattr(self, name).extend(size, values.get(name, 0))


def predict(t: Tables, beliefs: Beliefs, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ_x b(x) P(y | x, a) as entries (belief, y, mass), in order, for an action of each belief."""
    X = t.num_states
    owner = beliefs.owner()
    rows = actions[owner] * X + beliefs.states
    first = t.transition.indptr[rows].astype(np.int64)
    count = t.transition.indptr[rows + 1] - first
    place = ragged(first, count)
    key = np.repeat(owner * X, count) + t.transition.indices[place]
    mass = np.repeat(beliefs.weights, count) * t.transition.data[place]
    if len(beliefs) * X <= max(1 << 16, 8 * len(key)):
        total = np.bincount(key, mass, len(beliefs) * X)
        key = np.flatnonzero(total)
        return key // X, key % X, total[key]
    keys, inverse = np.unique(key, return_inverse=True)
    total = np.bincount(inverse, mass, len(keys))
    return keys // X, keys % X, total


def observe(t: Tables, row, y, mass, actions, corners):
    """The successors of each observation: (beliefs, row of each, observation, probability, charge of each row)."""
    X, Z = t.num_states, t.num_observations
    rows = actions[row] * X + y
    first = t.observation.indptr[rows].astype(np.int64)
    count = t.observation.indptr[rows + 1] - first
    place = ragged(first, count)
    key = np.repeat(row * Z, count) + t.observation.indices[place]
    joint = np.repeat(mass, count) * t.observation.data[place]
    y = np.repeat(y, count)
    if Z > 1:
        order = np.argsort(key, kind="stable")
        key, joint, y = key[order], joint[order], y[order]
    start = starts(key)
    group = np.repeat(np.arange(len(start)), sizes_of(start, len(key)))
    total = np.add.reduceat(joint, start) if len(start) else np.zeros(0)
    keep = (joint > DROPPED * total[group]) & (total[group] > IMPROBABLE)
    charge = np.zeros(len(actions))
    if not keep.all():
        charge = np.bincount(key[~keep] // Z, joint[~keep] * corners[y[~keep]], len(actions))
        key, joint, y = key[keep], joint[keep], y[keep]
        start = starts(key)
        total = np.add.reduceat(joint, start) if len(start) else np.zeros(0)
    sizes = sizes_of(start, len(key))
    beliefs = Beliefs(start, sizes, y, joint / np.repeat(total, sizes))
    return beliefs, key[start] // Z, key[start] % Z, total, charge


def starts(key: np.ndarray) -> np.ndarray:
    """Where each run of equal keys begins."""
    new = np.empty(len(key), bool)
    new[:1] = True
    np.not_equal(key[1:], key[:-1], out=new[1:])
    return new.nonzero()[0]


def sizes_of(start: np.ndarray, total: int) -> np.ndarray:
    """The length of each run."""
    sizes = np.empty_like(start)
    sizes[:-1] = start[1:] - start[:-1]
    sizes[-1:] = total - start[-1:]
    return sizes


def _pick(beliefs: Beliefs, which: np.ndarray) -> Beliefs:
    count = beliefs.count[which]
    place = ragged(beliefs.first[which], count)
    return Beliefs(np.cumsum(count) - count, count, beliefs.states[place], beliefs.weights[place])
