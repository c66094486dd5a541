"""Abandoned power plant: a robot and a human explore rooms, or clean them together, on a graph of five rooms.

A state is (robot room, human room, one bit for each room of interest). The robot may also ask where the human
or itself is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Literal

import numpy as np

from jatpo.domains.description import Coordinates, from_array
from jatpo.domains.domain import Probability, register
from jatpo.domains.mmdp import MMDP
from jatpo.domains.places import Place, Stage
from jatpo.domains.structure import World
from jatpo.errors import JatpoError

QueryFailure = Literal["any", "blank"]
LocationSensor = Literal["neighbours", "blank"]
Edges = tuple[tuple[int, int], ...]

ROOMS = ("door", "baxter", "single workbench", "double workbench", "table")
LAYOUT = ((0.0, 1.5), (1.1, 1.5), (1.1, 0.0), (2.2, 1.5), (3.3, 1.5))  # where a picture puts the rooms
EDGES: Edges = ((0, 1), (1, 2), (1, 3), (3, 4))
TASKS = ("exploration", "cleanup")
ACTIONS = ("first", "second", "third", "stay", "locate-human", "locate-robot")
MOVES = 3
BASE = 4  # the first actions, which the human has as well
LOCATE_HUMAN, LOCATE_ROBOT = 4, 5


@dataclass(frozen=True)
class Plant:
    """The rooms, their edges and one task: `together` for cleanup, where both must be in a room to do it."""

    task: str
    rooms_of_interest: tuple[int, ...]
    together: bool
    edges: Edges
    noise: float
    query_failure: QueryFailure
    location_sensor: LocationSensor
    discount: float

    def world(self) -> World:
        """The complete `World`."""
        rooms = tuple(map(str, range(self.num_rooms)))
        bits = {f"room {room} done": ("0", "1") for room in self.rooms_of_interest}
        mmdp = self.mmdp()
        return World(
            label=f"{self.task} of rooms {', '.join(map(str, self.rooms_of_interest))}",
            variables={"robot": rooms, "human": rooms, **bits},
            mmdp=mmdp,
            # The human plans as if the robot had only the base actions, and takes the first optimal pair.
            policy=lambda: mmdp.restrict(range(BASE)).value_iteration().first_teammate(),
            sensor=self.sensor(),
            observations=("-1", *rooms),
            stage=self.stage(),
        )

    @cached_property
    def num_rooms(self) -> int:
        return max(max(edge) for edge in self.edges) + 1

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """The neighbours of every room in ascending order."""
        linked = self.edges + tuple((b, a) for a, b in self.edges)
        found = [sorted({b for a, b in linked if a == room}) for room in range(self.num_rooms)]
        if not all(found):
            raise JatpoError(f"room {found.index([])} has no neighbour: give every room an edge")
        return found

    @cached_property
    def moved(self) -> np.ndarray:
        """Where the base actions lead from every room, [4, rooms]; a missing neighbour becomes the lowest."""
        steps = [[near[k] if k < len(near) else near[0] for near in self.neighbours] for k in range(MOVES)]
        return np.array([*steps, list(range(self.num_rooms))])

    def done(self, robot: np.ndarray, human: np.ndarray) -> np.ndarray:
        """Which rooms of interest get done with the two standing so, [..., rooms of interest]."""
        rooms = np.array(self.rooms_of_interest)
        robot, human = robot[..., None] == rooms, human[..., None] == rooms
        return robot & human if self.together else robot | human

    @cached_property
    def states(self) -> np.ndarray:
        """(robot, human, bits), [X, 2 + rooms of interest], no contradictions, no absorbing state."""
        rooms = range(self.num_rooms)
        every = np.array(list(product(rooms, rooms, *[(0, 1)] * len(self.rooms_of_interest))))
        forced = self.done(every[:, 0], every[:, 1])
        return every[(every[:, 2:] >= forced).all(axis=1)]

    @cached_property
    def weights(self) -> np.ndarray:
        """Place values that turn (robot, human, bits) into one number."""
        bits = 2 ** np.arange(len(self.rooms_of_interest))[::-1]
        return np.array([self.num_rooms << len(bits), 1 << len(bits), *bits])

    def mmdp(self) -> MMDP:
        """The joint dynamics with all six robot actions; only the robot's moves fail."""
        robot, human, bits = self.states[:, 0], self.states[:, 1], self.states[:, 2:].astype(bool)
        goes = np.concatenate([self.moved, np.tile(self.moved[-1:], (2, 1))])[:, robot]  # locating is staying
        follows = self.moved[:, human][None]
        outcomes = [self._arrive(where[:, None], follows, bits) for where in (goes, np.tile(robot, (6, 1)))]
        start = np.array([0, 0, *self.done(np.array(0), np.array(0))])
        return MMDP.episodic(
            states=[self._name(state) for state in self.states.tolist()],
            actions=ACTIONS,
            teammate_actions=ACTIONS[:BASE],
            successors=np.stack(outcomes, axis=-1),
            probabilities=np.array([1 - self.noise, self.noise]),
            solved=np.all(bits, axis=1),
            initial=(self.states == start).all(axis=1).astype(float),
            discount=self.discount,
        )

    def _arrive(self, robot: np.ndarray, human: np.ndarray, bits: np.ndarray) -> np.ndarray:
        """The state number once the two stand so, [6, 4, X]."""
        robot, human = np.broadcast_arrays(robot, human)
        after = bits | self.done(robot, human)
        full = np.concatenate([robot[..., None], human[..., None], after], axis=-1) @ self.weights
        return np.searchsorted(self.states @ self.weights, full)

    @staticmethod
    def _name(state: list[int]) -> str:
        return f"robot {state[0]} human {state[1]} done {''.join(map(str, state[2:]))}"

    def sensor(self) -> Coordinates:
        """O[a, y, z] over -1 and the rooms."""
        robot, human = self.states[:, 0], self.states[:, 1]
        table = np.zeros((len(ACTIONS), len(self.states) + 1, self.num_rooms + 1))
        table[:BASE, :-1] = self._located()[robot]
        table[LOCATE_HUMAN, :-1] = self._answer()[human]
        table[LOCATE_ROBOT, :-1] = self._answer()[robot]
        table[:, -1, 0] = 1
        return from_array(table)

    def _answer(self) -> np.ndarray:
        """What the robot hears for each asked room, [rooms, symbols]."""
        right = np.eye(self.num_rooms + 1)[1:]
        wrong = (1 - right) / self.num_rooms if self.query_failure == "any" else np.eye(self.num_rooms + 1)[0]
        return (1 - self.noise) * right + self.noise * wrong

    def _located(self) -> np.ndarray:
        """What the robot reads of its own room after a move or stay, [rooms, symbols].

        "neighbours": with n neighbours, each of -1, 0, .., n-1 other than the right symbol weighs noise / n,
        then all is normalised.
        """
        symbols = np.arange(-1, self.num_rooms)
        right = np.eye(self.num_rooms + 1)[1:]
        if self.location_sensor == "blank":
            return (1 - self.noise) * right + self.noise * np.eye(self.num_rooms + 1)[0]
        degree = np.array([len(near) for near in self.neighbours])[:, None]
        wrong = (symbols < degree) * (1 - right) / degree
        table = (1 - self.noise) * right + self.noise * wrong
        return table / table.sum(axis=1, keepdims=True)

    def stage(self) -> Stage:
        """The graph of rooms; what is still to be done and what is done is marked."""
        own = self.edges == EDGES
        angles = 2 * np.pi * np.arange(self.num_rooms) / self.num_rooms
        spots = (
            LAYOUT if own else [(1.5 - 1.5 * np.cos(angle), 1.5 - 1.5 * np.sin(angle)) for angle in angles]
        )
        names = ROOMS if own else [f"room {room}" for room in range(self.num_rooms)]
        kinds = ["goal" if room in self.rooms_of_interest else "room" for room in range(self.num_rooms)]
        places = tuple(
            Place(x, y, kind, f"{room} {name}")
            for room, ((x, y), kind, name) in enumerate(zip(spots, kinds, names, strict=True))
        )
        positions = {"agent": np.append(self.states[:, 0], -1), "teammate": np.append(self.states[:, 1], -1)}
        words = ("dirty", "clean") if self.together else ("unexplored", "explored")
        bits = self.states[:, 2:]

        def marks(state: int) -> dict[int, str]:
            if state >= len(bits):
                return {}
            return {
                room: words[bit]
                for room, bit in zip(self.rooms_of_interest, bits[state].tolist(), strict=True)
            }

        roles = {"agent": "robot", "teammate": "human"}
        return Stage(places, positions, links=self.edges, marks=marks, roles=roles)


