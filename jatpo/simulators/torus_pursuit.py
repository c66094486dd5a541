"""Pursuit on an N x N torus: the agent and one to three teammates corner a prey that moves at random.

A state holds where the others are as seen from the agent, each coordinate in 0..N-1, and whether the hunt is over. All
move at once. The task is a set of posts around the prey, one for each hunter; the hunt is won when every post is taken
and ends with the step after that, which earns 100. Any other step costs 1. Teammates are of one kind:

    greedy     heads for the nearest post, first across, then along; a tie goes to the task's first
    assigned   teammate i heads for post i + 1, whatever the others do

With `sensor` "cells" the agent sees where in the 3 x 3 cells around it each of the others is, as one number, and misses
it with probability `noise`: two hunters with that sensor are the paper's domain on a torus of this size. "window" gives
one bit for each cell of a square window and each of the others, and a bit is wrong with probability `noise`: with three
teammates and a window of 5 x 5 cells, 2^100 observations, and with 7 x 7 cells 2^196.
"""

from __future__ import annotations

import math
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

ACTIONS = ("up", "down", "left", "right", "stay")
STEPS = np.array([(0, -1), (0, 1), (-1, 0), (1, 0), (0, 0)], np.int32)
UP, DOWN, LEFT, RIGHT, STAY = range(5)
OWN = 4  # the middle of the 3 x 3 cells
SOLVED, WANDERING = 100.0, -1.0
TASKS = {
    2: (((0, -1), (0, 1)), ((-1, 0), (1, 0)), ((-1, 1), (1, -1)), ((-1, -1), (1, 1))),
    3: (
        ((0, -1), (-1, 0), (1, 0)),
        ((0, 1), (-1, 0), (1, 0)),
        ((-1, 1), (1, 1), (0, -1)),
        ((-1, -1), (1, -1), (0, 1)),
    ),
    4: (
        ((0, -1), (0, 1), (-1, 0), (1, 0)),
        ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ),
}  # by the number of hunters: the posts of every task, as seen from the prey
TEAMMATES = ("greedy", "assigned")
SENSORS = ("cells", "window")
BLIND = 0.1  # the share of guided starts that are drawn as any others


class Hunt(NamedTuple):
    """Where the others are, seen from the agent, in 0..N-1, and whether the hunt is over."""

    teammates: Array  # [M, 2] int32
    prey: Array  # [2] int32
    over: Array  # [] bool


