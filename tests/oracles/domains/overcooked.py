"""Overcooked: a helper (the ad hoc agent) hands onions and plates over two balconies to a cook."""

from functools import cache
from itertools import product

from oracles.domains.planning import optimal_joint_actions, teammate_part
from oracles.domains.transcription import Transcription, assemble, gather, uniform

ACTIONS = ["up", "down", "noop", "act"]
ROWS = ["top", "bottom"]
ITEMS = ["nothing", "onion", "plate"]
COOK_ITEMS = ["soup", "nothing", "onion", "plate"]
PANS = ["cooked", "0", "1", "2"]
DELIVERED = "delivered"
TEAMMATES = ["optimal", "upper", "lower", "random"]


def walk(row: str, action: str) -> str:
    return {"up": "top", "down": "bottom"}.get(action, row)


def joint_step(situation, own: str, theirs: str):
    """The situation after both acted; balconies are read as they were at the start of the step."""
    helper, cook, helper_hand, cook_hand, top, bottom, pan = situation
    before = {"top": top, "bottom": bottom}
    after = dict(before)
    helper_put_on = None

    if own == "act":
        if helper_hand == "nothing":
            helper_hand = "onion" if helper == "top" else "plate"
        elif before[helper] == "nothing":
            after[helper] = helper_hand
            helper_hand = "nothing"
            helper_put_on = helper

    if theirs == "act":
        if cook_hand == "nothing":
            if before[cook] != "nothing":
                cook_hand = before[cook]
                after[cook] = "nothing"
        elif cook_hand == "plate" and cook == "top" and pan == "cooked":
            cook_hand, pan = "soup", "0"
        elif cook_hand == "onion" and cook == "top" and pan != "cooked":
            cook_hand, pan = "nothing", {"0": "1", "1": "2", "2": "cooked"}[pan]
        elif cook_hand == "soup" and cook == "bottom":
            return DELIVERED
        elif cook_hand == "soup" and cook == "top":
            pass
        elif before[cook] == "nothing" and helper_put_on != cook:
            after[cook] = cook_hand
            cook_hand = "nothing"

    return (walk(helper, own), walk(cook, theirs), helper_hand, cook_hand, after["top"], after["bottom"], pan)


def situations() -> list:
    """The 1728 situations, last variable fastest, then delivered."""
    return [*product(ROWS, ROWS, ITEMS, COOK_ITEMS, ITEMS, ITEMS, PANS), DELIVERED]


def name_of(situation) -> str:
    if situation == DELIVERED:
        return DELIVERED
    helper, cook, helper_hand, cook_hand, top, bottom, pan = situation
    return f"helper {helper} {helper_hand} cook {cook} {cook_hand} balconies {top} {bottom} pan {pan}"


@cache
def optimal_policy() -> dict:
    """{situation: {cook action: probability}} of the optimal joint policy."""

    def successors(situation, joint):
        if situation in (DELIVERED, "absorbing"):
            return {"absorbing": 1.0}
        return {joint_step(situation, *joint): 1.0}

    def reward(situation):
        return {DELIVERED: 100.0, "absorbing": 0.0}.get(situation, -1.0)

    joint = list(product(ACTIONS, repeat=2))
    return teammate_part(optimal_joint_actions([*situations(), "absorbing"], joint, successors, reward, 0.95))


def stubborn_chances(situation, side: str) -> dict[str, float]:
    """With an empty hand: to the row `side`, and once there, act; otherwise the optimal policy."""
    cook, cook_hand = situation[1], situation[3]
    if cook_hand != "nothing":
        return optimal_policy()[situation]
    if cook == side:
        return {"act": 1.0}
    return {"up" if side == "top" else "down": 1.0}


def transcribe(model: int, rules: str) -> Transcription:
    """Under as_run, upper and lower toss a coin per row of P that the rules do not fix: see `options`."""
    teammate = TEAMMATES[model]
    if rules == "as_run" and teammate in ("upper", "lower"):
        raise ValueError("the rows of this model depend on a coin: use options(model)")
    if teammate == "optimal":
        return _with_cook(lambda situation: optimal_policy()[situation])
    if teammate == "random":
        return _with_cook(lambda situation: uniform(ACTIONS))
    side = "top" if teammate == "upper" else "bottom"
    return _with_cook(lambda situation: stubborn_chances(situation, side))


def options(model: int) -> tuple[Transcription, Transcription]:
    """The two kinds of row among which the coin of `as_run` chooses: (stubborn, optimal)."""
    return transcribe(model, "as_written"), transcribe(0, "as_run")


def _with_cook(cook_chances) -> Transcription:
    def step(situation, action):
        chances = cook_chances(situation)
        return gather((joint_step(situation, action, theirs), p) for theirs, p in chances.items())

    everything_empty = [(h, c, "nothing", "nothing", "nothing", "nothing", "0") for h in ROWS for c in ROWS]
    names = [*(name_of(situation) for situation in situations()), "absorbing"]
    return assemble(
        situations(),
        name_of,
        lambda situation: situation == DELIVERED,
        step,
        lambda action, situation: {name_of(situation): 1.0},
        uniform(everything_empty),
        actions=ACTIONS,
        observations=names,
        observation_absorbing="absorbing",
        discount=0.95,
    )