def _labels(explore: tuple[int, ...], clean: tuple[int, ...], **_: object) -> tuple[str, ...]:
    rooms = (", ".join(map(str, part)) for part in (explore, clean))
    return tuple(f"{task} of rooms {listed}" for task, listed in zip(TASKS, rooms, strict=True))


@register(
    "abandoned-power-plant",
    summary="a robot and a human explore or clean five rooms",
    models=2,
    horizon=50,
    beliefs=2500,
    labels=_labels,
    as_written={"discount": 0.95, "query_failure": "blank", "location_sensor": "blank"},
)
def abandoned_power_plant(
    model: int,
    *,
    noise: Annotated[Probability, "probability that a move, a reading or an answer fails"] = 0.2,
    discount: Annotated[Probability, "discount, also of the human's plan"] = 0.9,
    edges: Annotated[Edges, "pairs of linked rooms"] = EDGES,
    explore: Annotated[tuple[int, ...], "rooms to explore in model 0"] = (0, 1, 4),
    clean: Annotated[tuple[int, ...], "rooms to clean in model 1"] = (2, 4),
    query_failure: Annotated[QueryFailure, "what a failed answer reads: any other symbol, or -1"] = "any",
    location_sensor: Annotated[
        LocationSensor, "what a failed reading of the own room reads: -1 or a neighbour's number, or -1"
    ] = "neighbours",
) -> World:
    """Exploration (model 0) or cleanup (model 1)."""
    rooms = tuple(sorted(clean if model else explore))
    graph = tuple((int(a), int(b)) for a, b in edges)
    return Plant(
        TASKS[model], rooms, model == 1, graph, noise, query_failure, location_sensor, discount
    ).world()
