"""Does training ATPO by gradient help elsewhere? Each domain with numbers that were trained on all the others, and with
its own, which shows how much there was to gain. All agents play the same trials, none of which was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from jatpo.errors import JatpoError
from jatpo.evaluate import statistics
from jatpo.evaluate.agents import ATPO, Informed
from jatpo.evaluate.case import Case, Stage, by_agent
from jatpo.evaluate.experiment import Config, Experiment, Tables, register
from jatpo.evaluate.option_fields import option
from jatpo.evaluate.session import Played, Session
from jatpo.evaluate.tuning import TRAINED, Theta, Trainee, TuneSettings, train, trainee, tuned
from jatpo.events import titled
from jatpo.library import Library
from jatpo.tables import Row


@register
@dataclass(frozen=True)
class Tune(Experiment):
    """Train ATPO's temperature, tempering and prior by gradient, and test whether it helps elsewhere.

    Each domain is tested with what was trained on all the others, and with what was trained on itself.
    """

    name = "tune"
    agents = ("value_iteration", "perseus", "atpo", "soft_atpo", "random")
    trials = 2048
    sources = ("abandoned-power-plant", "ntu", "gridworld", "pursuit-task")
    columns: ClassVar = {
        "tune": (
            *("domain", "agent", "trials", "mean", "low", "high"),
            *("minus_atpo", "minus_atpo_low", "minus_atpo_high", *TRAINED),
        )
    }
    without = ("agents", "preset")

    steps: int = option(60, "Steps of each training.", min=1)
    batch: int = option(128, "Trials of each step and domain.", min=2)
    rate: float = option(0.1, "Learning rate.")

    def __post_init__(self) -> None:
        self.training()

    def training(self) -> TuneSettings:
        """How to train; refuses numbers that make no sense."""
        return TuneSettings(self.steps, self.batch, self.rate)

    def stages(self, sources: Sequence[str | Library], config: Config) -> list[Stage]:
        """Every domain; trained parts depend on all of them."""
        found = super().stages(sources, config)
        if len(found) < 2:
            raise JatpoError("tuning on some domains for others needs at least two domains: name one more")
        return found

    def play(self, session: Session, cases: Iterator[Case]) -> Iterator[Tables]:
        """Solve all libraries, then train for each of them and test."""
        known = list(cases)
        trainees = {case.part: trainee(case.scenario, case.solved, session.seed) for case in known}
        for case in known:
            others = [other for other in known if other.part != case.part]
            thetas: dict[str, Theta] = {}
            curves: list[Row] = []
            for name, chosen in (("others", others), ("own", [case])):
                thetas[name], curve = self._train(session, f"{case.part}-{name}", chosen, trainees)
                curves += [{"domain": case.name, "trained_on": name, **row} for row in curve]
            players = [ATPO(), Informed(), tuned(self.training().start(), "untrained")]
            players += [tuned(theta, name) for name, theta in thetas.items()]
            cells = [case.cell(agent) for agent in players]
            played = session.play(cells, f"testing in {case.name}")
            yield {"tune": rows(case, played), "training": curves}

    def _train(
        self, session: Session, name: str, chosen: Sequence[Case], trainees: dict[str, Trainee]
    ) -> tuple[Theta, list[Row]]:
        """One training, kept under `name`."""
        made_of = {
            case.part: {**case.identity, **{need: case.solved.digest(need) for need in ("q", "policies")}}
            for case in chosen
        }
        kept = session.checkpoints("training", name, made_of)
        title = f"training on {', '.join(case.name for case in chosen)}"
        own = [trainees[case.part] for case in chosen]
        return train(own, self.training(), session.seed, kept, titled(title, session.on_event))


def rows(case: Case, played: Sequence[Played]) -> list[Row]:
    """One row for each agent: its return, the difference to ATPO, and what was trained."""
    base = by_agent(played)["atpo"]
    found = []
    for each in played:
        if each.trials is None or base is None:
            continue
        agent = each.cell.agent
        row = {**case.row(each), **statistics.estimate(each.trials.returns)._asdict()}
        row |= statistics.difference(each.trials.returns, base.returns).interval("minus_atpo")
        soft = hasattr(agent, "temperature")
        found.append({**row, **{name: getattr(agent, name) if soft else None for name in TRAINED}})
    return found
