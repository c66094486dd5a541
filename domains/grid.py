"""The grid vocabulary: maps, moves, walls, what an agent senses around it, teammates that walk to a goal.

A cell is (column, row); row 0 is the top and up is row - 1. N open cells, numbered row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from jatpo.errors import JatpoError

Cell = tuple[int, int]

MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0), "stay": (0, 0)}
ACTIONS = tuple(MOVES)
STAY = ACTIONS.index("stay")
STEPS = np.array(list(MOVES.values()))  # [5, 2]
NOTHING, WALL, TEAMMATE = range(3)
READINGS = tuple("".join(reading) for reading in product(".#T", repeat=4))


def cell_name(cell: Sequence[int]) -> str:
    """`column,row`."""
    return f"{cell[0]},{cell[1]}"


@dataclass(frozen=True, eq=False)
class Grid:
    """Open cells [N, 2] of a map of `width` x `height`, and the cells marked G and S."""

    width: int
    height: int
    cells: np.ndarray
    goals: tuple[Cell, ...]
    starts: tuple[Cell, ...]

    @classmethod
    def parse(cls, text: str) -> Grid:
        """The grid of a text map; goals and starts are listed by column, then row."""
        rows = [row.strip() for row in text.strip().splitlines()]
        width = len(rows[0]) if rows else 0
        for number, row in enumerate(rows):
            if len(row) != width:
                raise JatpoError(f"map row {number} has {len(row)} cells, row 0 has {width}: make them equal")
            strange = sorted(set(row) - set("#.SG"))
            if strange:
                raise JatpoError(f"map row {number} holds {strange[0]!r}: use only '#', '.', 'S' and 'G'")
        every = {(column, row): mark for row, line in enumerate(rows) for column, mark in enumerate(line)}
        marked = {cell: mark for cell, mark in every.items() if mark != "#"}
        if len(marked) < 2:
            raise JatpoError(f"the map has {len(marked)} open cells: two agents need at least 2")
        goals, starts = (tuple(sorted(cell for cell in marked if marked[cell] == mark)) for mark in "GS")
        return cls(width, len(rows), np.array(list(marked)), goals, starts)

    @cached_property
    def index(self) -> dict[Cell, int]:
        """The number of every open cell."""
        return {(int(column), int(row)): number for number, (column, row) in enumerate(self.cells)}

    def numbers(self, cells: Sequence[Cell]) -> list[int]:
        """The numbers of open `cells`."""
        for cell in cells:
            if cell not in self.index:
                raise JatpoError(f"cell {cell_name(cell)} is not an open cell of the map: choose another")
        return [self.index[cell] for cell in cells]

    @cached_property
    def moved(self) -> np.ndarray:
        """Where each action leads from each open cell when nobody is in the way, [5, N]."""
        ahead = self.cells[None] + STEPS[:, None]
        reached = [[self.index.get((x, y), n) for n, (x, y) in enumerate(row)] for row in ahead.tolist()]
        return np.array(reached)

    @cached_property
    def walls(self) -> np.ndarray:
        """Whether the next cell up, down, left and right is blocked or outside, [4, N]."""
        return self.moved[:STAY] == np.arange(len(self.cells))

    def distances(self, goal: int) -> np.ndarray:
        """Steps from every open cell to cell number `goal` around walls, [N]; inf where there is no path."""
        steps = np.full(len(self.cells), np.inf)
        steps[goal] = 0
        for _ in range(len(self.cells)):
            nearer = steps[self.moved].min(axis=0) + 1
            if (nearer >= steps).all():
                break
            steps = np.minimum(steps, nearer)
        return steps


def nearest(distances: np.ndarray) -> np.ndarray:
    """Which goal is nearest for every cell, from [goals, N]; a tie goes to the first."""
    return np.argmin(distances, axis=0)


def greedy_walk(grid: Grid, goals: Sequence[int]) -> np.ndarray:
    """The action [N] that heads for the nearest goal (Manhattan), first horizontally, then vertically."""
    offsets = grid.cells[list(goals)][:, None] - grid.cells[None]  # [goals, N, 2]
    target = nearest(np.abs(offsets).sum(axis=2))
    across, along = offsets[target, np.arange(len(grid.cells))].T
    return heading(across, along)


def heading(across: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The action one step along `across` if that is not 0, else along `along`, else stay."""
    up, down, left, right = range(STAY)
    vertical = np.where(along > 0, down, np.where(along < 0, up, STAY))
    return np.where(across > 0, right, np.where(across < 0, left, vertical))


def shortest_walk(grid: Grid, goals: Sequence[int]) -> np.ndarray:
    """The action [N] on a shortest path to the nearest goal: first such goal, then first such action."""
    distances = np.array([grid.distances(goal) for goal in goals])
    cells = np.arange(len(grid.cells))
    own = distances[nearest(distances)]  # [N, N]: row n holds the distances to the goal of cell n
    closer = own[cells, grid.moved] < own[cells, cells]  # [5, N]
    return np.where(closer.any(axis=0), np.argmax(closer, axis=0), STAY)


def sensor(truth: np.ndarray, noise: float, failure: str) -> np.ndarray:
    """Probability of the 81 readings, [X, 81], when the four neighbours are `truth` [4, X].

    A wall or teammate is missed with probability `noise`: `failure` "other" reads each of the two other
    symbols with half of it, "nothing" reads nothing. An empty cell always reads nothing.
    """
    confusion = np.eye(3)
    confusion[1:] *= 1 - noise
    if failure == "other":
        confusion[1:] += noise / 2 * (1 - np.eye(3)[1:])
    else:
        confusion[1:, NOTHING] += noise
    up, down, left, right = confusion[truth]
    joint = np.einsum("xi,xj,xk,xl->xijkl", up, down, left, right)
    return joint.reshape(truth.shape[1], len(READINGS))
