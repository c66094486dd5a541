"""What a figure is made of: panels that draw on one axes, the rows they show, a legend; and how it is put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jatpo.report import style
from jatpo.report.results import Row
from jatpo.report.style import Mark

Draw = Callable[[Any], None]


@dataclass(frozen=True)
class Panel:
    """One axes: its title, what draws it, and its size in inches."""

    title: str
    draw: Draw
    size: tuple[float, float] = style.PANEL


@dataclass(frozen=True)
class Figure:
    """Panels with a legend in common; `rows` are the data shown, under `columns`."""

    name: str
    title: str
    panels: Sequence[Panel]
    legend: Sequence[Mark]
    columns: Sequence[str]
    rows: Sequence[Row] = field(repr=False)
    columns_of_panels: int = 3


def figure_of(
    name: str, title: str, panels: Sequence[Panel], legend: Sequence[Mark], columns: Sequence[str], rows: Any
) -> Figure | None:
    """The figure of these panels; None where there is none."""
    return Figure(name, title, panels, legend, columns, rows) if panels else None


def interval(
    axes: Any, middle: float, low: float, high: float, place: float, mark: Mark, hollow: bool = False
) -> None:
    """A point with its interval, lying; the point alone where the interval is unknown."""
    axes.plot(
        np.array([low, high], float), [place, place], color=mark.colour, linewidth=1.0 if hollow else 1.8
    )
    fill = {"mfc": "none"} if hollow else {}
    axes.plot(middle, place, mark.marker, color=mark.colour, ms=4.5 if hollow else 6, **fill)


def categories(axes: Any, labels: Sequence[str]) -> None:
    """Names down the left side, the first on top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def curve(axes: Any, rows: Sequence[Row], what: str, mark: Mark) -> None:
    """A line with the band of its interval, over the steps; nothing where they are unknown."""
    steps = [row["step"] for row in rows]
    low, high = (np.array([row[f"{what}_{end}"] for row in rows], float) for end in ("low", "high"))
    axes.fill_between(steps, low, high, color=mark.colour, alpha=0.18, linewidth=0)
    axes.plot(steps, [row[what] for row in rows], mark.line, color=mark.colour)


def draw_panel(panel: Panel) -> Any:
    """One panel as a matplotlib figure; inside `style.styled`."""
    figure = style.new_figure(*panel.size)
    axes = figure.add_subplot()
    panel.draw(axes)
    axes.set_title(panel.title)
    return figure


def assemble(figure: Figure) -> Any:
    """All panels in one matplotlib figure with a legend below; inside `style.styled`."""
    count = len(figure.panels)
    across = min(figure.columns_of_panels, count)
    down = math.ceil(count / across)
    width = max(panel.size[0] for panel in figure.panels)
    height = max(panel.size[1] for panel in figure.panels)
    drawn = style.new_figure(across * width, down * height + (0.3 if figure.legend else 0))
    for number, panel in enumerate(figure.panels):
        axes = drawn.add_subplot(down, across, number + 1)
        panel.draw(axes)
        axes.set_title(panel.title)
    if figure.legend:
        drawn.legend(handles=[_handle(each) for each in figure.legend], loc="outside lower center", ncols=4)
    return drawn


def _handle(mark: Mark) -> Any:
    from matplotlib.lines import Line2D

    line = mark.line if mark.marker == "line" else "none"
    fill = "none" if mark.label.startswith("published") else mark.colour
    marker = "none" if mark.marker == "line" else mark.marker
    look = {"color": mark.colour, "linestyle": line, "marker": marker, "markerfacecolor": fill}
    handle = Line2D([], [], label=mark.label)
    handle.set(**look)
    return handle
