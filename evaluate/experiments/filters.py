"""Filters and the trained classifier on the same histories: log-loss, error, depletion, all trial by trial.

`particle_atpo` acts for `at` steps, with the first filter that is named and its largest number of particles. All
filters, and agents with a posterior of their own such as `recurrent_atpo`, answer the actions and observations of those
histories (`jatpo.evaluate.agents.witness`). `error` is the mean distance of the true model's probability from that of
the first filter: from the exact one, where that is "exact".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate import statistics
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.agents.simulator_atpo import SimulatorATPO
from jatpo.evaluate.agents.witness import witnessed
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.experiments.simulators import BASE, filter_of
from jatpo.evaluate.option_fields import integers, option, words
from jatpo.evaluate.session import Cell, Played
from jatpo.tables import Row

RECORD = ("actions", "posterior")
LEAST = 1e-12  # a probability in the log-loss
CLASSIFIER = "classifier"


@register
@dataclass(frozen=True)
class Filters(Experiment):
    """Compare filters and the trained classifier on the same histories: log-loss, error, depletion."""

    name = "filters"
    agents = (BASE, "recurrent_atpo")
    sources = ("gridworld",)
    trials = 512
    columns: ClassVar = {
        "filters": (
            "domain",
            "filter",
            "particles",
            "trials",
            "true_at",
            "log_loss",
            "minus",
            "minus_low",
            "minus_high",
            "classifier_minus",
            "classifier_minus_low",
            "classifier_minus_high",
            "error",
            "error_low",
            "error_high",
            "depleted",
        )
    }
    particles: tuple[int, ...] = option(
        "1000", "Numbers of particles, comma-separated.", parse=integers, kept=False
    )
    filters: tuple[str, ...] = option(
        "exact,bootstrap,adapted",
        "Filters, the one that acts first: bootstrap, adapted, merged; of tables also exact, sparse; comma-separated.",
        parse=words,
    )
    at: int = option(10, "The number of steps of a history.")

    def cells(self, case: Case) -> list[Cell]:
        """The actor alone, then every filter and every agent with a classifier as its witness."""
        if not 1 <= self.at <= case.library.horizon:
            raise JatpoError(f"at is {self.at}: choose from 1 to the horizon {case.library.horizon}")
        chosen = [
            (name, count)
            for name in self.filters
            for count in ((None,) if name == "exact" else reversed(self.particles))
        ]
        actor = SimulatorATPO(filter=filter_of(chosen[0][0], chosen[0][1] or 0))
        found = []
        for agent in case.agents:
            if "classifier" in agent.needs:
                own: Any = dataclasses.replace(agent, filter=actor.filter)  # pyright: ignore
                found.append(self._cell(case, witnessed(actor, own), CLASSIFIER, None))
                continue
            for name, count in chosen:
                own = dataclasses.replace(agent, filter=filter_of(name, count or 0))  # pyright: ignore
                found.append(self._cell(case, witnessed(actor, own), name, count))
        return found

    def _cell(self, case: Case, agent: Agent, name: str, count: int | None) -> Cell:
        label: Row = {"filter": name, "particles": count}
        record = RECORD if name == CLASSIFIER else (*RECORD, "dropped")
        part = f"{case.part}/{name}-{count}"
        return case.cell(agent, record=record, part=part, horizon=self.at, label=label)

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each filter, with its log-loss minus the first's (`minus`), and the classifier's minus its own.

        Trials that end before step `at` count with the posterior that they ended with.
        """
        able = [each for each in played if each.trials is not None]
        rows: list[Row] = [case.row(each, reason=each.reason) for each in played if each.trials is None]
        learned = next((each for each in able if each.cell.label["filter"] == CLASSIFIER), None)
        for each in able:
            _check_paired(each, able[0])
            own, first = _true(each), _true(able[0])
            row: Row = {
                "trials": len(own),
                "true_at": float(own.mean()),
                "log_loss": float(_loss(own).mean()),
            }
            if each is not able[0]:
                row |= statistics.difference(_loss(own), _loss(first)).interval("minus")
                row |= statistics.estimate(np.abs(own - first)).interval("error")
            if learned is not None and each is not learned:
                row |= statistics.difference(_loss(_true(learned)), _loss(own)).interval("classifier_minus")
            rows.append(case.row(each, **row, **_depleted(each)))
        return {"filters": rows}


def _true(each: Played) -> np.ndarray:
    """The probability of the true model after the last step [N]."""
    trials = each.trials
    assert trials is not None
    last = trials.records["posterior"][:, -1]
    return last[np.arange(len(trials.truth)), trials.truth].astype(np.float64)


def _loss(probability: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(probability, LEAST))


def _depleted(each: Played) -> Row:
    """The share of trials in which the true model's particles died, where it is known."""
    trials = each.trials
    if trials is None or "dropped" not in trials.records:
        return {}
    died = trials.records["dropped"][np.arange(len(trials.truth)), -1, trials.truth] >= 1
    return {"depleted": float(died.mean())}


def _check_paired(each: Played, first: Played) -> None:
    """Refuse histories that are not the same: an agent's program then rounds the actor's numbers differently."""
    assert each.trials is not None
    assert first.trials is not None
    ours, theirs = each.trials.records["actions"], first.trials.records["actions"]
    differing = int(np.any(ours != theirs, axis=1).sum())
    if differing:
        raise JatpoError(
            f"{differing} of {len(ours)} histories in {each.cell.part} have other actions than those of the first "
            "filter: take another seed, and report this as a defect"
        )
