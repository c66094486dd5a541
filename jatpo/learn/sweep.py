"""Several fits to the same histories, one for each combination of options: in this process, or as units of an engine.

    fits = sweep(given, combinations(["trust=0.1,1,10", "by=state,features"]))
    best = best_of(fits)

All hold out the same histories, so their held-out log-likelihoods can be compared.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jatpo.engine import Engine, Rate, Unit
from jatpo.errors import JatpoError, unknown
from jatpo.events import Event, OnEvent, ignore, titled
from jatpo.learn import adapting
from jatpo.learn.fitting import FitSettings, Fitted
from jatpo.learn.histories import Histories
from jatpo.library import Library

Value = int | float | str
Options = Mapping[str, Value]
PLANNED: Mapping[str, Callable[[str], Value]] = {"model": int, "by": str}
FITTED: Mapping[str, Callable[[str], Value]] = {"trust": float, "rate": float, "batch": int, "steps": int}
KNOWN = {**FITTED, **PLANNED}


class Given(NamedTuple):
    """What all fits have in common; options replace single parts of it."""

    library: Library
    histories: Histories
    what: str
    model: int | None = None
    by: str = "state"
    settings: FitSettings = FitSettings()
    method: str | None = None
    seed: int = 0


class Fit(NamedTuple):
    """One fit, the options it was made with, and the model it started from."""

    options: Options
    model: int | None
    fitted: Fitted


def combinations(words: Sequence[str]) -> list[Options]:
    """All combinations of the values in words such as ``trust=0.1,1``; one without options for no words."""
    values: dict[str, list[Value]] = {}
    for word in words:
        name, _, listed = word.partition("=")
        if name not in KNOWN:
            raise unknown("option to sweep over", name, KNOWN)
        try:
            values[name] = [KNOWN[name](text.strip()) for text in listed.split(",")]
        except ValueError as error:
            raise JatpoError(
                f"--sweep {word}: values of {name} must be comma-separated, as in "
                + {"by": "by=state,features"}.get(name, f"{name}=1,10")
            ) from error
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def plan_of(given: Given, options: Options) -> adapting.Plan:
    """What is fitted with these options."""
    own = {"model": given.model, "by": given.by, **{k: v for k, v in options.items() if k in PLANNED}}
    return adapting.plan(given.library, given.histories, given.what, own["model"], own["by"])  # type: ignore[arg-type]


def fit_one(given: Given, options: Options, directory: Path | None, on_event: OnEvent = ignore) -> Fit:
    """The fit with these options; `directory` is where its state is kept."""
    chosen = plan_of(given, options)
    own = {name: value for name, value in options.items() if name in FITTED}
    settings = dataclasses.replace(given.settings, **own)  # type: ignore[arg-type]
    kept = {"seed": given.seed, "directory": directory, "on_event": on_event}
    fitted = adapting.learn(chosen, given.histories, settings, given.method, **kept)
    return Fit(dict(options), chosen.model, fitted)


def sweep(
    given: Given,
    options: Sequence[Options],
    *,
    engine: Engine | None = None,
    directory: Path | None = None,
    on_event: OnEvent = ignore,
) -> list[Fit]:
    """The fits in the order of `options`. With an `engine`, each is a unit of work for one of its workers."""
    if engine is None:
        listen = [titled(worded(each), on_event) if each else on_event for each in options]
        return [fit_one(given, each, directory, heard) for each, heard in zip(options, listen, strict=True)]
    kept = directory if engine.common_files else None
    shared, found = engine.share(given), {}
    units = (Unit(worded(each) or "the fit", fit_one, (shared, each, kept)) for each in options)
    on_event(Event("fitting", 0, len(options), engine.figures()))
    rate = Rate("fits")
    for number, fit, _ in engine.run(units):
        found[number] = fit
        figures = {**rate.figures(len(found)), **engine.figures()}
        on_event(Event("fitting", len(found), len(options), figures))
    return [found[number] for number in range(len(options))]


def worded(options: Options) -> str:
    """Options in words, as in ``trust 0.1, by state``."""
    return ", ".join(f"{name} {value}" for name, value in options.items())


def best_of(fits: Sequence[Fit]) -> Fit:
    """The fit with the highest log-likelihood of held-out histories; of those learned from where none is held out."""

    def score(fit: Fit) -> float:
        held = fit.fitted.held_out
        return fit.fitted.log_likelihood if held is None else held

    return max(fits, key=score)
