"""Experiments: what they are, and the one runner for all of them.

    @register
    @dataclass(frozen=True)
    class Horizons(Experiment):
        '''The return of agents against the horizon.'''

        name = "horizons"
        columns = {"horizons": ("domain", "horizon", "agent", "mean", "low", "high")}
        horizons: tuple[int, ...] = option("5,10,20", "Horizons, comma-separated.", parse=integers, kept=False)

        def cells(self, case):
            return [case.cell(agent, part=f"{case.part}/{h}", horizon=h, label={"horizon": h})
                    for h in self.horizons for agent in case.agents]

        def tables(self, case, played):
            return {"horizons": [case.row(each, **estimate(each.trials.returns)._asdict()) for each in played]}

is a whole experiment (`option` and `integers` are in `option_fields`): `jatpo experiment horizons` has its option, and
`run` loads and solves the libraries, plays the cells, writes the tables after each library and resumes. An experiment
whose cells depend on what was played before overrides `play` instead of `cells` and `tables`.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from jatpo.domains.parameters import RULES
from jatpo.engine import Engine
from jatpo.errors import unknown
from jatpo.evaluate.agents.catalogue import PAPER, choose_agents
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.results_store import Store
from jatpo.evaluate.session import Cell, Played, Session
from jatpo.evaluate.solved import SolveOptions, load_solved
from jatpo.evaluate.trial_rows import TrialRows
from jatpo.events import Event, OnEvent, ignore
from jatpo.files import load
from jatpo.files.sources import ALL, named_sources
from jatpo.library import Library
from jatpo.registry import Registry
from jatpo.solve import Request, Stop, choose_for
from jatpo.tables import Row, Table

Tables = Mapping[str, Sequence[Row]]
"""Rows by the name of their table."""

UNSHOWN = ("backups", "seconds")  # figures of a solver that progress leaves out

E = TypeVar("E", bound="type[Experiment]")


@dataclass(frozen=True)
class Config:
    """What all experiments have in common."""

    trials: int | None = None  # default: the experiment's
    seed: int = 0
    rules: str = "as_run"
    preset: str = "exact"
    request: Request = field(default_factory=Request)  # how models are solved
    solutions: Path | None = None  # where solutions are kept; default: where all commands keep them
    engine: Engine | None = None  # whose workers solve and play; default: this process
    chunks: Path | None = None  # a directory that all workers have, where they keep chunks of trials

    def solver(self) -> str:
        """How models are solved, in words."""
        given = {name: value for name, value in vars(self.request).items() if value not in (None, {})}
        if not given:
            return "perseus, paper's settings"
        if set(given) == {"seconds"}:
            return f"graph or anytime, {self.request.seconds:g} s"
        return ", ".join(f"{name} {value}" for name, value in given.items())


class Experiment:
    """The protocol and its defaults. Subclasses are frozen dataclasses whose fields are their options (`option`)."""

    name: ClassVar[str]
    agents: ClassVar[Sequence[str]] = PAPER
    trials: ClassVar[int] = 1024
    sources: ClassVar[Sequence[str]] = (ALL,)
    rules: ClassVar[Sequence[str]] = RULES
    pool: ClassVar[bool] = False  # whether it loads all models of a domain, not only those of the main table
    columns: ClassVar[Mapping[str, Sequence[str]]]  # the tables that are printed, with their columns
    keys: ClassVar[
        Mapping[str, Sequence[str]]
    ] = {}  # tables that grow: rows replace earlier ones with equal keys
    streams: ClassVar[Sequence[str]] = ()  # tables of `TrialRows`: written as CSV only, in pieces
    without: ClassVar[Sequence[str]] = ()  # shared options that its command does not have

    @classmethod
    def summary(cls) -> str:
        """One line about it."""
        return (cls.__doc__ or cls.name).strip().splitlines()[0]

    def title(self, stage: Stage) -> str:
        """What progress shows while a library is played."""
        return f"{self.name} in {stage.title}"

    def settings(self, config: Config) -> Row:
        """What results must agree in to be kept in one directory."""
        shared = {
            "seed": config.seed,
            "rules": config.rules,
            "preset": config.preset,
            "solver": config.solver(),
        }
        own = [each.name for each in dataclasses.fields(self) if each.metadata.get("kept")]  # pyright: ignore
        return {**shared, **{name: getattr(self, name) for name in own}}

    def stages(self, sources: Sequence[str | Library], config: Config) -> list[Stage]:
        """The libraries to load and solve, in order."""
        return [Stage(source, config.rules, self.pool) for source in sources]

    def play(self, session: Session, cases: Iterator[Case]) -> Iterator[Tables]:
        """The tables of each library; every case is solved when it is taken."""
        for case in cases:
            yield self.tables(case, session.play(self.cells(case), self.title(case.stage)))

    def cells(self, case: Case) -> Sequence[Cell]:
        """What to play with a library."""
        raise NotImplementedError(f"experiment '{self.name}' has no `cells`")

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """The rows made of what was played with a library, by table."""
        raise NotImplementedError(f"experiment '{self.name}' has no `tables`")

    def overall(self, tables: Tables) -> Tables:
        """Further tables, made from those of all libraries when the last has been played."""
        return {}

    def main(self) -> Sequence[str]:
        """The tables that are printed."""
        return tuple(self.columns)

    def shown(self, tables: Mapping[str, Table]) -> list[Table]:
        """The tables as they are printed for people."""
        return [
            Table(tables[name].rows, self.columns.get(name, ())) for name in self.main() if tables.get(name)
        ]


EXPERIMENTS: Registry[type[Experiment]] = Registry("experiment")


def register(experiment: E) -> E:
    """Enter an experiment under its name; as a decorator. Nothing can replace one of jatpo's own."""
    EXPERIMENTS.add(experiment.name, experiment)
    if experiment.__module__.startswith("jatpo."):
        EXPERIMENTS.protect(experiment.name)
    return experiment


