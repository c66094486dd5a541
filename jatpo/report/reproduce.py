"""The paper's experiments in one run: build, solve, play, identify, scale; every step kept, so that it can go on.

Returns and identification share their trials: ATPO and BOPA are played once, with their posterior recorded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jatpo import domains
from jatpo.evaluate import comparison, identification, published
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session, choose_agents, prepare
from jatpo.evaluate.scaling import BASELINES, scaling
from jatpo.evaluate.solutions import SolveOptions
from jatpo.evaluate.store import Store, write_whole
from jatpo.report import page, results, rules
from jatpo.report.episode import Episode, record
from jatpo.report.plan import POOL, Plan, command, replayed, steps_of
from jatpo.report.schedule import Schedule
from jatpo.solve import default_directory, paper_settings, solve_library

IDENTIFIERS = ("atpo", "bopa")
RECORD = ("posterior", "entropy")

Show = Callable[..., None]


@dataclass
class Tables:
    """Rows by table, as they come in."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        self.rows.setdefault(table, []).extend(rows)


class Reproduction:
    """One run of a plan in a directory. `show(schedule, text)` is called whenever something has moved."""

    def __init__(self, plan: Plan, directory: str | os.PathLike[str], show: Show | None = None) -> None:
        self.plan = plan
        self.agents = choose_agents(None, plan.preset)
        self.store = Store(directory, "reproduce", plan.identity())
        self.schedule = Schedule(steps_of(plan))
        self.tables = Tables()
        self.episodes: list[Episode] = []
        self._show = show

    def run(self) -> results.Results:
        """Do what is missing, write the tables, and read them back."""
        for name in self.plan.names:
            self._domain(name)
        if self.plan.sizes:
            self._scaling()
        self._write()
        return results.load(self.store.directory)

    def write_report(self, found: results.Results) -> Path:
        """Write the page."""
        self.next()
        order = replayed(self.plan)
        episodes = sorted(self.episodes, key=lambda episode: order.index(episode.title))
        return page.write(self.store.directory, found, episodes)

    def next(self) -> None:
        """Go to the next step of the schedule."""
        self.schedule.begin()
        self._told("")

    def _told(self, text: str) -> None:
        if self._show:
            self._show(self.schedule, text)

    def _domain(self, name: str) -> None:
        self.next()
        options = self._options(name, domains.get(name).models)
        prepared = prepare(name, self.agents, self.plan.rules, options)
        self.tables.add("solutions", self._solved(prepared, options))
        self.tables.add("times", [self._times(prepared)])
        self.next()
        self._play(prepared)
        self.tables.add("rules", rules.differing_rules(name))
        self.tables.add("effects", rules.effects(name))
        self._write()
        if name in replayed(self.plan):
            self.next()
            self.episodes.append(record(prepared, "atpo", self.plan.seed, preset=self.plan.preset))

    def _options(self, name: str, count: int) -> SolveOptions:
        """The solver's options, with its progress as that of the step under way."""
        seen: list[str] = []
        settings = self.plan.settings or paper_settings(name)

        def progress(**fields: Any) -> None:
            label = str(fields.get("label"))
            if label not in seen:
                seen.append(label)
            inside = _inside(settings, fields)
            self.schedule.advance((len(seen) - 1 + inside) / count)
            self._told(f"model {len(seen)} of {count}, stage {fields.get('stage', 0)}")

        return SolveOptions(settings, directory=self.plan.solutions, progress=progress)

    def _solved(self, prepared: Prepared, options: SolveOptions) -> list[dict[str, Any]]:
        """One row for each model; the solutions are in the cache by now."""
        directory = options.directory or default_directory()
        found = solve_library(prepared.models, options.settings, options.seed, directory)
        rows = []
        for k, solution in enumerate(found):
            row = {"domain": prepared.name, "model": k, "label": prepared.labels[k]}
            row |= {"lower": solution.lower, "upper": solution.upper, "gap": solution.gap}
            row |= {"vectors": solution.num_vectors, "stages": solution.stages}
            row |= {"seconds": solution.seconds, "stopped": solution.stopped}
            rows.append({**row, "states": prepared.models[k].num_states, "hash": solution.model_hash[:16]})
        return rows

    def _times(self, prepared: Prepared) -> dict[str, Any]:
        """Table 2: ours beside the published. Equal models are solved once, and counted once."""
        ours = [row for row in self.tables.rows["solutions"] if row["domain"] == prepared.name]
        solve = sum({row["hash"]: row["seconds"] for row in ours}.values())
        theirs = published.load()["domains"].get(prepared.name, {})
        row: dict[str, Any] = {"domain": prepared.name, "models": len(prepared.models)}
        row["different"] = len({each["hash"] for each in ours})
        for name, seconds in (("setup", prepared.seconds["build"]), ("solve", solve)):
            paper = theirs.get(f"{name}_s")
            ratio = paper / seconds if paper and seconds else None
            row |= {f"published_{name}": paper, name: seconds, f"{name}_ratio": ratio}
        return row

    def _play(self, prepared: Prepared) -> None:
        """All agents on the same trials."""
        found: dict[str, Any] = {}
        reasons = {}
        library = prepared.task.library
        self.store.open_part(prepared.name, prepared.identity)
        for number, agent in enumerate(self.agents):
            reason = agent.refuses(library)
            if reason:
                found[agent.name], reasons[agent.name] = None, reason
                continue
            session = self._session(number, len(self.agents))
            record = RECORD if agent.name in IDENTIFIERS else ()
            found[agent.name] = session.run(
                prepared.name, agent, prepared.task, prepared.horizon, self.plan.trials, record
            )
        played = comparison.Results(prepared, found, reasons)
        self.tables.add("summary", comparison.compare(played))
        self.tables.add("trials", comparison.trial_rows(played))
        self._identify(prepared, found, reasons)

    def _identify(self, prepared: Prepared, found: dict[str, Any], reasons: dict[str, str]) -> None:
        for agent in IDENTIFIERS:
            label = {"domain": prepared.name, "rules": prepared.rules, "agent": agent}
            run = found[agent]
            if run is None:
                self.tables.add("identification", [{**label, "reason": reasons[agent]}])
                continue
            paper = published.true_model_probability(prepared.name) if agent == "atpo" else {}
            theirs = {f"published_{step}": value for step, value in paper.items()}
            self.tables.add("identification", [{**label, **identification.summary(run), **theirs}])
            self.tables.add("curves", [{**label, **row} for row in identification.curve(run)])

    def _session(self, number: int, count: int) -> Session:
        """A session whose progress is that of the step under way, of `count` runs the one with a number."""

        def progress(done: int, total: int, agent: str = "", **_: Any) -> None:
            self.schedule.advance((number + done / total) / count)
            self._told(f"{agent.replace('_', ' ')}, {number + 1} of {count}")

        return Session(self.plan.seed, self.store, progress)

    def _scaling(self) -> None:
        """ATPO's return as the library grows, and the baselines that do not depend on it."""
        self.next()
        agents = [agent for agent in self.agents if agent.name in (*BASELINES, "atpo")]
        prepared = prepare(
            POOL, agents, self.plan.rules, self._options(POOL, domains.get(POOL).pool), pool=True
        )
        self.next()
        runs = len(self.plan.sizes) + len(BASELINES)
        session = _Counting(self.plan.seed, self.store, None)
        session.before = lambda number: self._scaled(number, runs)
        rows = scaling(prepared, agents, self.plan.sizes, self.plan.trials, session)
        self.tables.add("scaling", rows)

    def _scaled(self, number: int, runs: int) -> None:
        self.schedule.advance(number / runs)
        self._told(f"run {number + 1} of {runs}")

    def _write(self) -> None:
        """Write all tables and the settings."""
        for name, rows in self.tables.rows.items():
            self.store.write_table(name, rows)
        for name in (*results.TABLES, "trials"):
            if name not in self.tables.rows:  # left by an earlier, larger run
                for ending in ("csv", "json"):
                    (self.store.directory / f"{name}.{ending}").unlink(missing_ok=True)
        plan = self.plan
        described = {"domains": list(plan.names), "trials": plan.trials, **plan.identity()}
        described |= {"sizes": list(plan.sizes), "command": command(plan), "finished": _now()}
        write_whole(self.store.directory / results.RUN, _json(described))


class _Counting(Session):
    """A session that tells before each run how many there were."""

    before: Callable[[int], None] = staticmethod(lambda number: None)
    _number = 0

    def run(self, part: str, agent: Agent, *arguments: Any, **options: Any) -> Any:
        self.before(self._number)
        self._number += 1
        return super().run(part, agent, *arguments, **options)


def _inside(settings: Any, fields: dict[str, Any]) -> float:
    """The share of a model's solve that is done, by its stages or by its time."""
    limit = getattr(settings, "seconds", 0)
    share = fields.get("seconds", 0) / limit if limit else fields.get("stage", 0) / (settings.stages or 100)
    return min(share, 1.0)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M")


def _json(value: Any) -> bytes:
    import json

    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
