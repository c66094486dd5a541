"""Identification: how fast an agent finds out which model is the true one.

The probability of the true model and the normalised entropy of the posterior (0 certain, 1 uniform) after
every step; the first step at which the true model leads (no other is as probable), and at which it has 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jatpo.evaluate import published, statistics
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.rollout import reported
from jatpo.evaluate.scenario import needed, refusal
from jatpo.evaluate.session import Cell, Played
from jatpo.evaluate.trials import Trials
from jatpo.tables import Row

SURE = 0.9
MARGIN = 1e-5  # by which the true model has to exceed every other to lead
SHOWN_STEPS = (5, 10, 20, "end")
RECORD = ("posterior", "entropy")


@register
@dataclass(frozen=True)
class Identification(Experiment):
    """Measure how fast the true model is identified: its probability and the posterior's entropy over time."""

    name = "identification"
    agents = ("atpo", "bopa")
    columns: ClassVar = {
        "identification": (
            "domain",
            "agent",
            *(f"{kind}_{step}" for step in SHOWN_STEPS for kind in ("probability", "published")),
            "median_steps_lead",
            "median_steps_sure",
            "share_sure",
        )
    }

    def cells(self, case: Case) -> list[Cell]:
        """Every agent that has a posterior on the same trials, with its posterior after every step."""
        return [case.cell(agent, record=RECORD) for agent in case.agents if _reason(case, agent) is None]

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each agent; and one for each agent and step."""
        tables = identified(case, played)
        reasons = {agent.name: _reason(case, agent) for agent in case.agents}
        left_out = [case.row(agent=name, reason=reason) for name, reason in reasons.items() if reason]
        return {**tables, "identification": [*tables["identification"], *left_out]}


def _reason(case: Case, agent: Agent) -> str | None:
    """Why an agent has no row of figures: it cannot play here, or it reports no posterior."""
    reason = refusal(agent, case.library)
    if reason is None:
        given = needed(agent, case.solved, case.library)
        names = reported(agent, case.scenario, given)
        reason = None if set(RECORD) <= set(names) else "it reports no posterior"
    return reason


def identified(case: Case, played: Sequence[Played]) -> Tables:
    """The tables of trials whose posterior was recorded."""
    rows: list[Row] = []
    curves: list[Row] = []
    for each in played:
        label = case.row(each)
        if each.trials is None:
            rows.append({**label, "reason": each.reason})
            continue
        curves += [{**label, **row} for row in curve(each.trials)]
        rows.append({**label, **summary(each.trials), **_published(case.name, each.cell.agent.name)})
    return {"identification": rows, "curves": curves}


def true_probability(run: Trials) -> np.ndarray:
    """The posterior of the true model [N, T+1]."""
    posterior = run.records["posterior"]
    return np.take_along_axis(posterior, run.truth[:, None, None], axis=2)[..., 0]


def curve(run: Trials) -> list[Row]:
    """Mean and 95 % interval of probability and entropy after each step."""
    probability, entropy = true_probability(run), run.records["entropy"]
    rows = []
    for step in range(probability.shape[1]):
        row: dict[str, float] = {"step": step}
        for name, values in (("probability", probability), ("entropy", entropy)):
            row |= statistics.estimate(values[:, step]).interval(name)
        rows.append(row)
    return rows


def first_step(reached: np.ndarray) -> np.ndarray:
    """The first step at which each trial has `reached` [N, T+1]; NaN for those that never do."""
    return np.where(reached.any(axis=1), reached.argmax(axis=1), np.nan)


def leads(run: Trials) -> np.ndarray:
    """Whether the true model is more probable than every other [N, T+1]."""
    posterior = run.records["posterior"].copy()
    ours = true_probability(run)
    np.put_along_axis(posterior, run.truth[:, None, None], -np.inf, axis=2)
    return ours > posterior.max(axis=2) + MARGIN


def summary(run: Trials) -> Row:
    """Probabilities after some steps, and steps to identification; a median is None if most never get there."""
    probability = true_probability(run)
    last = probability.shape[1] - 1
    row: dict[str, float | None] = {"trials": len(run.truth)}
    for step in SHOWN_STEPS:
        at = last if step == "end" else step
        row[f"probability_{step}"] = float(probability[:, at].mean()) if at <= last else None
    row["entropy_end"] = float(run.records["entropy"][:, -1].mean())
    for name, reached in (("lead", leads(run)), ("sure", probability >= SURE)):
        steps = first_step(reached)
        median = float(np.median(np.where(np.isnan(steps), math.inf, steps)))
        row |= {f"share_{name}": float(np.mean(~np.isnan(steps)))}
        row |= {f"median_steps_{name}": median if math.isfinite(median) else None}
    return row


def _published(domain: str, agent: str) -> Row:
    found = published.true_model_probability(domain) if agent == "atpo" else {}
    return {f"published_{step}": value for step, value in found.items()}
