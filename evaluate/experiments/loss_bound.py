"""The loss-bound experiment: ATPO's summed loss beside the bound of the paper's proposition, trial by trial.

The comparator q is certain of the true model. A trial is replayed from its actions and observations through
the agent's own filter; losses are those of `losses`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import numpy as np

from jatpo.evaluate import losses
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.scenario import needed
from jatpo.evaluate.session import Cell, Played, Session
from jatpo.events import Event, OnEvent, ignore
from jatpo.tables import Row, Table

RECORD = ("actions", "observations")
BOUNDS = ("bound_eta_paper", "bound_eta_consistent", "bound_printed")
MEANS = ("loss", "comparator_loss", "divergence", *BOUNDS)


@register
@dataclass(frozen=True)
class LossBound(Experiment):
    """Compare ATPO's summed loss with the bound of the paper's proposition, for both choices of η."""

    name = "loss-bound"
    agents = ("atpo",)
    trials = 32
    sources = ("gridworld",)
    columns: ClassVar = {
        "loss-bound": ("domain", "trials", "loss", "largest_loss", "comparator_loss", "divergence", *BOUNDS)
    }
    without = ("agents",)

    def play(self, session: Session, cases: Iterator[Case]) -> Iterator[Tables]:
        """Play the trials, then replay each."""
        for case in cases:
            title = self.title(case.stage)
            (played,) = session.play(self.cells(case), title)
            yield {"loss-bound": rows(case, played, f"{title}: replaying", session.on_event)}

    def cells(self, case: Case) -> list[Cell]:
        """ATPO, with its actions and observations."""
        return [case.cell(agent, record=RECORD) for agent in case.agents]

    def shown(self, tables: Mapping[str, Table]) -> list[Table]:
        """One row for each domain."""
        return [Table(summary(tables["loss-bound"].rows), self.columns["loss-bound"])]


def rows(case: Case, played: Played, title: str = "", on_event: OnEvent = ignore) -> list[Row]:
    """One row for each trial: the summed loss, and the bound for both choices of η and as printed."""
    cell, run = played.cell, played.trials
    if run is None:
        return []
    agent = jax.tree.map(jax.numpy.asarray, cell.agent)
    sums = partial(losses.summed_losses, agent, cell.scenario, needed(cell.agent, cell.solved))
    found = []
    for number, truth in enumerate(run.truth.tolist()):
        taken = (jax.device_put(run.records[name][number]) for name in RECORD)
        summed = losses.Sums(*(np.asarray(part).item() for part in sums(np.int32(truth), *taken)))
        row = {**case.row(), "trial": number, "model": truth, "steps": cell.horizon}
        found.append({**row, **_bounds(case, truth, cell.horizon, summed)})
        on_event(Event(title, number + 1, cell.trials, {"agent": cell.agent.name}))
    return found


def summary(found: Sequence[Row]) -> list[Row]:
    """One row for each domain: means over its trials, and the largest loss."""
    summaries = []
    for domain in dict.fromkeys(row["domain"] for row in found):
        own = [row for row in found if row["domain"] == domain]
        means = {name: float(np.mean([row[name] for row in own])) for name in MEANS}
        largest = max(row["loss"] for row in own)
        summaries.append({"domain": domain, "trials": len(own), **means, "largest_loss": largest})
    return summaries


def _bounds(case: Case, truth: int, horizon: int, sums: losses.Sums) -> Row:
    model = case.library.member(truth)
    largest, discount = float(np.abs(model.reward).max()), float(model.discount)
    terms = (sums.comparator, sums.divergence, horizon, largest, discount)
    bounds = {f"bound_eta_{name}": losses.bound(*terms, eta) for name, eta in losses.etas(horizon).items()}
    return {
        "loss": sums.mixture,
        "comparator_loss": sums.comparator,
        "divergence": sums.divergence,
        **bounds,
        "bound_printed": losses.printed_bound(*terms),
    }
