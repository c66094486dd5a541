"""Rounds of the search in NumPy, a level at a time: forward, then both bounds backed up in reverse.

`jatpo.solve.compiled_round` does the same in compiled code, a node at a time.
Shapes: B nodes of a level, A actions, H rows.
"""

from __future__ import annotations

import numpy as np

from jatpo.solve.belief_graph import starts
from jatpo.solve.search_state import Search, SearchState

COMMIT = 1e-4  # share of the gap by which a corner must have fallen to be moved between levels
NEXT, LATER = 0.1, 0.1  # share of the gap by which an action may be worse to be tried; factor of its score
RELEVANT = 3e-3  # share of the gap at the start from which a child's gap matters to its parent
STRAY = 0.03  # of the steps of a walk that are random


class Plain:
    """Rounds in NumPy."""

    def trial(self, state: SearchState, search: Search, limit: float, end: float, tolerance: float) -> int:
        """A trial of at most `limit` levels, or up to so much work; returns its depth."""
        return _back_up(state, _trial(state, search, limit, end), tolerance)

    def walk(
        self,
        state: SearchState,
        search: Search,
        random: np.random.Generator,
        steps: int,
        upward: int,
        end: float,
        tolerance: float,
    ) -> int:
        """A walk, the first `upward` walkers by what is best above; returns its length."""
        return _back_up(state, _walk(state, search, random, steps, upward, end), tolerance)

    def back_up_above(self, state: SearchState, nodes: np.ndarray, tolerance: float) -> None:
        """Lower the upper bound of `nodes`, and move corners by more than `tolerance`."""
        back_up_above(state, nodes)
        state.above.commit(tolerance)

    def sweep(self, state: SearchState) -> None:
        """Back up the whole graph above from cached bounds."""
        _sweep(state)

    def publish(self, state: SearchState) -> None:
        """Make points of the expanded nodes that are lower than others give them."""
        _lower_nodes(state, np.flatnonzero(state.graph.expanded.all))

    def prune_points(self, state: SearchState) -> None:
        """Drop the points that the others bound as well."""
        J = state.above.number.size
        state.above.prune()
        state.work += 100.0 + 0.005 * J * J

    def best_below(self, state: SearchState, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of `nodes` that have a row, and the row with the best lower bound of each."""
        return _best_below(state, nodes)[:2]

    def refresh_visited(self, state: SearchState) -> None:
        """Score the nodes that were backed up, but for the corners that were not visited."""
        state.below.refresh(state.below.visited())
        state.work += 100.0


def _back_up(state: SearchState, levels: list[np.ndarray], tolerance: float) -> int:
    """Back up both bounds of `levels` in reverse; how many there are."""
    state.above.commit(tolerance)
    state.backups += 2 * sum(len(nodes) for nodes in levels)
    for nodes in reversed(levels):
        if state.clock.up and nodes is not levels[0]:
            continue
        back_up_above(state, nodes)
        _back_up_below(state, nodes)
        state.above.commit(COMMIT * state.gap)
    state.above.commit(tolerance)
    return len(levels)


def look_ahead(state: SearchState, most: int) -> None:
    """Lower the upper bound of a new search by two steps of look-ahead, by one if over `most` beliefs follow."""
    root = np.zeros(1, np.int64)
    back_up_above(state, root)
    rows = state.graph.row.all[0]
    edges, _ = state.graph.edges(rows[rows >= 0])
    children = np.unique(state.graph.child.all[edges])
    if len(children) <= most:
        back_up_above(state, children)
        back_up_above(state, root)


def _trial(state: SearchState, search: Search, limit: float, end: float) -> list[np.ndarray]:
    g, discount = state.graph, state.tables.discount
    target = search.target(state.gap)
    nodes, reach = np.zeros(1, np.int64), np.ones(1)
    levels: list[np.ndarray] = []
    while len(nodes) and len(levels) < limit and state.work < end and not state.clock.hand[0]:
        levels.append(nodes)
        back_up_above(state, nodes)
        rows, parent, share = _candidates(state, nodes)
        edges, owner = g.edges(rows)
        child = g.child.all[edges]
        refresh_below(state, np.unique(child))
        with np.errstate(over="ignore"):
            excess = g.upper.all[child] - g.lower.all[child] - target * np.float64(discount) ** -(len(levels))
        arrive = reach[parent[owner]] * discount * g.weight.all[edges]
        nodes, reach = _beam(child, arrive, arrive * excess * share[owner], search)
    return levels


def _candidates(state: SearchState, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, position of its node, factor of its score): of the best action above, and of those that may replace it.

    The others matter once the best one's bound has fallen below theirs; they fill a level that would be narrow.
    """
    g = state.graph
    value = g.action_upper.all[nodes]
    best = value.argmax(axis=1)
    near = value.max(axis=1) - NEXT * (g.upper.all[nodes] - g.lower.all[nodes])
    use = (g.row.all[nodes] >= 0) & (value >= near[:, None])
    use[np.arange(len(nodes)), best] = True
    parent, action = np.nonzero(use)
    return g.row.all[nodes[parent], action], parent, np.where(action == best[parent], 1.0, LATER)


def _beam(
    child: np.ndarray, reach: np.ndarray, score: np.ndarray, search: Search
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct children of largest positive score, with the reach that gave it."""
    order = np.argsort(-score, kind="stable")
    order = order[score[order] > max(0.0, search.least * score.max(initial=0.0))]
    _, first = np.unique(child[order], return_index=True)
    order = order[np.sort(first)][: search.width]
    return child[order], reach[order]


def _walk(
    state: SearchState, search: Search, random: np.random.Generator, steps: int, most: int, end: float
) -> list[np.ndarray]:
    g = state.graph
    count = search.walkers
    nodes = np.zeros(count, np.int64)
    upward = np.arange(count) < most
    levels: list[np.ndarray] = []
    while len(levels) < steps and state.work < end and not state.clock.hand[0]:
        distinct = np.unique(nodes)
        levels.append(distinct)
        refresh_below(state, distinct)
        if upward.any():
            back_up_above(state, np.unique(nodes[upward]))
        plan = state.below.action.all[state.below.position(g.best.all[nodes])]
        actions = np.where(upward, g.action_upper.all[nodes].argmax(axis=1), plan)
        stray = random.random(count) < STRAY
        actions = np.where(stray, random.integers(0, state.tables.num_actions, count), actions)
        _expand(state, nodes, actions)
        edges, owner = g.edges(g.row.all[nodes, actions])
        child = g.child.all[edges]
        refresh_below(state, np.unique(child))
        weight = g.weight.all[edges] * (g.upper.all[child] - g.lower.all[child] + 1e-3 * state.gap)
        nodes = child[_draw(weight, owner, random.random(count))]
    return levels


def _draw(weight: np.ndarray, owner: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """The index of an edge of each owner, drawn by weight."""
    total = np.cumsum(weight)
    first = np.searchsorted(owner, np.arange(len(uniform)))
    last = np.searchsorted(owner, np.arange(len(uniform)), side="right") - 1
    start = total[first] - weight[first]
    drawn = np.searchsorted(total, start + uniform * (total[last] - start), side="right")
    return np.clip(drawn, first, last)


def _expand(state: SearchState, nodes: np.ndarray, actions: np.ndarray) -> None:
    """The rows of `nodes` under `actions`, those that are missing."""
    g = state.graph
    missing = g.row.all[nodes, actions] < 0
    if missing.any():
        A = state.tables.num_actions
        pairs = np.unique(nodes[missing] * A + actions[missing])
        size = g.states.size
        g.expand(pairs // A, pairs % A, state.above.corners)
        state.work += 100.0 + 0.03 * (g.states.size - size)


def back_up_above(state: SearchState, nodes: np.ndarray) -> None:
    """Lower the upper bound of `nodes` (distinct), refreshing only children of actions that may be best."""
    g = state.graph
    _refresh_above(state, nodes)
    done = np.zeros((len(nodes), state.tables.num_actions), bool)
    todo, most = np.arange(len(nodes)), 1
    while True:
        value = g.action_upper.all[nodes[todo]]
        todo = todo[~done[todo, value.argmax(axis=1)]]
        if not len(todo):
            break
        which, actions = _promising(g.action_upper.all[nodes[todo]], done[todo], most)
        at, most = nodes[todo[which]], 2 * most
        _expand(state, at, actions)
        rows = g.row.all[at, actions]
        _refresh_above(state, _relevant(state, rows))
        g.action_upper.all[at, actions] = np.minimum(g.action_upper.all[at, actions], g.evaluate(rows))
        done[todo[which], actions] = True
        state.work += 30.0
    _lower_nodes(state, nodes)


def _relevant(state: SearchState, rows: np.ndarray) -> np.ndarray:
    """The distinct children of `rows` whose gap matters to their parent."""
    g = state.graph
    edges, _ = g.edges(rows)
    child = g.child.all[edges]
    gap = np.minimum(g.upper.all[child] - g.lower.all[child], state.first_gap)
    return np.unique(child[g.weight.all[edges] * gap > RELEVANT * state.gap])


def _promising(value: np.ndarray, done: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(node, action) of the `most` best actions that are not done at each node and above the best done one."""
    known = np.where(done, value, -np.inf).max(axis=1, keepdims=True)
    open_ = ~done & (value >= known)
    if most == 1:
        return np.arange(len(value)), value.argmax(axis=1)
    if most < value.shape[1]:
        ranked = np.where(open_, value, -np.inf)
        open_ &= ranked >= -np.partition(-ranked, most - 1, axis=1)[:, most - 1 : most]
    node, action = np.nonzero(open_)
    return node, action


def _lower_nodes(state: SearchState, nodes: np.ndarray) -> None:
    """Take the best action's bound at `nodes` and publish what is new."""
    g = state.graph
    g.upper.all[nodes] = np.minimum(g.upper.all[nodes], g.action_upper.all[nodes].max(axis=1))
    slack = 1e-3 * (g.upper.all[nodes] - np.maximum(g.lower.all[nodes], -1e300))
    state.above.publish(nodes, np.maximum(np.minimum(slack, 1e-2 * state.gap), 1e-4 * state.gap * 1e-2))


def _sweep(state: SearchState) -> None:
    """Back up the whole graph above from cached bounds."""
    g = state.graph
    rows = np.arange(g.row_node.size)
    nodes = np.flatnonzero(g.expanded.all)
    for _ in range(3):
        before = state.upper
        value = g.evaluate(rows)
        at = g.action_upper.all
        place = g.row_node.all, g.row_action.all
        at[place] = np.minimum(at[place], value)
        g.upper.all[nodes] = np.minimum(g.upper.all[nodes], at[nodes].max(axis=1))
        state.work += 50.0 + 0.02 * g.child.size
        if before - state.upper < 1e-4 * state.gap:
            break
    _lower_nodes(state, nodes)


def _back_up_below(state: SearchState, nodes: np.ndarray) -> None:
    """Raise the lower bound of `nodes` (distinct) by vectors of the actions that may be best."""
    g = state.graph
    at, rows, value = _best_below(state, nodes)
    if not len(at):
        return
    tiny = max(1e-15 * abs(state.lower), 1e-6 * state.gap)
    tolerance = np.maximum(0.1 * tiny, 1e-6 * (g.upper.all[at] - g.lower.all[at]))
    promising = value > g.lower.all[at] + tolerance
    if promising.any():
        state.below.back_up(at[promising], rows[promising], tolerance[promising])
        state.work += 100.0


def _best_below(state: SearchState, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row with the best lower bound at each of `nodes` that has one: (node, row, bound)."""
    g = state.graph
    refresh_below(state, nodes)
    rows = g.row.all[nodes]
    which, action = np.nonzero((rows >= 0) & (g.action_upper.all[nodes] >= g.lower.all[nodes][:, None]))
    rows = rows[which, action]
    edges, owner = g.edges(rows)
    child = g.child.all[edges]
    refresh_below(state, np.unique(child))
    future = np.bincount(owner, g.weight.all[edges] * g.lower.all[child], len(rows))
    value = g.row_reward.all[rows] + state.tables.discount * future
    order = np.lexsort((-value, which))
    best = order[starts(which[order])]
    return nodes[which[best]], rows[best], value[best]


def _refresh_above(state: SearchState, nodes: np.ndarray) -> None:
    state.work += 30.0 + 0.005 * state.above.refresh(nodes, 1e-5 * state.gap)


def refresh_below(state: SearchState, nodes: np.ndarray) -> None:
    state.work += 30.0 + 0.005 * state.below.refresh(nodes)
