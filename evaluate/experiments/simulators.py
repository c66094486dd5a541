"""Filters and planners where models are simulators: return, identification, and what the particles cost.

`torus-pursuit:size=10,agents=3` and others by name (`jatpo.simulators`), and tables as well: there the filters "exact"
and "sparse" may be among the proposals and `atpo` among the agents, and all play the same trials. The first filter that
is named is the one that the others are compared with. `scale` is the same experiment over the sizes of one domain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jatpo.beliefs import Representation, Support
from jatpo.evaluate import statistics
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.loops import SURE
from jatpo.evaluate.option_fields import integers, option, words
from jatpo.evaluate.rollout import chunk_size
from jatpo.evaluate.session import Cell, Played
from jatpo.simulators import Exact, OnTable, Particles
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
            "sure",
            "steps_sure",
            "decision_us",
        )
    }
    particles: tuple[int, ...] = option(
        "1000", "Numbers of particles, comma-separated.", parse=integers, kept=False
    )
    proposals: tuple[str, ...] = option(
        "bootstrap",
        "Filters: bootstrap, adapted, merged; of tables also exact, sparse; comma-separated.",
        parse=words,
        kept=False,
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
                for count in (None,) if proposal == "exact" else reversed(self.particles):
                    own = dataclasses.replace(agent, filter=filter_of(proposal, count or 0))  # pyright: ignore
                    label = {"particles": count, "proposal": proposal}
                    part = f"{case.part}/{proposal}-{count}"
                    record = (*RECORD, "dropped")
                    found.append(case.cell(own, record=record, part=part, label=label))
        return found

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each agent and filter.

        `minus` is the agent minus ATPO with the same filter; for ATPO itself, minus ATPO with the first proposal and
        the largest number of particles. All play the same trials.
        """
        base = {_filter(each): each for each in played if each.cell.agent.name in (BASE, "atpo")}
        first = next(iter(base.values()), None)
        rows: list[Row] = []
        for each in played:
            if each.trials is None:
                rows.append(case.row(each, reason=each.reason))
                continue
            row: Row = statistics.estimate(each.trials.returns)._asdict()
            rival = base.get(_filter(each), first)
            rival = first if rival is each else rival
            if rival is not None and rival.trials is not None and rival is not each:
                minus = statistics.difference(each.trials.returns, rival.trials.returns)
                row |= minus.interval("minus")
            rows.append(case.row(each, **row, **self._identified(each), decision_us=_decision_us(each)))
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
        certain = trials.records["posterior"][numbers, :, trials.truth] >= SURE
        first = np.where(certain.any(axis=1), certain.argmax(axis=1), np.inf)
        row |= {"sure": float(certain.any(axis=1).mean())}
        row |= {"steps_sure": float(np.median(first)) if np.isfinite(np.median(first)) else None}
        if "dropped" in trials.records:
            died = trials.records["dropped"][numbers, -1, trials.truth] >= 1
            row["depleted"] = float(died.mean())
        return row


@register
@dataclass(frozen=True)
class Scale(Simulators):
    """Compare filters over the sizes of one domain: returns, steps until the true model is found, decision times."""

    name = "scale"
    agents = (BASE, "particle_informed")
    sources = ("kitchen:rows=2", "kitchen:rows=4", "kitchen:rows=6", "kitchen:rows=8")
    columns: ClassVar = {"scale": Simulators.columns["simulators"]}
    particles: tuple[int, ...] = option(
        "1000,100,10", "Numbers of particles, comma-separated.", parse=integers, kept=False
    )
    proposals: tuple[str, ...] = option(
        "merged",
        "Filters: bootstrap, adapted, merged; of tables also exact, sparse; comma-separated.",
        parse=words,
        kept=False,
    )

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        return {"scale": super().tables(case, played)["simulators"]}


def filter_of(name: str, count: int) -> Representation:
    """A filter by the name that commands use."""
    if name == "exact":
        return Exact()
    return OnTable(Support(count)) if name == "sparse" else Particles(count, name)


def _decision_us(each: Played) -> float | None:
    """Microseconds of a step of one trial, where they could be measured; trials that are done cost as much."""
    if each.chunk_seconds is None:
        return None
    return 1e6 * each.chunk_seconds / (chunk_size(each.cell.scenario.library) * each.cell.horizon)


def _filter(each: Played) -> tuple[Any, Any]:
    """The number of particles and the proposal of a cell."""
    return each.cell.label.get("particles"), each.cell.label.get("proposal")
