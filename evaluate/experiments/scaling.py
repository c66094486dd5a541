"""Library scaling: the return of ATPO when the library grows from 2 to 32 models (the paper's figure).

Each trial draws its true model and the rest of its library from the whole pool. Libraries are nested: with
the same seed, the library of size n + 1 is that of size n and one more model, and the true model is the
same for all sizes. So agents that use no library run once, and differences between sizes are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate import published, statistics
from jatpo.evaluate.case import Case
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.experiments.comparison import BEST, WORST
from jatpo.evaluate.option_fields import integers, option
from jatpo.evaluate.session import Cell, Played
from jatpo.tables import Row

BASELINES = (BEST, "perseus", WORST)


@register
@dataclass(frozen=True)
class Scaling(Experiment):
    """Measure ATPO's return as its library grows from 2 to 32 models."""

    name = "library-scaling"
    agents = (BEST, "perseus", "atpo", WORST)
    sources = ("gridworld",)
    pool = True
    columns: ClassVar = {
        "scaling": ("size", "agent", "trials", "mean", "low", "high", "relative", "published_relative")
    }

    sizes: tuple[int, ...] = option("2-32", "Library sizes, as in 2-32 or 2,4,8.", parse=integers, kept=False)

    def cells(self, case: Case) -> list[Cell]:
        """Agents that know the library at each size, all others once."""
        count = case.library.num_models
        for size in self.sizes:
            if not 2 <= size <= count:
                raise JatpoError(
                    f"a library of {size} models cannot be drawn from {count}: choose from 2 to {count}"
                )
        alone = [agent for agent in case.agents if agent.knows != "library"]
        varied = [agent for agent in case.agents if agent.knows == "library"]
        cells = [case.cell(agent, part="baselines") for agent in alone]
        for size in self.sizes:
            scenario = case.scenario.replace(size=np.int32(size))
            label = {"size": size}
            cells += [case.cell(agent, scenario, part=f"size-{size:02d}", label=label) for agent in varied]
        return cells

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each size and agent that knows the library, and one for each other agent (size None)."""
        found = {_place(each): each.trials.returns for each in played if each.trials is not None}
        return {"scaling": [_row(case, *place, found) for place in found]}


def _place(each: Played) -> tuple[int | None, str]:
    return each.cell.label.get("size"), each.cell.agent.name


def _row(case: Case, size: int | None, agent: str, found: dict[tuple[int | None, str], np.ndarray]) -> Row:
    row: Row = {
        **case.row(),
        "size": size,
        "agent": agent,
        **statistics.estimate(found[size, agent])._asdict(),
    }
    worst, best = found.get((None, WORST)), found.get((None, BEST))
    if worst is not None and best is not None:
        row = {**row, **statistics.relative(found[size, agent], worst, best).interval("relative")}
    known = case.name == "gridworld" and agent == "atpo" and size is not None
    return {**row, "published_relative": published.scaling(size) if known and size is not None else None}