def run(
    experiment: Experiment,
    sources: Library | str | Sequence[str | Library] | None = None,
    agents: Sequence[str | Agent] | None = None,
    config: Config | None = None,
    store: str | os.PathLike[str] | None = None,
    on_event: OnEvent = ignore,
    on_case: Callable[[Case], None] = lambda case: None,
    *,
    replace: bool = False,
) -> dict[str, Table]:
    """The tables of an experiment, by name.

    `sources` are libraries or their names (default: the experiment's). With `store`, a directory, everything is kept
    there and the same call resumes; tables of single trials are there only. `on_case` gets each library with its
    solutions when its tables are written. `replace`: results of a library that has changed since are set aside and made
    again; otherwise they are an error.
    """
    config = config or Config()
    if config.rules not in experiment.rules:
        raise unknown("rule set", config.rules, experiment.rules)
    chosen = choose_agents(agents or experiment.agents, config.preset)
    stages = experiment.stages(chosen_sources(_listed(sources) or experiment.sources), config)
    settings = experiment.settings(config)
    kept = Store(store, experiment.name, settings, on_event, replace=replace) if store else None
    session = Session(config.seed, kept, on_event, config.engine, config.chunks)
    session.require(
        experiment.trials if config.trials is None else config.trials, f"each agent in {experiment.name}"
    )
    rows: dict[str, list[Row]] = {
        name: list(kept.read_table(name)) if kept else [] for name in experiment.keys
    }
    solving: list[Case] = []
    streams: dict[str, TrialRows] = {}

    def cases() -> Iterator[Case]:
        for stage in stages:
            solving.append(_solve(stage, chosen, experiment, config, on_event))
            if kept and config.engine:
                for kind, done in solving[-1].solved.computed.items():
                    kept.add_computed(f"{stage.title}/{kind}", done, config.engine.workers)
            yield solving[-1]

    for tables in experiment.play(session, cases()):
        for name, more in tables.items():
            if name in experiment.streams:
                streams[name] = streams.get(name, TrialRows()) + more  # type: ignore[operator]
                if kept:
                    kept.write_stream(name, streams[name], on_event)
                continue
            keys = experiment.keys.get(name)
            joined = (
                partial(merge, rows=more, keys=keys) if keys else partial(_after, rows.get(name, ()), more)
            )
            rows[name] = kept.merge_table(name, joined) if kept else joined(rows.get(name, []))
        for case in solving:
            on_case(case)
        solving.clear()
    for name, more in experiment.overall({**rows, **streams}).items():
        rows[name] = list(more)
        if kept:
            kept.write_table(name, Table(rows[name]))
    return {name: Table(found) for name, found in {**rows, **({} if kept else streams)}.items()}


