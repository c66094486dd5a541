"""Level-based foraging on an N x N grid: the agent and one to three teammates gather food, some of it only together.

Everybody has level 1. A piece of food is gathered when the levels of those who load beside it (or on it) reach its own;
it then earns ten times its level, and every step costs 1. The episode ends when all food is gathered. The task is which
piece is heavy: it needs everybody. Teammates are of one kind:

    greedy       goes for the piece that is nearest to itself
    sequential   goes for the first piece that is left, in the order of the list
    nearest      goes for the piece that is nearest to the agent
    lazy         as greedy, but does nothing in half of the steps

A teammate loads when it is beside its piece, else it takes a step, first across, then along. The agent knows where it
stands. It sees a teammate or a piece of food within `sight` cells (in both directions), and misses each with
probability `noise`; what it does not see may be anywhere.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError, unknown
from jatpo.simulators.particle_choice import draw_rows
from jatpo.simulators.simulator_catalogue import register
from jatpo.simulators.simulator_library import SimulatorLibrary
from jatpo.simulators.simulator_protocol import Simulator, fixed, simulator_class

ACTIONS = ("up", "down", "left", "right", "load")
STEPS = np.array([(0, -1), (0, 1), (-1, 0), (1, 0), (0, 0)], np.int32)
UP, DOWN, LEFT, RIGHT, LOAD = range(5)
KINDS = ("greedy", "sequential", "nearest", "lazy")
PRIZE, COST = 10.0, -1.0
UNSEEN, LEFT_OVER, GATHERED = range(3)  # what the agent sees of a piece of food
FAR = 1000  # more than any distance
MOST_STARTS = 20_000  # that are listed
BLIND = 0.1  # the share of guided starts whose teammates are anywhere


class Field(NamedTuple):
    """Where the agent and its teammates are, and which food is gathered."""

    own: Array  # [2] int32
    mates: Array  # [M, 2] int32
    gathered: Array  # [F] bool


@simulator_class
class Foraging(Simulator):
    """One kind of teammates and one task."""

    food: Any  # [F, 2] int32
    levels: Any  # [F] int32
    kind: Any  # [] int32, of `KINDS`
    noise: Any  # []
    discount: Any  # []
    size: int = fixed(default=6)  # N
    teammates: int = fixed(default=1)  # M
    sight: int = fixed(default=2)

    lists_successors: ClassVar = True
    guides_starts: ClassVar = True
    actions: ClassVar = ACTIONS

    @property
    def pieces(self) -> int:
        """The number of pieces of food, F."""
        return self.food.shape[0]

    def initial(self, key: Array) -> Field:
        cells = jax.random.randint(key, (self.teammates + 1, 2), 0, self.size, jnp.int32)
        return Field(cells[0], cells[1:], jnp.zeros(self.pieces, bool))

    @property
    def lists_starts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """On small grids only."""
        return self.size ** (2 * self.teammates + 2) <= MOST_STARTS

    def starts(self) -> tuple[Field, Array]:
        cells = np.stack(np.unravel_index(np.arange(self.size**2), (self.size, self.size)), axis=1)
        chosen = np.indices((len(cells),) * (self.teammates + 1)).reshape(self.teammates + 1, -1).T
        places = jnp.asarray(cells[chosen], jnp.int32)  # [S, M + 1, 2]
        count = len(chosen)
        states = Field(places[:, 0], places[:, 1:], jnp.zeros((count, self.pieces), bool))
        return states, jnp.full(count, 1 / count, jnp.float32)

    def guided_start(self, key: Array, action: Array, observation: dict[str, Array]) -> tuple[Field, Array]:
        """The agent one step back from where it is; a teammate mostly beside where it was seen, else anywhere."""
        to_own, to_mates = jax.random.split(key)
        cells = np.stack(np.unravel_index(np.arange(self.size**2), (self.size, self.size)), axis=1).astype(
            np.int32
        )
        step, own = jnp.asarray(STEPS)[action], observation["own"]
        arrived = jnp.clip(cells + step[None], 0, self.size - 1)
        here = jnp.all(arrived == own[None], axis=1)  # [C]
        width = 2 * self.sight + 1
        number = observation["mates"] - 1
        seen = own[None] + jnp.stack([number % width, number // width], axis=1) - self.sight  # [M, 2]
        close = (_distance(jnp.asarray(cells)[None], seen[:, None]) <= 1).astype(jnp.float32)
        even = 1 / len(cells)
        beside = (1 - BLIND) * close / jnp.sum(close, axis=1, keepdims=True) + BLIND * even
        likely = jnp.where((number >= 0)[:, None], beside, even)  # [M, C]
        at, log_own = draw_rows(to_own, here[None].astype(jnp.float32))
        mates, log_mates = draw_rows(to_mates, likely)
        ratio = (self.teammates + 1) * math.log(even) - jnp.sum(log_mates) - log_own[0]
        places = jnp.asarray(cells)
        return Field(places[at[0]], places[mates], jnp.zeros(self.pieces, bool)), ratio

    def step(self, key: Array, state: Field, action: Array) -> tuple[Field, Array, Array]:
        idle = jax.random.bernoulli(key, 0.5, (self.teammates,)) & (self.kind == KINDS.index("lazy"))
        return self.moved(state, action, idle)

    def moved(self, state: Field, action: Array, idle: Array) -> tuple[Field, Array, Array]:
        """`step` with the teammates [M] that do nothing given."""
        targets = self.food[self.targets(state)]  # [M, 2]
        replies = jnp.where(idle, -1, towards(state.mates, targets))  # -1: nothing
        everybody = jnp.concatenate([state.own[None], state.mates])
        acts = jnp.concatenate([action[None], replies])
        steps = jnp.where((acts < 0)[:, None], 0, jnp.asarray(STEPS)[acts])
        beside = _distance(everybody[:, None], self.food[None]) <= 1  # [M + 1, F]
        loading = jnp.sum(beside & (acts == LOAD)[:, None], axis=0)
        now = (loading >= self.levels) & ~state.gathered
        arrived = jnp.clip(everybody + steps, 0, self.size - 1).astype(jnp.int32)
        done = jnp.all(state.gathered)
        gathered = state.gathered | now
        earned = PRIZE * jnp.sum(jnp.where(now, self.levels, 0)).astype(jnp.float32) + COST
        return Field(arrived[0], arrived[1:], gathered), jnp.where(done, 0, earned), jnp.all(gathered)

    def final(self, state: Field) -> Array:
        return jnp.all(state.gathered)

    def targets(self, state: Field) -> Array:
        """The piece that every teammate goes for [M]; the first where none is left."""
        kind = self.kind
        own = _distance(state.mates[:, None], self.food[None])
        agent = jnp.broadcast_to(_distance(state.own[None], self.food)[None], own.shape)
        order = jnp.broadcast_to(jnp.arange(self.pieces, dtype=own.dtype)[None], own.shape)
        cost = jnp.where(kind == KINDS.index("nearest"), agent, own)
        cost = jnp.where(kind == KINDS.index("sequential"), order, cost)
        return jnp.argmin(jnp.where(state.gathered[None], FAR, cost), axis=1)

    def observe(self, key: Array, state: Field, action: Array) -> dict[str, Array]:
        missed = jax.random.bernoulli(key, self.noise, (self.teammates + self.pieces,))
        mates, food = self._signs(state)
        return {
            "own": state.own,
            "mates": jnp.where(missed[: self.teammates], 0, mates),
            "food": jnp.where(missed[self.teammates :], UNSEEN, food),
        }

    def log_observation(self, state: Field, action: Array, observation: dict[str, Array]) -> Array:
        mates, food = self._signs(state)
        truth = jnp.concatenate([mates, food])
        seen = jnp.concatenate([observation["mates"], observation["food"]])
        right = jnp.where(truth == 0, 1, 1 - self.noise)  # what is out of sight cannot be seen
        likelihood = jnp.where(seen == truth, right, jnp.where(seen == 0, self.noise, 0))
        possible = jnp.all(likelihood > 0) & jnp.all(observation["own"] == state.own)
        return jnp.where(possible, jnp.sum(jnp.log(jnp.where(likelihood > 0, likelihood, 1))), -jnp.inf)

    def _signs(self, state: Field) -> tuple[Array, Array]:
        """What would be seen without noise: the cell of every teammate from 1 [M], 0 for none, and the food [F]."""
        width = 2 * self.sight + 1
        offset = state.mates - state.own[None] + self.sight
        near = jnp.all((offset >= 0) & (offset < width), axis=1)
        mates = jnp.where(near, 1 + offset[:, 0] + width * offset[:, 1], 0)
        close = jnp.all(jnp.abs(self.food - state.own[None]) <= self.sight, axis=1)
        food = jnp.where(close, jnp.where(state.gathered, GATHERED, LEFT_OVER), UNSEEN)
        return mates.astype(jnp.int32), food.astype(jnp.int32)

    def successors(self, state: Field, action: Array) -> tuple[Field, Array]:
        """One for every set of teammates that do nothing."""
        idle = np.array(list(product((False, True), repeat=self.teammates)))
        states = jax.vmap(lambda own: self.moved(state, action, own)[0])(jnp.asarray(idle))
        busy = jnp.asarray(~idle.any(axis=1), jnp.float32)
        lazy = self.kind == KINDS.index("lazy")
        return states, jnp.where(lazy, jnp.full(len(idle), 1 / len(idle), jnp.float32), busy)

    def code(self, state: Field) -> Array:
        cells = jnp.concatenate([state.own, state.mates.reshape(-1)])
        powers = (self.size ** np.arange(cells.shape[0])).astype(np.int32)
        gathered = jnp.sum(jnp.where(state.gathered, 2 ** np.arange(self.pieces), 0), dtype=jnp.int32)
        return cells @ powers + self.size ** cells.shape[0] * gathered

    def preferences(self, state: Field) -> Array:
        """Help with the heavy piece while a teammate goes for it, else gather the nearest piece of one's own level."""
        distance = _distance(state.own[None], self.food)
        heavy = self.levels > 1
        joined = jnp.zeros(self.pieces, bool).at[self.targets(state)].set(True)
        cost = distance + jnp.where(heavy, jnp.where(joined, -FAR, FAR), 0)
        cost = jnp.where(state.gathered, 4 * FAR, cost)
        target = self.food[jnp.argmin(cost)]
        return jax.nn.one_hot(towards(state.own[None], target[None])[0], len(ACTIONS), dtype=jnp.float32)

    def draw_state(self, state: Field) -> str:
        """The grid with the agent (A), teammates (1, 2, ...), light (o) and heavy (O) food."""
        rows = [["."] * self.size for _ in range(self.size)]
        for (across, along), level, gone in zip(
            np.asarray(self.food).tolist(), self.levels, state.gathered, strict=True
        ):
            if not bool(gone):
                rows[along][across] = "O" if int(level) > 1 else "o"
        places = [*np.asarray(state.mates).tolist(), np.asarray(state.own).tolist()]
        marks = [*(str(i + 1) for i in range(self.teammates)), "A"]
        for mark, (across, along) in zip(marks, places, strict=True):
            rows[along][across] = mark
        return "\n".join(" ".join(row) for row in rows)


