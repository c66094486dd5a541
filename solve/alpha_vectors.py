"""The lower bound: alpha vectors backed up at visited beliefs, kept with the controller that attains them.

A vector is the value of a plan: its action, and for each observation the vector to continue with. With
α(x) ≤ R(x, a) + γ Σ_y P(y | x, a) Σ_z O(z | a, y) α_z(y) for all vectors, each is at most the value of the
finite-state controller they form. An entry of a new vector is lowered by the rounding of its sum, so that this
holds for the numbers stored. A vector that is best nowhere is not scored any more, but stays in the controller as
long as a scored one leads to it.

Shapes: V vectors, X states, Z observations, B beliefs of a batch.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from jatpo.solve.belief_graph import Graph, Pool
from jatpo.solve.initial_bounds import Tables, solve_discounted

NEARLY = 0.02  # share of the gap by which the vector of a state that stands in for a child may be worse
CELLS = 1 << 22  # numbers of one batch
VECTORS = ("name", "values", "action", "successor")


class AlphaVectors:
    """Vectors below a graph; `name` increases, scored ones apart from those kept for the controller."""

    def __init__(self, graph: Graph, blind: np.ndarray) -> None:
        t = graph.tables
        A = len(blind)
        self.graph = graph
        self.name = Pool(np.arange(A))
        self.values = Pool(blind)
        self.action = Pool(np.arange(A))
        self.successor = Pool(np.repeat(np.arange(A)[:, None], t.num_observations, axis=1).astype(np.int32))
        self.kept = tuple(getattr(self, name).all[:0] for name in VECTORS)
        self.alive = Pool(np.ones(A, bool))  # by name: whether it is scored
        self.issued = A
        self.pruned_at = 2 * A + 64
        self.largest = np.abs(blind).max(axis=0)  # [X] ≥ |any vector|
        self._slack()
        self._parts = [_part(t, a) for a in range(A)]

    def to_arrays(self) -> dict[str, np.ndarray | int]:
        """All of it but the graph."""
        arrays = {name: getattr(self, name).all for name in (*VECTORS, "alive")}
        arrays |= {f"kept_{name}": part for name, part in zip(VECTORS, self.kept, strict=True)}
        return arrays | {"issued": self.issued, "pruned_at": self.pruned_at, "largest": self.largest}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `to_arrays` gave."""
        for name in (*VECTORS, "alive"):
            setattr(self, name, Pool(arrays[name]))
        self.kept = tuple(np.array(arrays[f"kept_{name}"]) for name in VECTORS)
        self.issued, self.pruned_at = int(arrays["issued"]), int(arrays["pruned_at"])
        self.largest = np.array(arrays["largest"])
        self._slack()

    def refresh(self, nodes: np.ndarray) -> int:
        """Raise `lower` of `nodes` (distinct) by the vectors they have not seen; pairs looked at."""
        g = self.graph
        stamp = g.lower_stamp.all[nodes]
        lost = ~self.alive.all[g.best.all[nodes]] | (g.best.all[nodes] < 0)
        stale = lost | (stamp < self.issued)
        nodes, stamp = nodes[stale], np.where(lost, 0, stamp)[stale]
        if not len(nodes):
            return 0
        since = np.searchsorted(self.name.all, stamp)
        order = np.argsort(since)
        V, X, work, i = self.name.size, g.tables.num_states, 0, 0
        while i < len(order):
            begin = int(since[order[i]])
            part = order[i : i + max(1, CELLS // max(V - begin, X))]
            if begin * 2 < V:
                part = part[since[part] * 2 < V + begin]
            if begin < V:
                self._score(nodes[part], begin, lost[stale][part])
            work += len(part) * (V - begin)
            i += len(part)
        g.lower_stamp.all[nodes] = self.issued
        return work

    def _score(self, nodes: np.ndarray, begin: int, lost: np.ndarray) -> None:
        g = self.graph
        beliefs = g.beliefs(nodes)
        X = g.tables.num_states
        values = self.values.all[begin:]
        used = np.unique(beliefs.states) if len(beliefs.states) * 4 < X else None
        if used is not None:
            dense = np.zeros((len(nodes), len(used)))
            dense[beliefs.owner(), np.searchsorted(used, beliefs.states)] = beliefs.weights
            score = dense @ values[:, used].T
        else:
            score = beliefs.dense(X) @ values.T
        place = score.argmax(axis=1)
        most = score[np.arange(len(nodes)), place] - g.tables.rounding * beliefs.dot(self.largest)
        better = (most > g.lower.all[nodes]) | lost
        at = nodes[better]
        g.lower.all[at] = np.maximum(g.lower.all[at], most[better])
        g.best.all[at] = self.name.all[begin + place[better]]

    def position(self, names: np.ndarray) -> np.ndarray:
        """Where vectors called `names` are among the scored ones."""
        return np.searchsorted(self.name.all, names)

    def back_up(self, nodes: np.ndarray, rows: np.ndarray, tolerance: np.ndarray) -> int:
        """Add the vectors of `nodes` [B] under `rows` [B] that gain more than `tolerance` [B]; how many."""
        g = self.graph
        t = g.tables
        successor = np.repeat(self.position(g.best.all[nodes])[:, None], t.num_observations, axis=1)
        edges, owner = g.edges(rows)
        successor[owner, g.seen.all[edges]] = self.position(g.best.all[g.child.all[edges]])
        actions = g.row_action.all[rows]
        added = 0
        for a in np.unique(actions):
            at = np.flatnonzero(actions == a)
            step = max(1, CELLS // (4 * t.num_states + self._parts[a][1].size))
            for start in range(0, len(at), step):
                part = at[start : start + step]
                added += self._add(nodes[part], int(a), successor[part], tolerance[part])
        return added

    def _add(self, nodes: np.ndarray, action: int, successor: np.ndarray, tolerance: np.ndarray) -> int:
        g = self.graph
        values = self._plan(action, successor, self.values.all)
        beliefs = g.beliefs(nodes)
        owner = beliefs.owner()
        value = np.bincount(owner, beliefs.weights * values[owner, beliefs.states], len(nodes))
        value -= g.tables.rounding * beliefs.dot(np.maximum(self.largest, np.abs(values).max(axis=0)))
        good = np.flatnonzero(value > g.lower.all[nodes] + tolerance)
        if not len(good):
            return 0
        number = self.issued + np.arange(len(good))
        names = self.name.all[successor[good]].astype(np.int32)
        for pool, more in zip(
            VECTORS, (number, values[good], np.full(len(good), action), names), strict=True
        ):
            getattr(self, pool).append(more)
        self.alive.extend(len(good), True)
        self.issued += len(good)
        g.lower.all[nodes[good]] = value[good]
        g.best.all[nodes[good]] = number
        self._enlarge(np.abs(values[good]).max(axis=0))
        return len(good)

    def improve(self, nodes: np.ndarray, rows: np.ndarray, radius: float) -> float:
        """Evaluate the controller with a state for each of `nodes` [n], and add what gains; the work it took.

        A state takes the action of its row in `rows` [n] and continues with the child's state; where the child has
        none, with the nearest state within `radius`, or with its best vector. This is policy iteration
        (Hansen 1998) on visited beliefs: loops are solved, where backups would have to go round them.
        """
        g, t = self.graph, self.graph.tables
        n, X = len(nodes), t.num_states
        state = np.full(g.size, -1)
        state[nodes] = np.arange(n)
        successor = np.repeat(n + self.position(g.best.all[nodes])[:, None], t.num_observations, axis=1)
        edges, owner = g.edges(rows)
        child = g.child.all[edges]
        if radius > 0:
            outside = np.unique(child[state[child] < 0])
            state[outside] = self._nearest(outside, nodes, radius)
        follow = np.where(state[child] >= 0, state[child], n + self.position(g.best.all[child]))
        successor[owner, g.seen.all[edges]] = follow
        action = g.row_action.all[rows]
        fixed = self.values.all
        blocks = [self._block(a, row, n + len(fixed)) for a, row in zip(action, successor, strict=True)]
        matrix = sparse.csr_array(sparse.vstack(blocks, "csr"))
        right = t.reward[action].ravel() + t.discount * (matrix[:, n * X :] @ fixed.ravel())
        start = fixed[self.position(g.best.all[nodes])].ravel()
        turns: list[None] = []
        values = solve_discounted(
            matrix[:, : n * X], t.discount, right, start, lambda _: turns.append(None)
        ).reshape(n, X)
        self._enlarge(np.abs(values).max(axis=0))
        short = min(
            0.0, float((self._push(action, successor, np.concatenate([values, fixed])) - values).min())
        )
        values += short / (1 - t.rate) * (1 + 1e-9) - 4 * t.rounding * abs(short) / (1 - t.rate)
        self._take(nodes, values, action, successor)
        return 200.0 + 100.0 * n + 0.2 * n * X + len(turns) * (0.004 * matrix.nnz + 0.01 * n * X)

    def _nearest(self, nodes: np.ndarray, states: np.ndarray, radius: float) -> np.ndarray:
        """The nearest of `states` [n] to each of `nodes` whose vector is nearly best there, -1 where there is none."""
        g, X = self.graph, self.graph.tables.num_states
        vectors = self.values.all[self.position(g.best.all[states])]
        others = g.beliefs(states).dense(X)
        out = np.empty(len(nodes), np.int64)
        step = max(1, CELLS // (len(states) * X))
        for start in range(0, len(nodes), step):
            part = nodes[start : start + step]
            beliefs = g.beliefs(part).dense(X)
            distance = np.abs(beliefs[:, None] - others[None]).sum(axis=2)
            least = g.lower.all[part] - NEARLY * (g.upper.all[part] - g.lower.all[part])
            distance[beliefs @ vectors.T < least[:, None]] = np.inf
            nearest = distance.argmin(axis=1)
            out[start : start + step] = np.where(distance.min(axis=1) <= radius, nearest, -1)
        return out

    def _take(self, nodes, values, action, successor) -> None:
        """Score the new vectors that gain at their belief; the rest of their controller is kept unscored."""
        g, n = self.graph, len(nodes)
        beliefs = g.beliefs(nodes)
        owner = beliefs.owner()
        value = np.bincount(owner, beliefs.weights * values[owner, beliefs.states], n)
        value -= g.tables.rounding * beliefs.dot(self.largest)
        good = value > g.lower.all[nodes] + 1e-4 * (g.upper.all[nodes] - g.lower.all[nodes])
        if not good.any():
            return
        self._enlarge(np.abs(values).max(axis=0))
        number = self.issued + np.arange(n)
        names = np.concatenate([number, self.name.all])
        parts = number, values, action, names[successor].astype(np.int32)
        for i, name in enumerate(VECTORS):
            getattr(self, name).append(parts[i][good])
        self.kept = tuple(
            np.concatenate([old, new[~good]]) for old, new in zip(self.kept, parts, strict=True)
        )
        self.alive.append(good)
        self.issued += n
        g.lower.all[nodes[good]] = value[good]
        g.best.all[nodes[good]] = number[good]

    def _block(self, action: int, successor: np.ndarray, count: int) -> sparse.csr_array:
        """P_a Σ_z O_a(z) as a matrix [X, count X] on all vectors, for `successor` [Z]."""
        transition, seen, y, probability, _ = self._parts[action]
        X = self.graph.tables.num_states
        arrive = sparse.csr_array((probability, (y, successor[seen] * X + y)), (X, count * X))
        return transition @ arrive

    def _push(self, action: np.ndarray, successor: np.ndarray, values: np.ndarray) -> np.ndarray:
        """One backup of a controller, from below [n, X]."""
        out = np.empty((len(action), values.shape[1]))
        for a in np.unique(action):
            at = np.flatnonzero(action == a)
            out[at] = self._plan(int(a), successor[at], values)
        return out

    def _enlarge(self, most: np.ndarray) -> None:
        if (most > self.largest).any():
            self.largest = np.maximum(self.largest, 1.25 * most)
            self._slack()

    def _plan(self, action: int, successor: np.ndarray, values: np.ndarray) -> np.ndarray:
        """R_a + γ P_a Σ_z O_a(z) α_z, lowered by its rounding [B, X]; `successor` [B, Z] are positions in `values`."""
        t = self.graph.tables
        transition, seen, y, probability, first = self._parts[action]
        terms = values[successor[:, seen], y] * probability
        arrived = terms if len(seen) == t.num_states else np.add.reduceat(terms, first, axis=1)
        return t.reward[action] + t.discount * (transition @ arrived.T).T - self.slack[action]

    def _slack(self) -> None:
        t: Tables = self.graph.tables
        A, X = t.num_actions, t.num_states
        expected = (t.transition @ self.largest).reshape(A, X)
        self.slack = 2 * t.rounding * (np.abs(t.reward) + t.discount * expected)

    def visited(self) -> np.ndarray:
        """The nodes that were backed up, but for the corners that were not visited."""
        return np.flatnonzero(self.graph.expanded.all & (self.graph.lower_stamp.all > 0))

    def prune(self) -> None:
        """Stop scoring the vectors that are best at no visited node, which have seen all; the blind policies stay."""
        g = self.graph
        nodes = self.visited()
        keep = np.isin(self.name.all, g.best.all[nodes]) | (self.name.all < g.tables.num_actions)
        self.alive.all[self.name.all[~keep]] = False
        for i, name in enumerate(VECTORS):
            pool = getattr(self, name)
            parts = list(self.kept)
            parts[i] = np.concatenate([parts[i], pool.all[~keep]])
            self.kept = tuple(parts)
            setattr(self, name, Pool(pool.all[keep]))
        self._forget()
        self.pruned_at = int(1.2 * self.name.size) + 64

    def _forget(self) -> None:
        """Drop the unscored vectors that no scored one leads to."""
        names, _, _, successor = self.kept
        needed = np.zeros(self.issued, bool)
        fresh = np.unique(self.successor.all)
        while len(fresh):
            needed[fresh] = True
            reached = np.isin(names, fresh)
            fresh = np.unique(successor[reached])
            fresh = fresh[~needed[fresh]]
        keep = needed[names]
        self.kept = tuple(part[keep] for part in self.kept)

    def controller(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(values [V, X], action [V], successor [V, Z]) of all vectors; a successor is a position."""
        name, values, action, successor = (
            np.concatenate([getattr(self, part).all, kept])
            for part, kept in zip(VECTORS, self.kept, strict=True)
        )
        order = np.argsort(name)
        name = name[order]
        return values[order], action[order], np.searchsorted(name, successor[order])


def _part(t: Tables, action: int) -> tuple:
    """P of one action, and O of it as (observation, state, probability, first entry of each state)."""
    X = t.num_states
    rows = slice(action * X, (action + 1) * X)
    seen = t.observation[rows]
    return (
        t.transition[rows],
        seen.indices,
        np.repeat(np.arange(X), np.diff(seen.indptr)),
        seen.data,
        seen.indptr[:-1],
    )
