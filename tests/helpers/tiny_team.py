"""A domain of two agents that try to meet: small enough to learn the teammate of, in tests.

The teammate stands left or right and moves at every step; the agent chooses a side, and they have met when it is the
one that the teammate goes to. A stubborn teammate always goes left (model 0) or right (model 1), one that alternates
never stays where it is. No model of the library alternates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import numpy as np

NAME = "meeting"
HORIZON = 8
ACTIONS = ("left", "right")


def build(
    model: int,
    *,
    noise: Annotated[float, "probability that the sensor is wrong"] = 0.1,
    habit: Annotated[str, "stubborn or alternate"] = "stubborn",
):
    """Model k: a teammate that prefers side k."""
    from jatpo.domains import MMDP, World, every_action

    met = 2  # states: teammate left, teammate right, met; the absorbing one comes last
    onward = np.zeros((2, 2, 3, 1), int)
    for a in range(2):
        for b in range(2):
            onward[a, b] = met if a == b else b
    names = ("mate left", "mate right", "met")
    solved, start = np.array([False, False, True]), np.array([0.5, 0.5, 0])
    mmdp = MMDP.episodic(names, ACTIONS, ACTIONS, onward, np.ones(onward.shape), solved, start, 0.9)
    goes = np.tile(np.eye(2)[model], (4, 1)) if habit == "stubborn" else np.eye(2)[[1, 0, 0, 0]]
    sensor = np.array([[1 - noise, noise, 0], [noise, 1 - noise, 0], [0, 0, 1], [0, 0, 1]])
    return World(
        label=f"prefers {ACTIONS[model]}",
        mmdp=mmdp,
        policy=lambda: goes,
        sensor=every_action(sensor, 2),
        observations=("left", "right", "met"),
    )


@contextlib.contextmanager
def registered() -> Iterator[str]:
    """The domain under its name, for a while."""
    from jatpo.domains import DOMAINS, register

    register(NAME, summary="two agents meet", models=2, horizon=HORIZON, beliefs=50)(build)
    try:
        yield NAME
    finally:
        DOMAINS.remove(NAME)
