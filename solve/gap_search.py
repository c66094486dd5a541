"""Search that closes the gap between both bounds at the initial belief: trials and walks over a belief graph.

A *trial* goes forward by the action that is best above and keeps the W successors of largest excess gap
ρ γ^t p (U - L - target γ^-(t+1)) (Smith and Simmons 2004; a node may come again at a deeper level), then backs up both
bounds in reverse. A *walk* follows the best vector's action, which finds plans that no trial reaches. The next one is
chosen by what each earned at the initial belief for its work. Work is counted, not timed, so that a search that is
saved and resumed is the one that was never interrupted.

Shapes: B nodes of a level, A actions, H rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jatpo.errors import JatpoError
from jatpo.solve.clock import Clock
from jatpo.solve.compiled_engine import Compiled, available, compiling_seconds
from jatpo.solve.plain_rounds import Plain, refresh_below
from jatpo.solve.search_state import Search, SearchState
from jatpo.solve.settling import settle

SHARE = 0.15  # of the work that may go into controllers
BRIEF, LONGEST = 3_000.0, 80_000.0  # work of a round before it turns back, at first and at most
ROUND = 0.05  # share of all work so far that a round may take before it turns back
UPKEEP = 0.2  # of the work that may go into backing up corners and the whole graph
MOVED = 1e-4  # share of the gap by which a corner must have fallen to be moved
PLAIN = 1e5  # work after which compiled code takes over: what ends before needs no compiling
IMPROVED = 60_000  # unknowns of a controller that is evaluated, at most


class Round(NamedTuple):
    """What a round did."""

    lower: float
    upper: float
    kind: str
    depth: int
    work: float


def advance(state: SearchState, search: Search, seed: int, clock: Clock | None = None) -> Round:
    """One trial or walk, with what follows from it; with a `clock` it ends when the time is up, with what it has."""
    if state.gap <= search.gap or state.closed:
        return Round(state.lower, state.upper, "none", 0, 0.0)
    state.clock = clock or Clock()
    before = compiling_seconds()
    rounds = _rounds(state, search)
    state.clock.add(compiling_seconds() - before)
    with state.clock.running():
        done = _advance(state, search, rounds, seed)
    if state.upper < state.lower:
        raise JatpoError(
            f"internal error: the upper bound {state.upper} is below the lower bound {state.lower}"
        )
    return done


def _advance(state: SearchState, search: Search, rounds: Plain | Compiled, seed: int) -> Round:
    before, work = state.gap, state.work
    kind = _choose(state)
    tolerance = MOVED * before
    end = work + _allowance(state)
    if kind == 0:
        limit = 20 * 1.3 ** min(state.rounds[0], 40)
        depth = rounds.trial(state, search, limit, end, tolerance)
    else:
        random = np.random.Generator(np.random.Philox(key=[seed, state.rounds[1]]))
        steps = int(min(200, 40 * 1.3 ** min(state.rounds[1], 40)))
        upward = search.walkers if state.rounds[1] == 0 else max(1, search.walkers // 4)
        depth = rounds.walk(state, search, random, steps, upward, end, tolerance)
    if state.upkeep <= UPKEEP * state.work and not state.clock.hand[0]:
        _keep_up(state, rounds, tolerance)
    if state.improving <= SHARE * state.work and not state.clock.hand[0]:
        _improve(state, rounds)
    state.rounds[kind] += 1
    spent = max(state.work - work, 1.0)
    gain = max(before - state.gap, 0.0) / before / spent
    old = state.earned[kind]
    state.earned[kind] = gain if np.isinf(old) else 0.7 * old + 0.3 * gain
    if not state.clock.hand[0]:
        _prune(state, rounds)
    return Round(state.lower, state.upper, ("trial", "walk")[kind], depth, spent)


def _choose(state: SearchState) -> int:
    """0 for a trial, 1 for a walk: what earned more, but each at least 15 % of the other's rounds."""
    trials, walks = state.rounds
    if trials < 0.15 * walks or walks < 0.15 * trials:
        return int(walks < trials)
    return int(state.earned[1] > state.earned[0])


def _allowance(state: SearchState) -> float:
    """The work after which a round turns back; later ones go deeper."""
    return min(max(BRIEF * 1.3 ** min(sum(state.rounds), 6), ROUND * state.work), LONGEST)


def _improve(state: SearchState, rounds: Plain | Compiled) -> None:
    """Policy iteration on the beliefs that the lower policy visits most, as long as it pays at the start.

    First without new loops, so that each belief gets a vector of its own; then with the loops these allow.
    """
    begin, X = state.work, state.tables.num_states
    most = int(max(BRIEF, ROUND * begin) / (100 + 0.2 * X))
    for turn in range(8):
        if state.clock.hand[0]:
            break
        before = state.lower
        nodes, rows = _followed(state, rounds, min(IMPROVED // X, max(most, 2)))
        if len(nodes) < 2:
            break
        state.work += state.below.improve(nodes, rows, state.radius * (turn % 2))
        refresh_below(state, np.zeros(1, np.int64))
        if turn % 2 == 1:
            paid = state.lower - before >= 1e-2 * state.gap
            state.radius = min(1.25 * state.radius, 1.0) if paid else max(0.5 * state.radius, 0.01)
            if not paid or state.work > begin + 2 * ROUND * max(begin, BRIEF / ROUND):
                break
    state.improving += state.work - begin


def _followed(state: SearchState, rounds: Plain | Compiled, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` expanded nodes that the lower policy visits, likely ones first, with its rows."""
    g = state.graph
    reach, rows = np.zeros(g.size), np.full(g.size, -1)
    fresh = np.zeros(1, np.int64)
    reach[0] = 1.0
    count = 0
    while len(fresh) and count < most and not state.clock.hand[0]:
        nodes, found = rounds.best_below(state, fresh)
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


def _keep_up(state: SearchState, rounds: Plain | Compiled, tolerance: float) -> None:
    """Back up the corners, and the whole graph from cached bounds."""
    begin = state.work
    if len(state.corners):
        rounds.back_up_above(state, state.corners, tolerance)
    rounds.sweep(state)
    settled = np.zeros(0) if state.clock.hand[0] else settle(state.graph)
    if len(settled):
        state.work += 100.0 + 0.3 * len(settled)
        rounds.publish(state)
    state.above.commit(tolerance)
    state.upkeep += state.work - begin


def _prune(state: SearchState, rounds: Plain | Compiled) -> None:
    """Drop points and vectors that are not needed, once there are many new ones."""
    if state.above.number.size > state.above.pruned_at:
        rounds.prune_points(state)
        state.above.pruned_at = int(1.3 * state.above.number.size) + 64
    if state.below.name.size > state.below.pruned_at:
        rounds.refresh_visited(state)
        if not state.clock.hand[0]:  # all of them have been refreshed
            state.below.prune()


def _rounds(state: SearchState, search: Search) -> Plain | Compiled:
    """What computes the next round: compiled code from some work on, if it is wanted and there."""
    if not (search.compiled and state.work >= PLAIN and available()):
        return Plain()
    if state.compiled is None:
        state.compiled = Compiled(state)
    return state.compiled
