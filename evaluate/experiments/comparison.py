"""The paper's main table: every agent's return in a domain, the published one, paired differences.

Means are over the published mix of true models where that was not uniform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jatpo.errors import unknown
from jatpo.evaluate import aggregates, published, statistics
from jatpo.evaluate.case import Case, Stage, by_agent
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.experiments.comparison_tables import shown
from jatpo.evaluate.option_fields import option
from jatpo.evaluate.session import Cell, Played
from jatpo.evaluate.trial_rows import TrialRows
from jatpo.evaluate.trials import Trials
from jatpo.tables import Row, Table

OURS, WORST, BEST = "atpo", "random", "value_iteration"
MOST = 1 << 14


@register
@dataclass(frozen=True)
class Comparison(Experiment):
    """Agents' returns next to the published ones (`jatpo evaluate`)."""

    name = "evaluate"
    columns: ClassVar = {"summary": ()}
    streams: ClassVar = ("trials",)

    baseline: str = option(OURS, "The agent that the others are compared with, trial by trial.", kept=False)

    def title(self, stage: Stage) -> str:
        return f"evaluating {stage.title}"

    def cells(self, case: Case) -> list[Cell]:
        """Every agent on the same trials."""
        names = [agent.name for agent in case.agents]
        if self.baseline != OURS and self.baseline not in names:
            raise unknown("agent to compare with", self.baseline, names)
        return [case.cell(agent) for agent in case.agents]

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each agent, and one for each trial."""
        return {"summary": summary(case, played, self.baseline), "trials": trial_rows(case, played)}

    def overall(self, tables: Tables) -> Tables:
        """Measures over several domains."""
        return overall(tables, self.baseline)

    def shown(self, tables: Mapping[str, Table]) -> list[Table]:
        """The comparison, the paired differences, and the measures over several domains."""
        return shown(tables, self.baseline)


def summary(case: Case, played: Sequence[Played], baseline: str = OURS) -> list[Row]:
    """One row for each agent."""
    found = by_agent(played)
    return [_row(case, each, found, baseline) for each in played]


def _row(case: Case, each: Played, found: Mapping[str, Trials | None], baseline: str) -> Row:
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
    fits = statistics.compatible(ours, *paper) if paper and math.isfinite(ours.error) else None
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
        **_bounds(case, mix),
        **_relative(found, trials, mix),
        **_versus(found, OURS, agent, trials, mix, "atpo_minus"),
        "baseline": baseline,
        **_versus(found, baseline, agent, trials, mix, "baseline_minus"),
        "same_as": _same_as(case, found, agent),
    }


def _bounds(case: Case, mix: list[int] | None) -> Row:
    """The solver's bounds on the discounted value of an agent that knows the model, averaged over the models."""
    known = [case.solved.bounds.get(label) for label in case.library.labels]
    ends = [each for each in known if each is not None]
    if len(ends) < len(known):
        return dict.fromkeys(("lower", "upper"))
    lower, upper = (float(np.average(each, weights=mix)) for each in zip(*ends, strict=True))
    return {"lower": lower, "upper": upper}


def _same_as(case: Case, found: Mapping[str, Trials | None], agent: str) -> str | None:
    """In a library of one model, the first agent that earned exactly the same; None for the first itself."""
    mine = found[agent]
    if case.library.num_models > 1 or mine is None:
        return None
    same = [name for name, each in found.items() if each and np.array_equal(each.returns, mine.returns)]
    return None if same[0] == agent else same[0]


def _relative(found: Mapping[str, Trials | None], trials: Trials, mix: list[int] | None) -> Row:
    """Random = 0 %, value iteration = 100 %."""
    worst, best = found.get(WORST), found.get(BEST)
    if worst is None or best is None:
        return dict.fromkeys(("relative", "relative_low", "relative_high"))
    share = statistics.relative(trials.returns, worst.returns, best.returns, trials.truth, mix)
    return share.interval("relative")


def _versus(
    found: Mapping[str, Trials | None],
    baseline: str,
    agent: str,
    trials: Trials,
    mix: list[int] | None,
    name: str,
) -> Row:
    """The baseline minus this agent, trial by trial."""
    base = found.get(baseline)
    if base is None or agent == baseline:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    return statistics.difference(base.returns, trials.returns, trials.truth, mix).interval(name)


def trial_rows(case: Case, played: Sequence[Played]) -> TrialRows:
    """Every trial as a row: domain, agent, trial, model, return."""
    found = by_agent(played).items()
    return TrialRows([(case.name, agent, trials) for agent, trials in found if trials is not None])


def overall(tables: Tables, baseline: str = OURS) -> Tables:
    """Measures over domains (`aggregates`), where there are at least two with the agents that fix the scale.

    The bootstrap draws from the first `MOST` trials of each domain.
    """
    trials: Any = tables.get("trials")
    scores = aggregates.scores_of(trials.returns(MOST) if trials else {}, WORST, BEST)
    if len(next(iter(scores.values()), {})) < 2:
        return {}
    return {"aggregate": aggregates.summarise(scores, baseline), "profile": aggregates.profiles(scores)}