def _after(before: Sequence[Row], more: Sequence[Row], found: Sequence[Row]) -> list[Row]:
    """The rows of this run so far and `more`; those `found` on disk are of an earlier run."""
    del found
    return [*before, *more]


def _solve(
    stage: Stage, agents: Sequence[Agent], experiment: Experiment, config: Config, on_event: OnEvent
) -> Case:
    """Load a library and solve what the agents need; what was corrected or is not complete becomes a note."""
    began = time.perf_counter()
    library = load(stage.source, rules=stage.rules, pool=stage.pool)
    built = time.perf_counter()
    request = stage.request or config.request
    listen = _Solving(f"solving {stage.title}", choose_for(library, request).stop, on_event)
    options = SolveOptions(request, directory=config.solutions, on_event=listen, engine=config.engine)
    solved = load_solved(library, agents, options=options)
    listen.end()
    seconds = {"build": built - began, "solve": time.perf_counter() - built}
    trials = experiment.trials if config.trials is None else config.trials
    return Case(stage, solved, tuple(agents), trials, seconds)


class _Solving:
    """A listener that passes on a solver's events with the progress of all models under one title."""

    def __init__(self, title: str, stop: Stop, on_event: OnEvent) -> None:
        self._title, self._stop, self._on_event = title, stop, on_event
        self._total: float | None = None

    def __call__(self, event: Event) -> None:
        """Pass on a note, or the share of all models that is solved."""
        if event.note:
            self._on_event(event)
            return
        now, self._total = event.figures, event.total
        limits = [(now.get("seconds", 0), self._stop.seconds), (now.get("stage", 0), self._stop.stages)]
        inside = max((done / limit for done, limit in limits if limit), default=0.0)
        model = {"model": event.title} if event.title else {}  # none where workers solve several at once
        shown = {**model, **{name: part for name, part in now.items() if name not in UNSHOWN}}
        self._on_event(Event(self._title, event.done + min(inside, 1.0), event.total, shown))

    def end(self) -> None:
        """All models are solved, perhaps long before their limits."""
        if self._total:
            self._on_event(Event(self._title, self._total, self._total))


def _listed(sources: Any) -> Sequence[str | Library] | None:
    """Sources as a list, also where there is only one."""
    return [sources] if isinstance(sources, str) or hasattr(sources, "simulated") else sources


def chosen_sources(sources: Sequence[str | Library]) -> list[str | Library]:
    """Libraries, and those that are named, each once; an unknown name is refused before any work."""
    chosen: list[str | Library] = []
    for source in sources:
        chosen += named_sources([source]) if isinstance(source, str) else [source]
    return list(dict.fromkeys(chosen))


def merge(
    before: Sequence[Row], rows: Sequence[Row], keys: Sequence[str], kept: str = "decision_us"
) -> list[Row]:
    """`rows`, and those of an earlier table that they do not replace; what was `kept` there is not lost."""

    def key(row: Row) -> tuple:
        return tuple(row.get(name) for name in keys)

    known = {key(row): row for row in before}
    fresh = {key(row): dict(row) for row in rows}
    for place, row in fresh.items():
        if kept in row and row[kept] is None and place in known:
            row[kept] = known[place].get(kept)
    return list({**known, **fresh}.values())
