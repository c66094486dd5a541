"""The mazes ntu, isr, mit, pentagon, cit: two agents that cannot share a cell must reach two goals."""

from functools import cache
from itertools import combinations, product

from oracles.domains.grid import OBSERVATIONS, sensor
from oracles.domains.planning import optimal_joint_actions, teammate_part
from oracles.domains.transcription import GRID_MOVES, Transcription, assemble, gather, uniform

MAPS = {
    "ntu": """
        ###S##
        #G..G#
        S.##.#
        #.##.S
        #G..G#
        ##S###""",
    "isr": """
        #.#S#.#.#
        .....G...
        #.#####.#
        ..#####.S
        #.#####.#
        S.#####..
        #.#G###.#
        G........
        ##..#.#.#
        ##.S#####""",
    "mit": """
        ##S#.#.#####.#G##
        #...............#
        S.#.###.##.####.G
        #...............#
        ##S#.#.#####.#G##""",
    "pentagon": """
        #S.......S#
        #.###.###.#
        #.###.###.#
        #.##...G#.#
        #....#....G
        #.##...##.#
        #.###.###.#
        #.###..##.#
        G.........#""",
    "cit": """
        ###..........#
        ####.#######.#
        ####...####..#
        .###.#.......#
        .....#.###G#.#
        .#####..G###.#
        .######.####.#
        .#####.......G
        .#####.###.###
        .###.......###
        .....#####S###
        S###S#########""",
}


def cells_of(name: str, symbols: str) -> list[tuple]:
    """Cells whose symbol is one of `symbols`, row by row."""
    return [
        (column, row)
        for row, line in enumerate(MAPS[name].split())
        for column, symbol in enumerate(line)
        if symbol in symbols
    ]


def goals_of(name: str, model: int, rules: str) -> list[tuple]:
    """Goals in order (column, then row) of the model's task."""
    goals = sorted(cells_of(name, "G"))
    task = list(combinations(goals, 2))[model]
    if rules == "as_written":
        return list(task)
    kept = []
    for goal in goals:
        shares = any(goal[0] == chosen[0] or goal[1] == chosen[1] for chosen in task)
        if goal in task or shares:
            kept.append(goal)
    return kept


def attempt(cell: tuple, action: str, free: set, taken: tuple) -> tuple:
    """Where one agent ends up: the neighbouring cell if it is open and not taken, else its own cell."""
    dx, dy = GRID_MOVES[action]
    there = (cell[0] + dx, cell[1] + dy)
    return there if there in free and there != taken else cell


def joint_step(agent: tuple, teammate: tuple, own: str, theirs: str, free: set) -> tuple:
    """The teammate moves first and may not enter the agent's current cell; then the agent moves."""
    teammate_after = attempt(teammate, theirs, free, agent)
    agent_after = attempt(agent, own, free, teammate_after)
    return agent_after, teammate_after


def path_lengths(goal: tuple, free: set) -> dict[tuple, int]:
    """Steps from every open cell to the goal, walls counting and agents not."""
    lengths, frontier = {goal: 0}, [goal]
    while frontier:
        cell = frontier.pop(0)
        for dx, dy in list(GRID_MOVES.values())[:4]:
            beside = (cell[0] + dx, cell[1] + dy)
            if beside in free and beside not in lengths:
                lengths[beside] = lengths[cell] + 1
                frontier.append(beside)
    return lengths


def shortest_path_policy(goals: list, free: set) -> dict[tuple, str]:
    """as_written: {teammate cell: action}; ties go to the first goal, then to the first action."""
    lengths = [path_lengths(goal, free) for goal in goals]
    policy = {}
    for cell in free:
        nearest = min(range(len(goals)), key=lambda g: lengths[g].get(cell, 10**6))  # min keeps the first
        policy[cell] = "stay"
        if lengths[nearest][cell] > 0:
            for action in ["right", "left", "down", "up"]:  # backwards: the first action is written last
                dx, dy = GRID_MOVES[action]
                beside = (cell[0] + dx, cell[1] + dy)
                if beside in free and lengths[nearest][beside] == lengths[nearest][cell] - 1:
                    policy[cell] = action
    return policy


@cache
def optimal_policy(name: str, goals: tuple) -> dict[tuple, dict[str, float]]:
    """as_run: {(agent, teammate): {teammate action: probability}} of the optimal joint policy."""
    free = set(cells_of(name, ".SG"))
    situations = [pair for pair in product(sorted(free), repeat=2) if pair[0] != pair[1]]

    def successors(situation, joint):
        if situation == "absorbing" or (situation[0] in goals and situation[1] in goals):
            return {"absorbing": 1.0}
        return {joint_step(*situation, *joint, free): 1.0}

    def reward(situation):
        if situation == "absorbing":
            return 0.0
        return 100.0 if situation[0] in goals and situation[1] in goals else -1.0

    joint = list(product(GRID_MOVES, repeat=2))
    return teammate_part(optimal_joint_actions([*situations, "absorbing"], joint, successors, reward, 0.95))


def transcribe(name: str, model: int, rules: str, epsilon: float) -> Transcription:
    cells = cells_of(name, ".SG")
    free = set(cells)
    goals = goals_of(name, model, rules)
    situations = [(agent, teammate) for agent in cells for teammate in cells if agent != teammate]
    slip = epsilon if rules == "as_written" else 0.0
    paths = shortest_path_policy(goals, free)
    optimal = optimal_policy(name, tuple(goals)) if rules == "as_run" else {}

    def solved(situation):
        return situation[0] in goals and situation[1] in goals

    def step(situation, action):
        agent, teammate = situation
        chances = optimal[situation] if rules == "as_run" else {paths[teammate]: 1.0}
        outcomes = []
        for theirs, p in chances.items():
            outcomes.append((joint_step(agent, teammate, action, theirs, free), p * (1.0 - slip)))
            outcomes.append((joint_step(agent, teammate, "stay", theirs, free), p * slip))
        return gather(outcomes)

    def see(action, situation):
        agent, teammate = situation
        return sensor(agent, teammate, lambda cell: cell not in free, rules, epsilon)

    def name_of(situation):
        (ax, ay), (tx, ty) = situation
        return f"agent {ax},{ay} teammate {tx},{ty}"

    starts = cells_of(name, "S")
    if rules == "as_run":
        start = uniform((agent, teammate) for agent in starts for teammate in starts if agent != teammate)
    else:
        start = uniform(situation for situation in situations if not solved(situation))
    return assemble(
        situations,
        name_of,
        solved,
        step,
        see,
        start,
        actions=list(GRID_MOVES),
        observations=OBSERVATIONS,
        observation_absorbing="....",
        discount=0.95,
    )
