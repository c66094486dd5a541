"""Identification: how fast an agent finds out which model is the true one.

The probability of the true model and the normalised entropy of the posterior (0 certain, 1 uniform) after
every step; the first step at which the true model leads (no other is as probable), and at which it has 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jatpo.evaluate import published, statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.rollout import Trials

SURE = 0.9
MARGIN = 1e-5  # by which the true model has to exceed every other to lead
SHOWN_STEPS = (5, 10, 20, "end")

Rows = list[dict[str, Any]]


def identification(
    prepared: Prepared, agents: Sequence[Agent], trials: int, session: Session
) -> tuple[Rows, Rows]:
    """(one row per agent and step, one row per agent)."""
    session.open_part(prepared.part, prepared)
    session.expect(agents, prepared.task.library)
    curves: Rows = []
    summaries: Rows = []
    for agent in agents:
        label = {"domain": prepared.name, "rules": prepared.rules, "agent": agent.name}
        if agent.refuses(prepared.task.library):
            summaries.append({**label, "reason": agent.refuses(prepared.task.library)})
            continue
        record = ("posterior", "entropy")
        run = session.run(prepared.part, agent, prepared.task, prepared.horizon, trials, record)
        curves += [{**label, **row} for row in curve(run)]
        summaries.append({**label, **summary(run), **_published(prepared.name, agent.name)})
    return curves, summaries


def true_probability(run: Trials) -> np.ndarray:
    """The posterior of the true model [N, T+1]."""
    posterior = run.records["posterior"]
    return np.take_along_axis(posterior, run.truth[:, None, None], axis=2)[..., 0]


def curve(run: Trials) -> Rows:
    """Mean and 95 % interval of probability and entropy after each step."""
    probability, entropy = true_probability(run), run.records["entropy"]
    rows = []
    for step in range(probability.shape[1]):
        row: dict[str, Any] = {"step": step}
        for name, values in (("probability", probability), ("entropy", entropy)):
            found = statistics.estimate(values[:, step])
            row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
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


def summary(run: Trials) -> dict[str, Any]:
    """Probabilities after some steps, and how long it took; a median is None where most never got there."""
    probability = true_probability(run)
    last = probability.shape[1] - 1
    row: dict[str, Any] = {"trials": len(run.truth)}
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


def _published(domain: str, agent: str) -> dict[str, float]:
    found = published.true_model_probability(domain) if agent == "atpo" else {}
    return {f"published_{step}": value for step, value in found.items()}
