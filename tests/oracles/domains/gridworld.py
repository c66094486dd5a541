"""Gridworld: two agents on an open 5 x 5 board, two goal cells."""

import math
from collections.abc import Callable
from fractions import Fraction

from oracles.domains.grid import OBSERVATIONS, sensor
from oracles.domains.transcription import GRID_MOVES, Transcription, assemble, gather, uniform

POOL = """
    04-03 32-11 42-44 44-11 12-44 34-00 00-40 41-43 44-42 30-11 33-12 13-22 11-34 42-23 33-14 01-24
    43-41 33-13 22-33 13-34 12-24 42-12 30-01 43-10 24-14 41-20 20-34 44-24 40-32 12-03 13-21 21-32
"""


def goals_of(model: int, size: int = 5) -> tuple:
    """The two goals; on a larger board each at the same part of the way from edge to edge, halves rounded up."""

    def place(digit: str) -> int:
        return math.floor(Fraction(int(digit) * (size - 1), 4) + Fraction(1, 2))

    first, second = POOL.split()[model].split("-")
    return (place(first[0]), place(first[1])), (place(second[0]), place(second[1]))


def move(cell: tuple, action: str, slip: float, outside: Callable) -> dict:
    """{cell: probability} after one agent's move."""
    dx, dy = GRID_MOVES[action]
    there = (cell[0] + dx, cell[1] + dy)
    if action == "stay" or outside(there):
        return {cell: 1.0}
    return gather([(there, 1.0 - slip), (cell, slip)])


def teammate_action(cell: tuple, goals: tuple) -> str:
    """Towards the nearest goal (a tie goes to the first), first horizontally, then vertically."""
    distances = [abs(goal[0] - cell[0]) + abs(goal[1] - cell[1]) for goal in goals]
    target = goals[0] if distances[0] <= distances[1] else goals[1]
    if target[0] < cell[0]:
        return "left"
    if target[0] > cell[0]:
        return "right"
    if target[1] < cell[1]:
        return "up"
    if target[1] > cell[1]:
        return "down"
    return "stay"


def transcribe(model: int, rules: str, epsilon: float, size: int = 5) -> Transcription:
    first, second = goals_of(model, size)
    teammate_slip = epsilon if rules == "as_run" else 0.0
    cells = [(column, row) for row in range(size) for column in range(size)]
    situations = [(agent, teammate) for agent in cells for teammate in cells]

    def outside(cell):
        return not (0 <= cell[0] < size and 0 <= cell[1] < size)

    def solved(situation):
        return situation == (first, second) or situation == (second, first)

    def step(situation, action):
        agent, teammate = situation
        agents = move(agent, action, epsilon, outside)
        teammates = move(teammate, teammate_action(teammate, (first, second)), teammate_slip, outside)
        return gather([((a, t), p * q) for a, p in agents.items() for t, q in teammates.items()])

    def see(action, situation):
        agent, teammate = situation
        return sensor(agent, teammate, outside, rules, epsilon)

    def name_of(situation):
        (ax, ay), (tx, ty) = situation
        return f"agent {ax},{ay} teammate {tx},{ty}"

    return assemble(
        situations,
        name_of,
        solved,
        step,
        see,
        uniform(situation for situation in situations if not solved(situation)),
        actions=list(GRID_MOVES),
        observations=OBSERVATIONS,
        observation_absorbing="....",
        discount=0.95,
    )
