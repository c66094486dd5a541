"""A library on its way through an experiment: named (`Stage`), then solved for the agents (`Case`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.session import Cell, Played
from jatpo.evaluate.simulator_scenario import scenario_of
from jatpo.evaluate.solved import Solved
from jatpo.evaluate.trials import Trials
from jatpo.library import Library
from jatpo.solve import Request
from jatpo.tables import Row


@dataclass(frozen=True)
class Stage:
    """A library to load, solve and play."""

    source: str | Library
    rules: str = "as_run"
    pool: bool = False
    request: Request | None = None  # how to solve it; default: as the config says
    label: Row = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in tables."""
        source = self.source
        return os.fspath(source) if isinstance(source, str | os.PathLike) else source.name

    @property
    def title(self) -> str:
        """The name in progress."""
        return f"the pool of {self.name}" if self.pool else self.name


@dataclass(frozen=True)
class Case:
    """A library that is solved for the agents of an experiment."""

    stage: Stage
    solved: Solved
    agents: tuple[Agent, ...]
    trials: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # spent on building and solving

    @property
    def library(self) -> Library:
        return self.solved.library

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def part(self) -> str:
        """The name as part of a path."""
        return re.sub(r"[^\w.-]+", "-", self.name).strip("-.") or "library"

    @cached_property
    def scenario(self) -> Any:
        """The library as it is: true models are drawn from it uniformly."""
        return scenario_of(self.library)

    @cached_property
    def identity(self) -> Row:
        """What trials depend on: hashes of models, prior, horizon, rules."""
        hashes = self.library.model_hashes()
        identity = {"rules": self.stage.rules, "horizon": self.library.horizon, "models": hashes}
        return {**identity, "prior": self.library.host_prior}

    def cell(
        self,
        agent: Agent,
        scenario: Scenario | None = None,
        *,
        part: str | None = None,
        record: Sequence[str] = (),
        horizon: int | None = None,
        label: Row | None = None,
    ) -> Cell:
        """A cell of this library; `label` says what is special about its part, and goes into its rows."""
        drawn: Scenario = self.scenario if scenario is None else scenario
        horizon, label = horizon or self.library.horizon, label or {}
        made_of = {**self.identity, "horizon": horizon, **label}
        place = self.part if part is None else part
        run = (agent, drawn, self.solved, horizon, self.trials)
        return Cell(place, *run, record=tuple(record), label=label, made_of=made_of)

    def row(self, played: Played | None = None, **more: Any) -> Row:
        """The beginning of a row: domain, rules, and of something played its label and agent; then `more`."""
        label = {} if played is None else {**played.cell.label, "agent": played.cell.agent.name}
        return {"domain": self.name, "rules": self.stage.rules, **label, **more}


def by_agent(played: Sequence[Played]) -> dict[str, Trials | None]:
    """Trials by the name of their agent; None where it cannot play."""
    return {each.cell.agent.name: each.trials for each in played}
