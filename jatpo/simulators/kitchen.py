"""Overcooked with a limited view: a helper (the agent) hands onions and plates over a counter to a cook (the teammate).

The counter has `rows` rows with a place for one thing in each. The helper takes onions from the supply of the top row
and plates from that of the bottom one; the cook's pan is at the top and the hatch for soups at the bottom. Three onions
make a soup, a plate takes it out of the pan, and the step after the cook has delivered it earns 100 and ends the
episode. Any other step costs 1. The cook follows a habit, and with probability `noise` does anything instead:

    quick    fetches what the pan needs from the row that is nearest to itself
    upper    fetches it from the top row only, and waits there
    lower    fetches it from the bottom row only, and waits there
    random   does anything

The helper sees its own row, its hand, what lies on the counter in its row, and the cook's hand if the cook is in the
same row. With two rows the moves and what is seen are those of the table `overcooked:view=row`; the cooks are not.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError, unknown
from jatpo.simulators.simulator_catalogue import register
from jatpo.simulators.simulator_library import SimulatorLibrary
from jatpo.simulators.simulator_protocol import Simulator, fixed, simulator_class

ACTIONS = ("up", "down", "noop", "act")
UP, DOWN, NOOP, ACT = range(4)
ITEMS = ("nothing", "onion", "plate", "soup")
NOTHING, ONION, PLATE, SOUP = range(4)
ONIONS = 3  # of a soup; a pan with that many is cooked
COOKS = ("quick", "upper", "lower", "random")
OUT_OF_SIGHT = len(ITEMS)
DELIVERED, WORKING = 100.0, -1.0
FAR = 1000  # more than any distance


class Service(NamedTuple):
    """Where helper and cook are, what they hold, what lies on the counter, and how far the soup is."""

    helper: Array  # [] int32, a row
    cook: Array  # [] int32
    hand: Array  # [] int32, of `ITEMS`
    cook_hand: Array  # [] int32
    counter: Array  # [R] int32
    pan: Array  # [] int32, the onions in it
    delivered: Array  # [] bool
    over: Array  # [] bool


@simulator_class
class Kitchen(Simulator):
    """One habit of the cook."""

    habit: Any  # [] int32, of `COOKS`
    noise: Any  # []
    discount: Any  # []
    rows: int = fixed(default=2)  # R

    lists_successors: ClassVar = True
    lists_starts: ClassVar = True
    actions: ClassVar = ACTIONS

    def initial(self, key: Array) -> Service:
        helper, cook = jax.random.randint(key, (2,), 0, self.rows, jnp.int32)
        return self._empty(helper, cook)

    def starts(self) -> tuple[Service, Array]:
        helper, cook = jnp.divmod(jnp.arange(self.rows**2, dtype=jnp.int32), self.rows)
        return jax.vmap(self._empty)(helper, cook), jnp.full(self.rows**2, 1 / self.rows**2, jnp.float32)

    def _empty(self, helper: Array, cook: Array) -> Service:
        none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return Service(helper, cook, none, none, jnp.zeros(self.rows, jnp.int32), none, no, no)

    def step(self, key: Array, state: Service, action: Array) -> tuple[Service, Array, Array]:
        """One uniform number decides whether the cook does anything, and what."""
        uniform, share = jax.random.uniform(key, (), jnp.float32), self._share()
        anything = jnp.minimum(len(ACTIONS) * uniform / share, len(ACTIONS) - 1).astype(jnp.int32)
        return self.moved(state, action, jnp.where(uniform < share, anything, self.cook_habit(state)))

    def successors(self, state: Service, action: Array) -> tuple[Service, Array]:
        """One for each action of the cook."""
        replies = jnp.arange(len(ACTIONS), dtype=jnp.int32)
        states = jax.vmap(lambda reply: self.moved(state, action, reply)[0])(replies)
        return states, self.cook_probabilities(state)

    def moved(self, state: Service, action: Array, reply: Array) -> tuple[Service, Array, Array]:
        """`step` with the cook's action [] given."""
        top, bottom = 0, self.rows - 1
        before, here, there = state.counter, state.counter[state.helper], state.counter[state.cook]
        acts, cook_acts = action == ACT, reply == ACT
        gives = acts & (state.hand != NOTHING) & (here == NOTHING)
        supply = jnp.where(state.helper == top, ONION, jnp.where(state.helper == bottom, PLATE, NOTHING))
        taken = jnp.where(acts & (state.hand == NOTHING), supply, state.hand)
        hand = jnp.where(gives, NOTHING, taken)
        counter = self._laid(before, state.helper, jnp.where(gives, state.hand, here))
        holds, at_pan, cooked = state.cook_hand, state.cook == top, state.pan == ONIONS
        takes = cook_acts & (holds == NOTHING) & (there != NOTHING)
        serves = cook_acts & (holds == PLATE) & at_pan & cooked
        adds = cook_acts & (holds == ONION) & at_pan & ~cooked
        free = (there == NOTHING) & ~(gives & (state.helper == state.cook))
        lays = cook_acts & ((holds == ONION) | (holds == PLATE)) & ~serves & ~adds & free
        left = jnp.where(takes, NOTHING, jnp.where(lays, holds, counter[state.cook]))
        counter = self._laid(counter, state.cook, left)
        cook_hand = jnp.where(takes, there, jnp.where(serves, SOUP, jnp.where(adds | lays, NOTHING, holds)))
        pan = jnp.where(serves, 0, state.pan + adds.astype(jnp.int32))
        delivered = cook_acts & (holds == SOUP) & (state.cook == bottom)
        over = state.over | state.delivered
        arrived = Service(
            self._row(action, state.helper),
            self._row(reply, state.cook),
            hand,
            cook_hand,
            counter,
            pan,
            delivered,
            over,
        )
        closed = self._empty(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        after = jax.tree.map(lambda new, end: jnp.where(over | delivered, end, new), arrived, closed)
        after = after._replace(delivered=delivered & ~over, over=over)
        reward = jnp.where(state.delivered, DELIVERED, WORKING) * (1 - state.over.astype(jnp.float32))
        return after, reward, over

    def _laid(self, counter: Array, row: Array, thing: Array) -> Array:
        """The counter [R] with a thing in a row, without a scatter."""
        return jnp.where(jnp.arange(self.rows, dtype=jnp.int32) == row, thing, counter)

    def _row(self, action: Array, row: Array) -> Array:
        step = jnp.where(action == UP, -1, jnp.where(action == DOWN, 1, 0))
        return jnp.clip(row + step, 0, self.rows - 1).astype(jnp.int32)

    def final(self, state: Service) -> Array:
        return state.over

    def cook_probabilities(self, state: Service) -> Array:
        """What the cook does [A]."""
        even = 1 / len(ACTIONS)
        habit = jax.nn.one_hot(self.cook_habit(state), len(ACTIONS), dtype=jnp.float32)
        share = self._share()
        return (1 - share) * habit + share * even

    def _share(self) -> Array:
        """How often the cook does anything []."""
        return jnp.where(self.habit == COOKS.index("random"), 1, self.noise)

    def cook_habit(self, state: Service) -> Array:
        """What the cook does by its habit []: brings what it holds to its place, else fetches what the pan needs."""
        top, bottom, holds = 0, self.rows - 1, state.cook_hand
        cooked, rows = state.pan == ONIONS, np.arange(self.rows)
        wanted = jnp.where(cooked, PLATE, ONION)
        upper, lower = self.habit == COOKS.index("upper"), self.habit == COOKS.index("lower")
        allowed = jnp.where(upper, rows == top, jnp.where(lower, rows == bottom, True))
        place, there = _nearest(state.cook, allowed & (state.counter == wanted))
        waiting = jnp.where(upper, top, jnp.where(lower, bottom, state.cook))
        room, _ = _nearest(state.cook, state.counter == NOTHING)
        useful = holds == wanted
        goal = jnp.where(holds == NOTHING, jnp.where(there, place, waiting), jnp.where(useful, top, room))
        goal = jnp.where(holds == SOUP, bottom, goal)
        idle = (holds == NOTHING) & ~there
        return _towards(state.cook, goal, jnp.where(idle, NOOP, ACT))

    def preferences(self, state: Service) -> Array:
        """Bring what the soup still lacks to the row from which the cook takes it."""
        top, bottom, holds = 0, self.rows - 1, state.hand
        under_way = _count(state.counter == ONION) + _count(state.cook_hand == ONION)
        enough = state.pan + under_way >= ONIONS
        plates = _count(state.counter == PLATE) + _count(state.cook_hand >= PLATE)  # a soup took one
        free = state.counter == NOTHING
        upper, lower = self.habit == COOKS.index("upper"), self.habit == COOKS.index("lower")
        room, some = _nearest(state.helper, free)
        given = jnp.where(upper, top, jnp.where(lower, bottom, jnp.where(some, room, state.helper)))
        fetch = jnp.where(enough, bottom, top)
        goal = jnp.where(holds == NOTHING, fetch, given)
        nothing_to_do = (holds == NOTHING) & enough & (plates > 0)
        last = jnp.where(nothing_to_do | ((holds != NOTHING) & ~free[state.helper]), NOOP, ACT)
        return jax.nn.one_hot(_towards(state.helper, goal, last), len(ACTIONS), dtype=jnp.float32)

    def observe(self, key: Array, state: Service, action: Array) -> Array:
        """The helper's row, its hand, the cook's hand, what lies in the row, and whether the soup is delivered [5]."""
        del key, action
        cook = jnp.where(state.cook == state.helper, state.cook_hand, OUT_OF_SIGHT)
        end = state.delivered.astype(jnp.int32) + 2 * state.over.astype(jnp.int32)
        return jnp.stack([state.helper, state.hand, cook, state.counter[state.helper], end]).astype(jnp.int32)

    def log_observation(self, state: Service, action: Array, observation: Array) -> Array:
        same = jnp.all(self.observe(jax.random.key(0), state, action) == observation)
        return jnp.where(same, 0.0, -jnp.inf)

    def code(self, state: Service) -> Array:
        digits = [state.helper, state.cook, state.hand, state.cook_hand, state.pan, *state.counter]
        bases = [self.rows, self.rows, 3, 4, ONIONS + 1, *([3] * self.rows)]
        number = jnp.zeros((), jnp.int32)
        for digit, base in zip(digits, bases, strict=True):
            number = number * base + digit
        end = states_of(self.rows)
        return jnp.where(state.over, end + 1, jnp.where(state.delivered, end, number)).astype(jnp.int32)

    def features(self, observation: Array) -> Array:
        sizes = (self.rows, 3, OUT_OF_SIGHT + 1, 3, 3)
        return jnp.concatenate(
            [jax.nn.one_hot(part, size) for part, size in zip(observation, sizes, strict=True)]
        )

    def draw_state(self, state: Service) -> str:
        """The rows: the helper with its hand, the counter, the cook with its hand; pan and hatch."""
        if bool(state.over) or bool(state.delivered):
            return "the soup is delivered"
        lines = []
        for row in range(self.rows):
            own = f"A {ITEMS[int(state.hand)]}" if int(state.helper) == row else ""
            other = f"1 {ITEMS[int(state.cook_hand)]}" if int(state.cook) == row else ""
            laid = ITEMS[int(state.counter[row])] if int(state.counter[row]) else "."
            supply = "onions" if row == 0 else "plates" if row == self.rows - 1 else ""
            place = (
                f"pan {int(state.pan)} of {ONIONS}" if row == 0 else "hatch" if row == self.rows - 1 else ""
            )
            lines.append(f"{supply:6} | {own:9} | {laid:6} | {other:9} | {place}".rstrip())
        return "\n".join(lines)


def states_of(rows: int) -> int:
    """How many states there are before the soup is delivered."""
    return rows**2 * 3 * 4 * (ONIONS + 1) * 3**rows


def _count(wanted: Array) -> Array:
    return jnp.sum(wanted, dtype=jnp.int32)


def _nearest(row: Array, wanted: Array) -> tuple[Array, Array]:
    """The row of those `wanted` [R] that is nearest to `row`, and whether there is one."""
    distance = jnp.abs(jnp.arange(wanted.shape[0], dtype=jnp.int32) - row)
    return jnp.argmin(jnp.where(wanted, distance, FAR)).astype(jnp.int32), jnp.any(wanted)


def _towards(row: Array, goal: Array, last: Array) -> Array:
    """A step to the row `goal`, and `last` when it is reached []."""
    return jnp.where(goal < row, UP, jnp.where(goal > row, DOWN, last)).astype(jnp.int32)


@register(
    "kitchen",
    summary="overcooked with a limited view and any number of rows; the cook is unknown",
    horizon=60,
)
def kitchen(
    rows: int = 3, noise: float = 0.1, discount: float = 0.95, cooks: str = "quick+upper+lower+random"
) -> SimulatorLibrary:
    """A model for each habit of the cook."""
    habits = [part for part in cooks.split("+") if part]
    for habit in habits:
        if habit not in COOKS:
            raise unknown("cook", habit, COOKS)
    if not 2 <= rows <= 11:
        raise JatpoError(f"rows of kitchen must be from 2 to 11, got {rows}")
    if not 0 < noise < 1:
        raise JatpoError(f"noise must be in (0, 1), got {noise}")
    numbers = jnp.float32(noise), jnp.float32(discount)
    models = [Kitchen(jnp.int32(COOKS.index(habit)), *numbers, rows) for habit in habits]
    return SimulatorLibrary.from_simulators(
        models, name="kitchen", labels=[f"{habit} cook" for habit in habits]
    )
