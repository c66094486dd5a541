"""Rounds of the search in compiled code: `jatpo.solve.gap_search` says what they do.

One entry, `run`, with its types given: what it compiles to is kept in the user's cache directory.
Shapes: W nodes kept at a level, T steps of a walk, N walkers.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit, types

from jatpo.solve.compiled_above import (
    back_up_above,
    best_action,
    commit,
    gap_of,
    prune_points,
    publish,
    sweep,
)
from jatpo.solve.compiled_below import back_up_below, best_below, refresh_below, refresh_visited
from jatpo.solve.compiled_graph import expand, index
from jatpo.solve.compiled_state import (
    DISCOUNT,
    F1,
    GROWN_TYPE,
    I1,
    TYPE,
    VECTORS,
    WORK,
    State,
    kernel,
    leave,
    longer,
    once,
    time_is_up,
    turns_back,
)
from jatpo.solve.plain_rounds import COMMIT, LATER, NEXT, STRAY

TRIAL, WALK, BACK_UP, SWEEP, PUBLISH, PRUNE, REFRESH, BELOW = range(8)  # what `run` does


@once
def trial(s, target, limit, end, width, least):
    """Go down by what is best above; the nodes of all levels, and where each level begins."""
    nodes, starts, levels, size = np.zeros(64, np.int64), np.zeros(64, np.int64), 0, 1
    reach = np.empty(64)
    reach[0] = 1.0
    child, score, arrive = np.empty(width, np.int64), np.empty(width), np.empty(width)
    begin = 0
    while begin < size and levels < limit and s.figures[WORK] < end and not turns_back(s):
        levels += 1
        if levels + 1 > len(starts):
            starts = longer(starts, levels + 1)
        starts[levels] = size
        for i in range(begin, size):
            if turns_back(s):
                break
            back_up_above(s, nodes[i])
        kept = 0
        least_gap = target * s.figures[DISCOUNT] ** -levels
        for i in range(begin, size):
            kept = _candidates(s, nodes[i], reach[i], least_gap, child, score, arrive, kept)
        begin = size
        if size + width > len(nodes):
            nodes, reach = longer(nodes, size + width), longer(reach, size + width)
        most = 0.0
        for i in range(kept):
            most = max(most, score[i])
        for i in range(kept):
            if score[i] > least * most:
                nodes[size], reach[size] = child[i], arrive[i]
                size += 1
    return nodes, starts, levels


@once
def _candidates(s, node, reach, least_gap, child, score, arrive, kept):
    """Enter the children of `node` among the `kept` best ones so far; how many there are now."""
    best = best_action(s, node)
    near = s.action_upper[node, best] - NEXT * (s.upper[node] - s.lower[node])
    for a in range(s.row.shape[1]):
        row = s.row[node, a]
        if row < 0 or (a != best and s.action_upper[node, a] < near):
            continue
        factor = 1.0 if a == best else LATER
        for e in range(s.row_first[row], s.row_first[row] + s.row_count[row]):
            refresh_below(s, s.child[e])
            there = reach * s.figures[DISCOUNT] * s.weight[e]
            worth = there * factor * (s.upper[s.child[e]] - s.lower[s.child[e]] - least_gap)
            if worth > 0:
                kept = _enter(s.child[e], worth, there, child, score, arrive, kept)
    return kept


@kernel
def _enter(node, worth, there, child, score, arrive, kept):
    """Keep `node` in order of its worth, once."""
    at = kept
    for i in range(kept):
        if child[i] == node:
            if score[i] >= worth:
                return kept
            at = i
            break
    if at == kept:
        if kept == len(child):
            if score[kept - 1] >= worth:
                return kept
            at -= 1
        else:
            kept += 1
    while at > 0 and score[at - 1] < worth:
        child[at], score[at], arrive[at] = child[at - 1], score[at - 1], arrive[at - 1]
        at -= 1
    child[at], score[at], arrive[at] = node, worth, there
    return kept


@once
def walk(s, uniform, upward, end):
    """Walks by `uniform` [T, 3, N], the first `upward` of them by what is best above, the others by their vectors."""
    T, _, N = uniform.shape
    nodes, starts, levels, size = np.empty(T * N, np.int64), np.zeros(T + 1, np.int64), 0, 0
    at = np.zeros(N, np.int64)
    while levels < T and s.figures[WORK] < end and not turns_back(s):
        for i in range(N):
            if not _among(nodes, starts[levels], size, at[i]):
                nodes[size] = at[i]
                size += 1
        starts[levels + 1] = size
        for i in range(N):
            if turns_back(s):
                break
            at[i] = _step(s, at[i], i < upward, uniform, levels, i)
        levels += 1
    return nodes, starts, levels


@kernel
def _among(nodes, begin, end, node):
    """Whether `node` is one of `nodes`."""
    for i in range(begin, end):  # noqa: SIM110 - Numba compiles no generator
        if nodes[i] == node:
            return True
    return False


@once
def _step(s, node, upward, uniform, t, i):
    """The node that follows `node` for walker `i` at step `t`."""
    refresh_below(s, node)
    if upward:
        back_up_above(s, node)
        a = best_action(s, node)
    else:
        a = _action_below(s, node)
    if uniform[t, 0, i] < STRAY:
        a = min(int(uniform[t, 1, i] * s.row.shape[1]), s.row.shape[1] - 1)
    row = s.row[node, a]
    if row < 0:
        row = expand(s, node, a)
    begin, end = s.row_first[row], s.row_first[row] + s.row_count[row]
    total, more = 0.0, 1e-3 * gap_of(s)
    for e in range(begin, end):
        refresh_below(s, s.child[e])
        total += s.weight[e] * (s.upper[s.child[e]] - s.lower[s.child[e]] + more)
    left = uniform[t, 2, i] * total
    for e in range(begin, end):
        left -= s.weight[e] * (s.upper[s.child[e]] - s.lower[s.child[e]] + more)
        if left < 0:
            return s.child[e]
    return s.child[end - 1] if end > begin else node


@once
def _action_below(s, node):
    """The action of the best vector at `node`."""
    low, high, best = 0, s.sizes[VECTORS], s.best[node]
    while low < high:
        middle = (low + high) // 2
        if s.name[middle] < best:
            low = middle + 1
        else:
            high = middle
    return s.action[low]


@kernel
def back_up(s, nodes, starts, levels, tolerance):
    """Back up both bounds of what was visited, in reverse."""
    commit(s, tolerance)
    for level in range(levels - 1, -1, -1):
        for i in range(starts[level], starts[level + 1]):
            if level > 0 and time_is_up(s):
                break
            back_up_above(s, nodes[i])
            back_up_below(s, nodes[i])
        commit(s, COMMIT * gap_of(s))
    commit(s, tolerance)


SIGNATURE = types.Tuple((GROWN_TYPE, int64))(
    TYPE, int64, I1, F1, float64[:, :, ::1]
)  # fmt: skip


@njit(SIGNATURE, cache=True, error_model="numpy", nogil=True)
def run(arrays, what, whole, real, uniform):
    """Do `what` with its numbers: (arrays, levels).

    TRIAL: `whole` width; `real` target, limit, end of work, least share. WALK: `whole` upward; `real` end of work.
    BACK_UP: `whole` nodes. In these three the last of `real` is how far corners must fall to be moved. BELOW: `whole`
    nodes, and room for as many rows.
    """
    s = State(*arrays)
    index(s)
    levels = 0
    if what == TRIAL:
        nodes, starts, levels = trial(s, real[0], int(real[1]), real[2], whole[0], real[3])
        back_up(s, nodes, starts, levels, real[-1])
    elif what == WALK:
        nodes, starts, levels = walk(s, uniform, whole[0], real[0])
        back_up(s, nodes, starts, levels, real[-1])
    elif what == BACK_UP:
        for node in whole:
            if turns_back(s):
                break
            back_up_above(s, node)
        commit(s, real[-1])
    elif what == SWEEP:
        sweep(s)
    elif what == PUBLISH:
        publish(s)
    elif what == PRUNE:
        prune_points(s)
    elif what == REFRESH:
        refresh_visited(s)
    elif what == BELOW:
        count = len(whole) // 2
        for i in range(count):
            whole[count + i] = best_below(s, whole[i])[0]
    return leave(s), levels
