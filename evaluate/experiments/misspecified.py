"""What agents earn when their library is wrong, and whether the evidence reveals it.

    right        the library holds the true model
    left out     the true model is missing from it
    noise x f    the true noise is f times what the library assumes

The signal is the log evidence of the observations, summed over the steps so far: an agent can learn its usual
size by simulating its own library. Reported are the area under the ROC curve against `right` (0.5: no signal,
1: certain) and the share of trials below the threshold that raises a false alarm in 5 % of `right`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.evaluate import statistics
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.option_fields import numbers, option
from jatpo.evaluate.rollout import reported
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.session import Cell, Played
from jatpo.tables import Row

RIGHT, LEFT_OUT = "right", "left out"
FALSE_ALARMS = 0.05
SIGNALS = ("log_evidence", "impossible", "entropy")
SHOWN_STEPS = (5, 10, 20, "end")
COLUMNS = ("domain", "scenario", "agent", "mean", "low", "high", "minus_right")


@register
@dataclass(frozen=True)
class Misspecified(Experiment):
    """Measure returns with a wrong library, and whether the evidence reveals that it is wrong."""

    name = "misspecified"
    agents = ("perseus", "atpo", "random_picker", "random")
    columns: ClassVar = {
        "misspecified": (
            *COLUMNS,
            "impossible_share",
            "roc_area_10",
            "roc_area_end",
            "detected_10",
            "detected_end",
        )
    }

    factors: tuple[float, ...] = option(
        "0,0.5,1.5,2", "The true noise as multiples of the assumed one, comma-separated.", parse=numbers
    )

    def cells(self, case: Case) -> list[Cell]:
        """Every agent in every scenario that makes sense in the domain."""
        cells = []
        for name, scenario in scenarios(case, self.factors).items():
            part, label = f"{case.part}/{name.replace(' ', '-')}", {"scenario": name}
            for agent in case.agents:
                record = signals(case, agent, scenario)
                cells.append(case.cell(agent, scenario, part=part, record=record, label=label))
        return cells

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each scenario and agent: return and, for agents that report evidence, its signal."""
        able = [each for each in played if each.trials is not None]
        usual = {each.cell.agent.name: each for each in able if each.cell.label["scenario"] == RIGHT}
        return {"misspecified": [_row(case, each, usual) for each in able]}


def scenarios(case: Case, factors: Sequence[float]) -> dict[str, Scenario]:
    """The scenarios that make sense in the domain, by name; the right library first."""
    library = case.library
    found = {RIGHT: case.scenario}
    if library.num_models > 1:
        found[LEFT_OUT] = case.scenario.replace(leave_out=np.bool_(True))
    assumed = domains.get(library.domain).noise if library.domain else 0
    if not assumed > 0:
        return found
    for factor in factors:
        noise = factor * assumed
        if noise > 1:
            raise JatpoError(
                f"{factor} times the noise of {case.name} is {noise:.4g}: choose at most 1 in all"
            )
        found[f"noise x {factor:g}"] = Scenario(library, domains.with_overrides(library, noise=noise))
    return found


def signals(case: Case, agent: Agent, scenario: Scenario) -> tuple[str, ...]:
    """What of `SIGNALS` an agent reports."""
    if agent.knows != "library" or agent.refuses(case.library) is not None:
        return ()
    known = reported(agent, scenario, case.solved)
    return tuple(name for name in SIGNALS if name in known)


def _row(case: Case, each: Played, usual: Mapping[str, Played]) -> Row:
    run, right = each.trials, usual[each.cell.agent.name].trials
    assert run is not None and right is not None
    row = {**case.row(each), **statistics.estimate(run.returns)._asdict()}
    row |= statistics.difference(run.returns, right.returns).interval("minus_right")
    if any(name not in run.records for name in SIGNALS):
        return row
    evidence, expected = (np.cumsum(part.records["log_evidence"], axis=1) for part in (run, right))
    row["impossible_share"] = float((run.records["impossible"][:, -1] > 0).mean())
    row["entropy_end"] = float(run.records["entropy"][:, -1].mean())
    for step in SHOWN_STEPS:
        at = expected.shape[1] - 1 if step == "end" else step
        if at < expected.shape[1]:
            found = detection(evidence[:, at], expected[:, at])
            row |= {f"{name}_{step}": value for name, value in found.items()}
    return row


def detection(evidence: np.ndarray, usual: np.ndarray) -> dict[str, float]:
    """How well low evidence [N] separates trials from the usual ones [N]."""
    threshold = np.quantile(usual, FALSE_ALARMS, method="lower")
    return {
        "evidence": float(np.mean(evidence)),
        "roc_area": statistics.area_under_curve(-evidence, -usual),
        "detected": float((evidence < threshold).mean()),
    }
