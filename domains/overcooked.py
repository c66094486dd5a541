"""Overcooked: a helper (the ad hoc agent) hands onions and plates over a counter to a cook (the teammate).

A state is (helper row, cook row, helper's hand, cook's hand, top balcony, bottom balcony, pan), then
"delivered", then the absorbing one. Everything is seen, unless `view` is "row": then the helper sees its own row and
hand, the balcony of that row, and the cook only if it is in the same row.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Annotated, Literal

import numpy as np

from jatpo.domains.description import Coordinates
from jatpo.domains.domain import Probability, register
from jatpo.domains.mmdp import ABSORBING, MMDP
from jatpo.domains.places import Place, Stage
from jatpo.domains.structure import World
from jatpo.errors import unknown

Cook = Literal["optimal", "upper", "lower", "random"]
COOKS: tuple[Cook, ...] = ("optimal", "upper", "lower", "random")
View = Literal["all", "row"]
ACTIONS = ("up", "down", "noop", "act")
UP, DOWN, _, ACT = range(4)

ROWS = ("top", "bottom")
TOP, BOTTOM = range(2)
ITEMS = ("nothing", "onion", "plate")  # in the helper's hand and on the balconies
NOTHING, ONION, PLATE = range(3)
COOK_ITEMS = ("soup", *ITEMS)  # the same items one number higher
SOUP = 0
PANS = ("cooked", "0", "1", "2")
COOKED, EMPTY = 0, 1
SHAPE = (2, 2, 3, 4, 3, 3, 4)
DELIVERED = "delivered"
OUT_OF_SIGHT = "out of sight"
_SIZE = int(np.prod(SHAPE))


@lru_cache(maxsize=1)
def _states() -> np.ndarray:
    """The seven variables of every state but the last two, [7, 1728]."""
    return np.array(np.unravel_index(np.arange(_SIZE), SHAPE))


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    """State names without the absorbing one."""
    described = [
        f"helper {ROWS[hr]} {ITEMS[hh]} cook {ROWS[cr]} {COOK_ITEMS[ch]} "
        f"balconies {ITEMS[top]} {ITEMS[bottom]} pan {PANS[pan]}"
        for hr, cr, hh, ch, top, bottom, pan in _states().T.tolist()
    ]
    return (*described, DELIVERED)


def _step(helper: int, cook: int) -> np.ndarray:
    """The next state of every state for one joint action, [1729]."""
    helper_row, cook_row, hand, cook_hand, top, bottom, pan = _states().copy()
    balconies = np.stack([top, bottom])
    before, everyone = balconies.copy(), np.arange(_SIZE)
    empty_before = before == NOTHING
    delivered = np.zeros(_SIZE, bool)
    put = np.zeros((2, _SIZE), bool)
    if helper == ACT:
        gives = (hand != NOTHING) & empty_before[helper_row, everyone]
        put[helper_row[gives], everyone[gives]] = True
        balconies[helper_row[gives], everyone[gives]] = hand[gives]
        supply = np.where(helper_row == TOP, ONION, PLATE)
        hand = np.where(gives, NOTHING, np.where(hand == NOTHING, supply, hand))
    if cook == ACT:
        holds = cook_hand - 1  # the same numbers as ITEMS; soup is -1
        here = before[cook_row, everyone]
        takes = (holds == NOTHING) & (here != NOTHING)
        serves = (holds == PLATE) & (cook_row == TOP) & (pan == COOKED)
        adds = (holds == ONION) & (cook_row == TOP) & (pan != COOKED)
        delivered = (cook_hand == SOUP) & (cook_row == BOTTOM)
        free = empty_before[cook_row, everyone] & ~put[cook_row, everyone]
        lays = ((holds == ONION) | (holds == PLATE)) & ~serves & ~adds & free
        balconies[cook_row[takes], everyone[takes]] = NOTHING
        balconies[cook_row[lays], everyone[lays]] = holds[lays]
        pan = np.where(serves, EMPTY, np.where(adds, (pan + 1) % len(PANS), pan))
        cook_hand = np.select([takes, serves, adds | lays], [here + 1, SOUP, NOTHING + 1], cook_hand)
    rows = [_row(helper, helper_row), _row(cook, cook_row)]
    after = np.ravel_multi_index((*rows, hand, cook_hand, *balconies, pan), SHAPE)
    return np.append(np.where(delivered, _SIZE, after), _SIZE)


def _row(action: int, row: np.ndarray) -> np.ndarray:
    return np.full_like(row, TOP) if action == UP else np.full_like(row, BOTTOM) if action == DOWN else row


def kitchen(discount: float) -> MMDP:
    """The joint dynamics of helper and cook; deterministic."""
    successors = np.array([[_step(helper, cook) for cook in range(4)] for helper in range(4)])
    everything_empty = np.array([NOTHING, NOTHING + 1, NOTHING, NOTHING, EMPTY])
    empty = (everything_empty == _states()[2:].T).all(axis=1)
    return MMDP.episodic(
        states=_names(),
        actions=ACTIONS,
        teammate_actions=ACTIONS,
        successors=successors[..., None],
        probabilities=np.ones(1),
        solved=np.append(np.zeros(_SIZE, bool), True),
        initial=np.append(empty / empty.sum(), 0.0),
        discount=discount,
    )


def cook_policy(cook: Cook, mmdp: MMDP, stubborn_mix: float, seed: int) -> np.ndarray:
    """A cook's policy, [4, X, 4]; a stubborn one depends on the helper's action through its coin flips."""
    shape = (len(ACTIONS), len(mmdp.states), len(ACTIONS))
    if cook == "random":
        return np.full(shape, 1 / len(ACTIONS))
    optimal = np.broadcast_to(mmdp.value_iteration().marginal_teammate(), shape)
    if cook == "optimal":
        return optimal
    _, row, _, hand, *_ = _states()
    goal_row, step = (TOP, UP) if cook == "upper" else (BOTTOM, DOWN)
    insists = np.append(hand - 1 == NOTHING, [False, False])
    habit = np.eye(len(ACTIONS))[np.append(np.where(row == goal_row, ACT, step), [0, 0])]
    stubborn = np.where(insists[:, None], habit, optimal)
    coins = np.random.default_rng([seed, COOKS.index(cook)]).random(shape[:2]) < stubborn_mix
    return np.where(coins[..., None], stubborn, optimal)


def _everything_seen(num_states: int) -> Coordinates:
    actions, states = np.divmod(np.arange(len(ACTIONS) * num_states), num_states)
    return actions, states, states, np.ones(len(states))


def _row_seen(num_states: int) -> tuple[Coordinates, tuple[str, ...]]:
    """O of the view of one row, and the names of its observations."""
    helper_row, cook_row, hand, cook_hand, top, bottom, _ = _states()
    cook = np.where(cook_row == helper_row, cook_hand, len(COOK_ITEMS))  # the last one: out of sight
    balcony = np.where(helper_row == TOP, top, bottom)
    parts = (ROWS, ITEMS, (*COOK_ITEMS, OUT_OF_SIGHT), ITEMS)
    shape = tuple(map(len, parts))
    inside = np.ravel_multi_index((helper_row, hand, cook, balcony), shape)
    seen = np.append(inside, int(np.prod(shape)) + np.arange(num_states - _SIZE))
    names = tuple(
        f"helper {row} {item} cook {other} balcony {laid}" for row, item, other, laid in product(*parts)
    )
    actions, states, _, ones = _everything_seen(num_states)
    return (actions, states, seen[states], ones), (*names, DELIVERED, ABSORBING)


# The picture: supply, helper, balconies, cook, and pan or hatch, in two rows.
_COLUMNS = ("supply", "floor", "counter", "floor", "device")


def _stage() -> Stage:
    names = {(0, 0): "onions", (0, 1): "plates", (2, 0): "top", (2, 1): "bottom"}
    names |= {(4, 0): "pan", (4, 1): "serve"}
    places = tuple(
        Place(x, y, "goal" if (x, y) == (4, 1) else _COLUMNS[x], names.get((x, y), ""))
        for y, x in product(range(2), range(5))
    )
    states = _states()
    off = np.array([-1, -1])
    positions = {"agent": np.append(5 * states[0] + 1, off), "teammate": np.append(5 * states[1] + 3, off)}

    def marks(state: int) -> dict[int, str]:
        if state >= _SIZE:
            return {9: "delivered"} if state == _SIZE else {}
        top, bottom, pan = states[4:, state].tolist()
        pan_text = "cooked" if pan == COOKED else f"{PANS[pan]} of 3"
        laid = {place: ITEMS[item] for place, item in ((2, top), (7, bottom)) if item != NOTHING}
        return laid | {4: pan_text}

    def hands(state: int) -> dict[str, str]:
        if state >= _SIZE:
            return {}
        held = {"agent": ITEMS[states[2, state]], "teammate": COOK_ITEMS[states[3, state]]}
        return {who: item for who, item in held.items() if item != "nothing"}

    return Stage(places, positions, marks=marks, hands=hands, roles={"agent": "helper", "teammate": "cook"})


def _labels(cooks: tuple[str, ...], **_: object) -> tuple[str, ...]:
    return tuple(f"{cook} cook" for cook in cooks)


@register(
    "overcooked",
    summary="a helper hands onions and plates to a cook",
    models=4,
    horizon=50,
    beliefs=1800,
    labels=_labels,
    as_written={"stubborn_mix": 1.0},
)
def overcooked(
    model: int,
    *,
    cooks: Annotated[tuple[Cook, ...], "the models: one kind of cook each"] = COOKS,
    discount: Annotated[Probability, "discount"] = 0.95,
    stubborn_mix: Annotated[
        Probability,
        "probability that a row (helper's action, state) of a stubborn cook is stubborn, else optimal",
    ] = 0.5,
    seed: Annotated[int, "seed of those coins"] = 0,
    view: Annotated[View, "all: everything is seen; row: only what is in the helper's row"] = "all",
) -> World:
    """The kitchen with one kind of cook."""
    if cooks[model] not in COOKS:
        raise unknown("cook", str(cooks[model]), COOKS)
    mmdp = kitchen(discount)
    size = len(mmdp.states)
    sensor, observations = (_everything_seen(size), mmdp.states) if view == "all" else _row_seen(size)
    return World(
        label=f"{cooks[model]} cook",
        variables={
            "helper row": ROWS,
            "cook row": ROWS,
            "helper hand": ITEMS,
            "cook hand": COOK_ITEMS,
            "top balcony": ITEMS,
            "bottom balcony": ITEMS,
            "pan": PANS,
        },
        mmdp=mmdp,
        policy=lambda: cook_policy(cooks[model], mmdp, stubborn_mix, seed),
        sensor=sensor,
        observations=observations,
        stage=_stage(),
    )
