"""Both agents of a domain's model in one process: the teammate is an agent of its own. NumPy float64.

    P(y | x, a, b), O(z | y, a), R(x, a, b)          with sum_b teammate(b | x, a) P(y | x, a, b) = P[a, x, y]

Shapes: A actions of the agent, B of the teammate, X states, Z observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jatpo import domains
from jatpo.domains import MMDP
from jatpo.errors import JatpoError
from jatpo.library import Library, Origin

Distribution = tuple[np.ndarray, np.ndarray]
"""Outcomes [n] and their probabilities [n]."""


def draw(generator: np.random.Generator, distribution: Distribution) -> int:
    """One of the values, never one of probability 0."""
    values, probabilities = distribution
    cumulative = np.cumsum(probabilities)
    place = np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")
    return int(values[min(place, np.flatnonzero(probabilities)[-1])])


@dataclass(frozen=True, eq=False)
class Team:
    """One model with two agents. The agent's actions and observations are in the library's order."""

    mmdp: MMDP
    policy: np.ndarray  # [A, X, B], the library's own teammate
    rows: np.ndarray  # [A·X + 1], where the observations of (a, y) begin
    symbols: np.ndarray  # observations one row after the other
    probabilities: np.ndarray

    @property
    def num_states(self) -> int:
        return len(self.mmdp.states)

    def start(self) -> Distribution:
        """Start states."""
        return np.arange(self.num_states), self.mmdp.initial

    def arrivals(self, state: int, action: int, reply: int) -> Distribution:
        """Successors of a state under both actions; one may be listed twice."""
        return self.mmdp.successors[action, reply, state], self.mmdp.probabilities[action, reply, state]

    def observations(self, state: int, action: int) -> Distribution:
        """The agent's observations on arrival in `state`."""
        row = action * self.num_states + state
        where = slice(self.rows[row], self.rows[row + 1])
        return self.symbols[where], self.probabilities[where]

    def reward(self, state: int, action: int, reply: int) -> float:
        """The reward of acting in `state`, the same for both."""
        return float(self.mmdp.reward[state, action, reply])

    def teammate(self, state: int, action: int | None = None) -> np.ndarray:
        """The probabilities [B] of the library's own teammate; `action` where it depends on the agent's."""
        choices = self.policy[:, state]
        if action is None and not np.all(choices == choices[0]):
            raise JatpoError(
                "the policy of this teammate depends on the agent's action: give the action as well"
            )
        return choices[action or 0]


def teams_of(library: Library) -> list[Team]:
    """A team for each model; all models must come from domains whose builder returns a `World`."""
    teams = [
        _team(library.name, label, origin, model.actions, model.observations)
        for label, origin, model in zip(library.labels, library.origins, library.members, strict=True)
    ]
    for team, label in zip(teams, library.labels, strict=True):
        ours, theirs = (part.mmdp.teammate_actions for part in (teams[0], team))
        if ours != theirs:
            raise JatpoError(
                f"the teammate has actions {', '.join(theirs)} in model '{label}' and {', '.join(ours)} in "
                f"model '{library.labels[0]}': choose models in which they agree"
            )
    return teams


def _team(name: str, label: str, origin: Origin, actions: Sequence[str], observations: Sequence[str]) -> Team:
    world = _world(name, label, origin)
    order = [world.mmdp.actions.index(action) for action in actions]
    number = {seen: z for z, seen in enumerate(observations)}
    place = np.array([number[seen] for seen in world.observations])
    mmdp = world.mmdp.restrict(order)
    policy = np.broadcast_to(world.teammate, (len(order), *world.teammate.shape[-2:]))
    replies = policy.shape[2]
    # In terminal states every joint action does the same: the teammate's first stands for all.
    policy = np.where(mmdp.terminal[:, None], np.arange(replies) == 0, policy[order])
    a, y, z, p = world.describe().observation
    row = np.argsort(order)[a] * len(mmdp.states) + y
    by_row = np.argsort(row, kind="stable")
    rows = np.searchsorted(row[by_row], np.arange(len(order) * len(mmdp.states) + 1))
    return Team(mmdp, policy, rows, place[z][by_row], p[by_row])


def _world(name: str, label: str, origin: Origin) -> domains.World:
    """The builder's world behind a model."""
    remedy = "two agents need a domain whose builder returns a World, such as gridworld"
    if origin.domain is None:
        raise JatpoError(f"model '{label}' of {name} has no separate teammate: {remedy}")
    world = domains.get(origin.domain).structure(
        origin.model or 0, origin.rules or "as_run", **origin.overrides
    )
    if not isinstance(world, domains.World):
        raise JatpoError(f"domain '{origin.domain}' has no separate teammate: {remedy}")
    return world
