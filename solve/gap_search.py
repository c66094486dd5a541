"""Search that closes the gap between both bounds at the initial belief: trials and walks over a belief graph.

A *trial* goes forward by the action that is best above and keeps the W successors of largest excess gap
ρ γ^t p (U - L - target γ^-(t+1)) (Smith and Simmons 2004; a node may come again at a deeper level), then backs up both
bounds in reverse. A *walk* follows the best vector's action, which finds plans that no trial reaches. The next one is
chosen by what each earned at the initial belief for its work. Work is counted, not timed, so that a search that is
saved and resumed is the one that was never interrupted.

Shapes: B nodes of a level, A actions, H rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jatpo.errors import JatpoError
from jatpo.solve.belief_graph import starts
from jatpo.solve.search_state import SearchState
from jatpo.solve.settling import settle

COMMIT = 1e-4
NEXT, LATER = 0.1, 0.1  # share of the gap by which an action may be worse to be tried; factor of its score
RELEVANT = 3e-3  # share of the gap at the start from which a child's gap matters to its parent
SHARE = 0.15  # of the work that may go into controllers
BRIEF, LONGEST = 3_000.0, 80_000.0  # work of a round before it turns back, at first and at most
ROUND = 0.05  # share of all work so far that a round may take before it turns back
UPKEEP = 0.2  # of the work that may go into backing up corners and the whole graph
IMPROVED = 60_000  # unknowns of a controller that is evaluated, at most


@dataclass(frozen=True)
class Search:
    """Settings of the search; `gap` is the gap at which it has converged."""

    width: int = 8  # nodes kept at a level of a trial
    least: float = 0.0  # least share of the best score to be kept
    excess: float = 0.7  # of the gap at the start that a trial aims at
    walkers: int = 16
    gap: float = 1e-9


class Round(NamedTuple):
    """What a round did."""

    lower: float
    upper: float
    kind: str
    depth: int
    work: float


def advance(state: SearchState, search: Search, seed: int) -> Round:
    """One trial or walk, with what follows from it."""
    before = state.gap
    if before <= search.gap or state.closed:
        return Round(state.lower, state.upper, "none", 0, 0.0)
    work = state.work
    kind = _choose(state)
    if kind == 0:
        levels = _trial(state, search)
    else:
        rng = np.random.Generator(np.random.Philox(key=[seed, state.rounds[1]]))
        levels = _walk(state, search, rng)
    state.above.commit(1e-4 * before)
    state.backups += 2 * sum(len(nodes) for nodes in levels)
    for nodes in reversed(levels):
        _back_up_above(state, nodes)
        _back_up_below(state, nodes)
        state.above.commit(COMMIT * state.gap)
    state.above.commit(1e-4 * before)
    if state.upkeep <= UPKEEP * state.work:
        _keep_up(state, 1e-4 * before)
    if state.improving <= SHARE * state.work:
        _improve(state)
    state.rounds[kind] += 1
    spent = state.work - work
    gain = max(before - state.gap, 0.0) / before / spent
    old = state.earned[kind]
    state.earned[kind] = gain if np.isinf(old) else 0.7 * old + 0.3 * gain
    _prune(state)
    if state.upper < state.lower:
        raise JatpoError(
            f"internal error: the upper bound {state.upper} is below the lower bound {state.lower}"
        )
    return Round(state.lower, state.upper, ("trial", "walk")[kind], len(levels), spent)


def look_ahead(state: SearchState, most: int) -> None:
    """Lower the upper bound of a new search by two steps of look-ahead, by one if over `most` beliefs follow."""
    root = np.zeros(1, np.int64)
    _back_up_above(state, root)
    rows = state.graph.row.all[0]
    edges, _ = state.graph.edges(rows[rows >= 0])
    children = np.unique(state.graph.child.all[edges])
    if len(children) <= most:
        _back_up_above(state, children)
        _back_up_above(state, root)


def _choose(state: SearchState) -> int:
    """0 for a trial, 1 for a walk: what earned more, but each at least 15 % of the other's rounds."""
    trials, walks = state.rounds
    if trials < 0.15 * walks or walks < 0.15 * trials:
        return int(walks < trials)
    return int(state.earned[1] > state.earned[0])


def _trial(state: SearchState, search: Search) -> list[np.ndarray]:
    g, discount = state.graph, state.tables.discount
    target = max(search.gap / 2, search.excess * state.gap)
    limit = 20 * 1.3 ** min(state.rounds[0], 40)
    nodes, reach = np.zeros(1, np.int64), np.ones(1)
    levels: list[np.ndarray] = []
    end = state.work + _allowance(state)
    while len(nodes) and len(levels) < limit and state.work < end:
        levels.append(nodes)
        _back_up_above(state, nodes)
        rows, parent, share = _candidates(state, nodes)
        edges, owner = g.edges(rows)
        child = g.child.all[edges]
        _refresh_below(state, np.unique(child))
        with np.errstate(over="ignore"):
            excess = g.upper.all[child] - g.lower.all[child] - target * np.float64(discount) ** -(len(levels))
        arrive = reach[parent[owner]] * discount * g.weight.all[edges]
        nodes, reach = _beam(child, arrive, arrive * excess * share[owner], search)
    return levels


def _allowance(state: SearchState) -> float:
    """The work after which a round turns back; later ones go deeper."""
    return min(max(BRIEF * 1.3 ** min(sum(state.rounds), 6), ROUND * state.work), LONGEST)


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


