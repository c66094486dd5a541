"""An experiment from outside the package: the return of agents against the horizon."""

from dataclasses import dataclass
from typing import ClassVar

from jatpo.evaluate import statistics
from jatpo.evaluate.experiment import Experiment, register
from jatpo.evaluate.option_fields import integers, option


@register
@dataclass(frozen=True)
class Horizons(Experiment):
    """The return of agents against the horizon."""

    name = "horizons"
    agents = ("atpo", "random")
    columns: ClassVar = {"horizons": ("domain", "horizon", "agent", "trials", "mean", "low", "high")}

    horizons: tuple[int, ...] = option("5,10,20", "Horizons, comma-separated.", parse=integers, kept=False)

    def cells(self, case):
        return [
            case.cell(agent, part=f"{case.part}/{steps}", horizon=steps, label={"horizon": steps})
            for steps in self.horizons
            for agent in case.agents
        ]

    def tables(self, case, played):
        able = [each for each in played if each.trials is not None]
        return {
            "horizons": [
                case.row(each, **statistics.estimate(each.trials.returns)._asdict()) for each in able
            ]
        }
