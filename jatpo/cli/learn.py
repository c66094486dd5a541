"""`jatpo learn`: fit noise, prior or a teammate to histories, or simulate such histories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.evaluate import (
    Json,
    Quiet,
    Rules,
    Seconds,
    Solutions,
    check_rules,
    solve_options,
    tell,
    working,
)
from jatpo.cli.output import print_json, print_table
from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.learn.adapting import Learned
    from jatpo.learn.fitting import FitSettings, Fitted


def learn(
    name: Annotated[
        str, typer.Argument(help="A domain, one of its models (ntu:1), a .POMDP file or a library.")
    ],
    source: Annotated[
        Path | None, typer.Option("--from", help="Histories of the ad hoc agent, one JSON object to a line.")
    ] = None,
    what: Annotated[str, typer.Option(help="noise, prior or teammate.")] = "teammate",
    model: Annotated[
        int | None,
        typer.Option(
            min=0, help="The model to begin with (noise: all; teammate: the best); --simulate: the true one."
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(help="teammate: by state, by features, or by variables of the state (teammate,agent)."),
    ] = "state",
    out: Annotated[
        Path | None, typer.Option(help="Directory for the library that has learned; --simulate: the file.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="teammate: in the place of the model it began with.")
    ] = False,
    simulate: Annotated[
        int | None, typer.Option(min=1, help="Write so many histories of an agent, and learn nothing.")
    ] = None,
    agent: Annotated[str, typer.Option(help="--simulate: who plays, by name.")] = "atpo",
    noise: Annotated[
        float | None, typer.Option(min=0, max=1, help="--simulate: the true noise, if not the domain's own.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="--simulate: steps of an episode.")] = None,
    method: Annotated[str, typer.Option(help="gradient, or em to check it.")] = "gradient",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the gradient or rounds of EM, at most.")] = 300,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.1,
    batch: Annotated[int, typer.Option(min=1, help="Histories for each step.")] = 64,
    held_out: Annotated[float, typer.Option(help="Share of the histories that decides when to stop.")] = 0.2,
    trust: Annotated[
        float, typer.Option(min=0, help="Imagined visits to each state that agree with the start.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    rules: Rules = "as_run",
    seconds: Seconds = None,
    solutions: Solutions = None,
    checkpoints: Annotated[
        Path | None, typer.Option(help="Where a fit is kept while it runs ('learn' beside the solutions).")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn from what an ad hoc agent did and saw: the noise, the prior over models, or a teammate.

    Give --from HISTORIES.jsonl to learn, or --simulate N --out HISTORIES.jsonl for histories to try it on.
    A fit that is stopped goes on when the same command is given again.
    """
    check_rules(rules)
    if simulate is not None:
        if source is not None or out is None:
            raise JatpoError("--simulate writes histories: give --out FILE.jsonl, and no --from")
        _simulate(
            name, simulate, agent, model, noise, horizon, out, seed, rules, seconds, solutions, json, quiet
        )
        return
    if source is None:
        raise JatpoError(
            "there is nothing to learn from: give --from HISTORIES.jsonl, or --simulate N for some"
        )
    from jatpo.learn.fitting import FitSettings

    settings = FitSettings(steps=steps, rate=rate, batch=batch, held_out=held_out, trust=trust)
    _learn(
        name, source, what, model, by, out, replace, method, settings, seed, rules, checkpoints, json, quiet
    )


def _learn(
    name: str,
    source: Path,
    what: str,
    model: int | None,
    by: str,
    out: Path | None,
    replace: bool,
    method: str,
    settings: FitSettings,
    seed: int,
    rules: str,
    checkpoints: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Read, fit, write, tell."""
    from jatpo.files import resolve
    from jatpo.learn import adapting, read_histories
    from jatpo.learn.entry import check_target, write_library
    from jatpo.solve import default_directory

    if out is not None:
        check_target(out)
    library = resolve(name, rules)
    tell(library.notes)
    first = library.models[0]
    histories = read_histories(source, first.actions, first.observations)
    with working(f"learning {what} of {name}", quiet) as progress:
        progress.update(0, settings.steps, histories=histories.num_histories)
        chosen = adapting.plan(library, histories, what, model, by)
        kept = checkpoints or default_directory() / "learn"
        options = {"seed": seed, "directory": kept, "progress": progress.update}
        fitted = adapting.learn(chosen, histories, settings, method, **options)
    learned = adapting.conclude(library, chosen, fitted, replace)
    if out is not None:
        write_library(out, library, learned.entries, learned.prior)
    facts = {
        **learned.facts,
        "histories": histories.num_histories,
        **_fit_facts(fitted),
        "out": out and str(out),
    }
    if json:
        print_json({**facts, "curve": fitted.curve})
        return
    print_table(
        ("measure", "start", "learned"), _rows(learned, fitted), title=_title(name, what, library, learned)
    )
    print(f"\n{histories.num_histories} histories, {fitted.steps} steps, stopped: {fitted.stopped}")
    if out is not None:
        print(f"the library is in {out}; try: jatpo evaluate {out}")


def _title(name: str, what: str, library: Any, learned: Learned) -> str:
    begun = learned.facts["model"]
    return f"{what} of {name}" + (
        "" if begun is None else f", beginning with model {begun} ({library.labels[begun]})"
    )


def _rows(learned: Learned, fitted: Fitted) -> list[tuple[Any, ...]]:
    """What has changed, as a table."""
    facts = learned.facts
    rows: list[tuple[Any, ...]] = [
        ("log likelihood per history, learned from", fitted.start_log_likelihood, fitted.log_likelihood)
    ]
    if fitted.held_out is not None:
        rows.append(("log likelihood per history, held out", fitted.start_held_out, fitted.held_out))
    if facts["what"] == "noise":
        rows.append(("noise", facts["start"], facts["noise"]))
    elif facts["what"] == "prior":
        pairs = zip(facts["prior"].items(), facts["start"], strict=True)
        rows += [(f"prior of {label}", start, share) for (label, share), start in pairs]
    else:
        rows.append(("distance of the policy, mean over rows", 0.0, facts["moved_mean"]))
        rows.append(("distance of the policy, largest", 0.0, facts["moved_most"]))
    return rows


def _fit_facts(fitted: Fitted) -> dict[str, Any]:
    names = (
        "log_likelihood",
        "start_log_likelihood",
        "held_out",
        "start_held_out",
        "steps",
        "stopped",
        "seconds",
    )
    return {name: getattr(fitted, name) for name in names}


def _simulate(
    name: str,
    count: int,
    agent: str,
    model: int | None,
    noise: float | None,
    horizon: int | None,
    out: Path,
    seed: int,
    rules: str,
    seconds: float | None,
    solutions: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Play episodes and write what the agent did and saw."""
    import jax

    from jatpo.evaluate.prepare import choose_agents, prepare
    from jatpo.learn import simulate, write_histories
    from jatpo.learn.simulation import changed

    players = choose_agents([agent])
    with working(f"solving {name}", quiet) as progress:
        prepared = prepare(name, players, rules, solve_options(seconds, solutions, progress), horizon=horizon)
    tell(prepared.notes)
    task = changed(prepared, model, noise)
    with working(f"playing {name}", quiet) as progress:
        progress.update(0, count)
        histories = simulate(jax.random.key(seed), players[0], task, prepared.horizon, count)
        progress.update(count, count)
    first = prepared.models[0]
    write_histories(out, histories, first.actions, first.observations)
    if json:
        print_json({"histories": count, "steps": prepared.horizon, "agent": agent, "out": str(out)})
    else:
        print(f"{out}: {count} histories of {prepared.horizon} steps")
    sys.stdout.flush()
