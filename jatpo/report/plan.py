"""What to reproduce: the plan of a run, the command that makes it again, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jatpo import domains
from jatpo.evaluate import published
from jatpo.evaluate.experiment import Config
from jatpo.report.schedule import Step

REPLAYED = ("gridworld", "pursuit-task", "abandoned-power-plant", "overcooked")  # first, where there are more
POOL = "gridworld"  # whose pool of models the scaling experiment draws from
TRIALS = 32
FASTER = 150.0  # than the published times, roughly: only for the first guess of how long it takes
EVALUATION = 8.0  # seconds to compile and play a domain, as a first guess


@dataclass(frozen=True)
class Plan:
    """What to reproduce."""

    names: Sequence[str]
    sizes: Sequence[int] = ()  # of libraries in the scaling experiment; empty: skipped
    config: Config = field(default_factory=Config)
    replays: int = 4  # domains with a replay, at most
    pool: str = POOL

    @property
    def trials(self) -> int:
        return TRIALS if self.config.trials is None else self.config.trials


def command(plan: Plan) -> str:
    """The command that makes this again."""
    config, request = plan.config, plan.config.request
    text = f"jatpo reproduce {' '.join(plan.names)} --trials {plan.trials} --seed {config.seed} --rules {config.rules}"
    text += f" --preset {config.preset}" if config.preset != "exact" else ""
    text += f" --solver {request.solver}" if request.solver else ""
    limits = {"seconds": request.seconds, "gap": request.gap, "stages": request.stages}
    text += "".join(f" --{name} {value:g}" for name, value in limits.items() if value is not None)
    text += "".join(f" --set {name}={value:g}" for name, value in request.settings.items())
    return text + (f" --sizes {','.join(map(str, plan.sizes))}" if plan.sizes else "")


def replayed(plan: Plan) -> list[str]:
    """The domains that get a replay."""
    first = [name for name in REPLAYED if name in plan.names]
    return [*first, *(name for name in plan.names if name not in first)][: plan.replays]


def steps_of(plan: Plan) -> list[Step]:
    """The steps of a plan with a first guess of their seconds."""
    steps = []
    for name in plan.names:
        steps.append(Step("solve", f"solving {name}", _solving(plan, name)))
        steps.append(Step("evaluate", f"playing {name}", EVALUATION * (1 + plan.trials / 1024)))
        if name in replayed(plan):
            steps.append(Step("replay", f"recording {name}", 5.0))
    if plan.sizes:
        factor = domains.get(plan.pool).pool / domains.get(plan.pool).models
        steps.append(Step("solve", f"solving the pool of {plan.pool}", factor * _solving(plan, plan.pool)))
        steps.append(Step("evaluate", "scaling the library", EVALUATION + 0.5 * len(plan.sizes)))
    return [*steps, Step("report", "writing the report", 4.0)]


def _solving(plan: Plan, name: str) -> float:
    seconds = plan.config.request.seconds
    if seconds:
        return seconds * domains.get(name).models
    return 2.0 + published.load()["domains"].get(name, {}).get("solve_s", 300.0) / FASTER
