"""`jatpo compare`: jatpo next to other solvers that the user has installed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.options import Quiet, check_rules
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.progress import Progress
from jatpo.errors import JatpoError, unknown
from jatpo.events import Event
from jatpo.tables import Column, Table

if TYPE_CHECKING:
    from jatpo.bench.peers import Bounds
    from jatpo.model import POMDP

FORMATS = ("svg", "pdf", "png")
SHOWN = (0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)  # seconds at which bounds are shown
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
ENDLESS = 1_000_000_000  # stages
COLUMNS = (
    "solver",
    Column("seconds", format=".2f"),
    Column("lower", format=".6g"),
    Column("upper", format=".6g"),
    Column("gap", format=".3g"),
)


class _TimeUp(Exception):
    """Ends our own solver."""


@exports
def compare(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A domain, one of its models (gridworld:0), or a .POMDP file."),
    ],
    model: Annotated[int | None, typer.Option(help="This model of a domain or library.")] = None,
    joint: Annotated[bool, typer.Option("--joint", help="All models as one problem.")] = False,
    rules: Annotated[str, typer.Option(help="as_run or as_written.")] = "as_run",
    seconds: Annotated[float, typer.Option(help="Processor time of each solver.")] = 20.0,
    solver: Annotated[str, typer.Option(help="The solver of jatpo.")] = "graph",
    plot: Annotated[
        Path | None, typer.Option(help="Draw the bounds over time: FILE.svg, .pdf or .png.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of jatpo's solver.")] = 0,
    form: Form = TEXT,
    quiet: Quiet = False,
) -> None:
    """Compare bounds over time with pomdpsol (APPL's SARSOP) and scikit-decide, if installed.

    Seconds are processor time, from when the solver has read the model; compiling counts.
    """
    check_rules(rules)
    if not 0 < seconds < 1e6:
        raise JatpoError(f"--seconds must be above 0 and below 1000000, got {seconds:g}")
    if joint and model is not None:
        raise JatpoError("--joint takes all models together and --model one of them: give one of the two")
    draw = None if plot is None else _plot_format(plot)
    chosen = _chosen(name, rules, "joint" if joint else model)
    with Progress(f"comparing on {name}", quiet) as progress:
        found, notes = _run(name, chosen, solver, seconds, seed, progress)
    rows = [
        {"solver": each, **point._asdict(), "gap": point.upper - point.lower}
        for each, bounds in found.items()
        for point in bounds
    ]
    table = Table(_shown(found, seconds), COLUMNS, notes=notes)
    if form.chosen:
        form.write(
            [table],
            {"name": name, "seconds": seconds, "bounds": rows, "notes": notes},
            [Table(rows, COLUMNS)],
        )
    else:
        print(table)
    if plot is not None and draw is not None:
        _draw(found, name, plot, draw)


def _plot_format(path: Path) -> str:
    """The format of a figure by its suffix; a place that cannot be written is an error before any work."""
    from jatpo.disk import check_file

    suffix = path.suffix[1:].lower()
    if suffix not in FORMATS:
        raise unknown("format of a figure", path.suffix, [f".{each}" for each in FORMATS])
    check_file(path)
    return suffix


def _chosen(name: str, rules: str, kind: int | str | None) -> POMDP:
    """The one model to compare on."""
    from jatpo.cli.solve import models_of
    from jatpo.files import load_tables

    models = models_of(load_tables(name, rules=rules), name, kind)
    if len(models) > 1:
        raise JatpoError(
            f"{name} has {len(models)} models: choose one with --model, or --joint for all as one"
        )
    return next(iter(models.values()))


def _run(
    name: str, model: POMDP, solver: str, seconds: float, seed: int, progress: Progress
) -> tuple[dict[str, Sequence[Bounds]], list[str]]:
    """(the bounds of each solver over time, a note for each that is absent or failed)."""
    from jatpo.bench.peers import model_file, peers, unsupported

    found: dict[str, Sequence[Bounds]] = {}
    notes = []
    known = peers()
    progress(Event("running jatpo", 0, len(known) + 1))
    found[f"jatpo {solver}"] = _ours(model, solver, seconds, seed)
    with model_file(name, model) as file:
        for done, peer in enumerate(known):
            if peer.place is None:
                notes.append(f"{peer.name} ({peer.source}) is not installed")
                continue
            progress(Event(f"running {peer.name}", done + 1, len(known) + 1))
            try:
                found[peer.name] = peer.run(peer.place, file, seconds)
            except JatpoError as error:
                notes.append(f"{peer.name} failed: {error}")
    notes += [f"{package} is installed, but jatpo compare does not run it" for package in unsupported()]
    return found, notes


def _ours(model: POMDP, solver: str, seconds: float, seed: int) -> list[Bounds]:
    """The bounds of jatpo's own solver over processor time, which is what pomdpsol counts."""
    import jax

    from jatpo.bench.peers import Bounds
    from jatpo.solve import Request, choose, solve_models

    found: list[Bounds] = []
    began = time.process_time()

    def collect(event: Event) -> None:
        if not event.note:
            figures = event.figures
            spent = time.process_time() - began
            found.append(Bounds(spent, figures["lower"], figures["upper"]))
            if spent >= seconds:
                raise _TimeUp

    choice = choose(Request(solver, stages=ENDLESS, gap=0.0), num_models=1, horizon=1)
    with contextlib.suppress(_TimeUp):
        solve_models([model], *choice, key=jax.random.key(seed), on_event=collect)
    return found


def _shown(found: Mapping[str, Sequence[Bounds]], seconds: float) -> list[dict[str, Any]]:
    """The bounds of each solver at some times, and the last ones."""
    rows = []
    for solver, bounds in found.items():
        last = bounds[-1]
        chosen = {
            point: time for time in SHOWN if time < seconds and (point := _at(bounds, time)) is not None
        }
        shown = [point for point in chosen if point != last] + [last]
        rows += [{"solver": solver, **point._asdict(), "gap": point.upper - point.lower} for point in shown]
    return rows


def _at(bounds: Sequence[Bounds], seconds: float) -> Bounds | None:
    """The last bounds that were known after `seconds`."""
    return next((point for point in reversed(bounds) if point.seconds <= seconds), None)


def _draw(found: Mapping[str, Sequence[Bounds]], title: str, path: Path, form: str) -> None:
    """Both bounds of every solver over time."""
    from matplotlib.figure import Figure

    from jatpo.disk import write_whole
    from jatpo.report import style

    with style.styled():
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for number, (solver, bounds) in enumerate(found.items()):
            times, lower, upper = zip(*bounds, strict=True)
            look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "drawstyle": "steps-post"}
            axes.plot(times, lower, label=solver, **look)
            axes.plot(times, upper, linestyle="--", **look)
        axes.set_xlabel("seconds")
        axes.set_ylabel("bounds (dashed: upper)")
        axes.set_title(title)
        axes.legend()
        write_whole(path, style.to_bytes(figure, form, "#ffffff"))
