"""`jatpo solve`: policies with bounds for the models of domains, files and libraries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.evaluate import chosen_sources
from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress
from jatpo.errors import JatpoError, unknown

if TYPE_CHECKING:
    from jatpo.files import UserLibrary
    from jatpo.model import POMDP
    from jatpo.solve import Solution
    from jatpo.solve.driver import Settings

SOLVERS = ("anytime", "perseus", "qmdp", "value-iteration")
COLUMNS = ("domain", "model", "lower", "upper", "vectors", "stages", "backups", "seconds", "stopped")


def solve(
    names: Annotated[
        list[str], typer.Argument(help="Domains, .POMDP files or libraries; 'all': all domains.")
    ],
    model: Annotated[int | None, typer.Option(help="Only this model of each.")] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="All models of a domain, not only the main table's.")
    ] = False,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint",
            help="All models of each as one problem: the best that can be done without knowing the model.",
        ),
    ] = False,
    solver: Annotated[
        str, typer.Option(help="anytime, perseus (the paper's way and settings), qmdp or value-iteration.")
    ] = "anytime",
    rules: Annotated[str, typer.Option(help="as_run or as_written.")] = "as_run",
    seconds: Annotated[
        float | None,
        typer.Option(help="anytime: stop each model after so long; 0 for no limit (10; with --joint 0)."),
    ] = None,
    gap: Annotated[
        float, typer.Option(help="anytime: stop when the bounds are this close; 0 for never.")
    ] = 0.01,
    stages: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many stages (perseus: the published number; --joint: that of bayes)."
        ),
    ] = None,
    beliefs: Annotated[
        int | None, typer.Option(help="perseus: belief points (the published number).")
    ] = None,
    off_policy: Annotated[
        float | None,
        typer.Option(help="anytime: share of walkers that act at random (0.125; with --joint 0.5)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed and number of stages give the same result.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where solutions are kept (.jatpo/solutions).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Solve models; what is finished is loaded, what was stopped goes on."""
    if solver not in SOLVERS:
        raise unknown("solver", solver, SOLVERS)
    if joint and model is not None:
        raise JatpoError("--joint takes all models together and --model one of them: give one of the two")
    options = {"seconds": seconds, "gap": gap, "stages": stages, "beliefs": beliefs, "off_policy": off_policy}
    rows: list[dict[str, Any]] = []
    for name in chosen_sources(names):
        rows += _solve_name(name, "joint" if joint else model, pool, rules, solver, options, seed, out, quiet)
    if json:
        print_json(rows)
    else:
        print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in rows])


def settings_of(solver: str, target: Any, options: dict[str, Any]) -> Settings:
    """The settings of `solver` for a domain or library, with the options that were given."""
    from jatpo.solve import AnytimeSettings, ExactSettings, PerseusSettings

    if solver == "anytime":
        chosen = {name: options[name] for name in ("seconds", "off_policy") if options[name] is not None}
        return AnytimeSettings(**chosen, gap=options["gap"], stages=options["stages"] or 0)
    if solver == "perseus":
        return PerseusSettings(
            beliefs=options["beliefs"] or target.settings.beliefs,
            stages=options["stages"] or target.settings.horizon,
            tolerance=target.settings.tolerance,
        )
    return ExactSettings(solver)


def _joint_options(solver: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options for a joint problem: those of the agent `bayes`, which will then find it solved, unless given."""
    from jatpo.evaluate.bayes import ROUNDS
    from jatpo.solve.anytime import FOR_AGENTS

    if options["off_policy"] is None:
        options = {**options, "off_policy": FOR_AGENTS}
    if solver != "anytime" or options["seconds"]:
        return options
    return {**options, "seconds": 0.0, "stages": options["stages"] or ROUNDS}


def _models(target: UserLibrary, name: str, model: int | str | None) -> dict[int | str, POMDP]:
    """The models to solve, by number; all of them in one with "joint"."""
    if model == "joint":
        return {"joint": target.stacked().joint()}
    count = len(target.models)
    if isinstance(model, int) and not 0 <= model < count:
        raise JatpoError(f"{name} has models 0 to {count - 1}, and model {model} was asked for")
    return {k: part for k, part in enumerate(target.models) if model in (None, k)}


def _solve_name(
    name: str,
    model: int | str | None,
    pool: bool,
    rules: str,
    solver: str,
    options: dict[str, Any],
    seed: int,
    out: Path | None,
    quiet: bool,
) -> list[dict[str, Any]]:
    """The rows of one domain or library."""
    from jatpo.files import resolve
    from jatpo.solve import default_directory, solve_library

    target = resolve(name, rules=rules, pool=pool)
    for text in target.notes:
        print(f"jatpo: note: {text}", file=sys.stderr)
    models = _models(target, name, model)
    labels = [str(k) for k in models]
    if model == "joint":
        options = _joint_options(solver, options)
    settings = settings_of(solver, target, options)
    with Progress(f"solving {name}", quiet) as progress:

        def show(**fields: Any) -> None:
            label = fields.pop("label")
            progress.title = f"solving {name} model {label}"
            rate = fields["backups"] / max(fields["seconds"], 1e-9)
            shown = {**fields, "backups/s": round(rate), "seconds": round(fields["seconds"], 1)}
            progress.update(labels.index(label), len(labels), **shown)

        solutions = solve_library(
            list(models.values()),
            settings,
            seed=seed,
            directory=out or default_directory(),
            progress=show,
            labels=labels,
            note=lambda text: print(f"jatpo: {text}", file=sys.stderr),
        )
        progress.update(len(labels), len(labels))
    return [_row(name, k, solution) for k, solution in zip(models, solutions, strict=True)]


def _row(name: str, k: int | str, solution: Solution) -> dict[str, Any]:
    """What is told of a solution."""
    return {
        "domain": name,
        "model": k,
        "lower": solution.lower,
        "upper": solution.upper,
        "gap": solution.gap,
        "vectors": solution.num_vectors,
        "stages": solution.stages,
        "backups": solution.backups,
        "seconds": solution.seconds,
        "stopped": solution.stopped,
        "mean_value": solution.mean_value,
        "seed": solution.seed,
        "settings": solution.settings,
    }
