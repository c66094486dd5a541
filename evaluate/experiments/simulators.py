"""Filters and planners where models are simulators: return, identification, and what the particles cost.

`torus-pursuit:size=10,agents=3` and others by name (`jatpo.simulators`), and tables as well: there `atpo` with the
exact filter may be among the agents, and plays the same trials.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jatpo.evaluate import statistics
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.option_fields import integers, option, words
from jatpo.evaluate.session import Cell, Played
from jatpo.simulators import Particles
from jatpo.tables import Row

BASE = "particle_atpo"
RECORD = ("posterior",)


@register
@dataclass(frozen=True)
class Simulators(Experiment):
    """Compare particle filters, mixtures and the planner: returns, identification and depletion."""

    name = "simulators"
    agents = (BASE, "particle_commit", "particle_informed", "joint_planner", "random")
    sources = ("torus-pursuit:size=8,agents=3,teammates=greedy",)
    trials = 256
    columns: ClassVar = {
        "simulators": (
            "domain",
            "agent",
            "particles",
            "proposal",
            "trials",
            "mean",
            "low",
            "high",
            "minus",
            "minus_low",
            "minus_high",
            "true_at",
            "log_loss",
            "depleted",
        )
    }
    particles: tuple[int, ...] = option(
        "1000", "Numbers of particles, comma-separated.", parse=integers, kept=False
    )
    proposals: tuple[str, ...] = option(
        "bootstrap", "Proposals: bootstrap, adapted, merged; comma-separated.", parse=words, kept=False
    )
    at: int = option(10, "The step at which the true model's probability is reported.")

    def cells(self, case: Case) -> list[Cell]:
        """Every agent with every filter; agents without a filter of their own once."""
        found = []
        for agent in case.agents:
            if not hasattr(agent, "filter"):
                record = ("posterior", "beliefs")[:1] if hasattr(agent, "temper") else ()
                found.append(case.cell(agent, record=record, part=case.part))
                continue
            for proposal in self.proposals:
                for count in self.particles:
                    own = dataclasses.replace(agent, filter=Particles(count, proposal))  # pyright: ignore
                    label = {"particles": count, "proposal": proposal}
                    part = f"{case.part}/{proposal}-{count}"
                    record = (*RECORD, "dropped")
                    found.append(case.cell(own, record=record, part=part, label=label))
        return found

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each agent and filter; `minus` is the agent minus ATPO with the same filter, paired."""
        base = {_filter(each): each for each in played if each.cell.agent.name in (BASE, "atpo")}
        first = next(iter(base.values()), None)
        rows: list[Row] = []
        for each in played:
            if each.trials is None:
                rows.append(case.row(each, reason=each.reason))
                continue
            row: Row = statistics.estimate(each.trials.returns)._asdict()
            rival = base.get(_filter(each), first)
            if rival is not None and rival.trials is not None and rival is not each:
                minus = statistics.difference(each.trials.returns, rival.trials.returns)
                row |= minus.interval("minus")
            rows.append(case.row(each, **row, **self._identified(each)))
        return {"simulators": rows}

    def _identified(self, each: Played) -> Row:
        """The true model's mean probability and log loss at step `at`, and how often a true model's particles died."""
        trials = each.trials
        if trials is None or "posterior" not in trials.records:
            return {}
        numbers = np.arange(len(trials.truth))
        at = min(self.at, trials.records["posterior"].shape[1] - 1)
        own = trials.records["posterior"][numbers, at, trials.truth].astype(np.float64)
        row: Row = {"true_at": float(own.mean()), "log_loss": float(-np.log(np.maximum(own, 1e-12)).mean())}
        if "dropped" in trials.records:
            died = trials.records["dropped"][numbers, -1, trials.truth] > 0
            row["depleted"] = float(died.mean())
        return row


def _filter(each: Played) -> tuple[Any, Any]:
    """The number of particles and the proposal of a cell."""
    return each.cell.label.get("particles"), each.cell.label.get("proposal")
