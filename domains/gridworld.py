"""Gridworld: two agents, two goals, an open 5 x 5 grid. The teammate heads for its nearest goal."""

from __future__ import annotations

from typing import Annotated

from jatpo.domains.domain import Probability, register
from jatpo.domains.grid import Cell, Grid, cell_name
from jatpo.domains.maps import open_map
from jatpo.domains.movers import TwoMovers
from jatpo.domains.pairs import Failure, Pairs, Slip, Start, Walk
from jatpo.domains.structure import World
from jatpo.errors import JatpoError

POOL = """
04-03 32-11 42-44 44-11 12-44 34-00 00-40 41-43 44-42 30-11 33-12 13-22 11-34 42-23 33-14 01-24
43-41 33-13 22-33 13-34 12-24 42-12 30-01 43-10 24-14 41-20 20-34 44-24 40-32 12-03 13-21 21-32
"""
HORIZON, SMALLEST = 50, 5
GOALS: tuple[tuple[Cell, Cell], ...] = tuple(
    ((int(pair[0]), int(pair[1])), (int(pair[3]), int(pair[4]))) for pair in POOL.split()
)


def scaled(pair: tuple[Cell, Cell], size: int) -> tuple[Cell, Cell]:
    """A pair of goals of the 5 x 5 grid at the same places of a grid of `size` x `size`, halves rounded up."""

    def place(cell: Cell) -> Cell:
        row, column = ((2 * part * (size - 1) + 4) // 8 for part in cell)
        return row, column

    return place(pair[0]), place(pair[1])


def _goals(size: int | None, goals: tuple[Cell, Cell] | None) -> tuple[tuple[Cell, Cell], ...]:
    """The goals of every model of the pool."""
    if goals is not None:
        return (goals,)
    return GOALS if size is None else tuple(scaled(pair, size) for pair in GOALS)


def _horizon(size: int | None = None, **_: object) -> int:
    """50 steps on 5 x 5 cells, and in proportion to the distances on others."""
    return HORIZON if size is None else -(-HORIZON * (size - 1) // 4)


def _labels(size: int | None = None, goals: tuple[Cell, Cell] | None = None, **_: object) -> tuple[str, ...]:
    pairs = _goals(size, goals)
    return tuple(f"goals {cell_name(one)} and {cell_name(other)}" for one, other in pairs)


@register(
    "gridworld",
    summary="two agents reach two goals on an open 5 x 5 grid",
    models=4,
    horizon=HORIZON,
    steps=_horizon,
    beliefs=5000,
    labels=_labels,
    as_written={"teammate_slip": 0.0, "sensor_failure": "nothing"},
)
def gridworld(
    model: int,
    *,
    noise: Annotated[Probability, "probability that a sensor misses a wall or the teammate"] = 0.2,
    discount: Annotated[Probability, "discount"] = 0.95,
    size: Annotated[int | None, "columns and rows; goals and horizon grow with it"] = None,
    width: Annotated[int, "columns"] = 5,
    height: Annotated[int, "rows"] = 5,
    map: Annotated[str | None, "a text map with walls in place of the open grid"] = None,
    goals: Annotated[tuple[Cell, Cell] | None, "two goal cells in place of the model's own pair"] = None,
    agent_slip: Annotated[Slip, "probability that a move of the agent fails"] = "noise",
    teammate: Annotated[Walk, "how the teammate moves"] = "greedy",
    teammate_slip: Annotated[Slip, "probability that a move of the teammate fails"] = "noise",
    sensor_failure: Annotated[Failure, "a missed element reads as either other symbol, or nothing"] = "other",
    start: Annotated[Start, "anywhere unsolved, or on the cells marked S"] = "anywhere",
    share_cells: Annotated[bool, "may both stand on one cell?"] = True,
) -> World | TwoMovers:
    """Model k of the gridworld."""
    if size is not None and (size < SMALLEST or map is not None):
        other = " beside a map" if map is not None else ""
        raise JatpoError(
            f"size={size}{other} does not fit the gridworld: give {SMALLEST} or more, and no map"
        )
    width, height = (width, height) if size is None else (size, size)
    pair = _goals(size, goals)[model]
    pair = tuple((int(column), int(row)) for column, row in pair)
    if len(pair) != 2 or pair[0] == pair[1]:
        raise JatpoError(f"goals={pair!r} are not two different cells: give ((column, row), (column, row))")
    return Pairs(
        grid=Grid.parse(open_map(width, height) if map is None else map),
        goals=pair,
        share_cells=share_cells,
        noise=noise,
        agent_slip=agent_slip,
        teammate_slip=teammate_slip,
        teammate=teammate,
        sensor_failure=sensor_failure,
        start=start,
        discount=discount,
    ).model(_labels(size, goals)[model])
