"""The options of all commands that solve models, in one place.

    @solves
    def watch(name: ..., solving: Solving = DEFAULTS, ...) -> None:

makes a command with --solver, --seconds, --gap, --stages, --set and --solutions in the place of `solving`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.cli.grouped import grouped
from jatpo.cli.progress import Progress
from jatpo.events import Event
from jatpo.screen import visible

if TYPE_CHECKING:
    from jatpo.evaluate.solved import SolveOptions
    from jatpo.events import OnEvent
    from jatpo.solve import Request

KINDS: Mapping[str, Any] = {
    "solver": Annotated[
        str | None,
        typer.Option(
            help="anytime, graph, perseus, qmdp, value-iteration or your own; default: perseus where settings are "
            "published, otherwise anytime."
        ),
    ],
    "seconds": Annotated[
        float | None,
        typer.Option(
            min=0, help="Solve each model by the anytime solver for at most this time; 0: no time limit."
        ),
    ],
    "gap": Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop when upper - lower bound is at most this; default: 0.01 (anytime), 0 (perseus).",
        ),
    ],
    "stages": Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Stop after this number of stages; default: the horizon (perseus), no limit (anytime).",
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
}


class Solving(NamedTuple):
    """What was chosen with the options of `KINDS`."""

    solver: str | None = None
    seconds: float | None = None
    gap: float | None = None
    stages: int | None = None
    settings: Sequence[str] | None = None
    solutions: Path | None = None

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
        given = {name: value for name, value in self._asdict().items() if value and name != "solutions"}
        if not given:
            return {"solver": "perseus, paper's settings"}
        if set(given) == {"seconds"}:
            return {"solver": f"anytime, {self.seconds:g} s"}
        return {"solver": ", ".join(f"{name} {value}" for name, value in given.items())}

    def options(self, progress: Progress) -> SolveOptions:
        """Options for the solver, with its progress shown."""
        from jatpo.evaluate.solved import SolveOptions

        return SolveOptions(self.request(), directory=self.solutions, on_event=shown(progress))


DEFAULTS = Solving()
SOLVER_OPTIONS = tuple(name for name in KINDS if name != "solutions")


def solves(function: Callable[..., None], only: Sequence[str] = tuple(KINDS)) -> Callable[..., None]:
    """`function` as a command that has the options `only` of `KINDS` in the place of its parameter `solving`."""
    return grouped(function, "solving", {name: (KINDS[name], None) for name in only}, Solving)


def shown(progress: Progress) -> OnEvent:
    """A listener that shows the progress of solvers and prints their notes."""

    def show(event: Event) -> None:
        if event.note:
            progress(event)
            return
        names = ("stage", "vectors", "lower", "upper")
        figures = {name: event.figures[name] for name in names}
        progress(Event(f"solving {event.title}", event.done, event.total, figures))

    return show


def print_notes(notes: Sequence[str]) -> None:
    """Print notes on standard error."""
    for text in notes:
        print(f"jatpo: note: {visible(text)}", file=sys.stderr)
