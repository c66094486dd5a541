"""The stage a model plays on: places, links between them, and who stands where in each state.

A domain declares it once; text, matplotlib pictures and the pages that replay an episode are drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Place:
    """A spot at column x and row y (row 0 is the top).

    Kinds: floor, wall, goal, start, room, counter, supply, device.
    """

    x: float
    y: float
    kind: str = "floor"
    name: str = ""


@dataclass(frozen=True)
class Snapshot:
    """One state on the stage: place numbers of everybody, texts on places, hands, places to reach."""

    positions: dict[str, int]
    marks: dict[int, str]
    hands: dict[str, str]
    goals: tuple[int, ...]


def _none(state: int) -> dict:
    return {}


def _no_goals(state: int) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class Stage:
    """Positions of all agents: `positions[who]` [X] holds place numbers, -1 where one is absent.

    `marks(state)` are texts on places, `hands(state)` what an agent carries, `goals(state)` the places to
    reach if they move with the state; `roles` are the names of agent and teammate in this domain.
    """

    places: tuple[Place, ...]
    positions: Mapping[str, np.ndarray]
    links: tuple[tuple[int, int], ...] = ()
    marks: Callable[[int], Mapping[int, str]] = _none
    hands: Callable[[int], Mapping[str, str]] = _none
    goals: Callable[[int], tuple[int, ...]] = _no_goals
    roles: Mapping[str, str] = field(default_factory=dict)

    def role(self, who: str) -> str:
        """What the domain calls agent, teammate or prey."""
        return self.roles.get(who, who)

    @cached_property
    def fixed_goals(self) -> frozenset[int]:
        """The places that are goals in every state."""
        return frozenset(number for number, place in enumerate(self.places) if place.kind == "goal")

    @cached_property
    def uncertain(self) -> tuple[str, ...]:
        """Those whose place differs from state to state: the ones a belief is about."""
        return tuple(who for who, where in self.positions.items() if len(np.unique(where[where >= 0])) > 1)

    def snapshot(self, state: int | None) -> Snapshot:
        """What a picture of a state shows; None is the empty stage."""
        if state is None:
            return Snapshot({}, {}, {}, tuple(sorted(self.fixed_goals)))
        here = {who: int(where[state]) for who, where in self.positions.items() if where[state] >= 0}
        goals = tuple(sorted(self.fixed_goals | set(self.goals(state))))
        return Snapshot(here, dict(self.marks(state)), dict(self.hands(state)), goals)

    def marginal(self, who: str, belief: np.ndarray) -> np.ndarray:
        """The probability of each place for `who` under a belief over states [X]; [places]."""
        where = self.positions[who]
        shown = where >= 0
        return np.bincount(where[shown], weights=np.asarray(belief, float)[shown], minlength=len(self.places))

    def to_json(self) -> Mapping[str, object]:
        """The empty stage in terms of JSON's own types."""
        places = [asdict(place) for place in self.places]
        roles = {who: self.role(who) for who in self.positions}
        return {"places": places, "links": [list(link) for link in self.links], "roles": roles}
