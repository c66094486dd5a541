"""`jatpo experiment tune`: ATPO's temperature, tempering and prior trained on some domains, tested on others."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jatpo.cli.evaluate import Json, Quiet, Rules, Seconds, Seed, Solutions, Trials, chosen_sources
from jatpo.cli.experiment_setup import Out, Setup
from jatpo.cli.progress import Progress

DOMAINS = ("abandoned-power-plant", "ntu", "gridworld", "pursuit-task")
COLUMNS = ("domain", "agent", "trials", "mean", "low", "high", "minus_atpo", "minus_atpo_low")
COLUMNS = (*COLUMNS, "minus_atpo_high", "temperature", "temper", "tilt")


def tune(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Domains, files or libraries; four small domains without it."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each training.")] = 60,
    batch: Annotated[int, typer.Option(min=2, help="Trials of each step and domain.")] = 128,
    rate: Annotated[float, typer.Option(help="Rate of learning.")] = 0.1,
    trials: Trials = 2048,
    seed: Seed = 0,
    rules: Rules = "as_run",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train ATPO's temperature, tempering and prior by gradient, and see whether it helps elsewhere.

    Each domain is tested with what was trained on all the others, and with what was trained on itself.
    """
    from jatpo.evaluate.prepare import Session
    from jatpo.evaluate.tuning import AGENTS, TuneSettings, tune_domains

    settings = TuneSettings(steps, batch, rate)
    more = {"steps": steps, "batch": batch, "rate": rate}
    chosen = chosen_sources(names or DOMAINS)
    more["domains"] = chosen
    setup = Setup("tune", ",".join(AGENTS), seed, rules, "exact", seconds, solutions, out, quiet, **more)
    prepared = [setup.prepare(name) for name in chosen]
    with Progress("tuning", quiet=quiet) as progress:

        def show(title: str) -> Any:
            progress.title = title
            return progress.update

        rows, curves = tune_domains(prepared, settings, trials, Session(seed, setup.store), show)
    setup.finish({"tune": rows, "training": curves}, COLUMNS, json)
