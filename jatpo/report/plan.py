"""What to reproduce: the plan of a run, the command that makes it again, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jatpo import domains
from jatpo.evaluate import published
from jatpo.report.schedule import Step

REPLAYED = ("gridworld", "pursuit-task", "abandoned-power-plant", "overcooked")  # first, where there are more
POOL = "gridworld"  # whose pool of models the scaling experiment draws from
FASTER = 150.0  # than the published times, roughly: only for the first guess of how long it takes
EVALUATION = 8.0  # seconds to compile and play a domain, as a first guess


@dataclass(frozen=True)
class Plan:
    """What to reproduce."""

    names: Sequence[str]
    trials: int = 32
    seed: int = 0
    rules: str = "as_run"
    preset: str = "exact"
    sizes: Sequence[int] = ()  # of libraries in the scaling experiment; none: without it
    replays: int = 4  # domains with a replay, at most
    settings: Any = None  # of the solver; None: the paper's
    solutions: Path | None = None  # where solved models are kept

    def identity(self) -> dict[str, Any]:
        """What results must agree in to be kept in one directory."""
        solver = "perseus, paper's settings" if self.settings is None else str(self.settings)
        return {"seed": self.seed, "rules": self.rules, "preset": self.preset, "solver": solver}


def command(plan: Plan) -> str:
    """The command that makes this again."""
    text = f"jatpo reproduce {' '.join(plan.names)} --trials {plan.trials} --seed {plan.seed} --rules {plan.rules}"
    if plan.preset != "exact":
        text += f" --preset {plan.preset}"
    if plan.settings is not None:
        text += f" --seconds {plan.settings.seconds:g}"
    if plan.sizes:
        text += f" --sizes {','.join(map(str, plan.sizes))}"
    return text


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
        factor = domains.get(POOL).pool / domains.get(POOL).models
        steps.append(Step("solve", f"solving the pool of {POOL}", factor * _solving(plan, POOL)))
        steps.append(Step("evaluate", "scaling the library", EVALUATION + 0.5 * len(plan.sizes)))
    return [*steps, Step("report", "writing the report", 4.0)]


def _solving(plan: Plan, name: str) -> float:
    count = domains.get(name).models
    if plan.settings is not None and getattr(plan.settings, "seconds", 0):
        return plan.settings.seconds * count
    return 2.0 + published.load()["domains"].get(name, {}).get("solve_s", 300.0) / FASTER
