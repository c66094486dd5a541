"""Two movers on the same cells as a model of its own: nothing of the size of N⁴ or of P is made.

What `Pairs` describes state by state is kept as what each mover does on N cells, the classes of what is seen, and a few
arrays over the N² + 1 states. `describe` writes it out as any other model; `jatpo.domains.to_pomdp` does not need that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jatpo.domains.description import Coordinates, Description, from_array
from jatpo.domains.places import Stage


@dataclass(frozen=True, eq=False)
class TwoMovers:
    """Agent (a, c, c', p) and teammate (0, m, m', p) on N cells, `solved` [N, N], the row of O of a state."""

    label: str
    naming: Callable[[], tuple[str, ...]]
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    agent: Coordinates
    teammate: Coordinates
    solved: np.ndarray
    kind: np.ndarray  # [X]
    rows: np.ndarray  # [C, Z]
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float
    picture: Callable[[], Stage]

    @property
    def stage(self) -> Stage:
        """The map with the two agents."""
        return self.picture()

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The names of all states."""
        return self.naming()

    def describe(self) -> Description:
        """The same model as coordinates of P and O."""
        return Description(
            states=self.states,
            actions=self.actions,
            observations=self.observations,
            transition=self.transition(),
            observation=self.observation(),
            reward=self.reward,
            initial=self.initial,
            discount=self.discount,
        ).checked()

    def transition(self) -> Coordinates:
        """(a, x, y, p); entries may come twice."""
        cells, last = len(self.solved), self.solved.size
        going = np.flatnonzero(~self.solved.ravel())
        leaving = np.append(np.flatnonzero(self.solved.ravel()), last)
        cell, place = np.divmod(going, cells)
        parts: list[Coordinates] = []
        mate_to, mate_p = _lists(self.teammate, 0, cells)
        for action in range(len(self.actions)):
            to, p = _lists(self.agent, action, cells)
            arrived = to[cell][:, :, None] * cells + mate_to[place][:, None, :]
            weight = p[cell][:, :, None] * mate_p[place][:, None, :]
            shape = weight.shape
            x = np.broadcast_to(going[:, None, None], shape)
            own = weight > 0
            for rows, columns, weights in (
                (x[own], arrived[own], weight[own]),
                (leaving, np.full(len(leaving), last), np.ones(len(leaving))),
            ):
                parts.append((np.full(len(rows), action), rows, columns, weights))
        a, x, y, p = (np.concatenate(part) for part in zip(*parts, strict=True))
        return a, x, y, p

    def observation(self) -> Coordinates:
        """(a, y, z, p)."""
        of_class = [np.flatnonzero(row) for row in self.rows]
        count = np.array([len(symbols) for symbols in of_class])
        y = np.repeat(np.arange(len(self.kind)), count[self.kind])
        z = np.concatenate([of_class[kind] for kind in self.kind])
        p, number = self.rows[self.kind[y], z], len(self.actions)
        return (
            np.repeat(np.arange(number), len(y)),
            np.tile(y, number),
            np.tile(z, number),
            np.tile(p, number),
        )

    def classes(self) -> Coordinates:
        """(0, class, z, p)."""
        return from_array(self.rows[None])


def _lists(coordinates: Coordinates, action: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The padded successor lists [N, S] of one action, and their probabilities."""
    own = coordinates[0] == action
    x, y, p = (part[own] for part in coordinates[1:])
    order = np.argsort(x, kind="stable")
    x, y, p = x[order], y[order], p[order]
    count = np.bincount(x, minlength=cells)
    slot = np.arange(len(x)) - np.repeat(np.cumsum(count) - count, count)
    to, weight = np.zeros((cells, count.max()), int), np.zeros((cells, count.max()))
    to[x, slot], weight[x, slot] = y, p
    return to, weight
