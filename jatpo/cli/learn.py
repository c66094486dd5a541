"""`jatpo learn`: fit noise, prior or a teammate to histories, or simulate such histories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.options import Quiet, Rules, check_rules
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.progress import Progress
from jatpo.cli.solving import DEFAULTS, Solving, print_notes, solves
from jatpo.errors import JatpoError
from jatpo.events import Event
from jatpo.screen import folded
from jatpo.tables import Table

if TYPE_CHECKING:
    from jatpo.learn.adapting import Learned
    from jatpo.learn.fitting import FitSettings, Fitted


@solves
@exports
def learn(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A domain, one of its models (ntu:1), a .POMDP file or a library."
        ),
    ],
    source: Annotated[
        Path | None, typer.Option("--from", help="Histories of the ad hoc agent, one JSON object per line.")
    ] = None,
    what: Annotated[str, typer.Option(help="What to fit: noise, prior or teammate.")] = "teammate",
    model: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The model to start from; default: all (noise), the best (teammate); with --simulate: the true model.",
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            help="What the teammate's policy depends on: state, features, or variables (teammate,agent)."
        ),
    ] = "state",
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for the learned library; with --simulate: the file to write."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the model that the fit started from; default: add the learned one."
        ),
    ] = False,
    simulate: Annotated[
        int | None, typer.Option(min=1, help="Write this number of simulated histories instead of learning.")
    ] = None,
    agent: Annotated[str, typer.Option(help="With --simulate: the agent, by name.")] = "atpo",
    noise: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="With --simulate: the true noise; default: the domain's own."),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(min=1, help="With --simulate: steps of an episode; default: the library's horizon."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="gradient or em; default: em for the prior, otherwise gradient.")
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Maximum number of gradient steps or EM iterations.")
    ] = 300,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 0.1,
    batch: Annotated[int, typer.Option(min=1, help="Histories in each gradient step.")] = 64,
    held_out: Annotated[
        float, typer.Option(help="Share of the histories held out for early stopping.")
    ] = 0.2,
    trust: Annotated[
        float,
        typer.Option(
            min=0,
            help="Strength of the trust region: pseudo-visits to each state that agree with the starting model.",
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the batches and of --simulate.")] = 0,
    rules: Rules = "as_run",
    solving: Solving = DEFAULTS,
    checkpoints: Annotated[
        Path | None,
        typer.Option(help="Directory for checkpoints; default: 'learn' in jatpo's user cache directory."),
    ] = None,
    form: Form = TEXT,
    quiet: Quiet = False,
) -> None:
    """Learn from an ad hoc agent's actions and observations: the noise, the prior over models, or a teammate.

    Give --from HISTORIES.jsonl to learn, or --simulate N --out HISTORIES.jsonl for histories to try it on.
    A fit that was interrupted resumes when the same command is given again.
    """
    check_rules(rules)
    if simulate is not None:
        if source is not None or out is None:
            raise JatpoError("--simulate writes histories: give --out FILE.jsonl, and no --from")
        _simulate(name, simulate, agent, model, noise, horizon, out, seed, rules, solving, form, quiet)
        return
    if source is None:
        raise JatpoError(
            "no histories to learn from: give --from HISTORIES.jsonl, or --simulate N to make some"
        )
    from jatpo.learn.fitting import FitSettings

    settings = FitSettings(steps=steps, rate=rate, batch=batch, held_out=held_out, trust=trust)
    _learn(
        name, source, what, model, by, out, replace, method, settings, seed, rules, checkpoints, form, quiet
    )


def _learn(
    name: str,
    source: Path,
    what: str,
    model: int | None,
    by: str,
    out: Path | None,
    replace: bool,
    method: str | None,
    settings: FitSettings,
    seed: int,
    rules: str,
    checkpoints: Path | None,
    form: Form,
    quiet: bool,
) -> None:
    """Read, fit, write, report."""
    from jatpo.disk import check_new_directory
    from jatpo.files import load_tables, save
    from jatpo.learn import adapting, read_histories
    from jatpo.solve import default_directory

    if out is not None:
        check_new_directory(out)
    library = load_tables(name, rules=rules)
    print_notes(library.notes)
    first = library.member(0)
    histories = read_histories(source, first.actions, first.observations)
    with Progress(f"learning {what} of {name}", quiet) as progress:
        progress(Event("", 0, settings.steps, {"histories": histories.num_histories}))
        chosen = adapting.plan(library, histories, what, model, by)
        kept = checkpoints or default_directory() / "learn"
        options = {"seed": seed, "directory": kept, "on_event": progress}
        fitted = adapting.learn(chosen, histories, settings, method, **options)
    learned = adapting.conclude(library, chosen, fitted, replace)
    if out is not None:
        save(learned.library, out)
    facts = {
        "what": learned.what,
        "model": learned.model,
        **learned.result._asdict(),
        "histories": histories.num_histories,
        **_fit_facts(fitted),
        "out": out and str(out),
    }
    heads = ("measure", "start", "learned")
    table = Table.of(heads, _rows(learned, fitted), _title(name, what, library, learned))
    if form.chosen:
        form.write([table], {**facts, "curve": fitted.curve})
        return
    print(table)
    print(f"\n{histories.num_histories} histories, {fitted.steps} steps, stopped: {fitted.stopped}")
    if out is not None:
        print(folded(f"the library is in {out}; try: jatpo evaluate {out}"))


def _title(name: str, what: str, library: Any, learned: Learned) -> str:
    begun = learned.model
    return f"{what} of {name}" + (
        "" if begun is None else f", starting from model {begun} ({library.labels[begun]})"
    )


def _rows(learned: Learned, fitted: Fitted) -> list[tuple[Any, ...]]:
    """What has changed, as a table."""
    rows: list[tuple[Any, ...]] = [
        ("log-likelihood per history, learned from", fitted.start_log_likelihood, fitted.log_likelihood)
    ]
    if fitted.held_out is not None:
        rows.append(("log-likelihood per history, held out", fitted.start_held_out, fitted.held_out))
    return [*rows, *learned.result.changes()]


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
    solving: Solving,
    form: Form,
    quiet: bool,
) -> None:
    """Play episodes and write what the agent did and saw."""
    import jax

    from jatpo.evaluate.agents.catalogue import choose_agents
    from jatpo.evaluate.solved import load_solved
    from jatpo.files import load_tables
    from jatpo.learn import simulate, write_histories
    from jatpo.learn.simulation import changed

    players = choose_agents([agent])
    with Progress(f"solving {name}", quiet) as progress, solving.engines.engine(progress) as engine:
        library = load_tables(name, rules=rules)
        solved = load_solved(library, players, options=solving.options(progress, engine))
    steps = horizon or solved.library.horizon
    scenario = changed(solved.library, model, noise)
    with Progress(f"playing {name}", quiet) as progress:
        progress(Event("", 0, count))
        histories = simulate(jax.random.key(seed), players[0], scenario, solved, steps, count)
        progress(Event("", count, count))
    first = solved.library.member(0)
    write_histories(out, histories, first.actions, first.observations)
    facts = {"histories": count, "steps": steps, "agent": agent, "out": str(out)}
    if form.chosen:
        form.write([Table([facts])], facts)
    else:
        print(f"{out}: {count} histories of {steps} steps")
    sys.stdout.flush()
