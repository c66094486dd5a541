"""Expansion of a belief graph in compiled code: what `jatpo.solve.belief_graph.Graph.expand` does, a row at a time.

Shapes: X states, Z observations.
"""

from __future__ import annotations

import numpy as np

from jatpo.solve.belief_graph import DROPPED, GRID, IMPROBABLE, INFORMED, MERGED
from jatpo.solve.compiled_state import (
    DISCOUNT,
    EDGES,
    ENTRIES,
    INDEXED,
    NODES,
    ROUNDING,
    ROWS,
    WORK,
    kernel,
    longer,
    once,
    room_for_edge,
    room_for_node,
    room_for_row,
)

SCATTERED = (
    16  # times as many numbers as entries up to which looking at all of them beats sorting the entries
)
SPREAD = np.uint64(
    0x9E3779B97F4A7C15
)  # 2^64 over the golden ratio: multiplying by it mixes the bits of a hash


@kernel
def sift(array, at, size):
    """Restore the heap below `at`."""
    moved = array[at]
    while 2 * at + 1 < size:
        down = 2 * at + 1
        if down + 1 < size and array[down + 1] > array[down]:
            down += 1
        if array[down] <= moved:
            break
        array[at] = array[down]
        at = down
    array[at] = moved


@kernel
def in_order(array, size, marked, most):
    """Sort the first `size` of `array`, distinct numbers below `most` that alone are `marked`; unmarks them."""
    if size * SCATTERED >= most:
        n = 0
        for i in range(most):
            if marked[i]:
                array[n] = i
                marked[i] = False
                n += 1
        return
    for i in range(size):
        marked[array[i]] = False
    for at in range(size // 2 - 1, -1, -1):
        sift(array, at, size)
    for end in range(size - 1, 0, -1):
        array[0], array[end] = array[end], array[0]
        sift(array, 0, end)


@kernel
def expand(s, node, action):
    """Add the row of `node` under `action`, with its children; returns its number."""
    gain, error, count = _predict(s, node, action)
    seen, entries = _observe(s, action, count)
    room_for_row(s)
    row = s.sizes[ROWS]
    s.sizes[ROWS] += 1
    s.row_node[row], s.row_action[row], s.row_first[row] = node, action, s.sizes[EDGES]
    charge = 0.0
    begin = 0
    for i in range(seen):
        z = s.met[i]
        end = s.place[z]
        s.place[z] = 0
        charge += _successor(s, begin, end, z)
        begin = end
    s.row_count[row] = s.sizes[EDGES] - s.row_first[row]
    s.row_reward[row] = gain
    s.row_constant[row] = gain + s.figures[DISCOUNT] * charge + s.figures[ROUNDING] * error
    s.row[node, action] = row
    s.expanded[node] = True
    s.figures[WORK] += 1.0 + 0.01 * (count + entries)
    return row


@kernel
def _predict(s, node, action):
    """Σ_x b(x) P(y | x, a) in `mass` at the first of `touched`, in order; (reward, sum for the rounding, entries)."""
    X = len(s.mass)
    states, weights, mass, marked, touched = s.states, s.weights, s.mass, s.marked, s.touched
    p_first, p_state, p, reward, magnitude = s.p_first, s.p_state, s.p, s.reward, s.state_magnitude
    gain = error = 0.0
    count = 0
    begin = s.first[node]
    for i in range(begin, begin + s.count[node]):
        x, w = states[i], weights[i]
        gain += w * reward[action, x]
        error += w * abs(reward[action, x])
        row = action * X + x
        for k in range(p_first[row], p_first[row + 1]):
            y = p_state[k]
            if not marked[y]:
                marked[y] = True
                touched[count] = y
                count += 1
            mass[y] += w * p[k]
    in_order(touched, count, marked, X)
    arrived = 0.0
    for i in range(count):
        arrived += mass[touched[i]] * magnitude[touched[i]]
    return gain, error + 2 * s.figures[DISCOUNT] * arrived, count


@kernel
def _observe(s, action, count):
    """Split `mass` by observation into `joint_state`, `joint_weight`: z in order of `met`, each up to `place[z]`.

    Returns how many observations and entries; `total` holds the sum of each observation.
    """
    X, Z = len(s.mass), len(s.place)
    mass, touched, marked, met, place, total = s.mass, s.touched, s.marked, s.met, s.place, s.total
    o_first, o_seen, o = s.o_first, s.o_seen, s.o
    seen = entries = 0
    for i in range(count):
        row = action * X + touched[i]
        for k in range(o_first[row], o_first[row + 1]):
            z = o_seen[k]
            if not marked[z]:
                marked[z] = True
                met[seen] = z
                seen += 1
                total[z] = 0.0
            place[z] += 1
            total[z] += mass[touched[i]] * o[k]
            entries += 1
    in_order(met, seen, marked, Z)
    if entries > len(s.joint_state):
        s.joint_state, s.joint_weight = longer(s.joint_state, entries), longer(s.joint_weight, entries)
    begin = 0
    for i in range(seen):
        size = place[met[i]]
        place[met[i]] = begin
        begin += size
    states, weights = s.joint_state, s.joint_weight
    for i in range(count):
        y = touched[i]
        row = action * X + y
        for k in range(o_first[row], o_first[row + 1]):
            z = o_seen[k]
            states[place[z]] = y
            weights[place[z]] = mass[y] * o[k]
            place[z] += 1
        mass[y] = 0.0
    return seen, entries


@once
def _successor(s, begin, end, z):
    """Add the edge of observation `z` to the successor in entries `begin` to `end`; returns what it was charged."""
    states, weights, corners = s.joint_state, s.joint_weight, s.corners
    total = s.total[z]
    charge = kept = 0.0
    size = begin
    for i in range(begin, end):
        if total > IMPROBABLE and weights[i] > DROPPED * total:
            states[size], weights[size] = states[i], weights[i]
            kept += weights[i]
            size += 1
        else:
            charge += weights[i] * corners[states[i]]
    if size == begin:
        return charge
    for i in range(begin, size):
        weights[i] /= kept
    node, share, extra = _place(s, begin, size)
    room_for_edge(s)
    edge = s.sizes[EDGES]
    s.sizes[EDGES] += 1
    s.child[edge], s.weight[edge], s.seen[edge] = node, kept * share, z
    return charge + kept * extra


@once
def _place(s, begin, end):
    """A node for the belief in entries `begin` to `end`, found or new: (node, w, e) with V(b) ≤ w V(node) + e."""
    signature, digest = _sign(s, begin, end)
    slot = _slot(s, digest)
    node = s.slots[slot]
    if node < 0:
        s.slots[slot] = s.sizes[NODES]
        node = _add(s, begin, end, signature, digest)
        s.sizes[INDEXED] = s.sizes[NODES]
        index(s)
        return node, 1.0, 0.0
    share = _shared(s, begin, end, node)
    if share < 1 - MERGED:
        node = _add(s, begin, end, signature, digest)
        s.sizes[INDEXED] = s.sizes[NODES]
        return node, 1.0, 0.0
    share = min(share, 1.0)
    extra = 0.0
    first = s.first[node]
    for i in range(begin, end):
        rest = s.joint_weight[i] - share * s.weights[first + i - begin]
        if rest > 0:
            extra += rest * s.corners[s.joint_state[i]]
    return node, share, extra


@kernel
def _shared(s, begin, end, node):
    """The largest r with b ≥ r b' for the belief in the entries and that of `node`; 0 if their supports differ."""
    if s.count[node] != end - begin:
        return 0.0
    first, least = s.first[node] - begin, np.inf
    for i in range(begin, end):
        if s.states[first + i] != s.joint_state[i]:
            return 0.0
        least = min(least, s.joint_weight[i] / s.weights[first + i])
    return least


@kernel
def _sign(s, begin, end):
    """Signature of the support and hash of the rounded weights."""
    signature, digest = np.uint64(0), np.uint64(0)
    for i in range(begin, end):
        x = s.joint_state[i]
        signature |= s.bit[x]
        digest += (np.uint64(s.joint_weight[i] * GRID + 0.5) + np.uint64(1)) * s.hash[x]
    return signature, digest


@kernel
def _slot(s, digest):
    """Where the first node with `digest` is in `slots`, or the free place for it."""
    mask = len(s.slots) - 1
    at = np.int64((digest * SPREAD) >> np.uint64(32)) & mask
    while s.slots[at] >= 0 and s.digest[s.slots[at]] != digest:
        at = (at + 1) & mask
    return at


@kernel
def index(s):
    """Enter the nodes that are not in `slots` yet, the first of each digest; keep it at most half full."""
    size = s.sizes[NODES]
    if 2 * size > len(s.slots):
        room = max(4 * len(s.slots), 1024)
        while 2 * size > room:
            room *= 4
        s.slots = np.empty(room, np.int64)
        for i in range(room):
            s.slots[i] = -1
        s.sizes[INDEXED] = 0
    for node in range(s.sizes[INDEXED], size):
        at = _slot(s, s.digest[node])
        if s.slots[at] < 0:
            s.slots[at] = node
    s.sizes[INDEXED] = size


@once
def _add(s, begin, end, signature, digest):
    """A new node with the informed bound above; returns its number."""
    size = end - begin
    room_for_node(s, size)
    node, first = s.sizes[NODES], s.sizes[ENTRIES]
    s.sizes[NODES] += 1
    s.sizes[ENTRIES] += size
    magnitude = 0.0
    for i in range(size):
        x, w = s.joint_state[begin + i], s.joint_weight[begin + i]
        s.states[first + i], s.weights[first + i] = x, w
        magnitude += w * s.state_magnitude[x]
    s.first[node], s.count[node], s.signature[node], s.digest[node] = first, size, signature, digest
    s.best[node], s.point[node], s.corner_stamp[node], s.giver[node] = -1, -1, -1, INFORMED
    s.upper_stamp[node] = s.lower_stamp[node] = 0
    s.lower[node], s.magnitude[node], s.expanded[node] = -np.inf, magnitude, False
    most = -np.inf
    for a in range(len(s.informed)):
        value = 2 * s.figures[ROUNDING] * magnitude
        for i in range(first, first + size):
            value += s.weights[i] * s.informed[a, s.states[i]]
        s.action_upper[node, a], s.row[node, a] = value, -1
        most = max(most, value)
    s.upper[node] = s.given[node] = most
    return node
