"""A model of a domain before it is a POMDP: joint dynamics, a teammate, a sensor, a stage to draw it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jatpo.domains.description import Coordinates, Description
from jatpo.domains.mmdp import MMDP
from jatpo.domains.places import Stage


@dataclass(frozen=True, eq=False)
class World:
    """The declarative description of one model: state variables, dynamics, sensor.

    `variables` are the state's variables with their values; `mmdp` the joint dynamics; `policy` returns
    the teammate's policy [X, B] or [A, X, B]; `sensor` is O[a, y, z].
    """

    label: str
    mmdp: MMDP
    policy: Callable[[], np.ndarray]
    sensor: Coordinates
    observations: tuple[str, ...]
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stage: Stage | None = None

    @cached_property
    def teammate(self) -> np.ndarray:
        """The teammate's policy, [X, B] or [A, X, B]."""
        return self.policy()

    def describe(self) -> Description:
        """The ad hoc agent's POMDP in NumPy."""
        return self.mmdp.pomdp(self.teammate, self.sensor, self.observations)
