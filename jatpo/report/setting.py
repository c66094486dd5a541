"""Where an episode is played: a domain, file or library, with what an agent needs solved."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jatpo.domains import Scene, names, scene
from jatpo.errors import JatpoError
from jatpo.files.library import Origin

if TYPE_CHECKING:
    from jatpo.evaluate.agent import Agent
    from jatpo.evaluate.prepare import Prepared
    from jatpo.evaluate.solutions import SolveOptions
    from jatpo.evaluate.task import Task
    from jatpo.model import POMDP


@dataclass(frozen=True, eq=False)
class Setting:
    """A solved library with the labels and origins of its models. `rules` is None if no domain has a part."""

    name: str
    rules: str | None
    horizon: int
    labels: tuple[str, ...]
    models: Sequence[POMDP]
    origins: Sequence[Origin]
    task: Task
    notes: tuple[str, ...] = ()  # what was mended on reading

    def scene(self, k: int) -> Scene:
        """What is needed to draw model k."""
        origin = self.origins[k]
        if origin.domain is None:
            return scene(self.models[k])
        return scene(origin.domain, origin.model or 0, origin.rules or "as_run", **origin.overrides)


def prepare(
    source: str | os.PathLike[str], agent: Agent, rules: str = "as_run", options: SolveOptions | None = None
) -> Setting:
    """The library that `source` names, solved as far as `agent` needs it."""
    from jatpo.evaluate.solutions import Request, SolveOptions, solve_needs
    from jatpo.evaluate.task import make_task
    from jatpo.files import resolve

    target = resolve(source, rules)
    library = target.stacked()
    reason = agent.refuses(library)
    if reason:
        raise JatpoError(f"agent '{agent.name}' cannot run on {target.name}: {reason}")
    solved = solve_needs(Request(target, library, options or SolveOptions()), [agent])
    used = next((origin.rules for origin in target.origins if origin.rules), None)
    found = (target.labels, target.models, target.origins, make_task(library, solved), target.notes)
    return Setting(target.name, used, target.horizon, *found)


def of_prepared(prepared: Prepared) -> Setting:
    """The setting of what `jatpo.evaluate.prepare` made; of files only the states' names can be shown."""
    domain, _, number = prepared.name.partition(":")
    known = domain in names()
    first = int(number) if number else 0
    origins = [
        Origin(domain=domain, model=first + k, rules=prepared.rules) if known else Origin()
        for k in range(len(prepared.models))
    ]
    found = (prepared.horizon, prepared.labels, prepared.models, origins, prepared.task, prepared.notes)
    return Setting(prepared.name, prepared.rules if known else None, *found)
