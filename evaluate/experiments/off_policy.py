"""What the share of random walkers in the anytime solver does to the agents that use its policies.

The model's own policy needs few of them; ATPO, which follows a mixture in an environment that may be another model's,
visits beliefs that only they visit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jatpo.evaluate import statistics
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.experiment import Config, Experiment, Tables, register
from jatpo.evaluate.option_fields import numbers, option
from jatpo.evaluate.session import Cell, Played
from jatpo.library import Library
from jatpo.solve import Request


@register
@dataclass(frozen=True)
class OffPolicy(Experiment):
    """Measure what random walkers in the anytime solver contribute to the returns of ATPO and the informed agent."""

    name = "off-policy"
    agents = ("perseus", "atpo")
    trials = 4096
    sources = ("gridworld",)
    columns: ClassVar = {"off-policy": ("domain", "off_policy", "agent", "trials", "mean", "low", "high")}
    without = ("solver", "seconds", "gap", "stages", "settings")

    shares: tuple[float, ...] = option(
        "0,0.125,0.5", "Shares of walkers that act at random, comma-separated.", parse=numbers
    )
    rounds: int = option(12, "Rounds of the anytime solver for each model.", min=1)

    def title(self, stage: Stage) -> str:
        return f"off-policy share {stage.label['off_policy']:g} in {stage.title}"

    def stages(self, sources: Sequence[str | Library], config: Config) -> list[Stage]:
        """Every library, solved with each share."""
        found = []
        for source in sources:
            for share in self.shares:
                request = Request("anytime", gap=0.0, stages=self.rounds, settings={"off_policy": share})
                found.append(Stage(source, config.rules, request=request, label={"off_policy": share}))
        return found

    def cells(self, case: Case) -> list[Cell]:
        """Every agent on the same trials, whatever the share."""
        label = case.stage.label
        part = f"{case.part}/share-{label['off_policy']:g}"
        return [case.cell(agent, part=part, label=label) for agent in case.agents]

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each agent."""
        able = [(each, each.trials) for each in played if each.trials is not None]
        return {
            "off-policy": [
                case.row(each, **statistics.estimate(trials.returns)._asdict()) for each, trials in able
            ]
        }
