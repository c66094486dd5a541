"""A state as text, for terminals: a map, a table of rooms, or just the state's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jatpo.domains.domain import Domain
from jatpo.domains.places import Place, Snapshot, Stage
from jatpo.domains.scene import Scene, scene
from jatpo.domains.structure import World

COLUMN = 13  # characters of a named place
RAMP = " .:-=+*%@"  # darker is likelier


def render_text(
    domain: str | Domain | World | Scene,
    state: int | str | None = None,
    *,
    model: int = 0,
    rules: str = "as_run",
    belief: Sequence[float] | np.ndarray | None = None,
    **overrides: Any,
) -> str:
    """A state (number or name; None: the empty stage); below it the position marginals of a belief [X]."""
    shown = scene(domain, model, rules, **overrides)
    number, weights = shown.index(state), shown.check(belief)
    if shown.stage is None:
        lines = [shown.states[number]] if number is not None else []
        if weights is not None:
            lines += [f"{probability:6.1%}  {name}" for name, probability in shown.likeliest(weights)]
        return "\n".join(lines)
    parts = [_picture(shown.stage, shown.stage.snapshot(number))]
    if number is not None and not shown.stage.snapshot(number).positions:
        parts.append(f"({shown.states[number]})")
    if weights is not None:
        parts.append(_belief(shown.stage, weights))
    return "\n".join(parts)


def letter(stage: Stage, who: str) -> str:
    """The letter of an agent."""
    return stage.role(who)[0].upper()


def legend(stage: Stage) -> str:
    """`A agent  T teammate  [ ] goal`."""
    people = "  ".join(f"{letter(stage, who)} {stage.role(who)}" for who in stage.positions)
    return people if stage.links or _labelled(stage) else f"{people}  [ ] goal  # wall"


def _labelled(stage: Stage) -> bool:
    return any(place.name for place in stage.places)


def _picture(stage: Stage, snapshot: Snapshot) -> str:
    if stage.links:
        return _rooms(stage, snapshot)
    return _table(stage, snapshot) if _labelled(stage) else _map(stage, snapshot)


def _people(stage: Stage, snapshot: Snapshot) -> list[str]:
    """The letters on every place."""
    letters = [""] * len(stage.places)
    for who, place in snapshot.positions.items():
        letters[place] += letter(stage, who)
    return letters


def _crowd(stage: Stage) -> int:
    """The most that ever share a place."""
    where = np.stack([np.asarray(part) for part in stage.positions.values()])
    together = (where[:, None] == where[None]) & (where >= 0)[None]
    return max(1, int(together.sum(axis=0).max(initial=1)))


def _lay_out(stage: Stage, cells: Sequence[str], gap: str = "") -> str:
    """Cells of equal width put where their places are."""
    blank = " " * len(cells[0])
    rows = {int(place.y): {} for place in sorted(stage.places, key=lambda place: place.y)}
    for place, cell in zip(stage.places, cells, strict=True):
        rows[int(place.y)][int(place.x)] = cell
    columns = [int(place.x) for place in stage.places]
    across = range(min(columns), max(columns) + 1)
    return "\n".join(gap.join(row.get(x, blank) for x in across).rstrip() for row in rows.values())


def _map(stage: Stage, snapshot: Snapshot) -> str:
    """`###` a wall, ` A ` the agent, `[ ]` a goal."""
    width = _crowd(stage)
    cells = []
    for number, (place, people) in enumerate(zip(stage.places, _people(stage, snapshot), strict=True)):
        if place.kind == "wall":
            cells.append("#" * (width + 2))
        elif number in snapshot.goals:
            cells.append(f"[{people.center(width)}]")
        else:
            empty = "S" if place.kind == "start" and not snapshot.positions else "."
            cells.append(f" {(people or empty).center(width)} ")
    return _lay_out(stage, cells)


def _table(stage: Stage, snapshot: Snapshot) -> str:
    """Named places side by side, with who is there, what they hold and what lies there."""
    cells = []
    for number, place in enumerate(stage.places):
        here = [
            f"{letter(stage, who)}({snapshot.hands[who]})" if who in snapshot.hands else letter(stage, who)
            for who, spot in snapshot.positions.items()
            if spot == number
        ]
        mark = [snapshot.marks[number]] if number in snapshot.marks else []
        cells.append(": ".join([place.name, *mark]) if place.name else " ".join(here) or ".")
    return _lay_out(stage, [cell.ljust(COLUMN) for cell in cells], " | ")


def _rooms(stage: Stage, snapshot: Snapshot) -> str:
    """One line for each room: who is there, what is to be done, and the neighbours."""
    people = _people(stage, snapshot)
    wide = max(len(place.name) for place in stage.places)
    lines = []
    for number, place in enumerate(stage.places):
        near = sorted({b if a == number else a for a, b in stage.links if number in (a, b)})
        mark = snapshot.marks.get(number, _to_do(place))
        beside = ", ".join(map(str, near))
        lines.append(f"{place.name.ljust(wide)}  {people[number]:3} {mark:11} next to {beside}")
    return "\n".join(lines)


def _to_do(place: Place) -> str:
    return "of interest" if place.kind == "goal" else ""


def _belief(stage: Stage, belief: np.ndarray) -> str:
    """The position marginals: shaded maps, or percentages for rooms and named places."""
    parts = []
    for who in stage.uncertain:
        marginal = stage.marginal(who, belief)
        if stage.links or _labelled(stage):
            likely = [number for number in np.argsort(-marginal, kind="stable") if marginal[number] >= 0.005]
            listed = [f"{_place_name(stage.places[number])} {marginal[number]:.0%}" for number in likely]
            parts.append(f"{stage.role(who)}: {', '.join(listed)}")
        else:
            parts.append(f"{stage.role(who)}:\n{_shaded(stage, marginal)}")
    return "\n".join(parts)


def _place_name(place: Place) -> str:
    return place.name or f"{place.x:g},{place.y:g}"


def _shaded(stage: Stage, marginal: np.ndarray) -> str:
    """A map whose open cells are darker the more probable they are."""
    level = np.ceil(np.sqrt(np.clip(marginal, 0, 1)) * (len(RAMP) - 1) - 1e-9).astype(int)
    shades = [
        "##" if place.kind == "wall" else RAMP[n] * 2 for place, n in zip(stage.places, level, strict=True)
    ]
    return _lay_out(stage, shades)
