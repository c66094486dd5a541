"""`jatpo learn`: fit noise, prior or a teammate to histories, or simulate such histories."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    from jatpo.learn.fitting import Fitted
    from jatpo.learn.sweep import Fit, Given, Options


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
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="NAME=VALUES",
            help="Fit once for each value, as in trust=0.1,1,10, and keep the best: trust, rate, batch, steps, model "
            "or by; may be repeated.",
        ),
    ] = None,
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
    from jatpo.files import load_tables
    from jatpo.learn import read_histories
    from jatpo.learn.fitting import FitSettings
    from jatpo.learn.sweep import Given, combinations

    settings = FitSettings(steps=steps, rate=rate, batch=batch, held_out=held_out, trust=trust)
    wanted = combinations(over or ())
    if out is not None:
        from jatpo.disk import check_new_directory

        check_new_directory(out)
    library = load_tables(name, rules=rules)
    print_notes(library.notes)
    first = library.member(0)
    histories = read_histories(source, first.actions, first.observations)
    given = Given(library, histories, what, model, by, settings, method, seed)
    _learn(name, given, wanted, out, replace, solving, checkpoints, form, quiet)


def _learn(
    name: str,
    given: Given,
    wanted: Sequence[Options],
    out: Path | None,
    replace: bool,
    solving: Solving,
    checkpoints: Path | None,
    form: Form,
    quiet: bool,
) -> None:
    """Fit, write, report."""
    from jatpo.files import save
    from jatpo.learn import adapting
    from jatpo.learn.sweep import best_of, plan_of, sweep
    from jatpo.solve import default_directory

    library, histories, what = given.library, given.histories, given.what
    with (
        Progress(f"learning {what} of {name}", quiet) as progress,
        solving.engines.engine(progress) as engine,
    ):
        progress(Event("", 0, given.settings.steps, {"histories": histories.num_histories}))
        kept = checkpoints or default_directory() / "learn"
        fits = sweep(given, wanted, engine=engine, directory=kept, on_event=progress)
    best = best_of(fits)
    chosen, fitted = plan_of(given, best.options), best.fitted
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
    tables = [Table.of(heads, _rows(learned, fitted), _title(name, what, library, learned))]
    if len(fits) > 1:
        tables.insert(0, Table([_swept(fit, fit is best) for fit in fits], title=f"{len(fits)} fits"))
        facts["sweep"] = [_swept(fit, fit is best) for fit in fits]
    if form.chosen:
        form.write(tables, {**facts, "curve": fitted.curve})
        return
    print("\n\n".join(str(table) for table in tables))
    print(f"\n{histories.num_histories} histories, {fitted.steps} steps, stopped: {fitted.stopped}")
    if out is not None:
        print(folded(f"the library is in {out}; try: jatpo evaluate {out}"))


def _swept(fit: Fit, best: bool) -> dict[str, Any]:
    """A fit of a sweep as a row."""
    found = {"learned from": fit.fitted.log_likelihood, "held out": fit.fitted.held_out}
    return {**fit.options, "steps done": fit.fitted.steps, **found, "best": "yes" if best else "no"}


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
