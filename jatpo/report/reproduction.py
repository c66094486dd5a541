"""The paper's experiments in one run: returns, identification, library scaling, solving times, and the report.

Returns and identification share their trials: ATPO and BOPA are played once, with their posterior recorded.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from jatpo.disk import sealed, write_whole
from jatpo.evaluate import published
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.experiment import Config, Experiment, Tables, run
from jatpo.evaluate.experiments import comparison
from jatpo.evaluate.experiments.identification import RECORD, identified
from jatpo.evaluate.experiments.scaling import BASELINES, Scaling
from jatpo.evaluate.session import Cell, Played, Session
from jatpo.events import OnEvent, ignore
from jatpo.library import Library
from jatpo.report import page, results, rules
from jatpo.report.episode import Episode, record
from jatpo.report.plan import POOL, Plan, command, replayed, steps_of
from jatpo.report.schedule import Schedule, Scheduled
from jatpo.tables import Row

IDENTIFIERS = ("atpo", "bopa")


@dataclass(frozen=True)
class Reproduction(Experiment):
    """The paper's experiments."""

    name = "reproduce"
    trials = 32
    columns: ClassVar = {"summary": ()}
    streams: ClassVar = comparison.Comparison.streams

    sizes: tuple[int, ...] = ()  # of libraries in the scaling experiment; empty: skipped
    pooled: str = POOL

    def title(self, stage: Stage) -> str:
        return "scaling the library" if stage.pool else f"playing {stage.title}"

    def stages(self, sources: Sequence[str | Library], config: Config) -> list[Stage]:
        """Every domain, and the pool of models that libraries are drawn from."""
        pool = [Stage(self.pooled, config.rules, pool=True)] if self.sizes else []
        return [*super().stages(sources, config), *pool]

    def play(self, session: Session, cases: Iterator[Case]) -> Iterator[Tables]:
        """The tables of each domain, then those of the scaling experiment."""
        for case in cases:
            if case.stage.pool:
                wanted = tuple(agent for agent in case.agents if agent.name in (*BASELINES, "atpo"))
                case, part = dataclasses.replace(case, agents=wanted), Scaling(self.sizes)
            else:
                part = self
            yield part.tables(case, session.play(part.cells(case), self.title(case.stage)))

    def cells(self, case: Case) -> list[Cell]:
        """All agents on the same trials."""
        return [case.cell(agent, record=RECORD if agent.name in IDENTIFIERS else ()) for agent in case.agents]

    def overall(self, tables: Tables) -> Tables:
        """Measures over domains."""
        return comparison.overall(tables)

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """Everything about one domain."""
        solved = solution_rows(case)
        chosen = [each for each in played if each.cell.agent.name in IDENTIFIERS]
        return {
            "solutions": solved,
            "times": [times(case, solved)],
            "summary": comparison.summary(case, played),
            "trials": comparison.trial_rows(case, played),
            **identified(case, chosen),
            "rules": list(rules.differing_rules(case.name)),
            "effects": list(rules.effects(case.name)),
        }


def solution_rows(case: Case) -> list[Row]:
    """One row for each model."""
    return [
        {
            "domain": case.name,
            "model": k,
            "label": case.library.labels[k],
            "lower": solution.lower,
            "upper": solution.upper,
            "gap": solution.gap,
            "vectors": solution.num_vectors,
            "stages": solution.stages,
            "seconds": solution.seconds,
            "status": solution.status.value,
            "states": case.library.member(k).num_states,
            "hash": solution.model_hash[:16],
        }
        for k, solution in enumerate(case.solved.solutions)
    ]


def times(case: Case, solved: Sequence[Row]) -> Row:
    """Table 2: ours beside the published. Equal models are solved once, and counted once."""
    seconds = {row["hash"]: row["seconds"] for row in solved}
    theirs = published.load()["domains"].get(case.name, {})
    row = {"domain": case.name, "models": case.library.num_models, "different": len(seconds)}
    for name, ours in (("setup", case.seconds["build"]), ("solve", sum(seconds.values()))):
        paper = theirs.get(f"{name}_s")
        row |= {
            f"published_{name}": paper,
            name: ours,
            f"{name}_ratio": paper / ours if paper and ours else None,
        }
    return row


class Reproduced(NamedTuple):
    """What a run of `reproduce` leaves."""

    results: results.Results
    report: Path
    episodes: list[Episode]


def reproduce(plan: Plan, directory: str | os.PathLike[str], on_event: OnEvent = ignore) -> Reproduced:
    """Run a plan in a directory, where the same call resumes, and write the report."""
    place, config = Path(directory), plan.config
    progress = Scheduled(Schedule(steps_of(plan)), on_event)
    episodes: dict[str, Episode] = {}

    def finish(case: Case) -> None:
        """What follows the tables of a domain."""
        _write_run(plan, place)
        if case.name in replayed(plan) and not case.stage.pool:
            progress.begin(f"recording {case.name}")
            episodes[case.name] = record(case.solved, "atpo", config.seed, preset=config.preset)

    experiment = Reproduction(tuple(plan.sizes), plan.pool)
    tables = run(experiment, plan.names, None, config, place, progress, finish)
    for name in results.TABLES:
        if name not in tables:  # left by an earlier, larger run
            for ending in ("csv", "json"):
                (place / f"{name}.{ending}").unlink(missing_ok=True)
    _write_run(plan, place)
    progress.begin("writing the report")
    found = results.load(place)
    shown = [episodes[name] for name in replayed(plan)]
    return Reproduced(found, page.write(place, found, shown), shown)


def _write_run(plan: Plan, place: Path) -> None:
    """The settings of the run, for readers of its tables."""
    described = {
        "domains": list(plan.names),
        "trials": plan.trials,
        **Reproduction().settings(plan.config),
        "sizes": list(plan.sizes),
        "command": command(plan),
        "finished": time.strftime("%Y-%m-%d %H:%M"),
    }
    write_whole(place / results.RUN, json.dumps(sealed(described), indent=1, ensure_ascii=False) + "\n")
