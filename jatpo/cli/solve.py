"""`jatpo solve`: policies with bounds for the models of domains, files and libraries."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.options import Model, Names, Pool, chosen_sources
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.progress import Progress
from jatpo.cli.solving import DEFAULTS, Solving, note_listener, print_notes, shown, solves
from jatpo.errors import JatpoError
from jatpo.events import Event
from jatpo.tables import Column, Table

if TYPE_CHECKING:
    from jatpo.engine import Engine
    from jatpo.library import Library
    from jatpo.model import POMDP
    from jatpo.solve import Policy, Request, Solution

SMALL = 1 << 20  # bytes of files that are worth a try without jax
COLUMNS = (
    *("domain", "model", "lower", "upper", "vectors"),
    *(Column(key, optional=True) for key in ("stages", "backups")),
    *("seconds", "status"),
)


@solves
@exports
def solve(
    names: Names,
    model: Model = None,
    pool: Pool = False,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint",
            help="All models of each as one problem: the best that can be done without knowing the model.",
        ),
    ] = False,
    rules: Annotated[str, typer.Option(help="as_run or as_written.")] = "as_run",
    solving: Solving = DEFAULTS,
    beliefs: Annotated[
        int | None, typer.Option(help="perseus: belief points; default: the published number.")
    ] = None,
    off_policy: Annotated[
        float | None,
        typer.Option(
            help="anytime: share of walkers that act at random; default: 0.5 among several models, else 0.125."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed and number of stages give the same result.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Another name for --solutions.")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Also write the policy of a single model: FILE.policy or FILE.alpha.")
    ] = None,
    form: Form = TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> None:
    """Solve models. Finished solutions are loaded, interrupted ones resumed; evaluate and watch use the same ones."""
    if joint and model is not None:
        raise JatpoError("--joint takes all models together and --model one of them: give one of the two")
    more = [("beliefs", beliefs), ("off_policy", off_policy)]
    settings = [*(solving.settings or ()), *(f"{name}={value}" for name, value in more if value is not None)]
    solving = solving._replace(settings=settings, solutions=solving.solutions or out)
    request = solving.request()
    write = None if export is None else _exporter(export)
    elsewhere = solving.scheduler or solving.workers or solving.distributed
    plain = (
        not joint and export is None and solving.solutions is None and model in (None, 0) and not elsewhere
    )
    rows = (_solve_at_once(names, request, seed) if plain else None) or []
    sources = chosen_sources(names) if not rows else []
    single = write is not None
    with solving.engines.engine(note_listener(quiet)) as engine:
        for name in sources:
            chosen = "joint" if joint else model
            solutions = _solve_name(name, chosen, pool, rules, request, solving, seed, quiet, single, engine)
            if write is not None:
                write(next(iter(solutions.values())).policy)
            rows += [_row(name, k, solution) for k, solution in solutions.items()]
    table = Table(rows, COLUMNS)
    if export is not None and not quiet:
        print(f"the policy is in {export}", file=sys.stderr)
    if form.chosen:
        form.write([table], rows)
    else:
        print(table)


def _solve_at_once(names: Sequence[str], request: Request, seed: int) -> list[dict[str, Any]] | None:
    """The rows of small .POMDP files, if all of them are solved within a second: they are not kept."""
    if request.solver not in (None, "graph") or request.settings or os.environ.get("JATPO_EXTENSIONS"):
        return None
    if not all(Path(name).suffix.lower() == ".pomdp" and Path(name).is_file() for name in names):
        return None
    if sum(Path(name).stat().st_size for name in names) > SMALL:
        return None
    from jatpo.files.reader import read_checked
    from jatpo.solve.compiled_engine import available
    from jatpo.solve.quick import solve_at_once
    from jatpo.solve.search_state import Search
    from jatpo.solve.stopping import stop_of

    stop, rows, noted = stop_of(request), [], []
    settings = {name: value for name, value in vars(Search()).items() if name != "gap"}
    settings["compiled"] = int(available())
    for name in dict.fromkeys(names):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = solve_at_once(read_checked(name), stop, seed)
        if found is None:
            return None
        noted += [str(warning.message) for warning in caught]
        info = found.info
        row = {"domain": name, "model": 0, "vectors": info.vectors, "status": found.status.value}
        row |= {
            "lower": info.lower,
            "upper": info.upper,
            "gap": info.upper - info.lower,
            "stages": info.stages,
        }
        row |= {"backups": info.backups, "seconds": found.seconds, "mean_value": None, "seed": seed}
        rows.append(row | {"solver": "graph", "settings": settings, "stop": vars(stop)})
    print_notes(noted)
    return rows


def _exporter(path: Path) -> Callable[[Policy], None]:
    """The function that writes a policy to `path`; an unsuitable name is an error before any work."""
    from jatpo.disk import check_file
    from jatpo.files import formats, read_policy  # noqa: F401 - imports the built-in formats

    form = formats.find(path, "policy", write=True)
    check_file(path)
    assert form.write is not None  # of the formats that can be written
    return functools.partial(_write, form.write, path)


def _write(write: Callable[[Policy, Path], None], path: Path, policy: Policy) -> None:
    write(policy, path)


def models_of(target: Library, name: str, model: int | str | None) -> dict[int | str, POMDP]:
    """The models to solve, by number; all of them in one with "joint"."""
    if model == "joint":
        return {"joint": target.joint()}
    count = target.num_models
    if isinstance(model, int) and not 0 <= model < count:
        raise JatpoError(f"{name} has no model {model}: choose from 0 to {count - 1}")
    return {k: part for k, part in enumerate(target.members) if model in (None, k)}


def _solve_name(
    name: str,
    model: int | str | None,
    pool: bool,
    rules: str,
    request: Request,
    solving: Solving,
    seed: int,
    quiet: bool,
    single: bool,
    engine: Engine | None,
) -> dict[int | str, Solution]:
    """The solutions of one domain or library by model; more than one model is an error for a `single` policy."""
    import jax

    from jatpo.files import load_tables
    from jatpo.solve import choose_for, default_directory, notes, solve_models

    target = load_tables(name, rules=rules, pool=pool)
    print_notes(target.notes)
    models = models_of(target, name, model)
    if single and len(models) > 1:
        raise JatpoError(
            f"--export writes one policy, and {name} has {len(models)} models: name one with --model, or all "
            "as one problem with --joint"
        )
    labels = [f"{name} model {k}" for k in models]
    solver, stop = choose_for(target, request, joint=model == "joint")
    with Progress(f"solving {name}", quiet) as progress:
        solutions = solve_models(
            list(models.values()),
            solver,
            stop,
            key=jax.random.key(seed),
            cache=solving.directory or default_directory(),
            engine=engine,
            labels=labels,
            on_event=shown(progress),
        )
        progress(Event("", len(labels), len(labels)))
    print_notes(notes(solutions, labels))
    return dict(zip(models, solutions, strict=True))


def _row(name: str, k: int | str, solution: Solution) -> dict[str, Any]:
    """What is reported of a solution."""
    names = ("lower", "upper", "gap", "stages", "backups", "seconds", "mean_value", "seed", "solver")
    row = {"domain": name, "model": k, "vectors": solution.num_vectors, "status": solution.status.value}
    row |= {each: getattr(solution, each) for each in names}
    return row | {"settings": solution.settings, "stop": vars(solution.stop)}
