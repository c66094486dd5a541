"""The upper bound that backing up a whole belief graph comes to, solved for instead of iterated.

Backing up every node again and again converges by a factor γ for each sweep, and loops of a few nodes need many. The
limit solves U_i = min(given_i, max_a (c_a + Σ w U)), by policy iteration. What is left is covered: with
U ← H U raising no node by more than δ and rows of weight at most ρ, V ≤ U + δ / (1 - ρ) at all nodes, because each row
is an inequality that V satisfies.

Shapes: n nodes, H rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from jatpo.solve.belief_graph import Graph, starts

NODES, EDGES = 3_000, 60_000  # up to which the limit is solved for
TURNS = 20  # of policy iteration


class _Rows(NamedTuple):
    """All rows of the graph, by node: c + M U over the expanded nodes."""

    node: np.ndarray  # [H] position of its node
    first: np.ndarray  # [n] of each node
    constant: np.ndarray  # [H]
    weight: sparse.csr_array  # [H, n]
    fixed: np.ndarray  # [n] the best bound of an action without a row
    given: np.ndarray  # [n] what bounds a node besides its rows


def settle(g: Graph) -> np.ndarray:
    """Lower `upper` of the expanded nodes to where sweeps would take them; the nodes, none if they are too many."""
    nodes = np.flatnonzero(g.expanded.all)
    if not 0 < len(nodes) <= NODES or g.child.size > EDGES:
        return nodes[:0]
    rows, order = _rows(g, nodes)
    upper = _limit(rows, g.upper.all[nodes])
    ratio = float(np.asarray(rows.weight.sum(axis=1)).max(initial=0.0)) * (1 + 1e-12)
    if not (ratio < 1 and np.isfinite(upper).all()):
        return nodes[:0]
    error = 8 * g.tables.rounding * float(g.magnitude.all[nodes].max())
    rise = max(float((_backed_up(rows, upper)[0] - upper).max()), 0.0) + error
    g.upper.all[nodes] = np.minimum(g.upper.all[nodes], upper + rise / (1 - ratio) * (1 + 1e-12))
    place = g.row_node.all[order], g.row_action.all[order]
    g.action_upper.all[place] = np.minimum(g.action_upper.all[place], g.evaluate(order))
    return nodes


def _rows(g: Graph, nodes: np.ndarray) -> tuple[_Rows, np.ndarray]:
    """The rows, and their numbers in the graph."""
    position = np.full(g.size, -1)
    position[nodes] = np.arange(len(nodes))
    order = np.argsort(g.row_node.all, kind="stable")
    edges, owner = g.edges(order)
    child, weight = g.child.all[edges], g.tables.discount * g.weight.all[edges]
    inside = position[child] >= 0
    outside = np.bincount(owner[~inside], (weight * g.upper.all[child])[~inside], len(order))
    matrix = sparse.csr_array(
        (weight[inside], (owner[inside], position[child[inside]])), (len(order), len(nodes))
    )
    closed = np.where(g.row.all[nodes] < 0, g.action_upper.all[nodes], -np.inf).max(axis=1)
    node = position[g.row_node.all[order]]
    return _Rows(
        node, starts(node), g.row_constant.all[order] + outside, matrix, closed, g.given.all[nodes]
    ), order


def _backed_up(rows: _Rows, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """min(given, max_a) of `upper` [n], and the row that gives it [n], -1 where none does."""
    value = rows.constant + rows.weight @ upper
    best = np.maximum.reduceat(value, rows.first)
    chosen = np.flatnonzero(value == best[rows.node])
    row = chosen[starts(rows.node[chosen])]
    most = np.maximum(best, rows.fixed)
    out = np.minimum(most, rows.given)
    return out, np.where((best >= rows.fixed) & (best <= rows.given), row, -1)


def _limit(rows: _Rows, upper: np.ndarray) -> np.ndarray:
    """About the fixed point of `_backed_up` from `upper` [n]."""
    chosen = np.full(len(upper), -2)
    for _ in range(TURNS):
        value, row = _backed_up(rows, upper)
        if (row == chosen).all():
            break
        chosen, used = row, np.flatnonzero(row >= 0)
        matrix = sparse.csr_array(rows.weight[row[used]])
        right = rows.constant[row[used]]
        fixed = np.where(row >= 0, 0.0, value)
        system = sparse.csc_array(sparse.eye_array(len(used)) - matrix[:, used])
        upper = value.copy()
        if len(used):
            upper[used] = splu(system).solve(right + matrix @ fixed)
    return upper
