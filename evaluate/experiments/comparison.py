"""The paper's main table: every agent's return in a domain, the published one, paired differences.

Means are over the published mix of true models where that was not uniform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jatpo.evaluate import published, statistics
from jatpo.evaluate.case import Case, Stage, by_agent
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.session import Cell, Played
from jatpo.evaluate.trials import Trials
from jatpo.tables import NOT_AVAILABLE, Row, Table

OURS, WORST, BEST = "atpo", "random", "value_iteration"
HEADS = (
    "domain",
    "agent",
    "mean",
    "std",
    "95 % interval",
    "published",
    "compatible",
    "relative %",
    "published %",
)


@register
@dataclass(frozen=True)
class Comparison(Experiment):
    """Agents' returns next to the published ones (`jatpo evaluate`)."""

    name = "evaluate"
    columns: ClassVar = {"summary": ()}

    def title(self, stage: Stage) -> str:
        return f"evaluating {stage.title}"

    def cells(self, case: Case) -> list[Cell]:
        """Every agent on the same trials."""
        return [case.cell(agent) for agent in case.agents]

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each agent, and one for each trial."""
        return {"summary": summary(case, played), "trials": trial_rows(case, played)}

    def shown(self, tables: Mapping[str, Table]) -> list[Table]:
        """The comparison, and the paired differences."""
        rows = tables["summary"].rows
        compared = Table.of(HEADS, [_line(row) for row in rows])
        pairs = [_pair(row) for row in rows if row.get("atpo_minus") is not None]
        heads = ("domain", "rival", "difference", "95 % interval")
        return [compared, *([Table.of(heads, pairs, "ATPO minus rival, paired")] if pairs else [])]


def summary(case: Case, played: Sequence[Played]) -> list[Row]:
    """One row for each agent."""
    found = by_agent(played)
    return [_row(case, each, found) for each in played]


def _row(case: Case, each: Played, found: Mapping[str, Trials | None]) -> Row:
    agent, trials = each.cell.agent.name, each.trials
    paper = published.result(case.name, agent)
    row: Row = case.row(each, horizon=each.cell.horizon)
    theirs: Row = {
        "published_mean": paper.mean if paper else None,
        "published_std": paper.std if paper else None,
        "published_relative": published.relative(case.name, agent),
    }
    if trials is None:
        empty = dict.fromkeys(("trials", "mean", "std", "error", "low", "high", "compatible"))
        return {**row, **empty, **theirs, "reason": each.reason}
    mix = published.mix(case.name)
    ours = statistics.estimate(trials.returns, trials.truth, mix)
    fits = statistics.compatible(ours, *paper) if paper and math.isfinite(ours.mean) else None
    sample = (trials.returns, trials.truth, mix)
    return {
        **row,
        **ours._asdict(),
        **theirs,
        "compatible": fits,
        "deviation": statistics.deviation(ours, *paper) if paper else None,
        "chance": statistics.chance(*sample, paper.mean, paper.trials) if paper else None,
        "mix": ":".join(map(str, mix)) if mix else "uniform",
        "uniform_mean": float(np.mean(trials.returns)),
        "discounted_mean": statistics.estimate(trials.discounted, trials.truth, mix).mean,
        **_relative(found, trials, mix),
        **_versus_ours(found, agent, trials, mix),
    }


def _relative(found: Mapping[str, Trials | None], trials: Trials, mix: list[int] | None) -> Row:
    """Random = 0 %, value iteration = 100 %."""
    worst, best = found.get(WORST), found.get(BEST)
    if worst is None or best is None:
        return dict.fromkeys(("relative", "relative_low", "relative_high"))
    share = statistics.relative(trials.returns, worst.returns, best.returns, trials.truth, mix)
    return share.interval("relative")


def _versus_ours(
    found: Mapping[str, Trials | None], agent: str, trials: Trials, mix: list[int] | None
) -> Row:
    """ATPO minus this agent, trial by trial."""
    ours = found.get(OURS)
    if ours is None or agent == OURS:
        return dict.fromkeys(("atpo_minus", "atpo_minus_low", "atpo_minus_high"))
    return statistics.difference(ours.returns, trials.returns, trials.truth, mix).interval("atpo_minus")


def trial_rows(case: Case, played: Sequence[Played]) -> list[Row]:
    """Every trial as a row: domain, agent, trial, model, return."""
    return [
        {
            "domain": case.name,
            "agent": agent,
            "trial": int(number),
            "model": int(model),
            "return": float(earned),
        }
        for agent, trials in by_agent(played).items()
        if trials is not None
        for number, model, earned in zip(trials.trial, trials.truth, trials.returns, strict=True)
    ]


def _line(row: Row) -> tuple[Any, ...]:
    """A row as people read it."""
    paper = (
        None if row["published_mean"] is None else f"{row['published_mean']:.2f} ± {row['published_std']:.2f}"
    )
    if row["mean"] is None:
        return row["domain"], row["agent"], NOT_AVAILABLE, None, None, paper, None, None, None
    ours = f"{row['mean']:.2f}", f"{row['std']:.2f}", f"{row['low']:.2f} .. {row['high']:.2f}"
    shares = [row.get(name) for name in ("relative", "published_relative")]
    relative = [None if share is None else f"{share:.1f}" for share in shares]
    return (row["domain"], row["agent"], *ours, paper, row["compatible"], *relative)


def _pair(row: Row) -> tuple[str, ...]:
    interval = f"{row['atpo_minus_low']:+.2f} .. {row['atpo_minus_high']:+.2f}"
    return row["domain"], row["agent"], f"{row['atpo_minus']:+.2f}", interval
