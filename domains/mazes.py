"""The mazes ntu, isr, mit, pentagon and cit: two agents that block each other leave by two exits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Annotated, Literal

from jatpo.domains import maps
from jatpo.domains.domain import Probability, register
from jatpo.domains.grid import Cell, Grid, cell_name
from jatpo.domains.maps import scaled_map
from jatpo.domains.movers import TwoMovers
from jatpo.domains.pairs import Failure, Pairs, Slip, Start, Walk
from jatpo.domains.structure import World
from jatpo.errors import JatpoError

GoalRule = Literal["aligned", "task"]


def _map(text: str, size: int) -> str:
    """The text map at a size."""
    if size < 1:
        raise JatpoError(f"size={size} does not fit a maze: give 1 or more cells for each cell of the map")
    return text if size == 1 else scaled_map(text, size)


def tasks(
    map: str, goals: tuple[Cell, ...] | None = None, size: int = 1, **_: object
) -> list[tuple[Cell, Cell]]:
    """Every pair of goals, in combination order of the goals listed by column, then row."""
    cells = (
        Grid.parse(_map(map, size)).goals
        if goals is None
        else tuple(sorted((int(c), int(r)) for c, r in goals))
    )
    if len(set(cells)) < 2:
        raise JatpoError(f"the maze has {len(set(cells))} goals: mark two or more cells with G")
    return list(combinations(cells, 2))


def goals_of(task: tuple[Cell, Cell], every: tuple[Cell, ...], rule: GoalRule) -> tuple[Cell, ...]:
    """The goal cells of a task, by column, then row.

    "task": its own two. "aligned": also every other goal cell that shares a column or a row with one of them.
    """
    if rule == "task":
        return task
    columns, rows = ({goal[axis] for goal in task} for axis in (0, 1))
    return tuple(cell for cell in every if cell in task or cell[0] in columns or cell[1] in rows)


def labels(map: str, goals: tuple[Cell, ...] | None = None, size: int = 1, **_: object) -> tuple[str, ...]:
    """`goals 1,1 and 4,4` for every task."""
    return tuple(
        "goals " + " and ".join(cell_name(cell) for cell in task) for task in tasks(map, goals, size)
    )


def maze(
    model: int,
    *,
    map: Annotated[str, "the text map: # blocked, . open, S start, G goal"],
    noise: Annotated[Probability, "probability that a sensor misses a wall or the teammate"] = 0.2,
    discount: Annotated[Probability, "discount"] = 0.95,
    goals: Annotated[tuple[Cell, ...] | None, "goal cells in place of the map's G cells"] = None,
    goal_rule: Annotated[GoalRule, "does a goal outside the task stay one if aligned with it?"] = "aligned",
    agent_slip: Annotated[Slip, "probability that a move of the agent fails"] = 0.0,
    teammate: Annotated[Walk, "how the teammate moves"] = "optimal",
    teammate_slip: Annotated[Slip, "probability that a move of the teammate fails"] = 0.0,
    sensor_failure: Annotated[Failure, "a missed element reads as either other symbol, or nothing"] = "other",
    start: Annotated[Start, "on the cells marked S, or anywhere unsolved"] = "marked",
    share_cells: Annotated[bool, "may both stand on one cell?"] = False,
    size: Annotated[int, "cells of the grid for each cell of the map, in both directions"] = 1,
) -> World | TwoMovers:
    """Task k of a maze."""
    every = tasks(map, goals, size)
    task = every[model]
    return Pairs(
        grid=Grid.parse(_map(map, size)),
        goals=goals_of(task, tuple(sorted({cell for pair in every for cell in pair})), goal_rule),
        share_cells=share_cells,
        noise=noise,
        agent_slip=agent_slip,
        teammate_slip=teammate_slip,
        teammate=teammate,
        sensor_failure=sensor_failure,
        start=start,
        discount=discount,
    ).model(labels(map, goals, size)[model])


def _steps_of(horizon: int) -> Callable[..., int]:
    """The horizon, in proportion to the distances."""
    return lambda size=1, **_: horizon * size


for name, text, models, noise, horizon, beliefs in (
    ("ntu", maps.NTU, 4, 0.2, 75, 5000),
    ("isr", maps.ISR, 3, 0.2, 75, 5000),
    ("mit", maps.MIT, 3, 0.2, 75, 5000),
    ("pentagon", maps.PENTAGON, 3, 0.2, 75, 5000),
    ("cit", maps.CIT, 3, 0.1, 85, 8000),
):
    register(
        name,
        summary="two agents that block each other reach two exits of a maze",
        models=models,
        horizon=horizon,
        beliefs=beliefs,
        labels=labels,
        steps=_steps_of(horizon),
        as_run={"map": text, "noise": noise},
        as_written={
            "goal_rule": "task",
            "agent_slip": "noise",
            "teammate": "shortest-path",
            "sensor_failure": "nothing",
            "start": "anywhere",
        },
    )(maze)
