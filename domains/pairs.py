"""Two agents on one grid: the process that the gridworld and the five mazes share.

A state is the pair (agent cell, teammate cell). Solved when the two stand on two different goal cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Literal

import numpy as np

from jatpo import validate
from jatpo.domains import grid as vocabulary
from jatpo.domains.description import Coordinates, every_action
from jatpo.domains.grid import ACTIONS, READINGS, STAY, Cell, Grid, cell_name
from jatpo.domains.mmdp import ABSORBING, FINISHED, MMDP, SOLVED, WANDERING
from jatpo.domains.movers import TwoMovers
from jatpo.domains.parameters import Probability
from jatpo.domains.places import Place, Stage
from jatpo.domains.structure import World
from jatpo.errors import JatpoError

LARGE = 20_000  # states of a model that is not written out; all domains of the paper are smaller
Walk = Literal["greedy", "shortest-path", "optimal", "random"]
Failure = Literal["other", "nothing"]
Start = Literal["marked", "anywhere"]
Slip = Probability | Literal["noise"]  # "noise": as probable as a failure of the sensor


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two agents on `grid` with `goals`; `share_cells`: they may stand on one cell and never collide.

    Where they may not share a cell, the teammate moves first and does not enter the agent's cell; the agent
    then does not enter the teammate's new cell.
    """

    grid: Grid
    goals: tuple[Cell, ...]
    share_cells: bool
    noise: float
    agent_slip: Slip
    teammate_slip: Slip
    teammate: Walk
    sensor_failure: Failure
    start: Start
    discount: float

    def model(self, label: str) -> World | TwoMovers:
        """The complete `World`; two movers that do not see each other where that would be large."""
        apart = self.share_cells and self.teammate != "optimal"
        return self.movers(label) if apart and len(self.grid.cells) ** 2 > LARGE else self.world(label)

    def movers(self, label: str) -> TwoMovers:
        """What each mover does on the cells, and what is seen; for movers that may share a cell."""
        cells = len(self.grid.cells)
        agent = self._moves(np.eye(len(ACTIONS))[:, None, :].repeat(cells, axis=1), self.agent_slip)
        kind, rows = self.readings()
        solved = self.solved
        reward = np.append(np.where(solved, SOLVED, WANDERING), FINISHED)
        return TwoMovers(
            label=label,
            naming=lambda: _state_names(tuple(map(cell_name, self.grid.cells))),
            actions=ACTIONS,
            observations=READINGS,
            agent=agent,
            teammate=self._moves(self._walk()[None], self.teammate_slip),
            solved=solved.reshape(cells, cells),
            kind=kind,
            rows=rows,
            reward=np.repeat(reward[:, None], len(ACTIONS), axis=1),
            initial=np.append(self._initial(), 0.0),
            discount=self.discount,
            picture=self.stage,
        )

    def _moves(self, chosen: np.ndarray, slip: Slip) -> Coordinates:
        """Where a mover goes (a, c, c', p) that does action b in cell c with probability chosen[a, c, b]."""
        fails = self.noise if slip == "noise" else slip
        cells = np.arange(len(self.grid.cells))
        a, c, b = np.nonzero(chosen)
        going, staying = chosen[a, c, b] * (1 - fails), chosen[a, c, b] * fails
        arrived = np.append(self.grid.moved[b, c], c), np.append(going, staying)
        sizes = (len(chosen), len(cells), len(cells))
        return validate.rows("transition", (np.tile(a, 2), np.tile(c, 2), *arrived), sizes, "xy", None, None)

    def world(self, label: str) -> World:
        """The complete `World`."""
        names = tuple(cell_name(cell) for cell in self.grid.cells)
        mmdp = self.mmdp
        return World(
            label=label,
            variables={"agent": names, "teammate": names},
            mmdp=mmdp,
            policy=lambda: self.policy(mmdp),
            sensor=every_action(self.sensor(), len(ACTIONS)),
            observations=READINGS,
            stage=self.stage(),
        )

    @cached_property
    def states(self) -> np.ndarray:
        """Cell numbers of (agent, teammate), [X, 2], agent-major, without the absorbing state."""
        size = len(self.grid.cells)
        pairs = np.stack(np.divmod(np.arange(size * size), size), axis=1)
        return pairs if self.share_cells else pairs[pairs[:, 0] != pairs[:, 1]]

    @cached_property
    def number(self) -> np.ndarray:
        """The state of every (agent cell, teammate cell), [N, N]."""
        table = np.full((len(self.grid.cells),) * 2, -1)
        table[self.states[:, 0], self.states[:, 1]] = np.arange(len(self.states))
        return table

    @cached_property
    def solved(self) -> np.ndarray:
        """Whether both stand on goals, on different ones, [X]."""
        agent, teammate = self.states.T
        on_goals = np.isin(self.states, self.grid.numbers(self.goals)).all(axis=1)
        return on_goals & (agent != teammate)

    @cached_property
    def mmdp(self) -> MMDP:
        """The joint dynamics."""
        outcomes = [
            (self._step(agent_moves, teammate_moves), probability)
            for agent_moves, teammate_moves in product((True, False), repeat=2)
            if (probability := self._probability(agent_moves, teammate_moves)) > 0
        ]
        names = [cell_name(cell) for cell in self.grid.cells]
        return MMDP.episodic(
            states=[f"agent {names[agent]} teammate {names[teammate]}" for agent, teammate in self.states],
            actions=ACTIONS,
            teammate_actions=ACTIONS,
            successors=np.stack([successor for successor, _ in outcomes], axis=-1),
            probabilities=np.array([probability for _, probability in outcomes]),
            solved=self.solved,
            initial=self._initial(),
            discount=self.discount,
        )

    def _probability(self, agent_moves: bool, teammate_moves: bool) -> float:
        """The probability that exactly these two do not slip."""
        slips = (self.noise if slip == "noise" else slip for slip in (self.agent_slip, self.teammate_slip))
        agent, teammate = slips
        return (1 - agent if agent_moves else agent) * (1 - teammate if teammate_moves else teammate)

    def _step(self, agent_moves: bool, teammate_moves: bool) -> np.ndarray:
        """The next state for every (agent action, teammate action, state), [5, 5, X]."""
        agent, teammate = self.states.T
        goes = self.grid.moved[:, agent][:, None] if agent_moves else agent[None, None]
        follows = self.grid.moved[:, teammate][None] if teammate_moves else teammate[None, None]
        if not self.share_cells:
            follows = np.where(follows == agent, teammate, follows)
            goes = np.where(goes == follows, agent, goes)
        return np.broadcast_to(self.number[goes, follows], (len(ACTIONS), len(ACTIONS), len(agent)))

    def _initial(self) -> np.ndarray:
        """Uniform over all unsolved states, or over those with both on different S cells, [X]."""
        allowed = ~self.solved
        if self.start == "marked":
            agent, teammate = self.states.T
            on_starts = np.isin(self.states, self.grid.numbers(self.grid.starts)).all(axis=1)
            allowed = on_starts & (agent != teammate)
        if not allowed.any():
            remedy = "mark two or more cells with S" if self.start == "marked" else "choose other goals"
            raise JatpoError(f"no state to start from: {remedy}")
        return allowed / allowed.sum()

    def policy(self, mmdp: MMDP) -> np.ndarray:
        """The teammate's policy, [X + 1, 5]."""
        if self.teammate == "optimal":
            return mmdp.value_iteration().marginal_teammate()
        if self.teammate == "random":
            return np.full((len(mmdp.states), len(ACTIONS)), 1 / len(ACTIONS))
        return np.vstack([self._walk()[self.states[:, 1]], np.eye(len(ACTIONS))[STAY]])

    def _walk(self) -> np.ndarray:
        """The policy [N, 5] of a teammate that looks at its own cell only."""
        if self.teammate == "random":
            return np.full((len(self.grid.cells), len(ACTIONS)), 1 / len(ACTIONS))
        walks: dict[str, Callable] = {
            "greedy": vocabulary.greedy_walk,
            "shortest-path": vocabulary.shortest_walk,
        }
        return np.eye(len(ACTIONS))[walks[self.teammate](self.grid, self.grid.numbers(self.goals))]

    def _around(self) -> np.ndarray:
        """What is up, down, left and right of the agent, [4, X]."""
        agent, teammate = self.states.T
        seen = np.where(self.grid.moved[:STAY, agent] == teammate, vocabulary.TEAMMATE, vocabulary.NOTHING)
        return np.where(self.grid.walls[:, agent], vocabulary.WALL, seen)

    def sensor(self) -> np.ndarray:
        """Probability of each reading on arriving in a state, [X + 1, 81]; absorbing: nothing everywhere."""
        readings = vocabulary.sensor(self._around(), self.noise, self.sensor_failure)
        return np.vstack([readings, np.arange(len(READINGS)) == 0])

    def readings(self) -> tuple[np.ndarray, np.ndarray]:
        """The sensor as its distinct rows [C, 81] and which of them each state has [X + 1]."""
        code = np.array([27, 9, 3, 1]) @ self._around()
        found, kind = np.unique(np.append(code, 0), return_inverse=True)  # absorbing: nothing everywhere
        truth = found // np.array([[27], [9], [3], [1]]) % 3
        return kind, vocabulary.sensor(truth, self.noise, self.sensor_failure)

    def stage(self) -> Stage:
        """The map with the two agents."""
        everywhere = product(range(self.grid.height), range(self.grid.width))
        places = tuple(Place(column, row, self._kind((column, row))) for row, column in everywhere)
        spots = np.append(self.grid.cells @ np.array([1, self.grid.width]), -1)  # place number of each cell
        agent, teammate = (np.append(part, -1) for part in self.states.T)
        return Stage(places, {"agent": spots[agent], "teammate": spots[teammate]})

    def _kind(self, cell: Cell) -> str:
        if cell not in self.grid.index:
            return "wall"
        if cell in self.goals:
            return "goal"
        return "start" if self.start == "marked" and cell in self.grid.starts else "floor"


@lru_cache(maxsize=2)
def _state_names(cells: tuple[str, ...]) -> tuple[str, ...]:
    """The names of all states; the models of a library share them."""
    own = (f"agent {agent} teammate {teammate}" for agent in cells for teammate in cells)
    return (*own, ABSORBING)
