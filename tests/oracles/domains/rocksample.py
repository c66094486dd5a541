"""RockSample(n, k) rule by rule, with states as (column, row, set of good rocks)."""

from itertools import product
from math import dist

from oracles.domains.transcription import ABSORBING, Transcription

LAYOUT_7_8 = [(2, 0), (0, 1), (3, 1), (6, 3), (2, 4), (3, 4), (5, 5), (1, 6)]
MOVES = {"north": (0, -1), "south": (0, 1), "east": (1, 0), "west": (-1, 0)}


def transcribe(size: int, places: list, half_distance: float = 20.0, discount: float = 0.95):
    """(transcription, reward of (state, action)): here the reward depends on the action as well."""
    actions = [*MOVES, "sample", *(f"check {rock}" for rock in range(len(places)))]
    worlds = {}
    for row, column in product(range(size), repeat=2):
        for marks in product("-+", repeat=len(places)):
            pattern = "".join(reversed(marks))
            worlds[f"{column},{row} {pattern}"] = (column, row, pattern)

    def name(column, row, pattern):
        return f"{column},{row} {pattern}"

    def outcome(state, action):
        """(next state, reward)"""
        if state == ABSORBING:
            return ABSORBING, 0.0
        column, row, pattern = worlds[state]
        if action in MOVES:
            there = (column + MOVES[action][0], row + MOVES[action][1])
            if action == "east" and there[0] == size:
                return ABSORBING, 10.0
            if 0 <= there[0] < size and 0 <= there[1] < size:
                return name(*there, pattern), 0.0
            return state, -100.0
        if action == "sample":
            if (column, row) not in places:
                return state, -100.0
            rock = places.index((column, row))
            if pattern[rock] == "-":
                return state, -10.0
            return name(column, row, pattern[:rock] + "-" + pattern[rock + 1 :]), 10.0
        return state, 0.0

    def observation(action, state):
        if state == ABSORBING or not action.startswith("check"):
            return {"none": 1.0}
        column, row, pattern = worlds[state]
        rock = int(action.split()[1])
        right = 0.5 + 0.5 * 2 ** (-dist((column, row), places[rock]) / half_distance)
        truth, other = ("good", "bad") if pattern[rock] == "+" else ("bad", "good")
        return {reading: p for reading, p in ((truth, right), (other, 1 - right)) if p > 0}

    start = {
        state: 1 / 2 ** len(places)
        for state, (column, row, _) in worlds.items()
        if (column, row) == (0, size // 2)
    }
    written = Transcription(
        states=[*worlds, ABSORBING],
        actions=actions,
        observations=["none", "good", "bad"],
        transition=lambda state, action: {outcome(state, action)[0]: 1.0},
        observation=observation,
        reward=lambda state: float("nan"),
        start=start,
        discount=discount,
    )
    return written, lambda state, action: outcome(state, action)[1]
