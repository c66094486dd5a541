"""Exact and listed beliefs of tables as filters of simulators: `OnTable(Dense())`, `OnTable(Support(200))`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from jax import Array

from jatpo.beliefs import Dense, Diagnostics, Representation
from jatpo.simulators.tabular_simulator import TabularSimulator


@dataclass(frozen=True)
class OnTable(Representation):
    """A representation of beliefs of a POMDP, for simulators that are made of one (`TabularSimulator`)."""

    representation: Representation = Dense()  # noqa: RUF009 - frozen

    of_tables = False

    def start(self, key: Array | None, model: TabularSimulator) -> Any:
        own = dataclasses.replace(model.world, initial=model.start)
        return self.representation.start(key, own)

    def predict(self, key: Array | None, model: TabularSimulator, belief: Any, action: Array) -> Any:
        return self.representation.predict(key, model.world, belief, model.of_world(action))

    def weigh(
        self, key: Array | None, model: TabularSimulator, predicted: Any, action: Array, observation: Array
    ) -> tuple[Any, Array, Diagnostics]:
        joined = model.of_world(action)
        return self.representation.weigh(key, model.world, predicted, joined, observation)

    def expectation(self, belief: Any, values: Array) -> Array:
        return self.representation.expectation(belief, values)

    def mode(self, belief: Any) -> Array:
        return self.representation.mode(belief)

    def sample(self, key: Array, belief: Any) -> Array:
        return self.representation.sample(key, belief)

    def dense(self, belief: Any, num_states: int) -> Array:
        return self.representation.dense(belief, num_states)


Exact = OnTable
"""The exact filter of tables, `Exact()`."""


def refused(representation: Representation, has_tables: bool) -> str | None:
    """Why a filter cannot run, or None."""
    if hasattr(representation, "representation") and not has_tables:
        return f"{representation!r} needs tables: use Particles"
    return None
