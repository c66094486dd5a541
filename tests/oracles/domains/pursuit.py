"""Pursuit: an agent, a teammate and a random prey; positions relative to the agent, coordinates -2..2."""

import heapq
from itertools import product

from oracles.domains.transcription import GRID_MOVES, Transcription, assemble, gather, uniform

TASKS = [("n", "s"), ("w", "e"), ("sw", "ne"), ("nw", "se")]
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
WRAP = {
    "as_written": {3: -2, 4: -1, -3: 2, -4: 1},
    "as_run": {3: -1, 4: -2, -3: 1, -4: 2},
}


def wrap(point: tuple, rules: str) -> tuple:
    return tuple(d if -2 <= d <= 2 else WRAP[rules][d] for d in point)


def plus(one: tuple, other: tuple) -> tuple:
    return (one[0] + other[0], one[1] + other[1])


def minus(one: tuple, other: tuple) -> tuple:
    return (one[0] - other[0], one[1] - other[1])


def torus_distance(one: tuple, other: tuple) -> int:
    total = 0
    for here, there in zip(one, other, strict=True):
        gap = (here - there) % 5
        total += min(gap, 5 - gap)
    return total


def target_of(prey: tuple, task: tuple, rules: str) -> tuple:
    """The nearer capture cell seen from the teammate; `prey` is seen from the teammate as well."""
    cells = [wrap(plus(prey, OFFSETS[side]), rules) for side in task]
    lengths = [abs(dx) + abs(dy) for dx, dy in cells]
    return cells[0] if lengths[0] <= lengths[1] else cells[1]


def greedy_action(target: tuple) -> str:
    dx, dy = target
    if dx != 0:
        return "right" if dx > 0 else "left"
    if dy != 0:
        return "down" if dy > 0 else "up"
    return "stay"


def first_shortest_action(target: tuple, obstacle: tuple) -> str:
    """as_written: the first action that begins a shortest path on the torus around the obstacle."""
    if target == (0, 0):
        return "stay"
    goal = (target[0] % 5, target[1] % 5)
    blocked = {(obstacle[0] % 5, obstacle[1] % 5)} - {goal}
    steps = {goal: 0}  # breadth first from the target
    frontier = [goal]
    while frontier:
        cell = frontier.pop(0)
        for dx, dy in list(GRID_MOVES.values())[:4]:
            beside = ((cell[0] + dx) % 5, (cell[1] + dy) % 5)
            if beside not in steps and (beside not in blocked or beside == (0, 0)):
                steps[beside] = steps[cell] + 1
                frontier.append(beside)
    for action in ["up", "down", "left", "right"]:
        dx, dy = GRID_MOVES[action]
        beside = (dx % 5, dy % 5)
        if beside not in blocked and steps[beside] == steps[(0, 0)] - 1:
            return action
    raise AssertionError("no shortest path")


class Node:
    """A cell on the frontier; heapq compares nodes by cost + estimate alone."""

    def __init__(self, cell: tuple, cost: int, estimate: int, first: str):
        self.cell, self.cost, self.estimate, self.first = cell, cost, estimate, first

    def __lt__(self, other: "Node") -> bool:
        return self.cost + self.estimate < other.cost + other.estimate


def heap_search_action(target: tuple, obstacle: tuple) -> str | None:
    """as_run: the first step of the path that the best-first search finds; None when it finds none."""
    if target == (0, 0):
        return "stay"

    def neighbours(cell):
        found = []
        for action in ["right", "left", "down", "up"]:
            dx, dy = GRID_MOVES[action]
            beside = ((cell[0] + dx) % 5, (cell[1] + dy) % 5)
            if beside == target or beside != obstacle:  # the target itself is never an obstacle
                found.append((action, beside))
        return found

    frontier = [Node(cell, 1, torus_distance(cell, target), action) for action, cell in neighbours((0, 0))]
    heapq.heapify(frontier)
    popped = {(0, 0)}
    while frontier:
        node = heapq.heappop(frontier)
        if node.cell == target:
            return node.first
        if node.cell in popped:
            continue
        popped.add(node.cell)
        for _, cell in neighbours(node.cell):
            heapq.heappush(frontier, Node(cell, node.cost + 1, torus_distance(cell, (0, 0)), node.first))
    return None


def teammate_chances(teammate: tuple, prey: tuple, task: tuple, aware: bool, rules: str) -> dict[str, float]:
    """{action: probability} of the teammate, given both positions relative to the agent."""
    target = target_of(wrap(minus(prey, teammate), rules), task, rules)
    if not aware:
        return {greedy_action(target): 1.0}
    agent = (-teammate[0], -teammate[1])
    if rules == "as_written":
        return {first_shortest_action(target, agent): 1.0}
    action = heap_search_action(target, agent)
    return uniform(GRID_MOVES) if action is None else {action: 1.0}


def identifiers(position: tuple, epsilon: float) -> dict[int, float]:
    """{cell id of the 3 x 3 neighbourhood: probability} for one entity; 4 is the agent's own cell."""
    dx, dy = position
    if position == (0, 0) or abs(dx) > 1 or abs(dy) > 1:
        return {4: 1.0}
    return gather([(3 * (dy + 1) + (dx + 1), 1.0 - epsilon), (4, epsilon)])


def transcribe(model: int, rules: str, epsilon: float) -> Transcription:
    """Models 0-3: greedy with the four tasks; 4-7: teammate-aware with the four tasks."""
    task, aware = TASKS[model % 4], model >= 4
    coordinates = range(-2, 3)
    situations = [((a, b), (c, d)) for a, b, c, d in product(coordinates, repeat=4)]

    def solved(situation):
        teammate, prey = situation
        agent_from_prey = (-prey[0], -prey[1])
        teammate_from_prey = wrap(minus(teammate, prey), rules)
        sides = (OFFSETS[task[0]], OFFSETS[task[1]])
        return (agent_from_prey, teammate_from_prey) in [sides, sides[::-1]]

    def step(situation, action):
        teammate, prey = situation
        outcomes = []
        for theirs, p in teammate_chances(teammate, prey, task, aware, rules).items():
            for preys in GRID_MOVES:
                own = GRID_MOVES[action]
                teammate_after = wrap(minus(plus(teammate, GRID_MOVES[theirs]), own), rules)
                prey_after = wrap(minus(plus(prey, GRID_MOVES[preys]), own), rules)
                outcomes.append(((teammate_after, prey_after), p / 5))
        return gather(outcomes)

    def see(action, situation):
        teammate, prey = situation
        return gather(
            (f"teammate {i} prey {j}", p * q)
            for i, p in identifiers(teammate, epsilon).items()
            for j, q in identifiers(prey, epsilon).items()
        )

    def name_of(situation):
        (tx, ty), (px, py) = situation
        return f"teammate {tx},{ty} prey {px},{py}"

    return assemble(
        situations,
        name_of,
        solved,
        step,
        see,
        uniform(situation for situation in situations if not solved(situation)),
        actions=list(GRID_MOVES),
        observations=[f"teammate {i} prey {j}" for i in range(9) for j in range(9)],
        observation_absorbing="teammate 0 prey 0",
        discount=0.95,
    )
