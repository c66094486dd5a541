"""`jatpo experiment ...`: library scaling, identification, the loss bound, a wrong library.

Each writes its tables and a manifest into one directory and goes on there when it is run again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jatpo.cli.evaluate import (
    Agents,
    Json,
    Preset,
    Quiet,
    Rules,
    Seconds,
    Seed,
    Solutions,
    Trials,
    check_rules,
    chosen_sources,
    names_of,
    open_store,
    session,
    solve_options,
    solver_settings,
    tell,
    working,
)
from jatpo.cli.output import print_json, print_table
from jatpo.errors import JatpoError

experiment = typer.Typer(
    help="Experiments beyond the main table, each with its results in one directory.", no_args_is_help=True
)
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME...]", help="Domains, files or libraries; 'all': all domains."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Directory for results, results/<experiment> without it; run again to go on."),
]


@experiment.command("library-scaling")
def library_scaling(
    name: Annotated[
        str, typer.Argument(help="The domain whose pool of models libraries are drawn from.")
    ] = "gridworld",
    sizes: Annotated[str, typer.Option(help="Library sizes, as in 2-32 or 2,4,8.")] = "2-32",
    agents: Agents = "value_iteration,perseus,atpo,random",
    trials: Trials = 1024,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How ATPO fares as its library grows from 2 to 32 models."""
    wanted = parse_sizes(sizes)
    setup = _Setup("library-scaling", agents, seed, rules, preset, seconds, solutions, out, quiet)

    from jatpo.evaluate.scaling import scaling

    prepared = setup.prepare(name, pool=True)
    with session(f"library scaling on {name}", seed, setup.store, quiet) as running:
        rows = scaling(prepared, setup.players, wanted, trials, running)
    columns = ("size", "agent", "trials", "mean", "low", "high", "relative", "published_relative")
    setup.finish({"scaling": rows}, columns, json)