@simulator_class
class TorusPursuit(Simulator):
    """One task and one kind of teammates."""

    posts: Any  # [M + 1, 2] int32
    assigned: Any  # [] bool
    noise: Any  # []
    discount: Any  # []
    size: int = fixed(default=5)  # N
    mates: int = fixed(default=1)  # M
    window: int = fixed(default=0)  # cells that the window reaches; 0: the sensor is "cells"

    lists_successors: ClassVar = True
    guides_starts: ClassVar = True
    actions: ClassVar = ACTIONS

    def initial(self, key: Array) -> Hunt:
        """Everybody anywhere, but not yet where the hunt is won."""

        def drawn(key: Array) -> Hunt:
            cells = jax.random.randint(key, (self.mates + 1, 2), 0, self.size, jnp.int32)
            return Hunt(cells[:-1], cells[-1], jnp.zeros((), bool))

        def again(carry: tuple[Array, Hunt]) -> tuple[Array, Hunt]:
            key = jax.random.fold_in(carry[0], 1)
            return key, drawn(key)

        return jax.lax.while_loop(lambda carry: self.captured(carry[1]), again, (key, drawn(key)))[1]

    def guided_start(self, key: Array, action: Array, observation: Array) -> tuple[Hunt, Array]:
        """Each of the others by itself, mostly a step away from where it may have been seen."""
        seen = jnp.exp(jax.nn.log_softmax(self._cell_logs(observation).reshape(self.mates + 1, -1)))
        seen = seen.reshape(-1, self.size, self.size)
        moves = STEPS[:, None] - STEPS[None]  # of the others, seen from the agent
        before = [
            jnp.stack([jnp.roll(seen, (-move[0], -move[1]), (1, 2)) for move in moves[:, own]])
            for own in range(len(ACTIONS))
        ]
        likely = jnp.mean(jnp.stack(before)[action], axis=0).reshape(self.mates + 1, -1)
        cells = self.size**2
        drawn, logs = draw_rows(key, (1 - BLIND) * likely + BLIND / cells)
        places = jnp.stack(jnp.divmod(drawn, self.size), axis=1).astype(jnp.int32)
        state = Hunt(places[:-1], places[-1], jnp.zeros((), bool))
        hunters = self.mates + 1
        starts = float(cells) ** hunters - math.factorial(hunters)  # all but those in which the hunt is won
        return state, jnp.where(self.captured(state), -jnp.inf, -math.log(starts) - jnp.sum(logs))

    def _cell_logs(self, observation: Array) -> Array:
        """The log likelihood of what is seen of each of the others, for every place that it may have [M + 1, N, N]."""
        places = np.stack(np.meshgrid(*[np.arange(self.size)] * 2, indexing="ij"), axis=-1).astype(np.int32)
        offset = np.asarray((places + self.size // 2) % self.size - self.size // 2)  # as `near`
        if not self.window:
            digits = observation // 9 ** jnp.arange(self.mates, -1, -1) % 9
            truth = np.where(
                (np.abs(offset) <= 1).all(-1), offset[..., 0] + 1 + 3 * (offset[..., 1] + 1), OWN
            )
            right = digits[:, None, None] == truth[None]
            missed = digits[:, None, None] == OWN
            return jnp.log(jnp.where(right, 1 - self.noise, 0) + jnp.where(missed, self.noise, 0))
        width, reach = 2 * self.window + 1, self.window
        inside = np.asarray((np.abs(offset) <= reach).all(-1))
        bit = np.where(inside, (offset[..., 1] + reach) * width + offset[..., 0] + reach, 0)
        gain = jnp.log1p(-self.noise) - jnp.log(self.noise)
        found = jnp.where(observation[:, bit], gain, -gain)
        base = jnp.sum(jnp.where(observation, jnp.log(self.noise), jnp.log1p(-self.noise)), axis=1)
        return base[:, None, None] + jnp.where(inside[None], found, 0)

    def step(self, key: Array, state: Hunt, action: Array) -> tuple[Hunt, Array, Array]:
        return self.moved(state, action, jax.random.randint(key, (), 0, len(ACTIONS), jnp.int32))

    def moved(self, state: Hunt, action: Array, prey_action: Array) -> tuple[Hunt, Array, Array]:
        """`step` with the prey's action [] given."""
        steps = jnp.asarray(STEPS)
        own, of_prey = steps[action], steps[prey_action]
        ways = steps[self.teammate_actions(state)]
        won = self.captured(state)
        teammates = (state.teammates + ways - own[None, :]) % self.size
        prey = (state.prey + of_prey - own) % self.size
        over = state.over | won
        arrived = Hunt(
            jnp.where(over, 0, teammates).astype(jnp.int32), jnp.where(over, 0, prey).astype(jnp.int32), over
        )
        reward = jnp.where(won, SOLVED, WANDERING) * (1 - state.over.astype(jnp.float32))
        return arrived, reward, over

    def final(self, state: Hunt) -> Array:
        return state.over

    def captured(self, state: Hunt) -> Array:
        """Whether the hunters take all posts [] bool."""
        hunters = jnp.concatenate([jnp.zeros((1, 2), jnp.int32), state.teammates])
        at = (hunters[:, None] - state.prey[None, None] - self.posts[None, :]) % self.size
        taken = jnp.any(jnp.all(at == 0, axis=2), axis=0)
        return jnp.all(taken) & ~state.over

    def near(self, offset: Array) -> Array:
        """Offsets [..., 2] brought to the side that is nearer, -(N // 2) to N // 2."""
        half = self.size // 2
        return (offset + half) % self.size - half

    def targets(self, state: Hunt) -> Array:
        """Where every teammate heads, seen from itself [M, 2]."""
        to_prey = self.near(state.prey[None] - state.teammates)
        ends = self.near(to_prey[:, None] + self.posts[None, :])  # [M, posts, 2]
        nearest = jnp.argmin(jnp.sum(jnp.abs(ends), axis=2), axis=1)
        chosen = jnp.where(self.assigned, jnp.arange(1, self.mates + 1), nearest)
        return jnp.take_along_axis(ends, chosen[:, None, None], axis=1)[:, 0]

    def teammate_actions(self, state: Hunt) -> Array:
        """What the teammates do [M] int32."""
        return heading(self.targets(state))

    def observe(self, key: Array, state: Hunt, action: Array) -> Array:
        if not self.window:
            missed = jax.random.bernoulli(key, self.noise, (self.mates + 1,))
            read = jnp.where(missed & ~state.over, OWN, self._cells(state))
            return jnp.sum(read * 9 ** jnp.arange(self.mates, -1, -1), dtype=jnp.int32)
        bits = self._bits(state)
        return bits ^ jax.random.bernoulli(key, self.noise, bits.shape)

    def log_observation(self, state: Hunt, action: Array, observation: Array) -> Array:
        if not self.window:
            truth = self._cells(state)
            digits = observation // 9 ** jnp.arange(self.mates, -1, -1) % 9
            noise = jnp.where(state.over, 0, self.noise)
            right = jnp.where(digits == truth, 1 - noise, 0) + jnp.where(digits == OWN, noise, 0)
            return jnp.sum(jnp.where(right > 0, jnp.log(jnp.where(right > 0, right, 1)), -jnp.inf))
        wrong = jnp.sum(self._bits(state) ^ observation).astype(jnp.float32)
        count = observation.size
        return wrong * jnp.log(self.noise) + (count - wrong) * jnp.log1p(-self.noise)

    def _others(self, state: Hunt) -> Array:
        return self.near(jnp.concatenate([state.teammates, state.prey[None]]))

    def _cells(self, state: Hunt) -> Array:
        """Which of the 3 x 3 cells each of the others is in [M + 1]; the middle stands for none."""
        others = self._others(state)
        seen = jnp.all(jnp.abs(others) <= 1, axis=1)
        place = jnp.where(seen, (others[:, 0] + 1) + 3 * (others[:, 1] + 1), OWN)
        return jnp.where(state.over, 0, place)

    def _bits(self, state: Hunt) -> Array:
        """Who is in which cell of the window [M + 1, cells] bool."""
        reach = np.arange(-self.window, self.window + 1)
        cells = np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2).astype(np.int32)
        here = jnp.all(self._others(state)[:, None] == cells[None], axis=2)
        return here & ~state.over

    def successors(self, state: Hunt, action: Array) -> tuple[Hunt, Array]:
        """One for each action of the prey."""
        moved = jax.vmap(self.moved, in_axes=(None, None, 0))
        states = moved(state, action, jnp.arange(len(ACTIONS), dtype=jnp.int32))[0]
        return states, jnp.full(len(ACTIONS), 1 / len(ACTIONS), jnp.float32)

    def code(self, state: Hunt) -> Array:
        """The digits of all coordinates to base N; one more number for the end."""
        digits = jnp.concatenate([state.teammates, state.prey[None]]).reshape(-1)
        powers = self.size ** np.arange(2 * self.mates + 1, -1, -1)
        return jnp.where(state.over, self.size ** (2 * self.mates + 2), digits @ powers.astype(np.int32))

    def preferences(self, state: Hunt) -> Array:
        """Head for the post that the teammates leave free; of several the nearest."""
        to_prey = self.near(state.prey)
        ends = self.near(to_prey[None] + self.posts)  # [posts, 2]
        aimed = self.near(state.teammates + self.targets(state))  # [M, 2]
        taken = jnp.any(jnp.all(aimed[:, None] == ends[None], axis=2), axis=0)
        cost = jnp.sum(jnp.abs(ends), axis=1) + jnp.where(taken, 4 * self.size, 0)
        return jax.nn.one_hot(heading(ends[jnp.argmin(cost)][None])[0], len(ACTIONS), dtype=jnp.float32)

    def draw_state(self, state: Hunt) -> str:
        """The torus with the agent (A) in the middle, teammates (1, 2, ...) and the prey (P)."""
        if bool(state.over):
            return "the hunt is over"
        half = self.size // 2
        rows = [["."] * self.size for _ in range(self.size)]
        rows[half][half] = "A"
        marks = [*(str(i + 1) for i in range(self.mates)), "P"]
        for mark, (across, along) in zip(marks, np.asarray(self._others(state)).tolist(), strict=True):
            rows[along + half][across + half] = mark
        return "\n".join(" ".join(row) for row in rows)


def heading(offsets: Array) -> Array:
    """The actions [M] one step along offsets [M, 2]: across if that is not 0, else along, else stay."""
    across, along = offsets[:, 0], offsets[:, 1]
    vertical = jnp.where(along > 0, DOWN, jnp.where(along < 0, UP, STAY))
    return jnp.where(across > 0, RIGHT, jnp.where(across < 0, LEFT, vertical)).astype(jnp.int32)


@register(
    "torus-pursuit", summary="hunters corner a prey on a torus; task and teammates are unknown", horizon=75
)
def torus_pursuit(
    size: int = 10,
    agents: int = 3,
    sensor: str = "window",
    reach: int = 2,
    noise: float = 0.05,
    discount: float = 0.95,
    teammates: str = "greedy+assigned",
) -> SimulatorLibrary:
    """A model for each kind of teammates and each task."""
    kinds = [part for part in teammates.split("+") if part]
    for kind in kinds:
        if kind not in TEAMMATES:
            raise unknown("kind of teammates", kind, TEAMMATES)
    if sensor not in SENSORS:
        raise unknown("sensor", sensor, SENSORS)
    if agents not in TASKS:
        raise JatpoError(f"a hunt by {agents} agents is not possible: choose from 2 to {max(TASKS)}")
    if size < 3 or size > 35:
        raise JatpoError(f"a torus of size {size} is not possible: choose from 3 to 35")
    if sensor == "window" and not (1 <= reach <= size // 2):
        raise JatpoError(f"a window that reaches {reach} cells does not fit: choose from 1 to {size // 2}")
    if not 0 < noise < 1:
        raise JatpoError(f"noise must be in (0, 1), got {noise}")
    models, labels = [], []
    for kind in kinds:
        for number, posts in enumerate(TASKS[agents]):
            window = reach if sensor == "window" else 0
            numbers = (jnp.float32(noise), jnp.float32(discount))
            models.append(
                TorusPursuit(
                    jnp.array(posts, jnp.int32),
                    jnp.array(kind == "assigned"),
                    *numbers,
                    size,
                    agents - 1,
                    window,
                )
            )
            labels.append(f"{kind} {number}")
    return SimulatorLibrary.from_simulators(models, name="torus-pursuit", labels=labels)
