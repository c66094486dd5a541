"""The sensor of gridworld and the mazes: up, down, left, right; `.` nothing, `#` wall, `T` teammate."""

from collections.abc import Callable
from itertools import product

OBSERVATIONS = ["".join(symbols) for symbols in product(".#T", repeat=4)]
DIRECTIONS = [(0, -1), (0, 1), (-1, 0), (1, 0)]


def seen_as(element: str, rules: str, epsilon: float) -> dict[str, float]:
    """What one direction's sensor reports when `element` is there."""
    if element == ".":
        return {".": 1.0}
    if rules == "as_written":
        return {element: 1.0 - epsilon, ".": epsilon}
    other = "T" if element == "#" else "#"
    return {element: 1.0 - epsilon, ".": epsilon / 2, other: epsilon / 2}


def sensor(agent: tuple, teammate: tuple, is_wall: Callable, rules: str, epsilon: float) -> dict[str, float]:
    """{four symbols: probability}, the directions being independent."""
    reports = {"": 1.0}
    for dx, dy in DIRECTIONS:
        cell = (agent[0] + dx, agent[1] + dy)
        if is_wall(cell):
            element = "#"
        elif cell == teammate:
            element = "T"
        else:
            element = "."
        extended = {}
        for prefix, p in reports.items():
            for symbol, chance in seen_as(element, rules, epsilon).items():
                extended[prefix + symbol] = p * chance
        reports = extended
    return reports
