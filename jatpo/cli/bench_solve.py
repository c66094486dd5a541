"""`jatpo bench solve`: how fast the solvers are on this machine, next to published anchors and plain NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress


def solve(
    out: Annotated[
        Path | None, typer.Option(help="Write bench-solve.json and bench-solve.svg there.")
    ] = None,
    largest: Annotated[int, typer.Option(help="States of the largest synthetic model.", min=500)] = 50_000,
    anchors: Annotated[
        bool, typer.Option(help="Measure the anytime solver against SARSOP's figures too.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Time the solvers: Perseus by the paper's settings, the anytime solver, growth with models and states."""
    from jatpo.cli.bench import peak_bytes

    with Progress("bench solve", quiet) as progress:
        figures: dict[str, Any] = {"perseus": _perseus(progress)}
        figures["anytime"] = _anytime(progress) if anchors else []
        figures["models"] = _growth_in_models(progress)
        figures["states"] = _growth_in_states(progress, largest)
    figures["peak_bytes"] = peak_bytes()
    if out:
        _write(figures, out)
    if json:
        print_json(figures)
    else:
        _show(figures)


def _perseus(progress: Progress) -> list[dict[str, Any]]:
    """The paper's settings on the models with an anchor."""
    from jatpo.domains import make
    from jatpo.solve import paper_settings
    from jatpo.solve.benchmark import ANCHORS, time_backups, time_solve

    rows = []
    for name, (solver, k, anchor) in ANCHORS.items():
        progress.update(0, None, measuring=f"Perseus on {name}")
        model = make(name, k)
        row = time_solve([model], paper_settings(name)) | time_backups(model)
        times = anchor["seconds"] / row["cold_seconds"]
        rows.append({"domain": name, "model": k, "anchor": solver, **anchor, **row, "times_faster": times})
    return rows


def _anytime(progress: Progress) -> list[dict[str, Any]]:
    """The anytime solver against the values that SARSOP has within a minute, each from cold."""
    import jax

    from jatpo.domains import make
    from jatpo.solve import AnytimeSettings
    from jatpo.solve import solve as solve_models
    from jatpo.solve.benchmark import SARSOP

    rows = []
    for name, k, value, seconds in SARSOP:
        progress.update(0, None, measuring=f"anytime on {name} {k}")
        reached: list[float] = []

        def watch(value=value, reached=reached, **fields: Any) -> None:
            if fields["lower"] >= value - 0.005 and not reached:
                reached.append(fields["seconds"])

        jax.clear_caches()
        [solution] = solve_models([make(name, k)], AnytimeSettings(seconds=seconds), jax.random.key(0), watch)
        watch(lower=solution.lower, seconds=solution.seconds)
        rows.append(
            {
                "domain": name,
                "model": k,
                "sarsop": value,
                "target_seconds": seconds,
                "lower": solution.lower,
                "upper": solution.upper,
                "seconds": solution.seconds,
                "reached_after": reached[0] if reached else None,
            }
        )
    return rows


def _growth_in_models(progress: Progress) -> list[dict[str, Any]]:
    """Perseus on 1, 2, 4, 8 models of gridworld's pool."""
    from jatpo.domains import library
    from jatpo.solve import PerseusSettings
    from jatpo.solve.benchmark import time_solve

    pool = library("gridworld", pool=True)
    rows = []
    for count in (1, 2, 4, 8):
        progress.update(0, None, measuring=f"{count} models")
        row = time_solve(pool[:count], PerseusSettings(beliefs=1000, stages=20))
        rows.append({"models": count, **row})
    return rows


def _growth_in_states(progress: Progress, largest: int) -> list[dict[str, Any]]:
    """One backup in a synthetic family of growing size."""
    from jatpo.solve.benchmark import synthetic, time_backups

    sizes = [size for size in (500, 1_500, 5_000, 15_000, 50_000) if size < largest] + [largest]
    rows = []
    for size in sizes:
        progress.update(0, None, measuring=f"{size} states")
        model = synthetic(size)
        rows.append({"states": size, "model_bytes": model.nbytes, **time_backups(model)})
    return rows


def _show(figures: dict[str, Any]) -> None:
    columns = (
        "domain",
        "model",
        "lower",
        "value",
        "cold_seconds",
        "compile_seconds",
        "seconds",
        "times_faster",
        "ratio",
    )
    heads = (
        "domain",
        "model",
        "ours",
        "anchor",
        "cold s",
        "compile s",
        "anchor s",
        "times faster",
        "vs NumPy",
    )
    rows = [[row.get(column) for column in columns] for row in figures["perseus"]]
    print_table(heads, rows, "Perseus, the paper's settings, next to AI-Toolbox")
    columns = ("domain", "model", "lower", "upper", "sarsop", "seconds", "target_seconds", "reached_after")
    if figures["anytime"]:
        print_table(
            columns, [[row[c] for c in columns] for row in figures["anytime"]], "anytime, next to SARSOP"
        )
    columns = ("models", "cold_seconds", "warm_seconds", "backups", "backups_per_second")
    print_table(columns, [[row[c] for c in columns] for row in figures["models"]], "growth with models")
    columns = ("states", "model_bytes", "backup_seconds", "reference_seconds", "ratio")
    print_table(columns, [[row.get(c) for c in columns] for row in figures["states"]], "growth with states")
    print(f"peak memory {figures['peak_bytes'] / 1e6:.0f} MB")


def _write(figures: dict[str, Any], out: Path) -> None:
    """bench-solve.json and a picture of the growth."""
    import json as text

    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    from jatpo.plain import to_json

    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-solve.json").write_text(text.dumps(to_json(figures), indent=2))
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(
        [row["models"] for row in figures["models"]], [row["warm_seconds"] for row in figures["models"]], "o-"
    )
    left.set(xlabel="models", ylabel="seconds, compiled", title="gridworld, 1,000 beliefs, 20 stages")
    sizes = [row["states"] for row in figures["states"]]
    right.loglog(sizes, [1e3 * row["backup_seconds"] for row in figures["states"]], "o-")
    right.set(xlabel="states", ylabel="ms for one backup", title="synthetic models, 256 vectors")
    figure.savefig(out / "bench-solve.svg")
