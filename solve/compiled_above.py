"""The upper bound in compiled code: what `jatpo.solve.sawtooth` does, a node at a time, and backups of it.

Shapes: X states, A actions.
"""

from __future__ import annotations

import numpy as np

from jatpo.solve.belief_graph import CORNERS
from jatpo.solve.compiled_graph import expand
from jatpo.solve.compiled_state import (
    BACKUPS,
    DISCOUNT,
    EDGES,
    FIRST_GAP,
    ISSUED,
    NODES,
    POINTS,
    ROUNDING,
    ROWS,
    VERSION,
    WORK,
    kernel,
    once,
    room_for_point,
    time_is_up,
    turns_back,
)
from jatpo.solve.plain_rounds import RELEVANT

CLOSE = 1e-5  # share of the gap at the start by which a point must improve a bound to be taken


@kernel
def gap_of(s):
    """The gap at the initial belief."""
    return s.upper[0] - s.lower[0]


@kernel
def position(sorted_numbers, size, number):
    """Where `number` is, or would be, among the first `size` of `sorted_numbers`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if sorted_numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def dot(s, node, vector):
    """b·v for the belief of `node`."""
    total = 0.0
    states, weights = s.states, s.weights
    for i in range(s.first[node], s.first[node] + s.count[node]):
        total += weights[i] * vector[states[i]]
    return total


@kernel
def refresh_above(s, node, tolerance):
    """Lower the bound of `node` by the points and corners that it has not seen."""
    moved = s.corner_stamp[node] < s.sizes[VERSION]
    if not moved and s.upper_stamp[node] >= s.sizes[ISSUED]:
        return
    begin = 0 if moved else position(s.number, s.sizes[POINTS], s.upper_stamp[node])
    base = dot(s, node, s.corners) + 4 * s.figures[ROUNDING] * s.magnitude[node]
    if base < s.given[node]:
        s.given[node], s.giver[node] = base, CORNERS
    if begin < s.sizes[POINTS]:
        _scan(s, node, base, begin, tolerance)
    s.upper[node] = min(s.upper[node], s.given[node])
    s.upper_stamp[node], s.corner_stamp[node] = s.sizes[ISSUED], s.sizes[VERSION]


@kernel
def _scan(s, node, base, begin, tolerance):
    """Lower `given` of `node` by the points from `begin` on, noting who gave it."""
    first, count, size = s.first[node], s.count[node], s.sizes[POINTS]
    dense, states, weights = s.dense, s.states, s.weights
    for i in range(first, first + count):
        dense[states[i]] = weights[i]
    best = min(s.given[node], s.upper[node]) - tolerance
    outside = ~s.signature[node]
    drop, signature, top, top_weight = s.drop, s.point_signature, s.top, s.top_weight
    looked = 0
    for j in range(begin, size):
        if signature[j] & outside or base + drop[j] >= best:
            continue
        # the least ratio b(x) / b_j(x) must exceed `enough` to give less than `best`
        enough = (base - best) / -drop[j]
        if dense[top[j]] <= enough * top_weight[j]:
            continue
        least = np.inf
        begins = s.first[s.node[j]]
        for k in range(begins, begins + s.count[s.node[j]]):
            looked += 1
            ratio = dense[states[k]] / weights[k]
            if ratio < least:
                least = ratio
                if ratio <= enough:
                    break
        value = base + drop[j] * least
        if value < best:
            best = value
            s.given[node], s.giver[node] = value, s.node[j]
    for i in range(first, first + count):
        dense[states[i]] = 0.0
    s.figures[WORK] += 0.2 + 0.002 * (size - begin) + 0.002 * (looked + count)


@kernel
def evaluate(s, row):
    """`constant` + γ Σ w U[child], with an edge back to its own node solved for."""
    node, discount = s.row_node[row], s.figures[DISCOUNT]
    child, weight, upper = s.child, s.weight, s.upper
    total, loop = 0.0, 0.0
    for e in range(s.row_first[row], s.row_first[row] + s.row_count[row]):
        if child[e] == node:
            loop += discount * weight[e]
        else:
            total += discount * weight[e] * upper[child[e]]
    total += s.row_constant[row]
    if loop > 0:
        error = 4 * s.figures[ROUNDING] * s.magnitude[node]
        return (total + error) / max(1 - loop, 1e-300) + error
    return total


@kernel
def back_up_above(s, node):
    """Lower the bound of `node` by its actions, until the one that is best has been refreshed."""
    tolerance = CLOSE * gap_of(s)
    refresh_above(s, node, tolerance)
    done = s.done
    for a in range(len(done)):
        done[a] = False
    while True:
        a = best_action(s, node)
        if done[a] or time_is_up(s):
            break
        done[a] = True
        row = s.row[node, a]
        if row < 0:
            row = expand(s, node, a)
        _refresh_children(s, row, tolerance)
        s.action_upper[node, a] = min(s.action_upper[node, a], evaluate(s, row))
    s.sizes[BACKUPS] += 1
    lower_node(s, node)


@kernel
def best_action(s, node):
    """The action with the largest upper bound."""
    best = 0
    for a in range(1, s.action_upper.shape[1]):
        if s.action_upper[node, a] > s.action_upper[node, best]:
            best = a
    return best


@kernel
def _refresh_children(s, row, tolerance):
    """Refresh the children whose gap matters to their parent."""
    least, most = RELEVANT * gap_of(s), s.figures[FIRST_GAP]
    for e in range(s.row_first[row], s.row_first[row] + s.row_count[row]):
        child = s.child[e]
        if s.weight[e] * min(s.upper[child] - s.lower[child], most) > least:
            refresh_above(s, child, tolerance)


@kernel
def lower_node(s, node):
    """Take the best action's bound at `node`, and make a point of it if it is lower than what others give."""
    s.upper[node] = min(s.upper[node], s.action_upper[node, best_action(s, node)])
    gap = gap_of(s)
    slack = 1e-3 * (s.upper[node] - max(s.lower[node], -1e300))
    if s.given[node] - s.upper[node] > max(min(slack, 1e-2 * gap), 1e-6 * gap):
        if s.count[node] == 1:
            _move_corner(s, node)
        else:
            _add_point(s, node)


