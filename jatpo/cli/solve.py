"""`jatpo solve`: policies with bounds for the models of domains, files and libraries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress
from jatpo.errors import JatpoError, unknown

if TYPE_CHECKING:
    from jatpo.solve import Solution
    from jatpo.solve.driver import Settings

SOLVERS = ("anytime", "perseus", "qmdp", "value-iteration")
COLUMNS = ("domain", "model", "lower", "upper", "vectors", "stages", "backups", "seconds", "stopped")


def solve(
    names: Annotated[list[str], typer.Argument(help="Domains, .POMDP files or libraries.")],
    model: Annotated[int | None, typer.Option(help="Only this model of each.")] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="All models of a domain, not only the main table's.")
    ] = False,
    solver: Annotated[
        str, typer.Option(help="anytime, perseus (the paper's way and settings), qmdp or value-iteration.")
    ] = "anytime",
    rules: Annotated[str, typer.Option(help="as_run or as_written.")] = "as_run",
    seconds: Annotated[
        float, typer.Option(help="anytime: stop each model after so long; 0 for no limit.")
    ] = 10.0,
    gap: Annotated[
        float, typer.Option(help="anytime: stop when the bounds are this close; 0 for never.")
    ] = 0.01,
    stages: Annotated[
        int | None, typer.Option(help="Stop after so many stages (perseus: the published number).")
    ] = None,
    beliefs: Annotated[
        int | None, typer.Option(help="perseus: belief points (the published number).")
    ] = None,
    off_policy: Annotated[float, typer.Option(help="anytime: share of walkers that act at random.")] = 0.125,
    seed: Annotated[int, typer.Option(help="The same seed and number of stages give the same result.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where solutions are kept (.jatpo/solutions).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Solve models; what is finished is loaded, what was stopped goes on."""
    if solver not in SOLVERS:
        raise unknown("solver", solver, SOLVERS)
    options = {"seconds": seconds, "gap": gap, "stages": stages, "beliefs": beliefs, "off_policy": off_policy}
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += _solve_name(name, model, pool, rules, solver, options, seed, out, quiet)
    if json:
        print_json(rows)
    else:
        print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in rows])


def settings_of(solver: str, target: Any, options: dict[str, Any]) -> Settings:
    """The settings of `solver` for a domain or library, with the options that were given."""
    from jatpo.solve import AnytimeSettings, ExactSettings, PerseusSettings

    if solver == "anytime":
        chosen = {name: options[name] for name in ("seconds", "gap", "off_policy")}
        return AnytimeSettings(**chosen, stages=options["stages"] or 0)
    if solver == "perseus":
        return PerseusSettings(
            beliefs=options["beliefs"] or target.settings.beliefs,
            stages=options["stages"] or target.settings.horizon,
            tolerance=target.settings.tolerance,
        )
    return ExactSettings(solver)


def _solve_name(
    name: str,
    model: int | None,
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
    count = len(target.models)
    if model is not None and not 0 <= model < count:
        raise JatpoError(f"{name} has models 0 to {count - 1}, and model {model} was asked for")
    chosen = range(count) if model is None else [model]
    settings = settings_of(solver, target, options)
    with Progress(f"solving {name}", quiet) as progress:

        def show(**fields: Any) -> None:
            label = fields.pop("label")
            progress.title = f"solving {name} model {label}"
            rate = fields["backups"] / max(fields["seconds"], 1e-9)
            shown = {**fields, "backups/s": round(rate), "seconds": round(fields["seconds"], 1)}
            progress.update(list(chosen).index(int(label)), len(chosen), **shown)

        solutions = solve_library(
            [target.models[k] for k in chosen],
            settings,
            seed=seed,
            directory=out or default_directory(),
            progress=show,
            labels=[str(k) for k in chosen],
            note=lambda text: print(f"jatpo: {text}", file=sys.stderr),
        )
        progress.update(len(chosen), len(chosen))
    return [_row(name, k, solution) for k, solution in zip(chosen, solutions, strict=True)]


def _row(name: str, k: int, solution: Solution) -> dict[str, Any]:
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
