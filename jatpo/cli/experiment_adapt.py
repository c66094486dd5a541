"""`jatpo experiment adapt`: a teammate that is not in the library, and what learning it from histories is worth."""

from __future__ import annotations

import ast
from typing import Annotated, Any

import typer

from jatpo.cli.evaluate import Json, Quiet, Rules, Seconds, Seed, Solutions, Trials, chosen_sources
from jatpo.cli.experiment_setup import Out, Setup
from jatpo.cli.progress import Progress
from jatpo.errors import JatpoError

DOMAINS = ("gridworld", "pursuit-teammate")
COLUMNS = ("domain", "scenario", "agent", "episodes", "trials", "mean", "low", "high")
COLUMNS = (*COLUMNS, "minus_atpo", "minus_atpo_low", "minus_atpo_high", "closed")


def adapt(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Domains; gridworld and pursuit-teammate without it."),
    ] = None,
    scenarios: Annotated[
        str, typer.Option(help="left-out, noisy, changed, with commas between.")
    ] = "left-out,noisy",
    share: Annotated[float, typer.Option(help="Share of actions a noisy teammate takes at random.")] = 0.5,
    change: Annotated[
        list[str] | None, typer.Option(help="For 'changed': PARAMETER=VALUE of the domain, perhaps repeated.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="True models by number; all without it.")] = None,
    episodes: Annotated[str, typer.Option(help="Numbers of episodes to learn from.")] = "1,4,16,64",
    by: Annotated[
        str, typer.Option(help="What the teammate's policy depends on: state, features or a variable.")
    ] = "state",
    trust: Annotated[float, typer.Option(min=0, help="Strength of the trust region.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the anytime solver for a fitted model.")] = 12,
    repeats: Annotated[int, typer.Option(min=1, help="Sets of episodes to learn from.")] = 1,
    trials: Trials = 512,
    seed: Seed = 0,
    rules: Rules = "as_run",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """ATPO beside a teammate that its library lacks: as it is, with a model learnt from its own
    episodes, and informed.

    The model is fitted to the agent's actions and observations alone, solved, and added to the library.
    """
    numbers = whole_numbers("episodes", episodes)
    chosen_models = None if models is None else whole_numbers("models", models)
    changes = parameters_of(change or [])
    wanted = [name.strip() for name in scenarios.split(",") if name.strip()]
    chosen = chosen_sources(names or DOMAINS)

    from jatpo.evaluate.prepare import Session
    from jatpo.learn import FitSettings
    from jatpo.learn.adapt import AdaptSettings
    from jatpo.learn.adapt import adapt as adapt_to
    from jatpo.learn.strangers import strangers

    settings = AdaptSettings(tuple(numbers), trials, repeats, by, rounds, FitSettings(trust=trust))
    found = {name: strangers(name, wanted, rules, share, changes, chosen_models) for name in chosen}
    kept: dict[str, Any] = {"by": by, "trust": trust, "rounds": rounds, "share": share, "changes": changes}
    setup = Setup("adapt", "atpo,perseus", seed, rules, "exact", seconds, solutions, out, quiet, **kept)
    rows: list[dict[str, Any]] = []
    fits: list[dict[str, Any]] = []
    for name in chosen:
        prepared = setup.prepare(name)
        with Progress(f"adapting in {name}", quiet=quiet) as progress:

            def show(title: str, progress: Progress = progress) -> Any:
                progress.title = title
                return progress.update

            more = adapt_to(prepared, found[name], settings, Session(seed, setup.store), show, solutions)
        rows, fits = rows + more[0], fits + more[1]
        setup.write({"adapt": rows, "fits": fits})
    setup.finish({"adapt": rows, "fits": fits}, COLUMNS, json)


def whole_numbers(option: str, text: str) -> list[int]:
    """Numbers from text such as 1,4,16."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise JatpoError(f"--{option} {text} is not a list of numbers: write it as 1,4,16") from error


def parameters_of(pairs: list[str]) -> dict[str, Any]:
    """Parameters from texts such as teammate=optimal or noise=0.4."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise JatpoError(f"--change {pair} has no value: write it as PARAMETER=VALUE")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found
