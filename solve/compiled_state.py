"""The state of a search for compiled code: one structure, whose arrays can be replaced by longer ones.

`GROWN` are the arrays that get longer during a round, `FIXED` the model, counters and room to work in. A kernel gets
both, works on the structure made of them, and gives the first back.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int32, int64, njit, types, uint64
from numba.experimental import structref

from jatpo.solve.clock import END, ON

F1, F2, I1, I2, U1, B1 = float64[::1], float64[:, ::1], int64[::1], int64[:, ::1], uint64[::1], boolean[::1]
GROWN = {
    "first": I1, "count": I1, "signature": U1, "digest": U1, "upper": F1, "lower": F1, "best": I1, "magnitude": F1,
    "upper_stamp": I1, "corner_stamp": I1, "lower_stamp": I1, "point": I1, "given": F1, "giver": I1, "expanded": B1,
    "action_upper": F2, "row": I2,
    "states": I1, "weights": F1,
    "row_node": I1, "row_action": I1, "row_first": I1, "row_count": I1, "row_reward": F1, "row_constant": F1,
    "child": I1, "weight": F1, "seen": I1,
    "number": I1, "node": I1, "value": F1, "drop": F1, "point_signature": U1, "top": I1, "top_weight": F1,
    "name": I1, "values": F2, "action": I1, "successor": int32[:, ::1], "alive": B1,
    "slots": I1, "joint_state": I1, "joint_weight": F1,
}  # fmt: skip
FIXED = {
    "sizes": I1, "figures": F1, "corners": F1, "wanted": F1, "corner_node": I1, "largest": F1, "slack": F2,
    "p_first": I1, "p_state": I1, "p": F1, "o_first": I1, "o_seen": I1, "o": F1, "reward": F2, "informed": F2,
    "state_magnitude": F1, "bit": U1, "hash": U1,
    "dense": F1, "mass": F1, "marked": B1, "touched": I1, "total": F1, "place": I1, "met": I1,
    "follow": I1, "arrived": F1, "plan": F1, "done": B1, "hand": I1,
}  # fmt: skip
# Positions in `sizes`: of nodes, entries, rows, edges, points, scored vectors; vectors and points so far; ...
NODES, ENTRIES, ROWS, EDGES, POINTS, VECTORS, NAMES, ISSUED, VERSION, INDEXED, BACKUPS, COUNTERS = range(12)
WORK, FIRST_GAP, DISCOUNT, ROUNDING, FIGURES = range(5)  # positions in `figures`

GROWN_TYPE, TYPE = types.Tuple(tuple(GROWN.values())), types.Tuple((*GROWN.values(), *FIXED.values()))

_OPTIONS = {"error_model": "numpy", "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
kernel = njit(**_OPTIONS)
# Called at one place and not a tight loop: part of its caller, compiled with it. Tight loops got slower by that.
once = njit(**_OPTIONS, inline="always")


@structref.register
class _StateType(types.StructRef):
    """The type of the structure."""


class State(structref.StructRefProxy):
    """The structure: the fields of `GROWN`, then those of `FIXED`."""


structref.define_constructor(State, _StateType, [*GROWN, *FIXED])


@kernel
def turns_back(s):
    """Whether half of the time has passed."""
    return s.hand[0] != ON


@kernel
def time_is_up(s):
    """Whether all of it is."""
    return s.hand[0] == END


@once
def leave(s):
    """The arrays that may have been replaced."""
    return (
        s.first, s.count, s.signature, s.digest, s.upper, s.lower, s.best, s.magnitude, s.upper_stamp, s.corner_stamp,
        s.lower_stamp, s.point, s.given, s.giver, s.expanded, s.action_upper, s.row, s.states, s.weights, s.row_node,
        s.row_action, s.row_first, s.row_count, s.row_reward, s.row_constant, s.child, s.weight, s.seen, s.number,
        s.node, s.value, s.drop, s.point_signature, s.top, s.top_weight, s.name, s.values, s.action, s.successor,
        s.alive, s.slots, s.joint_state, s.joint_weight,
    )  # fmt: skip


@kernel
def longer(array, size):
    """A copy of `array` with room for `size` at least, twice what it had."""
    out = np.empty(max(size, 2 * len(array), 64), array.dtype)
    for i in range(len(array)):  # assigning a slice compiles to much more
        out[i] = array[i]
    return out


@kernel
def taller(array, size):
    """The same of a matrix, for rows."""
    out = np.empty((max(size, 2 * len(array), 64), array.shape[1]), array.dtype)
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            out[i, j] = array[i, j]
    return out


@once
def room_for_node(s, entries):
    """Make room for one more node with so many `entries`."""
    n = s.sizes[NODES] + 1
    if n > len(s.upper):
        s.first, s.count, s.signature = longer(s.first, n), longer(s.count, n), longer(s.signature, n)
        s.digest, s.upper, s.lower = longer(s.digest, n), longer(s.upper, n), longer(s.lower, n)
        s.best, s.magnitude, s.point = longer(s.best, n), longer(s.magnitude, n), longer(s.point, n)
        s.upper_stamp, s.corner_stamp = longer(s.upper_stamp, n), longer(s.corner_stamp, n)
        s.lower_stamp, s.given, s.giver = longer(s.lower_stamp, n), longer(s.given, n), longer(s.giver, n)
        s.expanded, s.action_upper, s.row = longer(s.expanded, n), taller(s.action_upper, n), taller(s.row, n)
    size = s.sizes[ENTRIES] + entries
    if size > len(s.states):
        s.states, s.weights = longer(s.states, size), longer(s.weights, size)


@once
def room_for_row(s):
    """Make room for one more row."""
    n = s.sizes[ROWS] + 1
    if n > len(s.row_node):
        s.row_node, s.row_action, s.row_first = (
            longer(s.row_node, n),
            longer(s.row_action, n),
            longer(s.row_first, n),
        )
        s.row_count, s.row_reward = longer(s.row_count, n), longer(s.row_reward, n)
        s.row_constant = longer(s.row_constant, n)


@once
def room_for_edge(s):
    """Make room for one more edge."""
    n = s.sizes[EDGES] + 1
    if n > len(s.child):
        s.child, s.weight, s.seen = longer(s.child, n), longer(s.weight, n), longer(s.seen, n)


@once
def room_for_point(s):
    """Make room for one more point."""
    n = s.sizes[POINTS] + 1
    if n > len(s.number):
        s.number, s.node, s.value, s.drop = (
            longer(s.number, n),
            longer(s.node, n),
            longer(s.value, n),
            longer(s.drop, n),
        )
        s.point_signature, s.top = longer(s.point_signature, n), longer(s.top, n)
        s.top_weight = longer(s.top_weight, n)


@once
def room_for_vector(s):
    """Make room for one more vector."""
    n = s.sizes[VECTORS] + 1
    if n > len(s.name):
        s.name, s.values, s.action = longer(s.name, n), taller(s.values, n), longer(s.action, n)
        s.successor = taller(s.successor, n)
    if s.sizes[NAMES] + 1 > len(s.alive):
        s.alive = longer(s.alive, s.sizes[NAMES] + 1)