def _walk(state: SearchState, search: Search, rng: np.random.Generator) -> list[np.ndarray]:
    g = state.graph
    steps = int(min(200, 40 * 1.3 ** min(state.rounds[1], 40)))
    count = search.walkers
    nodes = np.zeros(count, np.int64)
    upward = np.arange(count) < (count if state.rounds[1] == 0 else max(1, count // 4))
    levels: list[np.ndarray] = []
    end = state.work + _allowance(state)
    while len(levels) < steps and state.work < end:
        distinct = np.unique(nodes)
        levels.append(distinct)
        _refresh_below(state, distinct)
        if upward.any():
            _back_up_above(state, np.unique(nodes[upward]))
        plan = state.below.action.all[state.below.position(g.best.all[nodes])]
        actions = np.where(upward, g.action_upper.all[nodes].argmax(axis=1), plan)
        stray = rng.random(count) < 0.03
        actions = np.where(stray, rng.integers(0, state.tables.num_actions, count), actions)
        _expand(state, nodes, actions)
        edges, owner = g.edges(g.row.all[nodes, actions])
        child = g.child.all[edges]
        _refresh_below(state, np.unique(child))
        weight = g.weight.all[edges] * (g.upper.all[child] - g.lower.all[child] + 1e-3 * state.gap)
        nodes = child[_draw(weight, owner, rng.random(count))]
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


def _back_up_above(state: SearchState, nodes: np.ndarray) -> None:
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
    _refresh_below(state, nodes)
    rows = g.row.all[nodes]
    which, action = np.nonzero((rows >= 0) & (g.action_upper.all[nodes] >= g.lower.all[nodes][:, None]))
    rows = rows[which, action]
    edges, owner = g.edges(rows)
    child = g.child.all[edges]
    _refresh_below(state, np.unique(child))
    future = np.bincount(owner, g.weight.all[edges] * g.lower.all[child], len(rows))
    value = g.row_reward.all[rows] + state.tables.discount * future
    order = np.lexsort((-value, which))
    best = order[starts(which[order])]
    return nodes[which[best]], rows[best], value[best]


def _improve(state: SearchState) -> None:
    """Policy iteration on the beliefs that the lower policy visits most, as long as it pays at the start.

    First without new loops, so that each belief gets a vector of its own; then with the loops these allow.
    """
    begin, X = state.work, state.tables.num_states
    most = int(max(BRIEF, ROUND * begin) / (100 + 0.2 * X))
    for turn in range(8):
        before = state.lower
        nodes, rows = _followed(state, min(IMPROVED // X, max(most, 2)))
        if len(nodes) < 2:
            break
        state.below.improve(nodes, rows, state.radius * (turn % 2))
        state.work += 200.0 + 100.0 * len(nodes) + 0.2 * len(nodes) * state.tables.num_states
        _refresh_below(state, np.zeros(1, np.int64))
        if turn % 2 == 1:
            paid = state.lower - before >= 1e-2 * state.gap
            state.radius = min(1.25 * state.radius, 1.0) if paid else max(0.5 * state.radius, 0.01)
            if not paid or state.work > begin + 2 * ROUND * max(begin, BRIEF / ROUND):
                break
    state.improving += state.work - begin


def _followed(state: SearchState, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` expanded nodes that the lower policy visits, likely ones first, with its rows."""
    g = state.graph
    reach, rows = np.zeros(g.size), np.full(g.size, -1)
    fresh = np.zeros(1, np.int64)
    reach[0] = 1.0
    count = 0
    while len(fresh) and count < most:
        nodes, found, _ = _best_below(state, fresh)
        rows[nodes] = found
        count += len(nodes)
        edges, owner = g.edges(found)
        child = g.child.all[edges]
        np.add.at(reach, child, state.tables.discount * reach[nodes][owner] * g.weight.all[edges])
        fresh = np.unique(child)
        fresh = fresh[g.expanded.all[fresh] & (rows[fresh] < 0)]
        fresh = fresh[np.argsort(-reach[fresh], kind="stable")][: min(most - count, max(8, most // 16))]
    nodes = np.flatnonzero(rows >= 0)
    return nodes, rows[nodes]


def _refresh_above(state: SearchState, nodes: np.ndarray) -> None:
    state.work += 30.0 + 0.005 * state.above.refresh(nodes, 1e-5 * state.gap)


def _refresh_below(state: SearchState, nodes: np.ndarray) -> None:
    state.work += 30.0 + 0.005 * state.below.refresh(nodes)


def _keep_up(state: SearchState, tolerance: float) -> None:
    """Back up the corners, and the whole graph from cached bounds."""
    begin = state.work
    if len(state.corners):
        _back_up_above(state, state.corners)
        state.above.commit(tolerance)
    _sweep(state)
    settled = settle(state.graph)
    if len(settled):
        state.work += 100.0 + 0.3 * len(settled)
        _lower_nodes(state, settled)
    state.above.commit(tolerance)
    state.upkeep += state.work - begin


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


def _prune(state: SearchState) -> None:
    if state.above.number.size > state.above.pruned_at:
        J = state.above.number.size
        state.above.prune()
        state.work += 100.0 + 0.005 * J * J
    if state.below.name.size > state.below.pruned_at:
        state.below.prune()
        state.work += 100.0
