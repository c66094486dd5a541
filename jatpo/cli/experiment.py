"""`jatpo experiment ...`: library scaling, identification, the loss bound, a wrong library, random walkers.

Each writes its tables and a manifest into one directory and goes on there when it is run again.
"""

from __future__ import annotations

from typing import Annotated

import typer

from jatpo.cli.evaluate import chosen_sources
from jatpo.cli.experiment_adapt import adapt
from jatpo.cli.experiment_beyond import beyond
from jatpo.cli.experiment_setup import Options, Rows, shared
from jatpo.cli.experiment_tune import tune
from jatpo.errors import JatpoError

experiment = typer.Typer(
    help="Experiments beyond the main table, each with its results in one directory.", no_args_is_help=True
)
experiment.command("beyond")(beyond)
experiment.command("tune")(tune)
experiment.command("adapt")(adapt)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME...]", help="Domains, files or libraries; 'all': all domains."),
]


@shared(experiment, "library-scaling", agents="value_iteration,perseus,atpo,random")
def library_scaling(
    options: Options,
    name: Annotated[
        str, typer.Argument(help="The domain whose pool of models libraries are drawn from.")
    ] = "gridworld",
    sizes: Annotated[str, typer.Option(help="Library sizes, as in 2-32 or 2,4,8.")] = "2-32",
) -> None:
    """How ATPO fares as its library grows from 2 to 32 models."""
    wanted = parse_sizes(sizes)
    setup = options.begin()

    from jatpo.evaluate.scaling import scaling

    prepared = setup.prepare(name, pool=True)
    with options.session(f"library scaling on {name}", setup.store) as running:
        rows = scaling(prepared, setup.players, wanted, options.trials, running)
    columns = ("size", "agent", "trials", "mean", "low", "high", "relative", "published_relative")
    setup.finish({"scaling": rows}, columns, options.json)


@shared(experiment, "identification", agents="atpo,bopa")
def identification(options: Options, names: Names = None) -> None:
    """How fast the true model is found out: its probability and the posterior's entropy over time."""
    setup = options.begin()

    from jatpo.evaluate.identification import identification as identify

    curves: Rows = []
    summaries: Rows = []
    for name in chosen_sources(names or ["all"]):
        prepared = setup.prepare(name)
        with options.session(f"identification in {name}", setup.store) as running:
            curve, summary = identify(prepared, setup.players, options.trials, running)
        curves += curve
        summaries += summary
        setup.write({"identification": summaries, "curves": curves})
    steps = [f"{kind}_{step}" for step in (5, 10, 20, "end") for kind in ("probability", "published")]
    columns = ("domain", "agent", *steps, "median_steps_lead", "median_steps_sure", "share_sure")
    setup.finish({"identification": summaries, "curves": curves}, columns, options.json)


@shared(experiment, "loss-bound", agents="atpo", trials=32, without=("agents",))
def loss_bound(options: Options, names: Names = None) -> None:
    """ATPO's summed loss beside the bound of the paper's proposition, for both choices of η."""
    setup = options.begin()

    from jatpo.evaluate.bound import BOUNDS, summary
    from jatpo.evaluate.bound import loss_bound as bounds

    rows: Rows = []
    for name in chosen_sources(names or ["gridworld"]):
        prepared = setup.prepare(name)
        with options.session(f"loss bound in {name}", setup.store) as running:
            rows += bounds(prepared, setup.players[0], options.trials, running)
        setup.write({"loss-bound": rows})
    columns = ("domain", "trials", "loss", "largest_loss", "comparator_loss", "divergence", *BOUNDS)
    setup.finish({"loss-bound": rows}, columns, options.json, summary(rows))


@shared(experiment, "misspecified", agents="perseus,atpo,random_picker,random")
def misspecified(
    options: Options,
    names: Names = None,
    factors: Annotated[
        str, typer.Option(help="The world's noise as multiples of the assumed one.")
    ] = "0,0.5,1.5,2",
) -> None:
    """What ATPO does with a wrong library, and whether the evidence tells."""
    multiples = parse_numbers(factors)
    setup = options.begin(factors=multiples)

    from jatpo.evaluate.misspecified import misspecified as wrong

    rows: Rows = []
    for name in chosen_sources(names or ["all"]):
        prepared = setup.prepare(name)
        with options.session(f"a wrong library in {name}", setup.store) as running:
            rows += wrong(prepared, setup.players, options.trials, running, multiples)
        setup.write({"misspecified": rows})
    signal = ("impossible_share", "roc_area_10", "roc_area_end", "detected_10", "detected_end")
    columns = ("domain", "scenario", "agent", "mean", "low", "high", "minus_right", *signal)
    setup.finish({"misspecified": rows}, columns, options.json)


@shared(experiment, "off-policy", agents="perseus,atpo", trials=4096, without=("seconds",))
def off_policy(
    options: Options,
    names: Names = None,
    shares: Annotated[str, typer.Option(help="Shares of walkers that act at random.")] = "0,0.125,0.5",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the anytime solver for each model.")] = 12,
) -> None:
    """What random walkers in the anytime solver are worth to the informed agent and to ATPO."""
    wanted = parse_numbers(shares, "shares")
    setup = options.begin(shares=wanted, rounds=rounds)

    from jatpo.evaluate.exploration import exploration_rows
    from jatpo.solve import AnytimeSettings

    rows: Rows = []
    for name in chosen_sources(names or ["gridworld"]):
        for share in wanted:
            settings = AnytimeSettings(seconds=0, gap=0, stages=rounds, off_policy=share)
            prepared = setup.prepare(name, settings=settings)
            with options.session(f"off-policy share {share:g} in {name}") as running:
                rows += exploration_rows(prepared, share, setup.players, options.trials, running)
        setup.write({"off-policy": rows})
    columns = ("domain", "off_policy", "agent", "trials", "mean", "low", "high")
    setup.finish({"off-policy": rows}, columns, options.json)


def parse_sizes(text: str) -> list[int]:
    """Sizes from text such as 2-32 or 2,4,8."""
    try:
        sizes: list[int] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            sizes += range(int(first), int(last or first) + 1)
    except ValueError as error:
        raise JatpoError(f"--sizes {text} is not a list of sizes: write it as 2-32 or 2,4,8") from error
    if not sizes:
        raise JatpoError(f"--sizes {text} holds no size: write it as 2-32 or 2,4,8")
    return sorted(set(sizes))


def parse_numbers(text: str, option: str = "factors") -> list[float]:
    """Numbers between commas."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise JatpoError(f"--{option} {text} is not a list of numbers: write it as 0.5,2") from error
