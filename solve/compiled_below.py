"""The lower bound in compiled code: what `jatpo.solve.alpha_vectors` does, a node at a time.

Shapes: X states, Z observations.
"""

from __future__ import annotations

import numpy as np

from jatpo.solve.compiled_above import dot, gap_of, position
from jatpo.solve.compiled_state import (
    BACKUPS,
    DISCOUNT,
    NAMES,
    NODES,
    ROUNDING,
    VECTORS,
    WORK,
    kernel,
    once,
    room_for_vector,
    turns_back,
)


@kernel
def refresh_below(s, node):
    """Raise the bound of `node` by the vectors that it has not seen; by all if its best one is scored no more."""
    lost = s.best[node] < 0 or not s.alive[s.best[node]]
    if not lost and s.lower_stamp[node] >= s.sizes[NAMES]:
        return
    size = s.sizes[VECTORS]
    begin = 0 if lost else position(s.name, size, s.lower_stamp[node])
    first, count = s.first[node], s.count[node]
    states, weights, values = s.states, s.weights, s.values
    most, best = -np.inf, -1
    for v in range(begin, size):
        score = 0.0
        for i in range(first, first + count):
            score += weights[i] * values[v, states[i]]
        if score > most:
            most, best = score, v
    s.figures[WORK] += 0.2 + 0.001 * (size - begin) * count
    s.lower_stamp[node] = s.sizes[NAMES]
    if best < 0:
        return
    most -= s.figures[ROUNDING] * dot(s, node, s.largest)
    if lost or most > s.lower[node]:
        s.lower[node], s.best[node] = max(most, s.lower[node]), s.name[best]


@kernel
def best_below(s, node):
    """The row with the best lower bound at `node`, -1 if it has none, and that bound."""
    refresh_below(s, node)
    chosen, most = -1, -np.inf
    for a in range(s.row.shape[1]):
        row = s.row[node, a]
        if row < 0 or s.action_upper[node, a] < s.lower[node]:
            continue
        value = 0.0
        for e in range(s.row_first[row], s.row_first[row] + s.row_count[row]):
            refresh_below(s, s.child[e])
            value += s.weight[e] * s.lower[s.child[e]]
        value = s.row_reward[row] + s.figures[DISCOUNT] * value
        if value > most:
            chosen, most = row, value
    return chosen, most


@once
def back_up_below(s, node):
    """Add the vector of the best row of `node`, if it gains."""
    row, value = best_below(s, node)
    s.sizes[BACKUPS] += 1
    if row < 0:
        return
    tiny = max(1e-15 * abs(s.lower[0]), 1e-6 * gap_of(s))
    least = s.lower[node] + max(0.1 * tiny, 1e-6 * (s.upper[node] - s.lower[node]))
    if value > least:
        action = s.row_action[row]
        _follow(s, node, row)
        _plan(s, action)
        _add(s, node, action, least)


@kernel
def _follow(s, node, row):
    """For each observation the position of the vector to continue with, in `follow`."""
    size = s.sizes[VECTORS]
    same = position(s.name, size, s.best[node])
    for z in range(len(s.follow)):
        s.follow[z] = same
    for e in range(s.row_first[row], s.row_first[row] + s.row_count[row]):
        s.follow[s.seen[e]] = position(s.name, size, s.best[s.child[e]])


@kernel
def _plan(s, action):
    """R_a + γ P_a Σ_z O_a(z) α_z lowered by its rounding, in `plan`; α_z are named by `follow`."""
    X, discount = len(s.plan), s.figures[DISCOUNT]
    values, follow, arrived, plan = s.values, s.follow, s.arrived, s.plan
    o_first, o_seen, o, p_first, p_state, p = s.o_first, s.o_seen, s.o, s.p_first, s.p_state, s.p
    reward, slack = s.reward, s.slack
    for y in range(X):
        total = 0.0
        for k in range(o_first[action * X + y], o_first[action * X + y + 1]):
            total += values[follow[o_seen[k]], y] * o[k]
        arrived[y] = total
    for x in range(X):
        total = 0.0
        for k in range(p_first[action * X + x], p_first[action * X + x + 1]):
            total += p[k] * arrived[p_state[k]]
        plan[x] = reward[action, x] + discount * total - slack[action, x]
    s.figures[WORK] += 0.3 + 0.001 * (p_first[action * X + X] - p_first[action * X])
    s.figures[WORK] += 0.002 * (o_first[action * X + X] - o_first[action * X])


@once
def _add(s, node, action, least):
    """Score the vector in `plan`, if it gives more than `least` at `node`."""
    plan, largest = s.plan, s.largest
    value = error = 0.0
    for i in range(s.first[node], s.first[node] + s.count[node]):
        x, w = s.states[i], s.weights[i]
        value += w * plan[x]
        error += w * max(largest[x], abs(plan[x]))
    value -= s.figures[ROUNDING] * error
    if not value > least:
        return
    room_for_vector(s)
    v, name = s.sizes[VECTORS], s.sizes[NAMES]
    s.name[v], s.action[v], s.alive[name] = name, action, True
    for x in range(len(plan)):
        s.values[v, x] = plan[x]
    for z in range(len(s.follow)):
        s.successor[v, z] = s.name[s.follow[z]]
    s.sizes[VECTORS] += 1
    s.sizes[NAMES] += 1
    s.lower[node], s.best[node] = value, name
    _enlarge(s)


@kernel
def _enlarge(s):
    """Keep `largest` above all vectors, and `slack` above the rounding of a backup of them."""
    plan, largest, enough = s.plan, s.largest, True
    for x in range(len(plan)):
        if abs(plan[x]) > largest[x]:
            largest[x], enough = 1.25 * abs(plan[x]), False
    if enough:
        return
    A, X = s.reward.shape
    for row in range(A * X):
        expected = 0.0
        for k in range(s.p_first[row], s.p_first[row + 1]):
            expected += s.p[k] * largest[s.p_state[k]]
        a, x = row // X, row % X
        s.slack[a, x] = 2 * s.figures[ROUNDING] * (abs(s.reward[a, x]) + s.figures[DISCOUNT] * expected)


@once
def refresh_visited(s):
    """Score the nodes that were backed up, but for the corners that were not visited."""
    for node in range(s.sizes[NODES]):
        if s.expanded[node] and s.lower_stamp[node] > 0 and not turns_back(s):
            refresh_below(s, node)
