"""The options of all commands that solve models, in one place.

    @solves
    def watch(name: ..., solving: Solving = DEFAULTS, ...) -> None:

makes a command with --solver, --seconds, --gap, --stages, --set and --solutions in the place of `solving`, and with the
options of `jatpo.cli.engines`, which say where to compute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.cli import engines
from jatpo.cli.engines import Engines
from jatpo.cli.grouped import grouped
from jatpo.cli.progress import Progress
from jatpo.events import Event
from jatpo.screen import folded, visible

if TYPE_CHECKING:
    from jatpo.engine import Engine
    from jatpo.evaluate.solved import SolveOptions
    from jatpo.events import OnEvent
    from jatpo.solve import Request

KINDS: Mapping[str, Any] = {
    "solver": Annotated[
        str | None,
        typer.Option(
            help="anytime, graph, perseus, qmdp, sparse, value-iteration or your own; default: perseus where settings "
            "are published, sparse above 20,000 states, otherwise graph for one model, anytime for several."
        ),
    ],
    "seconds": Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Solve each model by graph or anytime for at most this time; 0: no time limit; default: 10.",
        ),
    ],
    "gap": Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop when upper - lower bound is at most this; default: 0.01 (graph, anytime), 0 (perseus).",
        ),
    ],
    "stages": Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Stop after this number of stages; default: the horizon (perseus), no limit (graph, anytime).",
        ),
    ],
    "settings": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=NUMBER", help="An option of the solver, as in capacity=16384."),
    ],
    "solutions": Annotated[
        Path | None,
        typer.Option(
            help="Where solutions are kept; default: $JATPO_CACHE, or jatpo/solutions in the user's cache directory."
        ),
    ],
    **engines.KINDS,
}


class Solving(NamedTuple):
    """What was chosen with the options of `KINDS`."""

    solver: str | None = None
    seconds: float | None = None
    gap: float | None = None
    stages: int | None = None
    settings: Sequence[str] | None = None
    solutions: Path | None = None
    scheduler: str | None = None
    workers: int | None = None
    shared: Path | None = None
    distributed: bool | None = None

    @property
    def engines(self) -> Engines:
        """Where to compute."""
        return Engines(*(getattr(self, name) for name in Engines._fields))

    @property
    def directory(self) -> Path | None:
        """Where solutions are kept; None: where commands keep them."""
        return self.solutions or self.engines.solutions

    def request(self) -> Request:
        """What the user asked for, checked before any work."""
        from jatpo.solve.stopping import Request, Stop, parse_settings

        if self.solver is not None:
            from jatpo.solve import SOLVERS

            SOLVERS.get(self.solver)
        Stop(self.seconds or 0.0, self.gap or 0.0, self.stages or 0)
        settings = parse_settings(self.settings or ())
        return Request(self.solver, self.seconds, self.gap, self.stages, settings)

    def described(self) -> dict[str, Any]:
        """How models are solved, for the manifest of results."""
        given = {name: value for name, value in self._asdict().items() if value and name in SOLVER_OPTIONS}
        if not given:
            return {"solver": "perseus, paper's settings"}
        if set(given) == {"seconds"}:
            return {"solver": f"graph or anytime, {self.seconds:g} s"}
        return {"solver": ", ".join(f"{name} {value}" for name, value in given.items())}

    def options(self, progress: Progress, engine: Engine | None = None) -> SolveOptions:
        """Options for the solver, with its progress shown."""
        from jatpo.evaluate.solved import SolveOptions

        return SolveOptions(self.request(), directory=self.directory, on_event=shown(progress), engine=engine)


DEFAULTS = Solving()
SOLVER_OPTIONS = ("solver", "seconds", "gap", "stages", "settings")


def solves(function: Callable[..., None], only: Sequence[str] = tuple(KINDS)) -> Callable[..., None]:
    """`function` as a command that has the options `only` of `KINDS` in the place of its parameter `solving`."""
    return grouped(function, "solving", {name: (KINDS[name], None) for name in only}, Solving)


def shown(progress: Progress) -> OnEvent:
    """A listener that shows the progress of solvers and prints their notes."""

    def show(event: Event) -> None:
        if event.note:
            progress(event)
            return
        figures = {name: part for name, part in event.figures.items() if name not in ("backups", "seconds")}
        progress(Event(event.title and f"solving {event.title}", event.done, event.total, figures))

    return show


def print_notes(notes: Sequence[str]) -> None:
    """Print notes on standard error."""
    for text in notes:
        print(folded(f"jatpo: note: {visible(text)}", sys.stderr), file=sys.stderr)


def note_listener(quiet: bool) -> OnEvent:
    """A listener for events before there is a progress line: it prints notes, unless `quiet`."""
    return lambda event: None if quiet or not event.note else print_notes([event.note])