def towards(places: Array, targets: Array) -> Array:
    """From places [M, 2] beside or on targets [M, 2]: load; else one step, first across, then along [M] int32."""
    across, along = (targets - places)[:, 0], (targets - places)[:, 1]
    vertical = jnp.where(along > 0, DOWN, UP)
    moving = jnp.where(across > 0, RIGHT, jnp.where(across < 0, LEFT, vertical))
    return jnp.where(_distance(places, targets) <= 1, LOAD, moving).astype(jnp.int32)


def _distance(here: Array, there: Array) -> Array:
    return jnp.sum(jnp.abs(here - there), axis=-1)


def places_of_food(size: int, food: int) -> np.ndarray:
    """Cells [F, 2] spread along the edges and the middle of a grid."""
    far = size - 2
    middle = size // 2
    cells = [(1, 1), (far, far), (far, 1), (1, far), (middle, middle)]
    return np.array(cells[:food], np.int32)


@register("foraging", summary="food of unknown weight, with teammates of an unknown kind", horizon=50)
def foraging(
    size: int = 6,
    agents: int = 2,
    food: int = 3,
    sight: int = 2,
    noise: float = 0.1,
    discount: float = 0.95,
    teammates: str = "greedy+sequential+nearest+lazy",
) -> SimulatorLibrary:
    """A model for each kind of teammates and each piece that may be the heavy one."""
    kinds = [part for part in teammates.split("+") if part]
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of teammates", kind, KINDS)
    for name, value, low, high in (("agents", agents, 2, 4), ("food", food, 1, 5), ("size", size, 4, 40)):
        if not low <= value <= high:
            raise JatpoError(f"{name} of foraging must be from {low} to {high}, got {value}")
    if size ** (2 * agents) * 2**food >= 2**31:
        raise JatpoError(
            f"foraging by {agents} on {size} x {size} cells has over 2^31 states: choose a smaller size"
        )
    if not 0 < noise < 1:
        raise JatpoError(f"noise must be in (0, 1), got {noise}")
    numbers, cells = (jnp.float32(noise), jnp.float32(discount)), jnp.asarray(places_of_food(size, food))
    models, labels = [], []
    for kind, heavy in product(kinds, range(food)):
        levels = jnp.ones(food, jnp.int32).at[heavy].set(agents)
        number = jnp.int32(KINDS.index(kind))
        models.append(Foraging(cells, levels, number, *numbers, size, agents - 1, sight))
        labels.append(f"{kind} {heavy}")
    return SimulatorLibrary.from_simulators(models, name="foraging", labels=labels)
