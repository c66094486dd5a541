"""What ATPO does when its library is wrong, and whether the evidence tells.

    right        the library holds the true model
    left out     the true model is missing from it
    noise x f    the world's noise is f times what the library assumes

The signal is the log evidence of what was seen, summed over the steps so far: an agent can learn its usual
size by simulating its own library. Told are the area under the ROC curve against `right` (0.5: no signal,
1: certain) and the share of trials below the threshold that raises a false alarm in 5 % of `right`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.evaluate import statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.rollout import Trials, reported
from jatpo.evaluate.task import Task
from jatpo.evaluate.world import final_states, joined
from jatpo.library import Library

RIGHT, LEFT_OUT = "right", "left out"
FACTORS = (0.0, 0.5, 1.5, 2.0)
FALSE_ALARMS = 0.05
SIGNALS = ("log_evidence", "impossible", "entropy")
SHOWN_STEPS = (5, 10, 20, "end")


def scenarios(prepared: Prepared, factors: Sequence[float] = FACTORS) -> dict[str, Task]:
    """The task of every scenario that makes sense in the domain, by name."""
    found = {RIGHT: prepared.task}
    if len(prepared.models) > 1:
        found[LEFT_OUT] = prepared.task._replace(leave_out=jnp.asarray(True))
    noise_assumed = domains.get(prepared.name).noise if prepared.name in domains.names() else 0
    if noise_assumed > 0:
        for factor in factors:
            noise = factor * noise_assumed
            if noise > 1:
                raise JatpoError(
                    f"{factor} times the noise of {prepared.name} is {noise:.4g}, more than 1: choose less"
                )
            worlds = domains.library(prepared.name, prepared.rules, noise=noise)
            truths = Library.from_models(worlds).models
            changed = {"world": joined(truths), "over": final_states(truths)}
            found[f"noise x {factor:g}"] = prepared.task._replace(**changed)
    return found


def misspecified(
    prepared: Prepared,
    agents: Sequence[Agent],
    trials: int,
    session: Session,
    factors: Sequence[float] = FACTORS,
) -> list[dict[str, Any]]:
    """One row per scenario and agent: return, and for agents that report evidence how well it tells."""
    tasks = scenarios(prepared, factors)
    session.expect(agents, prepared.task.library, len(tasks))
    runs: dict[tuple[str, str], Trials] = {}
    for scenario, task in tasks.items():
        part = f"{prepared.part}/{scenario.replace(' ', '-')}"
        session.open_part(part, prepared, scenario=scenario)
        for agent in agents:
            if agent.refuses(task.library) is None:
                record = (
                    [name for name in SIGNALS if name in reported(agent, task)]
                    if agent.knows == "library"
                    else []
                )
                runs[scenario, agent.name] = session.run(part, agent, task, prepared.horizon, trials, record)
    return [_row(prepared, scenario, agent, runs) for scenario, agent in runs]


def _row(
    prepared: Prepared, scenario: str, agent: str, runs: Mapping[tuple[str, str], Trials]
) -> dict[str, Any]:
    run, right = runs[scenario, agent], runs[RIGHT, agent]
    row: dict[str, Any] = {
        "domain": prepared.name,
        "rules": prepared.rules,
        "scenario": scenario,
        "agent": agent,
    }
    row |= statistics.estimate(run.returns)._asdict()
    lost = statistics.difference(run.returns, right.returns)
    row |= {"minus_right": lost.mean, "minus_right_low": lost.low, "minus_right_high": lost.high}
    if any(name not in run.records for name in SIGNALS):
        return row
    evidence, usual = (np.cumsum(part.records["log_evidence"], axis=1) for part in (run, right))
    row["impossible_share"] = float((run.records["impossible"][:, -1] > 0).mean())
    row["entropy_end"] = float(run.records["entropy"][:, -1].mean())
    for step in SHOWN_STEPS:
        at = usual.shape[1] - 1 if step == "end" else step
        if at < usual.shape[1]:
            found = detection(evidence[:, at], usual[:, at])
            row |= {f"{name}_{step}": value for name, value in found.items()}
    return row


def detection(evidence: np.ndarray, usual: np.ndarray) -> dict[str, float]:
    """How well low evidence [N] tells trials from the usual ones [N]."""
    threshold = np.quantile(usual, FALSE_ALARMS, method="lower")
    return {
        "evidence": float(np.mean(evidence)),
        "roc_area": statistics.area_under_curve(-evidence, -usual),
        "detected": float((evidence < threshold).mean()),
    }
