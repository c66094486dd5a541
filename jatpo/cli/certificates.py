"""`jatpo certify`: check the bounds of solutions by a program that shares no code with the solvers."""

from __future__ import annotations

import decimal
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.cli.options import Model, Names, Pool, Quiet, check_rules, chosen_sources
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.progress import Progress
from jatpo.cli.solving import DEFAULTS, Solving, print_notes, shown, solves
from jatpo.errors import JatpoError
from jatpo.events import Event
from jatpo.tables import Column, Table

if TYPE_CHECKING:
    from jatpo.model import POMDP
    from jatpo.solve import Choice, Solution

BOTH = "both"
REFUSED = "refused"
DIGITS = 6  # significant ones of a bound


def rounded_down(value: float) -> str:
    """A lower bound with few digits that is one still."""
    return _rounded(value, decimal.ROUND_FLOOR)


def rounded_up(value: float) -> str:
    """An upper bound with few digits that is one still."""
    return _rounded(value, decimal.ROUND_CEILING)


def _rounded(value: float, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    context = decimal.Context(prec=DIGITS, rounding=rounding)
    return f"{context.create_decimal(decimal.Decimal(value)):f}"


COLUMNS = (
    "domain",
    Column("rules", optional=True),
    "model",
    Column("lower", format=rounded_down, align="right"),
    Column("upper", format=rounded_up, align="right"),
    "level",
    Column("claimed_lower", format=f".{DIGITS}g", optional=True),
    Column("claimed_upper", format=f".{DIGITS}g", optional=True),
    Column("wider", "wider by", "+.2g"),
    Column("solved_seconds", "solving, s", ".1f", optional=True),
    Column("seconds", "checking, s", ".1f"),
)


class Task(NamedTuple):
    """One model to certify, as it is shown, and how it is solved if it is not."""

    domain: str
    rules: str
    number: int | str
    model: POMDP
    choice: Choice

    @property
    def label(self) -> str:
        """As progress and notes call it."""
        return f"{self.domain} model {self.number}"


@solves
@exports
def certify(
    names: Names,
    model: Model = None,
    pool: Pool = False,
    joint: Annotated[bool, typer.Option("--joint", help="All models of each as one problem.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Check in rational numbers: for small models, takes minutes.")
    ] = False,
    rules: Annotated[str, typer.Option(help="as_run, as_written or both.")] = "as_run",
    solving: Solving = DEFAULTS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the solution.")] = 0,
    form: Form = TEXT,
    quiet: Quiet = False,
) -> None:
    """Certify bounds: check kept solutions independently and print the interval that is proved.

    A model without a kept solution is solved first, with the options of 'jatpo solve'. What was solved is kept, so the
    same command resumes after an interruption; checks are always repeated.
    """
    if joint and model is not None:
        raise JatpoError("--joint takes all models together and --model one of them: give one of the two")
    if rules != BOTH:
        check_rules(rules)
    sources = chosen_sources(names)
    chosen = ("as_run", "as_written") if rules == BOTH else (rules,)
    kind = "joint" if joint else model
    rows: list[dict[str, Any]] = []
    with Progress("certifying", quiet) as progress:
        for task in _tasks(sources, chosen, kind, pool, solving):
            rows.append(_certify(task, seed, exact, solving, progress))
            figures = {name: rows[-1][name] for name in ("lower", "upper", "level") if name in rows[-1]}
            progress(Event(f"certified {task.label}", len(rows), None, figures))
    table = Table(rows, COLUMNS)
    if form.chosen:
        form.write([table], rows)
    else:
        print(table)
    refused = [f"{row['domain']} model {row['model']} ({row['problem']})" for row in rows if row["problem"]]
    if refused:
        raise JatpoError(f"{len(refused)} of {len(rows)} solutions prove nothing: {'; '.join(refused)}")


def _tasks(
    sources: list[str], rules: tuple[str, ...], kind: int | str | None, pool: bool, solving: Solving
) -> Iterator[Task]:
    """What to certify, one library after the other."""
    from jatpo.cli.solve import models_of
    from jatpo.files import load_tables
    from jatpo.solve import choose_for

    request = solving.request()
    for each, name in ((each, name) for each in rules for name in sources):
        library = load_tables(name, rules=each, pool=pool)
        print_notes(library.notes)
        choice = choose_for(library, request, joint=kind == "joint")
        for number, part in models_of(library, name, kind).items():
            yield Task(name, each, number, part, choice)


def _certify(task: Task, seed: int, exact: bool, solving: Solving, progress: Progress) -> dict[str, Any]:
    """The row of one model."""
    import jax

    from jatpo.solve import default_directory, solve_models

    cache = solving.solutions or default_directory()
    listener = shown(progress)
    solver, stop = task.choice
    solution = solve_models(
        [task.model],
        solver,
        stop,
        key=jax.random.key(seed),
        cache=cache,
        labels=[task.label],
        on_event=listener,
    )[0]
    row = {"domain": task.domain, "rules": task.rules, "model": task.number, **_claimed(solution)}
    began = time.perf_counter()
    try:
        proved = solution.certify(task.model, cache=cache, exact=exact, on_event=listener)
    except JatpoError as error:
        return row | {"level": REFUSED, "problem": str(error), "seconds": time.perf_counter() - began}
    row |= {"lower": proved.lower, "upper": proved.upper, "level": proved.level, "problem": ""}
    row["wider"] = (proved.upper - proved.lower) - solution.gap
    row["seconds"] = time.perf_counter() - began
    for problem in _contradictions(solution, proved.lower, proved.upper):
        listener(Event(note=f"{task.label}: {problem}"))
    return row


def _claimed(solution: Solution) -> dict[str, Any]:
    """What the solver reported."""
    return {
        "claimed_lower": solution.lower,
        "claimed_upper": solution.upper,
        "claimed_level": solution.level,
        "solver": solution.solver,
        "solved_seconds": solution.seconds,
    }


def _contradictions(solution: Solution, lower: float, upper: float) -> Iterator[str]:
    """What the certificate refutes of the claim."""
    if solution.upper < lower:
        yield f"the claimed upper bound {solution.upper:.6g} is below the certified lower bound {lower:.6g}"
    if solution.lower > upper:
        yield f"the claimed lower bound {solution.lower:.6g} is above the certified upper bound {upper:.6g}"
