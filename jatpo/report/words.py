"""Actions and observations in words, derived from their names, which are terse in the paper's domains."""

from __future__ import annotations

import re
from collections.abc import Sequence

DIRECTIONS = ("up", "down", "left", "right")
AROUND = (
    "up left",
    "above",
    "up right",
    "to the left",
    "",
    "to the right",
    "down left",
    "below",
    "down right",
)
ROOM_MOVES = {"first": "first", "second": "second", "third": "third"}
KITCHEN = re.compile(
    r"helper (\w+) (\w+) cook (\w+) (\w+) balconies (\w+) (\w+) pan (\w+)"
)  # the names of overcooked's states


def action_words(action: str, actions: Sequence[str]) -> str:
    """An action as a phrase: ``go up``, ``go to the second next room``."""
    if action in DIRECTIONS:
        return f"go {action}"
    if "locate-human" in actions and action in ROOM_MOVES:
        return f"go to the {action} of the rooms next to it"
    asked = {"locate-human": "ask where the human is", "locate-robot": "ask where the robot is"}
    return {**asked, "noop": "wait", "stay": "stay"}.get(action, action)


def observation_words(observation: str, action: str, actions: Sequence[str]) -> str:
    """An observation as a phrase: ``wall up and left, teammate right``."""
    if re.fullmatch(r"[.#T]{4}", observation):
        return _neighbours(observation)
    if found := re.fullmatch(r"teammate ([0-8]) prey ([0-8])", observation):
        spots = (AROUND[int(number)] or "not in sight" for number in found.groups())
        return "teammate {}, prey {}".format(*spots)
    if "locate-human" in actions and re.fullmatch(r"-1|\d+", observation):
        return _room(observation, action)
    if found := KITCHEN.fullmatch(observation):
        return _kitchen(*found.groups())
    return observation


def _neighbours(reading: str) -> str:
    """What is up, down, left and right of the agent: `#..T`."""
    parts = []
    for sign, thing in (("#", "wall"), ("T", "teammate")):
        where = [direction for direction, seen in zip(DIRECTIONS, reading, strict=True) if seen == sign]
        if where:
            parts.append(f"{thing} {', '.join(where[:-1])}{' and ' if where[:-1] else ''}{where[-1]}")
    return "; ".join(parts) or "nothing next to it"


def _room(reading: str, action: str) -> str:
    who = "the human" if action == "locate-human" else "the robot"
    if reading == "-1":
        return "no answer" if action.startswith("locate") else "no reading of its room"
    return f"{who} is in room {reading}" if action.startswith("locate") else f"its room reads {reading}"


def _kitchen(helper: str, hand: str, cook: str, other: str, top: str, bottom: str, pan: str) -> str:
    laid = [
        f"{item} on the {row} balcony"
        for row, item in (("top", top), ("bottom", bottom))
        if item != "nothing"
    ]
    fill = "soup is cooked" if pan == "cooked" else f"pan {pan} of 3"
    people = [f"helper {helper} with {hand}", f"cook {cook} with {other}"]
    return ", ".join([*people, *laid, fill])
