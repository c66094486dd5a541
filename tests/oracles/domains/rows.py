"""A stored model read row by row into dictionaries of names, to be held against a transcription."""

import numpy as np


class Rows:
    """The interface of `Transcription` over an object with names and `to_sparse()`."""

    def __init__(self, model):
        sparse = model.to_sparse()
        self.states, self.actions = list(model.states), list(model.actions)
        self.observations = list(model.observations)
        self._state = {name: x for x, name in enumerate(self.states)}
        self._action = {name: a for a, name in enumerate(self.actions)}
        self._transition = _Table(sparse.transition, len(self.states))
        self._observation = _Table(sparse.observation, len(self.states))
        self.rewards = np.asarray(sparse.reward)  # [X,A]
        initial = np.asarray(sparse.initial)
        self.start = {name: float(p) for name, p in zip(self.states, initial, strict=True) if p != 0.0}
        self.discount = float(sparse.discount)

    def transition(self, state: str, action: str) -> dict[str, float]:
        columns, chances = self._transition.row(self._action[action], self._state[state])
        return {self.states[y]: p for y, p in zip(columns, chances, strict=True)}

    def observation(self, action: str, state: str) -> dict[str, float]:
        columns, chances = self._observation.row(self._action[action], self._state[state])
        return {self.observations[z]: p for z, p in zip(columns, chances, strict=True)}

    def reward(self, state: str) -> float:
        """The reward of a state, which must not depend on the action."""
        (value,) = set(self.rewards[self._state[state]].tolist())
        return value


class _Table:
    """Entries (a, row, column, p), grouped by (a, row)."""

    def __init__(self, entries, height: int):
        a, row, column, p = (np.asarray(part) for part in entries)
        key = a.astype(np.int64) * height + row
        order = np.lexsort((column, key))
        self._height = height
        self._key, self._column, self._p = key[order], column[order], p[order].astype(float)

    def row(self, a: int, row: int) -> tuple[list[int], list[float]]:
        key = a * self._height + row
        begin, end = np.searchsorted(self._key, [key, key + 1])
        return self._column[begin:end].tolist(), self._p[begin:end].tolist()
