"""The data an ad hoc agent learns from: its own actions and observations, and nothing else.

In a history, observation t is what was seen after action t; there is none before the first action. Histories
of different lengths stand side by side, padded at their ends, with a mask of what is real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.pytree import pytree


class History(NamedTuple):
    """The actions and observations of one episode."""

    actions: Array | np.ndarray  # [T] int32
    observations: Array | np.ndarray  # [T] int32


@pytree
@dataclass(frozen=True, eq=False)
class Histories:
    """N episodes, padded at the end with action 0 and observation 0."""

    actions: Array | np.ndarray  # [N, T] int32
    observations: Array | np.ndarray  # [N, T] int32
    mask: Array | np.ndarray  # [N, T] bool, True for real steps, not padding

    @classmethod
    def from_list(cls, histories: Sequence[History]) -> Histories:
        """Histories of any lengths, padded to the longest."""
        lengths = np.array([len(history.actions) for history in histories], np.int64)
        if not len(lengths):
            raise JatpoError("there are no histories: give at least one")
        for number, history in enumerate(histories):
            if np.shape(history.actions) != np.shape(history.observations):
                raise JatpoError(
                    f"history {number} has {len(history.actions)} actions and "
                    f"{len(history.observations)} observations: give one observation for each action"
                )
        mask = np.arange(lengths.max()) < lengths[:, None]
        padded = np.zeros((2, *mask.shape), np.int32)
        for number, history in enumerate(histories):
            padded[0, number, : lengths[number]] = history.actions
            padded[1, number, : lengths[number]] = history.observations
        return cls(padded[0], padded[1], mask)

    @property
    def num_histories(self) -> int:
        return self.actions.shape[0]

    @property
    def num_steps(self) -> int:
        """The length of the longest history."""
        return self.actions.shape[1]

    def take(self, indices: Sequence[int] | np.ndarray | Array) -> Histories:
        """The histories with these indices, in that order."""
        return jax.tree.map(lambda leaf: leaf[indices], self)

    def to_list(self) -> list[History]:
        """Each history in its own length, on the host."""
        parts = zip(*(np.asarray(part) for part in (self.actions, self.observations, self.mask)), strict=True)
        return [History(actions[mask], observations[mask]) for actions, observations, mask in parts]
