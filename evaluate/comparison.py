"""The paper's main table: every agent's return in a domain, the published one, paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jatpo.evaluate import published, statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.rollout import Trials

OURS, WORST, BEST = "atpo", "random", "value_iteration"


@dataclass(frozen=True)
class Results:
    """The trials of every agent in one domain; None for an agent that cannot run there, with the reason."""

    prepared: Prepared
    trials: Mapping[str, Trials | None]
    reasons: Mapping[str, str]


def play(prepared: Prepared, agents: Sequence[Agent], trials: int, session: Session) -> Results:
    """Run every agent on the same trials."""
    session.open_part(prepared.part, prepared)
    session.expect(agents, prepared.task.library)
    found: dict[str, Trials | None] = {}
    reasons = {}
    for agent in agents:
        reason = agent.refuses(prepared.task.library)
        if reason:
            found[agent.name], reasons[agent.name] = None, reason
        else:
            found[agent.name] = session.run(prepared.part, agent, prepared.task, prepared.horizon, trials)
    return Results(prepared, found, reasons)


def compare(results: Results) -> list[dict[str, Any]]:
    """One row per agent; means are over the published mix of true models where that was not uniform."""
    return [_row(results, name, trials) for name, trials in results.trials.items()]


def _row(results: Results, agent: str, trials: Trials | None) -> dict[str, Any]:
    domain = results.prepared.name
    found = published.result(domain, agent)
    row = {
        "domain": domain,
        "rules": results.prepared.rules,
        "agent": agent,
        "horizon": results.prepared.horizon,
    }
    paper = {
        "published_mean": found.mean if found else None,
        "published_std": found.std if found else None,
        "published_relative": published.relative(domain, agent),
    }
    if trials is None:
        empty = dict.fromkeys(("trials", "mean", "std", "error", "low", "high", "compatible"))
        return {**row, **empty, **paper, "reason": results.reasons[agent]}
    mix = published.mix(domain)
    ours = statistics.estimate(trials.returns, trials.truth, mix)
    row |= {**ours._asdict(), **paper}
    row["compatible"] = statistics.compatible(ours, *found) if found and math.isfinite(ours.mean) else None
    row["deviation"] = statistics.deviation(ours, *found) if found else None
    row["chance"] = (
        statistics.chance(trials.returns, trials.truth, mix, found.mean, found.trials) if found else None
    )
    row["mix"] = ":".join(map(str, mix)) if mix else "uniform"
    row["uniform_mean"] = float(np.mean(trials.returns))
    row["discounted_mean"] = statistics.estimate(trials.discounted, trials.truth, mix).mean
    return row | _relative(results, trials, mix) | _versus_ours(results, agent, trials, mix)


def _relative(results: Results, trials: Trials, mix: list[int] | None) -> dict[str, float | None]:
    """Random = 0 %, value iteration = 100 %."""
    worst, best = results.trials.get(WORST), results.trials.get(BEST)
    if worst is None or best is None:
        return dict.fromkeys(("relative", "relative_low", "relative_high"))
    found = statistics.relative(trials.returns, worst.returns, best.returns, trials.truth, mix)
    return {"relative": found.mean, "relative_low": found.low, "relative_high": found.high}


def _versus_ours(
    results: Results, agent: str, trials: Trials, mix: list[int] | None
) -> dict[str, float | None]:
    """ATPO minus this agent, trial by trial."""
    ours = results.trials.get(OURS)
    names = ("atpo_minus", "atpo_minus_low", "atpo_minus_high")
    if ours is None or agent == OURS:
        return dict.fromkeys(names)
    found = statistics.difference(ours.returns, trials.returns, trials.truth, mix)
    return dict(zip(names, (found.mean, found.low, found.high), strict=True))


def trial_rows(results: Results) -> list[dict[str, Any]]:
    """Every trial as a row: domain, agent, trial, model, return."""
    domain = results.prepared.name
    rows = []
    for agent, trials in results.trials.items():
        if trials is not None:
            for number, model, earned in zip(trials.trial, trials.truth, trials.returns, strict=True):
                row = {"domain": domain, "agent": agent, "trial": int(number), "model": int(model)}
                rows.append({**row, "return": float(earned)})
    return rows
