"""The abandoned power plant: a robot (the ad hoc agent) and a human explore (model 0) or clean (model 1)."""

from itertools import product

from oracles.domains.planning import optimal_joint_actions
from oracles.domains.transcription import Transcription, assemble, gather

ROOMS = range(5)
NEIGHBOURS = {0: [1], 1: [0, 2, 3], 2: [1], 3: [1, 4], 4: [3]}
ROOMS_OF_INTEREST = [(0, 1, 4), (2, 4)]  # exploration, cleanup
BASE_ACTIONS = ["first", "second", "third", "stay"]
ACTIONS = [*BASE_ACTIONS, "locate-human", "locate-robot"]
SYMBOLS = ["-1", "0", "1", "2", "3", "4"]
DISCOUNT = {"as_run": 0.90, "as_written": 0.95}


def destination(room: int, action: str) -> int:
    """The room a move leads to; a neighbour that does not exist becomes the lowest."""
    if action not in ("first", "second", "third"):
        return room
    neighbours = NEIGHBOURS[room]
    wanted = ["first", "second", "third"].index(action)
    return neighbours[wanted] if wanted < len(neighbours) else neighbours[0]


def updated(robot: int, human: int, bits: tuple, model: int) -> tuple:
    """The bits once the two stand in their rooms: explored by either, cleaned by both."""
    after = []
    for room, bit in zip(ROOMS_OF_INTEREST[model], bits, strict=True):
        present = (robot == room, human == room)
        done = any(present) if model == 0 else all(present)
        after.append(1 if bit or done else 0)
    return tuple(after)


def joint_step(situation: tuple, own: str, theirs: str, model: int, epsilon: float) -> dict:
    robot, human, bits = situation
    human_after = destination(human, theirs)
    moved = destination(robot, own)
    outcomes = []
    for robot_after, p in [(moved, 1.0 - epsilon), (robot, epsilon)]:
        outcomes.append(((robot_after, human_after, updated(robot_after, human_after, bits, model)), p))
    return gather(outcomes)


def human_policy(situations: list, model: int, epsilon: float, discount: float) -> dict[tuple, str]:
    """The human's part of the first optimal joint action in robot-major order."""

    def successors(situation, joint):
        if situation == "absorbing" or all(situation[2]):
            return {"absorbing": 1.0}
        return joint_step(situation, joint[0], joint[1], model, epsilon)

    def reward(situation):
        if situation == "absorbing":
            return 0.0
        return 100.0 if all(situation[2]) else -1.0

    joint = [(own, theirs) for own in BASE_ACTIONS for theirs in BASE_ACTIONS]
    optimal = optimal_joint_actions([*situations, "absorbing"], joint, successors, reward, discount)
    return {situation: pairs[0][1] for situation, pairs in optimal.items()}


def located(room: int, rules: str, epsilon: float) -> dict[str, float]:
    """The answer to a locate action."""
    chances = {str(room): 1.0 - epsilon}
    if rules == "as_written":
        chances["-1"] = epsilon
    else:
        for symbol in SYMBOLS:
            if symbol != str(room):
                chances[symbol] = epsilon / 5
    return chances


def arrived(room: int, rules: str, epsilon: float) -> dict[str, float]:
    """What the robot reads after a move or a stay."""
    chances = {str(room): 1.0 - epsilon}
    if rules == "as_written":
        chances["-1"] = epsilon
        return chances
    n = len(NEIGHBOURS[room])
    for symbol in ["-1", *(str(number) for number in range(n))]:
        if symbol != str(room):
            chances[symbol] = epsilon / n
    total = sum(chances.values())
    return {symbol: weight / total for symbol, weight in chances.items()}


def transcribe(model: int, rules: str, epsilon: float) -> Transcription:
    interest = ROOMS_OF_INTEREST[model]
    situations = []
    for robot, human in product(ROOMS, repeat=2):
        for bits in product((0, 1), repeat=len(interest)):
            if updated(robot, human, bits, model) == bits:  # not contradictory
                situations.append((robot, human, bits))
    policy = human_policy(situations, model, epsilon, DISCOUNT[rules])

    def step(situation, action):
        return joint_step(situation, action, policy[situation], model, epsilon)

    def see(action, situation):
        robot, human, _ = situation
        if action == "locate-human":
            return located(human, rules, epsilon)
        if action == "locate-robot":
            return located(robot, rules, epsilon)
        return arrived(robot, rules, epsilon)

    def name_of(situation):
        robot, human, bits = situation
        return f"robot {robot} human {human} done {''.join(str(bit) for bit in bits)}"

    return assemble(
        situations,
        name_of,
        lambda situation: all(situation[2]),
        step,
        see,
        {(0, 0, (1, 0, 0) if model == 0 else (0, 0)): 1.0},
        actions=ACTIONS,
        observations=SYMBOLS,
        observation_absorbing="-1",
        discount=DISCOUNT[rules],
    )
