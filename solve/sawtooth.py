"""The upper bound: a sawtooth over points at visited beliefs, with corners that move.

A point (b_j, u_j) with V(b_j) ≤ u_j and corners c with V(x) ≤ c(x) bound any belief b by convexity:
V(b) ≤ c·b + (u_j - c·b_j) min_x b(x) / b_j(x). A node keeps the least bound it has seen; the stamps of a node
number the points and the version of the corners that it has seen, so that only newer ones are looked at.

Shapes: B beliefs of a batch, J points, X states.
"""

from __future__ import annotations

import numpy as np

from jatpo.solve.belief_graph import CORNERS, Graph, Pool
from jatpo.solve.initial_bounds import ragged

PAIRS = 1 << 20  # (belief, point) pairs looked at in one go
POINTS = (
    ("number", np.int64), ("node", np.int64), ("value", np.float64), ("drop", np.float64),
    ("signature", np.uint64), ("top", np.int64), ("top_weight", np.float64),
)  # fmt: skip
OTHER = ("corners", "wanted", "corner_node", "version", "issued", "pruned_at")


class Sawtooth:
    """Points and corners above a graph."""

    number: Pool  # [J] of each point, increasing
    node: Pool  # [J], -1 for a point that was replaced
    value: Pool  # [J] u_j
    drop: Pool  # [J] u_j - c·b_j, at most 0
    signature: Pool  # [J] of the support
    top: Pool  # [J] the heaviest state
    top_weight: Pool  # [J]

    def __init__(self, graph: Graph, corners: np.ndarray) -> None:
        self.graph = graph
        self.corners = np.array(corners)
        self.wanted = np.array(corners)  # corners to be
        self.corner_node = np.full(len(corners), -1)  # the node that each corner was last moved by
        self.version = 0
        self.issued = 0  # points so far
        self.pruned_at = 64
        for name, kind in POINTS:
            setattr(self, name, Pool(np.zeros(0, kind)))

    def to_arrays(self) -> dict[str, np.ndarray | int]:
        """All of it but the graph."""
        points = {name: getattr(self, name).all for name, _ in POINTS}
        return points | {name: getattr(self, name) for name in OTHER}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `to_arrays` gave."""
        for name, _ in POINTS:
            setattr(self, name, Pool(arrays[name]))
        for name in OTHER:
            value = np.array(arrays[name])
            setattr(self, name, value if value.ndim else int(value))

    def refresh(self, nodes: np.ndarray, tolerance: float = 0.0) -> int:
        """Lower `upper` of `nodes` (distinct) by the points and corners they have not seen; pairs looked at."""
        g = self.graph
        moved = g.corner_stamp.all[nodes] < self.version
        stale = moved | (g.upper_stamp.all[nodes] < self.issued)
        nodes, moved = nodes[stale], moved[stale]
        if not len(nodes):
            return 0
        since = np.where(moved, 0, np.searchsorted(self.number.all, g.upper_stamp.all[nodes]))
        order = np.argsort(since)
        work, J, i = 0, self.number.size, 0
        while i < len(order):
            begin = since[order[i]]
            most = max(1, PAIRS // max(1, J - begin, g.tables.num_states))
            part = order[i : i + most]
            if begin * 2 < J:  # those that have seen most points form a batch of their own
                part = part[since[part] * 2 < J + begin]
            self._refresh(nodes[part], int(begin), tolerance)
            work += len(part) * (J - int(begin))
            i += len(part)
        g.upper_stamp.all[nodes] = self.issued
        g.corner_stamp.all[nodes] = self.version
        return work

    def _refresh(self, nodes: np.ndarray, begin: int, tolerance: float) -> None:
        g = self.graph
        beliefs = g.beliefs(nodes)
        error = 4 * g.tables.rounding * g.magnitude.all[nodes]
        base = beliefs.dot(self.corners) + error
        giver = np.where(base < g.given.all[nodes], CORNERS, g.giver.all[nodes])
        upper = np.minimum(g.given.all[nodes], base)
        if begin < self.number.size:
            self._scan(nodes, beliefs, base, upper, giver, begin, tolerance)
        g.given.all[nodes] = upper
        g.giver.all[nodes] = giver
        g.upper.all[nodes] = np.minimum(g.upper.all[nodes], upper)

    def _scan(self, nodes, beliefs, base, upper, giver, begin, tolerance) -> None:
        """Lower `upper` [B] in place by the points from `begin` on, noting who gave it."""
        g = self.graph
        drop, signature = self.drop.all[begin:], self.signature.all[begin:]
        best = np.minimum(upper, g.upper.all[nodes]) - tolerance
        open_ = (signature[None, :] & ~g.signature.all[nodes][:, None]) == 0
        open_ &= base[:, None] + drop[None, :] < best[:, None]
        m, j = np.nonzero(open_)
        if not len(m):
            return
        dense = beliefs.dense(g.tables.num_states)
        j += begin
        hope = base[m] + self.drop.all[j] * np.minimum(
            dense[m, self.top.all[j]] / self.top_weight.all[j], 1.0
        )
        keep = hope < best[m]
        m, j, hope = m[keep], j[keep], hope[keep]
        if len(m) > 256:  # the most promising point of each belief first: few others can beat it
            new = np.empty(len(m), bool)
            new[:1], new[1:] = True, m[1:] != m[:-1]
            least = np.minimum.reduceat(hope, np.flatnonzero(new))
            turn = hope <= least[np.cumsum(new) - 1]
            self._measure(dense, m[turn], j[turn], base, upper, giver)
            np.minimum(best, upper - tolerance, out=best)
            keep = ~turn & (hope < best[m])
            m, j = m[keep], j[keep]
        if len(m):
            self._measure(dense, m, j, base, upper, giver)

    def _measure(self, dense, m, j, base, upper, giver) -> None:
        """Lower `upper` by the exact bound of each pair (belief m, point j)."""
        g = self.graph
        node = self.node.all[j]
        size = g.count.all[node]
        ends = size.cumsum()
        if ends[-1] > 4 * PAIRS and len(m) > 1:
            half = len(m) // 2
            self._measure(dense, m[:half], j[:half], base, upper, giver)
            self._measure(dense, m[half:], j[half:], base, upper, giver)
            return
        place = ragged(g.first.all[node], size)
        ratio = dense[m.repeat(size), g.states.all[place]] / g.weights.all[place]
        least = np.minimum.reduceat(ratio, ends - size)
        value = base[m] + self.drop.all[j] * least
        better = value < upper[m]
        m, node, value = m[better], node[better], value[better]
        np.minimum.at(upper, m, value)
        first = value == upper[m]
        giver[m[first]] = node[first]

    def publish(self, nodes: np.ndarray, tolerance: np.ndarray) -> None:
        """Make points of those `nodes` (distinct) that are lower than others give them; corners at single states."""
        g = self.graph
        gain = g.given.all[nodes] - g.upper.all[nodes]
        nodes = nodes[gain > tolerance]
        if not len(nodes):
            return
        single = g.count.all[nodes] == 1
        at = nodes[single]
        place = g.first.all[at]
        value = g.upper.all[at] / g.weights.all[place] + 4 * g.tables.rounding * g.magnitude.all[at]
        states = g.states.all[place]
        self.corner_node[states] = np.where(value < self.wanted[states], at, self.corner_node[states])
        np.minimum.at(self.wanted, states, value)
        self._append(nodes[~single])

    def _append(self, nodes: np.ndarray) -> None:
        g = self.graph
        if not len(nodes):
            return
        old = g.point.all[nodes]
        old = old[old >= 0]
        if len(old):
            place = np.searchsorted(self.number.all, old)
            place = place[(place < self.number.size)]
            place = place[np.isin(self.number.all[place], old)]
            self.drop.all[place] = 0.0
            self.node.all[place] = -1
        beliefs = g.beliefs(nodes)
        value = g.upper.all[nodes]
        number = self.issued + np.arange(len(nodes))
        heaviest = _heaviest(beliefs)
        drop = value - beliefs.dot(self.corners) + 4 * g.tables.rounding * g.magnitude.all[nodes]
        new = (number, nodes, value, np.minimum(drop, 0.0), g.signature.all[nodes],
               beliefs.states[heaviest], beliefs.weights[heaviest])  # fmt: skip
        for (name, _), part in zip(POINTS, new, strict=True):
            getattr(self, name).append(part)
        g.point.all[nodes] = number
        g.given.all[nodes] = value
        g.giver.all[nodes] = nodes
        self.issued += len(nodes)

    def commit(self, tolerance: float) -> bool:
        """Move the corners to where single states were backed up, if any moves by more than `tolerance`."""
        if not (self.corners - self.wanted > tolerance).any():
            return False
        self.corners = self.wanted.copy()
        self.version += 1
        self._compact(self.node.all >= 0)
        if self.number.size:
            g = self.graph
            nodes = self.node.all
            error = 4 * g.tables.rounding * g.magnitude.all[nodes]
            self.drop.all[:] = np.minimum(self.value.all - g.beliefs(nodes).dot(self.corners) + error, 0.0)
        return True

    def prune(self) -> None:
        """Drop the points that the others, at their beliefs, bound at least as well."""
        g = self.graph
        self._compact((self.node.all >= 0) & (self.drop.all < 0))
        J = self.number.size
        keep = np.ones(J, bool)
        order = np.argsort(-g.count.all[self.node.all], kind="stable")
        step = max(1, PAIRS // max(1, J, g.tables.num_states))
        for start in range(0, J, step):
            self._drop_dominated(order[start : start + step], keep)
        self._compact(keep)

    def _drop_dominated(self, points: np.ndarray, keep: np.ndarray) -> None:
        """Mark in `keep` those of `points` that kept ones outside this batch bound as well."""
        g = self.graph
        nodes = self.node.all[points]
        beliefs = g.beliefs(nodes)
        base = beliefs.dot(self.corners)
        own = base + self.drop.all[points]
        upper = base.copy()
        others = keep.copy()
        others[points] = False
        drop = np.where(others, self.drop.all, 0.0)
        saved, self.drop = self.drop, Pool(drop)
        best = g.upper.all[nodes].copy()
        g.upper.all[nodes] = np.minimum(base, own + 1e-12 * np.abs(own))
        self._scan(nodes, beliefs, base, upper, np.zeros(len(nodes), np.int64), 0, 0.0)
        g.upper.all[nodes] = best
        self.drop = saved
        keep[points[upper <= own]] = False

    def _compact(self, keep: np.ndarray) -> None:
        if not keep.all():
            for name, _ in POINTS:
                pool = getattr(self, name)
                setattr(self, name, Pool(pool.all[keep]))


def _heaviest(beliefs) -> np.ndarray:
    """The position of the heaviest entry of each belief."""
    most = np.repeat(np.maximum.reduceat(beliefs.weights, beliefs.first), beliefs.count)
    where = np.flatnonzero(beliefs.weights == most)
    _, first = np.unique(beliefs.owner()[where], return_index=True)
    return where[first]
