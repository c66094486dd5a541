"""Pursuit: the agent and a teammate corner a prey that moves at random on a 5 x 5 torus.

A state is (teammate minus agent, prey minus agent), each coordinate in -2..2. All three move at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Literal

import numpy as np

from jatpo.domains import search
from jatpo.domains.description import every_action
from jatpo.domains.domain import Probability, register
from jatpo.domains.grid import ACTIONS, STAY, STEPS, cell_name, heading
from jatpo.domains.mmdp import MMDP
from jatpo.domains.places import Place, Stage
from jatpo.domains.structure import World
from jatpo.errors import JatpoError, unknown

Wrap = Literal["reflect", "torus"]
OFFSETS = {
    "n": (0, -1),
    "s": (0, 1),
    "w": (-1, 0),
    "e": (1, 0),
    "nw": (-1, -1),
    "ne": (1, -1),
    "se": (1, 1),
    "sw": (-1, 1),
}
TASKS = ("n/s", "w/e", "sw/ne", "nw/se")
TEAMMATES = ("greedy", "aware")
MODELS = tuple(f"{teammate} {task}" for teammate, task in product(TEAMMATES, TASKS))
OWN = 4  # the middle of the 3 x 3 neighbourhood
READINGS = tuple(f"teammate {i} prey {j}" for i, j in product(range(9), repeat=2))


def wrap(offset: np.ndarray, reach: int, rule: Wrap) -> np.ndarray:
    """`offset` brought back into -reach..reach.

    "torus" goes round; "reflect" is the published program's rule, which turns 3 into -1 and 4 into -2.
    """
    offset = np.asarray(offset)
    if rule == "torus":
        return (offset + reach) % (2 * reach + 1) - reach
    over = np.abs(offset) > reach
    return np.where(over, np.sign(offset) * reach - offset, offset)


@dataclass(frozen=True)
class Pursuit:
    """One task and one kind of teammate; coordinates reach from -reach to reach."""

    task: str
    teammate: str
    reach: int
    wrap_rule: Wrap
    path_search: search.Search
    noise: float
    discount: float

    def world(self) -> World:
        """The complete `World`."""
        coordinates = tuple(map(str, range(-self.reach, self.reach + 1)))
        return World(
            label=f"{self.teammate} {self.task}",
            variables={f"{who} {axis}": coordinates for who in ("teammate", "prey") for axis in ("dx", "dy")},
            mmdp=self.mmdp(),
            policy=self.policy,
            sensor=every_action(self.sensor(), len(ACTIONS)),
            observations=READINGS,
            stage=self.stage(),
        )

    @cached_property
    def states(self) -> np.ndarray:
        """(teammate, prey) offsets from the agent, [X, 2, 2], in lexicographic order."""
        coordinates = range(-self.reach, self.reach + 1)
        return np.array(list(product(coordinates, repeat=4))).reshape(-1, 2, 2)

    @cached_property
    def posts(self) -> np.ndarray:
        """The task's two offsets from the prey, [2, 2]."""
        return np.array([OFFSETS[name] for name in self.task.split("/")])

    @cached_property
    def captured(self) -> np.ndarray:
        """Whether agent and teammate are at the two posts, either way round, [X]."""
        teammate, prey = self.states[:, 0], self.states[:, 1]
        agent_post, teammate_post = -prey, self._wrap(teammate - prey)
        ways = [
            (agent_post == self.posts[i]).all(axis=1) & (teammate_post == self.posts[1 - i]).all(axis=1)
            for i in range(2)
        ]
        return ways[0] | ways[1]

    def _wrap(self, offset: np.ndarray) -> np.ndarray:
        return wrap(offset, self.reach, self.wrap_rule)

    def mmdp(self) -> MMDP:
        """The joint dynamics; the prey picks one of its five actions uniformly, one successor for each."""
        agent, teammate, prey = (
            STEPS[:, None, None, None],
            STEPS[None, :, None, None],
            STEPS[None, None, None, :],
        )
        there, target = self.states[None, None, :, None, 0], self.states[None, None, :, None, 1]
        there, target = self._wrap(there + teammate - agent), self._wrap(target + prey - agent)
        there, target = np.broadcast_arrays(there, target)
        digits = np.concatenate([there, target], axis=-1) + self.reach
        base = 2 * self.reach + 1
        names = [f"teammate {cell_name(mate)} prey {cell_name(prey)}" for mate, prey in self.states.tolist()]
        return MMDP.episodic(
            states=names,
            actions=ACTIONS,
            teammate_actions=ACTIONS,
            successors=digits @ base ** np.arange(3, -1, -1),
            probabilities=np.full(len(ACTIONS), 1 / len(ACTIONS)),
            solved=self.captured,
            initial=~self.captured / (~self.captured).sum(),
            discount=self.discount,
        )

    def targets(self) -> np.ndarray:
        """The nearer capture cell seen from the teammate, [X, 2]; a tie goes to the task's first."""
        prey = self._wrap(self.states[:, 1] - self.states[:, 0])
        cells = self._wrap(prey[:, None] + self.posts)  # [X, 2 posts, 2]
        nearer = np.argmin(np.abs(cells).sum(axis=2), axis=1)
        return cells[np.arange(len(cells)), nearer]

    def policy(self) -> np.ndarray:
        """The teammate's policy, [X + 1, 5]."""
        targets = self.targets()
        if self.teammate == "greedy":
            return np.eye(len(ACTIONS))[np.append(heading(*targets.T), STAY)]
        size = 2 * self.reach + 1
        obstacles = self._wrap(-self.states[:, 0])  # the ad hoc agent seen from the teammate
        rows = [
            search.first_move(tuple(target), tuple(obstacle), size, self.path_search)
            for target, obstacle in zip(targets.tolist(), obstacles.tolist(), strict=True)
        ]
        return np.array([*rows, np.eye(len(ACTIONS))[STAY]])

    def sensor(self) -> np.ndarray:
        """Probability of each reading on arriving in a state, [X + 1, 81]; absorbing: (0, 0)."""
        near = (np.abs(self.states) <= 1).all(axis=2)  # [X, 2]
        identity = np.where(near, (self.states + 1) @ np.array([1, 3]), OWN)
        seen = (1 - self.noise) * np.eye(9)[identity] + self.noise * np.eye(9)[OWN]
        joint = np.einsum("xi,xj->xij", seen[:, 0], seen[:, 1]).reshape(len(self.states), -1)
        return np.vstack([joint, np.arange(len(READINGS)) == 0])

    def stage(self) -> Stage:
        """The torus around the agent, who always stands in the middle, at 0,0 as in the names of states."""
        size = 2 * self.reach + 1
        offsets = range(-self.reach, self.reach + 1)
        places = tuple(Place(column, row) for row, column in product(offsets, repeat=2))
        spots = (self.states + self.reach) @ np.array([1, size])
        middle = np.full(len(spots), (size * size) // 2)
        ends = np.append(
            self._wrap(self.states[:, 1:] + self.posts) + self.reach, np.zeros((1, 2, 2), int), axis=0
        )
        goals = ends @ np.array([1, size])
        positions = {"agent": middle, "teammate": spots[:, 0], "prey": spots[:, 1]}
        positions = {who: np.append(where, -1) for who, where in positions.items()}
        absorbing = len(spots)
        return Stage(
            places,
            positions,
            goals=lambda state: () if state == absorbing else tuple(goals[state].tolist()),
        )


def _labels(lineup: tuple[str, ...], **_: object) -> tuple[str, ...]:
    return tuple(lineup)


def pursuit(
    model: int,
    *,
    lineup: Annotated[tuple[str, ...], "the models: a teammate (greedy, aware) and a task each"] = MODELS,
    noise: Annotated[Probability, "probability that a neighbour is not seen"] = 0.15,
    discount: Annotated[Probability, "discount"] = 0.95,
    size: Annotated[int, "columns and rows of the torus, an odd number"] = 5,
    wrap: Annotated[Wrap, "how a relative coordinate beyond the edge comes back"] = "reflect",
    path_search: Annotated[search.Search, "how the aware teammate looks for a path"] = "modulo",
) -> World:
    """Model k of a pursuit domain."""
    if lineup[model] not in MODELS:
        raise unknown("pursuit model", lineup[model], MODELS)
    if size < 5 or size % 2 == 0:
        raise JatpoError(f"a pursuit torus of size {size} is not possible: choose an odd number from 5")
    teammate, task = lineup[model].split()
    return Pursuit(task, teammate, size // 2, wrap, path_search, noise, discount).world()


def _steps_of(horizon: int) -> Callable[..., int]:
    """The horizon, in proportion to the distances."""
    return lambda size=5, **_: -(-horizon * (size - 1) // 4)


for name, chosen, noise, horizon, summary in (
    ("pursuit-task", MODELS[:4], 0.2, 75, "two agents corner a prey; its task is unknown"),
    (
        "pursuit-teammate",
        (MODELS[0], MODELS[4]),
        0.15,
        85,
        "two agents corner a prey; the teammate is unknown",
    ),
    ("pursuit-both", MODELS, 0.15, 85, "two agents corner a prey; task and teammate are unknown"),
):
    register(
        name,
        summary=summary,
        models=len(chosen),
        horizon=horizon,
        steps=_steps_of(horizon),
        beliefs=5000,
        labels=_labels,
        as_run={"lineup": chosen, "noise": noise},
        as_written={"wrap": "torus", "path_search": "torus"},
    )(pursuit)
