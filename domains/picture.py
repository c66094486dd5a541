"""A state as a matplotlib picture: the stage, everybody on it, and a belief laid over it as a heat map.

Colours follow Okabe and Ito, and everybody has a shape and a letter of their own: nothing depends on
colour alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jatpo.domains.domain import Domain
from jatpo.domains.places import Snapshot, Stage
from jatpo.domains.scene import Scene, scene
from jatpo.domains.structure import World
from jatpo.domains.text import letter, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHAPES = {"agent": "o", "teammate": "s", "prey": "^"}
GOAL = "#E69F00"
Style = Mapping[str, Any]  # keyword arguments of matplotlib's texts


@dataclass(frozen=True)
class Palette:
    """The colours that change between a light and a dark page."""

    paper: str
    floor: str
    line: str
    wall: str
    furniture: str
    ink: str
    goal: str
    agent: str
    teammate: str
    prey: str
    other: str = "#CC79A7"

    def colour(self, who: str) -> str:
        """The colour of an agent."""
        return getattr(self, who) if who in SHAPES else self.other


LIGHT = Palette(
    paper="#ffffff",
    floor="#ffffff",
    line="#d5d9de",
    wall="#4b525c",
    furniture="#eceff2",
    ink="#1d2126",
    goal="#fdf1d6",
    agent="#0072B2",
    teammate="#D55E00",
    prey="#009E73",
)
NUMBERS = 0.5  # of a cell, beside a grid
DARK = Palette(
    paper="#15181c",
    floor="#1e2227",
    line="#3a4048",
    wall="#6b747e",
    furniture="#2b3037",
    ink="#e8eaed",
    goal="#3d3013",
    agent="#56B4E9",
    teammate="#FF8340",
    prey="#1FC79A",
)


def draw(
    axes: Axes,
    domain: str | Domain | World | Scene,
    state: int | str | None = None,
    *,
    belief: Sequence[float] | np.ndarray | None = None,
    model: int = 0,
    rules: str = "as_run",
    dark: bool = False,
    title: str | None = None,
    legend: bool = False,
    **overrides: Any,
) -> None:
    """Draws a state (number or name; None: the empty stage) onto `axes`.

    A belief over states [X] shades every place by the probability that an agent is there: the upper left half
    for the first of those whose place is uncertain, the lower right half for the second.
    """
    shown = scene(domain, model, rules, **overrides)
    palette = DARK if dark else LIGHT
    number, weights = shown.index(state), shown.check(belief)
    axes.set_facecolor(palette.paper)
    axes.set_axis_off()
    if title:
        axes.set_title(title, color=palette.ink, fontsize=10)
    if shown.stage is None:
        _draw_names(axes, shown, number, weights, palette)
        return
    snapshot = shown.stage.snapshot(number)
    _frame(axes, shown.stage)
    _draw_places(axes, shown.stage, snapshot, palette)
    _draw_numbers(axes, shown.stage, palette)
    if weights is not None:
        _draw_belief(axes, shown.stage, weights, palette)
    _draw_words(axes, shown.stage, snapshot, palette)
    _draw_people(axes, shown.stage, snapshot, palette)
    if legend:
        _draw_legend(axes, shown.stage, palette, weights is not None)
    if number is not None and not snapshot.positions:
        middle = {"transform": axes.transAxes, "ha": "center", "va": "center"}
        axes.text(0.5, 0.5, shown.states[number], **middle, **_note(palette))


def render(
    domain: str | Domain | World | Scene,
    state: int | str | None = None,
    *,
    axes: Axes | None = None,
    path: str | os.PathLike[str] | None = None,
    **options: Any,
) -> str | None:
    """Text by default; with `axes` a drawing, with `path` a picture file (png, svg, pdf)."""
    if axes is not None:
        return draw(axes, domain, state, **options)
    if path is None:
        return render_text(domain, state, **options)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), facecolor=(DARK if options.get("dark") else LIGHT).paper)
    draw(figure.add_axes((0.02, 0.02, 0.96, 0.9)), domain, state, **options)
    figure.savefig(path, dpi=150, bbox_inches="tight", facecolor=figure.get_facecolor())
    return None


def _note(palette: Palette) -> Style:
    box = {"boxstyle": "round,pad=0.4", "facecolor": palette.furniture, "edgecolor": palette.line}
    return {"color": palette.ink, "fontsize": 9, "bbox": box, "zorder": 9}


def _reach(stage: Stage) -> float:
    """Half the width of a place: rooms of a graph are smaller than their distance."""
    return 0.34 if stage.links else 0.5


def _frame(axes: Axes, stage: Stage) -> None:
    across, along = ([getattr(place, axis) for place in stage.places] for axis in "xy")
    edge = _reach(stage) + (0.42 if stage.links else 0.06)
    numbers = 0 if stage.links else NUMBERS  # room for the numbers of columns and rows
    axes.set_xlim(min(across) - edge - numbers, max(across) + edge)
    axes.set_ylim(max(along) + edge, min(along) - edge - numbers)
    axes.set_aspect("equal")


def _draw_numbers(axes: Axes, stage: Stage, palette: Palette) -> None:
    """The numbers of columns and rows, as in the names of states; rooms of a graph have names instead."""
    if stage.links:
        return
    columns, rows = ({getattr(place, axis) for place in stage.places} for axis in "xy")
    beside = 0.5 + NUMBERS / 2
    style: Style = {"color": palette.wall, "fontsize": 7, "ha": "center", "va": "center"}
    for x in sorted(columns)[:: 1 + len(columns) // 16]:
        axes.text(x, min(rows) - beside, f"{x:g}", **style)
    for y in sorted(rows)[:: 1 + len(rows) // 16]:
        axes.text(min(columns) - beside, y, f"{y:g}", **style)


def _draw_places(axes: Axes, stage: Stage, snapshot: Snapshot, palette: Palette) -> None:
    from matplotlib.patches import Rectangle

    for a, b in stage.links:
        one, other = stage.places[a], stage.places[b]
        axes.plot(
            [one.x, other.x],
            [one.y, other.y],
            color=palette.line,
            linewidth=5,
            zorder=0,
            solid_capstyle="round",
        )
    fills = {"wall": palette.wall, "counter": palette.furniture, "supply": palette.furniture}
    fills["device"] = palette.furniture
    half = _reach(stage)
    for number, place in enumerate(stage.places):
        goal = number in snapshot.goals
        fill = palette.goal if goal else fills.get(place.kind, palette.floor)
        corner = (place.x - half, place.y - half)
        edge = palette.wall if place.kind == "wall" else palette.line
        axes.add_patch(
            Rectangle(corner, 2 * half, 2 * half, facecolor=fill, edgecolor=edge, linewidth=0.8, zorder=1)
        )
        if goal:
            inner = (place.x - 0.88 * half, place.y - 0.88 * half)
            size = 1.76 * half
            ring = Rectangle(inner, size, size, facecolor="none", edgecolor=GOAL, linewidth=1.6, zorder=3)
            axes.add_patch(ring)


def _draw_belief(axes: Axes, stage: Stage, belief: np.ndarray, palette: Palette) -> None:
    """Half a cell for each of two agents, with the square root of the probability as opacity."""
    from matplotlib.patches import Polygon

    half = _reach(stage)
    corners = [np.array([(-1, 1), (-1, -1), (1, -1)]), np.array([(1, -1), (1, 1), (-1, 1)])]
    people = stage.uncertain[:2]
    if len(people) == 1:
        corners = [np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])]
    for who, triangle in zip(people, corners, strict=False):
        for place, probability in zip(stage.places, stage.marginal(who, belief), strict=True):
            if probability > 1e-4:
                spot = np.array([place.x, place.y]) + half * triangle
                strength = 0.85 * min(float(probability), 1.0) ** 0.5
                axes.add_patch(
                    Polygon(spot, facecolor=palette.colour(who), alpha=strength, linewidth=0, zorder=2)
                )


def _draw_words(axes: Axes, stage: Stage, snapshot: Snapshot, palette: Palette) -> None:
    """Names of places, and what lies on them."""
    half, unit = _reach(stage), _points(axes)
    small, large = (min(max(share * unit, 5.0), 12.0) for share in (0.14, 0.16))
    style = {"ha": "center", "color": palette.ink, "zorder": 4, "clip_on": False}
    box: Style = {"bbox": {"facecolor": palette.paper, "edgecolor": "none", "pad": 1}} if stage.links else {}
    for number, place in enumerate(stage.places):
        if place.name:
            below = place.y + (half + 0.06 if stage.links else 0.4)
            name = place.name.replace(" workbench", "\nworkbench")
            axes.text(
                place.x, below, name, va="top" if stage.links else "bottom", fontsize=small, **style, **box
            )
        if number in snapshot.marks:
            above = place.y - (half + 0.08) if stage.links else place.y
            vertical = "bottom" if stage.links else "center"
            axes.text(
                place.x,
                above,
                snapshot.marks[number],
                va=vertical,
                fontsize=large,
                fontweight="bold",
                **style,
                **box,
            )


def _draw_people(axes: Axes, stage: Stage, snapshot: Snapshot, palette: Palette) -> None:
    """A shape with a letter each; those who share a place stand side by side."""
    half = _reach(stage)
    for who, number in snapshot.positions.items():
        company = [name for name, spot in snapshot.positions.items() if spot == number]
        place, size = stage.places[number], (1.1 if len(company) == 1 else 0.76) * half
        shift = 0.84 * half * (company.index(who) - (len(company) - 1) / 2)
        held = snapshot.hands.get(who)
        _draw_one(axes, stage, who, (place.x + shift, place.y + (0.07 if held else 0)), size, palette)
        if held:
            font = {
                "fontsize": min(max(0.15 * _points(axes), 5.0), 11.0),
                "color": palette.ink,
                "fontweight": "bold",
            }
            axes.text(place.x + shift, place.y - 0.39, held, ha="center", va="center", zorder=8, **font)


def _draw_one(
    axes: Axes, stage: Stage, who: str, spot: tuple[float, float], size: float, palette: Palette
) -> None:
    """One person as a marker `size` units wide."""
    points = size * _points(axes)
    shape = SHAPES.get(who, "D")
    edge = {"markeredgecolor": palette.paper, "markeredgewidth": max(0.6, 0.05 * points)}
    axes.plot(*spot, shape, markersize=points, color=palette.colour(who), zorder=6, clip_on=False, **edge)
    lower = 0.12 * size if shape == "^" else 0
    font = {"fontsize": max(3.0, 0.5 * points), "fontweight": "bold", "color": palette.paper}
    axes.text(
        spot[0], spot[1] + lower, letter(stage, who), ha="center", va="center_baseline", zorder=7, **font
    )


def _draw_legend(axes: Axes, stage: Stage, palette: Palette, halves: bool) -> None:
    """Who is who, below the picture; with a belief also which half of a place is whose."""
    from matplotlib.lines import Line2D

    where = dict(zip(stage.uncertain, (" (upper left)", " (lower right)"), strict=False)) if halves else {}
    handles = [
        Line2D(
            [],
            [],
            marker=SHAPES.get(who, "D"),
            linestyle="",
            color=palette.colour(who),
            label=f"{stage.role(who)}{where.get(who, '')}",
        )
        for who in stage.positions
    ]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        labelcolor=palette.ink,
        handletextpad=0.2,
    )


def _points(axes: Axes) -> float:
    """How many points one unit of the stage takes on the page."""
    box = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    pixels = min(box.width / abs(right - left), box.height / abs(top - bottom))
    return pixels * 72 / axes.figure.dpi


def _draw_names(
    axes: Axes, shown: Scene, number: int | None, belief: np.ndarray | None, palette: Palette
) -> None:
    """Without a stage: the state's name, and the likeliest states of the belief as bars."""
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    if number is not None:
        name = shown.states[number]
        rows = name.count("\n") + 1
        size = {"family": "monospace", "fontsize": min(15, 160 / rows)} if rows > 1 else {}  # drawn as text
        middle = 0.5 if rows > 1 else 0.08
        axes.text(0.5, middle, name, ha="center", va="center", **{**_note(palette), **size})
    for row, (name, probability) in enumerate(shown.likeliest(belief) if belief is not None else []):
        middle = 0.22 + 0.095 * row
        axes.barh(middle, probability, height=0.075, color=palette.agent, alpha=0.35)
        axes.text(0.01, middle, f"{probability:.0%}  {name}", va="center", fontsize=8, color=palette.ink)
