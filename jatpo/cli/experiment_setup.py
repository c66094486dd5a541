"""What the commands of `jatpo experiment` have in common: their options, how they begin and how they end.

    @shared(experiment, "identification", agents="atpo,bopa")
    def identification(options: Options, names: Names = None) -> None:

makes a command with the function's own options and the shared ones after them; the function gets these as `options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.cli.evaluate import (
    BY_NAME,
    Json,
    Preset,
    Quiet,
    Rules,
    Seconds,
    Seed,
    Solutions,
    Trials,
    check_rules,
    names_of,
    open_store,
    session,
    solve_options,
    solver_settings,
    tell,
    working,
)
from jatpo.cli.output import print_json, print_table

if TYPE_CHECKING:
    from jatpo.evaluate.prepare import Session

Rows = list[dict[str, Any]]

Out = Annotated[
    Path | None,
    typer.Option(help="Directory for results, results/<experiment> without it; run again to go on."),
]


class Options(NamedTuple):
    """What was chosen with the shared options, in the order of the help."""

    experiment: str
    agents: str | None = None
    trials: int = 1024
    seed: int = 0
    rules: str = "as_run"
    preset: str = "exact"
    seconds: float | None = None
    solutions: Path | None = None
    out: Path | None = None
    json: bool = False
    quiet: bool = False

    def begin(self, **more: Any) -> Setup:
        """Open the directory for results; `more` are settings of this experiment alone."""
        setup = (self.agents, self.seed, self.rules, self.preset, self.seconds, self.solutions, self.out)
        return Setup(self.experiment, *setup, self.quiet, **more)

    def session(self, title: str, store: Any = None) -> AbstractContextManager[Session]:
        """A session that shows its progress."""
        return session(title, self.seed, store, self.quiet)


KINDS: Mapping[str, Any] = {
    "agents": Annotated[str | None, typer.Option(help=f"{BY_NAME}.")],
    "trials": Trials,
    "seed": Seed,
    "rules": Rules,
    "preset": Preset,
    "seconds": Seconds,
    "solutions": Solutions,
    "out": Out,
    "json": Json,
    "quiet": Quiet,
}


def shared(
    app: typer.Typer, name: str, *, without: tuple[str, ...] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enter a function as a command that has the shared options too, but those in `without`."""
    standard = Options(name, **defaults)

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        own = [*inspect.signature(function, eval_str=True).parameters.values()][1:]
        offered = [
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=getattr(standard, option), annotation=kind
            )
            for option, kind in KINDS.items()
            if option not in without
        ]

        def command(**values: Any) -> None:
            chosen = {option.name: values.pop(option.name) for option in offered}
            function(standard._replace(**chosen), **values)

        parameters = [*own, *offered]
        vars(command)["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        command.__doc__ = function.__doc__
        app.command(name)(command)
        return function

    return enter


class Setup:
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

    def write(self, tables: dict[str, Rows]) -> None:
        """Write tables into the directory."""
        for name, rows in tables.items():
            self.store.write_table(name, rows)

    def finish(
        self, tables: dict[str, Rows], columns: tuple[str, ...], json: bool, shown: Rows | None = None
    ) -> None:
        """Write the tables and print the first one, or what is `shown` of it to people."""
        self.write(tables)
        rows = next(iter(tables.values()))
        if json:
            print_json(rows)
            return
        heads = [column.replace("_", " ") for column in columns]
        print_table(heads, [[row.get(column) for column in columns] for row in shown or rows])
        print(f"\nresults are in {self.store.directory}")
