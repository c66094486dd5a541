"""Beyond ATPO: what other rules and the Bayes-optimal agent earn with the same library, and what is the most possible.

All agents meet the same trials (common random numbers), so differences between them are paired. True models are drawn
from the library's prior, as the certificate assumes: the upper bound of the joint problem, which no agent that has
this library and sees observations can pass in discounted return.

    gap     informed Perseus minus the agent: the price of not knowing the team
    won     (agent - ATPO) / (Perseus - ATPO) in per cent: how much of ATPO's gap is won back; only where it has one
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jatpo.evaluate import bayes, statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.rollout import TOGETHER, Trials, chunk_size
from jatpo.evaluate.solutions import Request, SolveOptions, solutions
from jatpo.evaluate.statistics import Estimate
from jatpo.evaluate.task import Task
from jatpo.files import resolve

AGENTS = ("perseus", "atpo", "map", "vote", "commit", "q", "lookahead", "bayes")
INFORMED, BASE = "perseus", "atpo"
OUTCOMES = ("steps", "steps_sure")

Row = dict[str, Any]


class Certificate(NamedTuple):
    """What the joint problem proves, and what solving cost."""

    lower: float  # discounted, promised by the solved vectors
    upper: float  # discounted, not to be passed
    vectors: int
    joint_seconds: float
    library_seconds: (
        float | None
    )  # all single models, equal ones once; None where policies came with the library


def certificate(name: str, rules: str, options: SolveOptions, *, pool: bool = False) -> Certificate:
    """The bounds of the joint problem; what has been solved before is loaded."""
    target = resolve(name, rules, pool=pool)
    request = Request(target, target.stacked(), options)
    joint = bayes.joint_solution(request)
    seconds = None
    if all(policy is None for policy in target.policies):
        seconds = sum({each.model_hash: each.seconds for each in solutions(request)}.values())
    return Certificate(joint.lower, joint.upper, joint.num_vectors, joint.seconds, seconds)


class Clock:
    """When each chunk of a run was done, as a session's progress tells; passes it on."""

    def __init__(self, onward: Callable[..., None] | None = None) -> None:
        self.times: list[float] = []
        self._onward = onward

    def __call__(self, done: int, total: int, **fields: Any) -> None:
        self.times.append(time.perf_counter())
        if self._onward:
            self._onward(done, total, **fields)

    def seconds(self) -> float | None:
        """Seconds of a chunk after the first round of them, which had to compile; None if there was no other."""
        first = TOGETHER * jax.local_device_count()
        later = len(self.times) - first
        return (self.times[-1] - self.times[0]) / later if later > 0 else None


def play(
    part: str, prepared: Prepared, task: Task, agents: Sequence[Agent], trials: int, session: Session
) -> tuple[dict[str, Trials], dict[str, float]]:
    """Every agent on the same trials, and the microseconds of a decision where they could be measured."""
    found: dict[str, Trials] = {}
    speed: dict[str, float] = {}
    shown = session.progress
    for agent in agents:
        if agent.refuses(task.library) is None:
            session.progress = clock = Clock(shown)
            found[agent.name] = run = session.run(part, agent, task, prepared.horizon, trials, OUTCOMES)
            seconds = clock.seconds()
            if seconds is not None:
                steps = chunk_size(task.library) * float(run.records["steps"].mean())
                speed[agent.name] = 1e6 * seconds / steps
    session.progress = shown
    return found, speed


def beyond(
    prepared: Prepared,
    agents: Sequence[Agent],
    trials: int,
    session: Session,
    proof: Certificate | None = None,
) -> list[Row]:
    """One row for each agent in one domain."""
    part = f"{prepared.rules}/{prepared.part}"
    session.open_part(part, prepared)
    session.expect(agents, prepared.task.library)
    found, speed = play(part, prepared, prepared.task, agents, trials, session)
    label = {"domain": prepared.name, "rules": prepared.rules, "horizon": prepared.horizon}
    label["models"] = len(prepared.models)
    rows = []
    for row in compare(found):
        row["decision_us"] = speed.get(row["agent"])
        row |= {"upper": None, "solve_s": None}
        if proof is not None:
            own = proof.joint_seconds if row["agent"] == "bayes" else proof.library_seconds
            row |= {"upper": proof.upper, "solve_s": own}
        rows.append({**label, **row})
    return rows


def compare(found: Mapping[str, Trials]) -> list[Row]:
    """Each agent's returns, its gap to informed Perseus, what it wins over ATPO, and when it is sure."""
    return [_row(found, agent, run) for agent, run in found.items()]


def _row(found: Mapping[str, Trials], agent: str, run: Trials) -> Row:
    row: Row = {"agent": agent, **statistics.estimate(run.returns)._asdict()}
    row |= _named("discounted", statistics.estimate(run.discounted))
    informed, base = found.get(INFORMED), found.get(BASE)
    if informed is not None:
        row |= _named("gap", statistics.difference(informed.returns, run.returns))
        nothing = np.zeros_like(run.discounted)
        row |= _named("scaled", statistics.relative(run.discounted, nothing, informed.discounted))
    if base is not None and agent != BASE:
        row |= _named("minus_atpo", statistics.difference(run.returns, base.returns))
        row |= _named("minus_atpo_discounted", statistics.difference(run.discounted, base.discounted))
    if base is not None and informed is not None and agent not in (INFORMED, BASE):
        row |= _won("won", run.returns, base.returns, informed.returns)
        row |= _won("won_discounted", run.discounted, base.discounted, informed.discounted)
    return row | _times(run)


def _named(name: str, found: Estimate) -> Row:
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def _won(name: str, ours: np.ndarray, base: np.ndarray, informed: np.ndarray) -> Row:
    """The share of ATPO's gap, in per cent; None where the gap may be nothing at all."""
    if statistics.difference(informed, base).low <= 0:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return _named(name, statistics.relative(ours, base, informed))


def _times(run: Trials) -> Row:
    """Steps of a trial, and how many until the true model had 0.9: the median, None where most never got there."""
    row: Row = {"steps": float(run.records["steps"].mean())}
    sure = np.where(run.records["steps_sure"] < 0, math.inf, run.records["steps_sure"])
    median = float(np.median(sure))
    row["median_steps_sure"] = median if math.isfinite(median) else None
    row["share_sure"] = float(np.isfinite(sure).mean())
    return row


def certificate_row(prepared: Prepared, proof: Certificate, rows: Sequence[Row]) -> Row:
    """The bounds of one domain next to the best that agents reach."""
    own = {row["agent"]: row["discounted"] for row in rows}
    ours = {name: value for name, value in own.items() if name != INFORMED}
    best = max(ours, key=lambda name: ours[name], default=None)
    row: Row = {"domain": prepared.name, "rules": prepared.rules, "models": len(prepared.models)}
    row |= proof._asdict()
    row |= {"atpo": own.get(BASE), "best_agent": best, "best": ours.get(best) if best else None}
    return row | {"informed": own.get(INFORMED)}


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
