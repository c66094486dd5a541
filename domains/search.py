"""The path search of pursuit's teammate-aware teammate, on a torus with one obstacle.

"torus": a shortest path around the obstacle, the first action in action order among the shortest.
"modulo": the published program's best-first search. It walks over cells modulo the size but compares them
with a target and an obstacle in signed coordinates, so a target with a negative coordinate is never found
(the move is then uniform) and an obstacle with one blocks nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cache
from typing import Literal

import numpy as np

from jatpo.domains.grid import ACTIONS, MOVES, STAY, Cell

Search = Literal["modulo", "torus"]
_PUSH_ORDER = ("right", "left", "down", "up")


@cache
def first_move(target: Cell, obstacle: Cell, size: int, search: Search) -> tuple[float, ...]:
    """Action probabilities of a walker at (0, 0) that heads for `target` around `obstacle`."""
    if target == (0, 0):
        return _certain(STAY)
    move = _published(target, obstacle, size) if search == "modulo" else _shortest(target, obstacle, size)
    return (1 / len(ACTIONS),) * len(ACTIONS) if move is None else _certain(move)


def _certain(action: int) -> tuple[float, ...]:
    return tuple(np.eye(len(ACTIONS))[action].tolist())


def distance(one: Cell, other: Cell, size: int) -> int:
    """Manhattan distance on the torus."""
    gaps = ((a - b) % size for a, b in zip(one, other, strict=True))
    return sum(min(gap, size - gap) for gap in gaps)


def _neighbours(cell: Cell, size: int) -> Iterator[tuple[int, Cell]]:
    """The actions and the cells they lead to, modulo the size, in the order they are pushed."""
    for name in _PUSH_ORDER:
        across, along = MOVES[name]
        yield ACTIONS.index(name), ((cell[0] + across) % size, (cell[1] + along) % size)


class _Entry:
    """A frontier cell; the heap compares cost + estimate alone, so ties fall as the heap leaves them."""

    __slots__ = ("cell", "cost", "move", "priority")

    def __init__(self, cell: Cell, cost: int, estimate: int, move: int) -> None:
        self.cell, self.cost, self.priority, self.move = cell, cost, cost + estimate, move

    def __lt__(self, other: _Entry) -> bool:
        return self.priority < other.priority


def _published(target: Cell, obstacle: Cell, size: int) -> int | None:
    """The first step of the path that the published search pops first, or None when it finds none."""
    blocked = None if obstacle == target else obstacle
    origin: Cell = (0, 0)
    ring = [(move, cell) for move, cell in _neighbours(origin, size) if cell != blocked]
    frontier = [_Entry(cell, 1, distance(cell, target, size), move) for move, cell in ring]
    heapq.heapify(frontier)
    popped: set[Cell] = {origin}
    while frontier:
        entry = heapq.heappop(frontier)
        if entry.cell in popped:
            continue
        if entry.cell == target:
            return entry.move
        popped.add(entry.cell)
        for _, cell in _neighbours(entry.cell, size):
            if cell != blocked:
                estimate = distance(cell, origin, size)
                heapq.heappush(frontier, _Entry(cell, entry.cost + 1, estimate, entry.move))
    return None


def _shortest(target: Cell, obstacle: Cell, size: int) -> int | None:
    """The first action in action order that starts a shortest path on the torus, or None without a path."""
    goal = (target[0] % size, target[1] % size)
    blocked = (obstacle[0] % size, obstacle[1] % size)
    steps: dict[Cell, int] = {goal: 0}
    ring = [goal]
    while ring:
        reached = [next_cell for cell in ring for _, next_cell in _neighbours(cell, size)]
        fresh = {cell for cell in reached if cell not in steps and cell != blocked}
        depth = steps[ring[0]] + 1
        steps |= {cell: depth for cell in fresh}
        ring = sorted(fresh)
    ahead = {move: steps[cell] for move, cell in _neighbours((0, 0), size) if cell in steps}
    return min(ahead, key=lambda move: (ahead[move], move)) if ahead else None