@once
def _move_corner(s, node):
    first = s.first[node]
    x = s.states[first]
    value = s.upper[node] / s.weights[first] + 4 * s.figures[ROUNDING] * s.magnitude[node]
    if value < s.wanted[x]:
        s.wanted[x], s.corner_node[x] = value, node


@once
def _add_point(s, node):
    """A point at `node`, instead of the one that it had."""
    size = s.sizes[POINTS]
    if s.point[node] >= 0:
        old = position(s.number, size, s.point[node])
        if old < size and s.number[old] == s.point[node]:
            s.drop[old], s.node[old] = 0.0, -1
    room_for_point(s)
    heaviest = s.first[node]
    for i in range(heaviest, heaviest + s.count[node]):
        if s.weights[i] > s.weights[heaviest]:
            heaviest = i
    s.number[size], s.node[size], s.value[size] = s.sizes[ISSUED], node, s.upper[node]
    s.point_signature[size] = s.signature[node]
    s.top[size], s.top_weight[size] = s.states[heaviest], s.weights[heaviest]
    s.drop[size] = _drop(s, node, s.upper[node])
    s.point[node], s.given[node], s.giver[node] = s.sizes[ISSUED], s.upper[node], node
    s.sizes[POINTS] += 1
    s.sizes[ISSUED] += 1


@kernel
def _drop(s, node, value):
    """How far `value` is below what the corners give at `node`."""
    return min(value - dot(s, node, s.corners) + 4 * s.figures[ROUNDING] * s.magnitude[node], 0.0)


@kernel
def commit(s, tolerance):
    """Move the corners to where single states were backed up, if any moves by more than `tolerance`."""
    moves = False
    for x in range(len(s.corners)):
        moves |= s.corners[x] - s.wanted[x] > tolerance
    if not moves:
        return
    for x in range(len(s.corners)):
        s.corners[x] = s.wanted[x]
    s.sizes[VERSION] += 1
    size = 0
    for j in range(s.sizes[POINTS]):
        node = s.node[j]
        if node >= 0:
            move_point(s, j, size)
            s.drop[size] = _drop(s, node, s.value[size])
            s.figures[WORK] += 0.002 * s.count[node]
            size += 1
    s.sizes[POINTS] = size


@kernel
def move_point(s, old, new):
    """Put the point at `old` to `new`."""
    s.number[new], s.node[new], s.value[new], s.drop[new] = (
        s.number[old],
        s.node[old],
        s.value[old],
        s.drop[old],
    )
    s.point_signature[new], s.top[new], s.top_weight[new] = (
        s.point_signature[old],
        s.top[old],
        s.top_weight[old],
    )


@once
def sweep(s):
    """Back up the whole graph from cached bounds, up to three times while it pays."""
    for _ in range(3):
        before = s.upper[0]
        for row in range(s.sizes[ROWS]):
            node, a = s.row_node[row], s.row_action[row]
            s.action_upper[node, a] = min(s.action_upper[node, a], evaluate(s, row))
        for node in range(s.sizes[NODES]):
            if s.expanded[node]:
                s.upper[node] = min(s.upper[node], s.action_upper[node, best_action(s, node)])
        s.figures[WORK] += 0.01 * s.sizes[EDGES]
        if before - s.upper[0] < 1e-4 * gap_of(s) or turns_back(s):
            break
    publish(s)


@kernel
def publish(s):
    """Make points of all expanded nodes that are lower than others give them."""
    for node in range(s.sizes[NODES]):
        if s.expanded[node]:
            lower_node(s, node)


@once
def prune_points(s):
    """Drop the points that the others, at their beliefs, bound at least as well, young ones first."""
    size = s.sizes[POINTS]
    for j in range(size - 1, -1, -1):
        if s.node[j] < 0 or s.drop[j] == 0.0:
            s.node[j] = -1
            continue
        if turns_back(s):
            continue
        if _dominated(s, j):
            s.drop[j], s.node[j] = 0.0, -1
    kept = 0
    for j in range(size):
        if s.node[j] >= 0:
            move_point(s, j, kept)
            kept += 1
    s.sizes[POINTS] = kept


@kernel
def _dominated(s, j):
    """Whether some other point bounds the belief of point `j` at least as well."""
    node = s.node[j]
    first, count, size = s.first[node], s.count[node], s.sizes[POINTS]
    dense, states, weights = s.dense, s.states, s.weights
    for i in range(first, first + count):
        dense[states[i]] = weights[i]
    outside, found = ~s.signature[node], False
    for i in range(size):
        if i == j or s.point_signature[i] & outside or s.drop[i] > s.drop[j]:
            continue
        enough, least = s.drop[j] / s.drop[i], 1.0
        begins = s.first[s.node[i]]
        for k in range(begins, begins + s.count[s.node[i]]):
            least = min(least, dense[states[k]] / weights[k])
            if least < enough:
                break
        if least >= enough:
            found = True
            break
    for i in range(first, first + count):
        dense[states[i]] = 0.0
    s.figures[WORK] += 0.5 + 0.002 * size
    return found