@experiment.command("identification")
def identification(
    names: Names = None,
    agents: Agents = "atpo,bopa",
    trials: Trials = 1024,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """How fast the true model is found out: its probability and the posterior's entropy over time."""
    setup = _Setup("identification", agents, seed, rules, preset, seconds, solutions, out, quiet)

    from jatpo.evaluate.identification import identification as identify

    curves: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for name in chosen_sources(names or ["all"]):
        prepared = setup.prepare(name)
        with session(f"identification in {name}", seed, setup.store, quiet) as running:
            curve, summary = identify(prepared, setup.players, trials, running)
        curves += curve
        summaries += summary
        setup.write({"identification": summaries, "curves": curves})
    steps = [f"{kind}_{step}" for step in (5, 10, 20, "end") for kind in ("probability", "published")]
    columns = ("domain", "agent", *steps, "median_steps_lead", "median_steps_sure", "share_sure")
    setup.finish({"identification": summaries, "curves": curves}, columns, json)


@experiment.command("loss-bound")
def loss_bound(
    names: Names = None,
    trials: Trials = 32,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """ATPO's summed loss beside the bound of the paper's proposition, for both choices of η."""
    setup = _Setup("loss-bound", "atpo", seed, rules, preset, seconds, solutions, out, quiet)

    from jatpo.evaluate.bound import loss_bound as bounds

    rows: list[dict[str, Any]] = []
    for name in chosen_sources(names or ["gridworld"]):
        prepared = setup.prepare(name)
        with session(f"loss bound in {name}", seed, setup.store, quiet) as running:
            rows += bounds(prepared, setup.players[0], trials, running)
        setup.write({"loss-bound": rows})
    bounds_shown = ("bound_eta_paper", "bound_eta_consistent", "bound_printed")
    columns = ("domain", "trial", "model", "loss", "comparator_loss", "divergence", *bounds_shown)
    setup.finish({"loss-bound": rows}, columns, json)


@experiment.command("misspecified")
def misspecified(
    names: Names = None,
    agents: Agents = "perseus,atpo,random_picker,random",
    factors: Annotated[
        str, typer.Option(help="The world's noise as multiples of the assumed one.")
    ] = "0,0.5,1.5,2",
    trials: Trials = 1024,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What ATPO does with a wrong library, and whether the evidence tells."""
    multiples = parse_numbers(factors)
    setup = _Setup(
        "misspecified", agents, seed, rules, preset, seconds, solutions, out, quiet, factors=multiples
    )

    from jatpo.evaluate.misspecified import misspecified as wrong

    rows: list[dict[str, Any]] = []
    for name in chosen_sources(names or ["all"]):
        prepared = setup.prepare(name)
        with session(f"a wrong library in {name}", seed, setup.store, quiet) as running:
            rows += wrong(prepared, setup.players, trials, running, multiples)
        setup.write({"misspecified": rows})
    signal = ("impossible_share", "roc_area_10", "roc_area_end", "detected_10", "detected_end")
    columns = ("domain", "scenario", "agent", "mean", "low", "high", "minus_right", *signal)
    setup.finish({"misspecified": rows}, columns, json)


@experiment.command("off-policy")
def off_policy(
    names: Names = None,
    shares: Annotated[str, typer.Option(help="Shares of walkers that act at random.")] = "0,0.125,0.5",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the anytime solver for each model.")] = 12,
    agents: Agents = "perseus,atpo",
    trials: Trials = 4096,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """What random walkers in the anytime solver are worth to the informed agent and to ATPO."""
    wanted = parse_numbers(shares)
    setup = _Setup(
        "off-policy", agents, seed, rules, preset, None, solutions, out, quiet, shares=wanted, rounds=rounds
    )

    from jatpo.evaluate.exploration import exploration_rows
    from jatpo.solve import AnytimeSettings

    rows: list[dict[str, Any]] = []
    for name in chosen_sources(names or ["gridworld"]):
        for share in wanted:
            settings = AnytimeSettings(seconds=0, gap=0, stages=rounds, off_policy=share)
            prepared = setup.prepare(name, settings=settings)
            with session(f"off-policy share {share:g} in {name}", seed, None, quiet) as running:
                rows += exploration_rows(prepared, share, setup.players, trials, running)
        setup.write({"off-policy": rows})
    setup.finish(
        {"off-policy": rows}, ("domain", "off_policy", "agent", "trials", "mean", "low", "high"), json
    )


class _Setup:
    """What all experiments begin and end with."""

    def __init__(
        self,
        name: str,
        agents: str | None,
        seed: int,
        rules: str,
        preset: str,
        seconds: float | None,
        solutions: Path | None,
        out: Path | None,
        quiet: bool,
        **more: Any,
    ) -> None:
        check_rules(rules)
        from jatpo.evaluate.prepare import choose_agents

        self.players = choose_agents(names_of(agents), preset)
        settings = {"seed": seed, "rules": rules, "preset": preset, **solver_settings(seconds), **more}
        self.store = open_store(out or Path("results") / name, name, settings)
        self._rules, self._seconds, self._solutions, self._quiet = rules, seconds, solutions, quiet

    def prepare(self, name: str, pool: bool = False, settings: Any = None) -> Any:
        """Build and solve a domain, with `settings` of the solver where they are given."""
        from dataclasses import replace

        from jatpo.evaluate.prepare import prepare

        with working(f"solving {name}", self._quiet) as progress:
            options = solve_options(self._seconds, self._solutions, progress)
            options = options if settings is None else replace(options, settings=settings)
            prepared = prepare(name, self.players, self._rules, options, pool=pool)
        tell(prepared.notes)
        return prepared

    def write(self, tables: dict[str, list[dict[str, Any]]]) -> None:
        """Write tables into the directory."""
        for name, rows in tables.items():
            self.store.write_table(name, rows)

    def finish(self, tables: dict[str, list[dict[str, Any]]], columns: tuple[str, ...], json: bool) -> None:
        """Write the tables and print the first one."""
        self.write(tables)
        rows = next(iter(tables.values()))
        if json:
            print_json(rows)
            return
        print_table(
            [column.replace("_", " ") for column in columns], [[r.get(c) for c in columns] for r in rows]
        )
        print(f"\nresults are in {self.store.directory}")


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


def parse_numbers(text: str) -> list[float]:
    """Numbers between commas."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise JatpoError(f"--factors {text} is not a list of numbers: write it as 0.5,2") from error
