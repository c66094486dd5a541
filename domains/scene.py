"""A model made ready for drawing: its stage, if it has one, and the names of its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jatpo.domains.domain import Domain, get
from jatpo.domains.movers import TwoMovers
from jatpo.domains.places import Snapshot, Stage
from jatpo.domains.structure import World
from jatpo.errors import JatpoError, unknown

if TYPE_CHECKING:
    from jatpo.library import Library

SHOWN = 8  # states listed for a belief without a stage


@dataclass(frozen=True)
class Scene:
    """What `render_text` and `draw` need of a model."""

    states: tuple[str, ...]
    stage: Stage | None = None

    def index(self, state: int | str | None) -> int | None:
        """The number of a state given by number or name; None stands for the empty stage."""
        if state is None:
            return None
        if isinstance(state, str):
            if state not in self.states:
                raise unknown("state", state, self.states[:20])
            return self.states.index(state)
        if not 0 <= int(state) < len(self.states):
            raise JatpoError(f"unknown state {state}: choose from 0 to {len(self.states) - 1}")
        return int(state)

    def snapshot(self, state: int | str | None) -> Snapshot | None:
        """The snapshot of a state, if there is a stage."""
        return None if self.stage is None else self.stage.snapshot(self.index(state))

    def check(self, belief: Sequence[float] | np.ndarray | None) -> np.ndarray | None:
        """`belief` [X] as NumPy; entries beyond the states (padding of a library) must be zero."""
        if belief is None:
            return None
        array = np.asarray(belief, np.float64)
        size = len(self.states)
        if array.ndim != 1 or len(array) < size or array[size:].any():
            raise JatpoError(
                f"the belief has shape {array.shape}, expected one probability for each of {size} states"
            )
        return array[:size]

    def likeliest(self, belief: np.ndarray) -> list[tuple[str, float]]:
        """The most probable states and their probabilities."""
        order = np.argsort(-belief, kind="stable")[:SHOWN]
        return [(self.states[x], float(belief[x])) for x in order if belief[x] > 0]


def scene(
    domain: str | Domain | World | Scene | Any, model: int = 0, rules: str = "as_run", **overrides: Any
) -> Scene:
    """The scene of a domain's model, of a world, or of anything with `states`; make it once per episode."""
    if isinstance(domain, Scene):
        return domain
    if isinstance(domain, World):
        return Scene(domain.mmdp.states, domain.stage)
    if isinstance(domain, TwoMovers):
        return Scene(domain.states, domain.stage)
    if not isinstance(domain, (str, Domain)):
        return Scene(tuple(domain.states))
    chosen = get(domain) if isinstance(domain, str) else domain
    built = chosen.structure(model, rules, **overrides)
    if chosen.stage_hook is None:
        return scene(built)
    return Scene(scene(built).states, chosen.stage(model, rules, **overrides))


def scene_of(library: Library, k: int) -> Scene:
    """The scene of model k of a library; of a file only the names of the states can be shown."""
    origin = library.origins[k]
    if origin.domain is None:
        return scene(library.member(k))
    return scene(origin.domain, origin.model or 0, origin.rules or "as_run", **origin.overrides)
