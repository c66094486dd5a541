"""What T, O and R may look like: their axes, their forms, and the numbers of a row or matrix as they come in.

T: a : x : y p        one entry; any index may be *
T: a : x              a row of X numbers, or uniform, or reset
T: a                  a matrix of X rows, or uniform, or identity
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from jatpo import memory
from jatpo.errors import JatpoError
from jatpo.files.tokens import Symbols, Window, number, run_of_floats
from jatpo.files.writes import Writes
from jatpo.validate import DUST

PAIR_BYTES = 100  # what a pair of a state and an action, or an observation, takes at the peak of reading

Header = tuple["int | None", ...]


@dataclass
class Spec:
    """One of T, O and R: its axes and all that was written to it."""

    keyword: str
    axes: tuple[Symbols, ...]
    fewest: int  # indices that must be given
    writes: Writes
    resets: list[tuple[Header, int]] = field(default_factory=list)

    @property
    def probability(self) -> bool:
        return self.keyword != "R"

    def put(self, index: tuple, value: float, time: int) -> None:
        self.writes.put(self.full(index), value, time)

    def full(self, index: tuple) -> tuple:
        """`index` with wildcards for the axes it does not name."""
        return (*index, *(None for _ in range(len(self.writes.sizes) - len(index))))

    def words(self, header: Header) -> tuple[str, ...]:
        """The keywords that may stand for the numbers after `header`."""
        left = len(self.axes) - len(header)
        if self.keyword == "R" or left == 0:
            return ()
        square = self.axes[1].size == self.axes[2].size
        if left == 2:
            return ("uniform", "identity") if square else ("uniform",)
        return ("uniform", "reset") if self.keyword == "T" else ("uniform",)

    def put_word(self, word: str, header: Header, time: int) -> None:
        """Write what `word` stands for after `header`."""
        if word == "uniform":
            self.put(header, 1 / self.axes[-1].size, time)
            return
        self.put(header, 0.0, time)
        if word == "identity":
            diagonal = np.arange(self.axes[1].size)
            self.writes.put_all((*header, diagonal, diagonal), np.ones(len(diagonal)), time + 1)
        else:
            self.resets.append((header, time + 1))

    def settle_resets(self, start: np.ndarray) -> None:
        """Write the start distribution [X] into the rows that refer to it."""
        states = np.flatnonzero(start)
        for header, time in self.resets:
            self.writes.put_all((*header, states), start[states], time)


class Body:
    """The numbers after `header`; those that differ from a default are kept."""

    def __init__(self, spec: Spec, header: Header, time: int) -> None:
        self.spec, self.header, self.time = spec, header, time
        self.shape = tuple(axis.size for axis in spec.axes[len(header) :])
        self.total = math.prod(self.shape)
        self.count = 0
        self.default = 0.0 if spec.probability else None
        self._flat: list[np.ndarray] = []
        self._value: list[np.ndarray] = []

    def feed(self, window: Window, first: int, stop: int) -> None:
        """Take the tokens from `first` up to `stop` as the next numbers."""
        values, at = numbers(window, first, stop, self._expected())
        if self.spec.probability:
            refuse_improbable(window, values, at)
        if self.count + len(values) > self.total:
            extra = int(at[self.total - self.count])
            raise window.fail(extra, f"the next statement, for {self._what()} has {self.total} numbers")
        if self.default is None and len(values):
            self.default = float(values[0])
        keep = np.flatnonzero(values != self.default)
        self._flat.append(keep + self.count)
        self._value.append(values[keep])
        self.count += len(values)

    def close(self, window: Window, at: int) -> None:
        """Write what was read; token `at` is what follows."""
        if self.count < self.total:
            raise window.fail(at, self._expected())
        self.spec.put(self.header, float(self.default or 0.0), self.time)
        flat, value = np.concatenate(self._flat), np.concatenate(self._value)
        if not self.spec.probability:
            flat, value = self._put_constant_rows(flat, value)
        if len(flat):
            places = np.unravel_index(flat, self.shape)
            self.spec.writes.put_all(self.spec.full((*self.header, *places)), value, self.time + 1)

    def _put_constant_rows(self, flat: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Write rows of one value as such, for that is cheaper to take expectations of; the other entries."""
        if len(self.shape) < 2 or not len(flat):
            return flat, value
        row, first, count = np.unique(flat // self.shape[-1], return_index=True, return_counts=True)
        low, high = np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
        constant = (count == self.shape[-1]) & (low == high)
        self.spec.writes.put_all(self.spec.full((*self.header, row[constant])), low[constant], self.time + 1)
        rest = np.repeat(~constant, count)
        return flat[rest], value[rest]

    def _what(self) -> str:
        return f"a {'matrix' if len(self.shape) == 2 else 'row'} of {self.spec.keyword}"

    def _expected(self) -> str:
        words = [f"'{word}'" for word in self.spec.words(self.header)] if not self.count else []
        left = f"{self.total - self.count} {'more ' if self.count else ''}numbers for {self._what()}"
        return " or ".join([left, *words])


def numbers(window: Window, first: int, stop: int, expected: str) -> tuple[np.ndarray, np.ndarray]:
    """The tokens from `first` up to `stop` as numbers, and the token of each. A sign may stand by itself."""
    values = run_of_floats(window, first, stop)
    if values is not None:
        return values, np.arange(first, stop)
    found, at, sign = [], [], ""
    for place in range(first, stop):
        word = window.token(place)
        if word in ("+", "-") and not sign:
            sign = word
            continue
        value = number(sign + word)
        if math.isnan(value):
            raise window.fail(place, expected)
        found.append(value)
        at.append(place)
        sign = ""
    if sign:
        raise window.fail(stop, "a number after the sign")
    return np.array(found), np.array(at)


def refuse_improbable(window: Window, values: np.ndarray, at: np.ndarray) -> None:
    wrong = np.flatnonzero((values < 0) | (values > 1 + DUST))
    if len(wrong):
        raise window.fail(int(at[wrong[0]]), "a probability from 0 to 1")


def make_specs(symbols: dict[str, Symbols], where: str, path: str) -> dict[str, Spec]:
    """T, O and R for the given states, actions and observations; without observations there is no O."""
    for item in ("states", "actions"):
        if item not in symbols:
            raise JatpoError(f"{where}, expected '{item}:' before it")
    actions, states, observations = symbols["actions"], symbols["states"], symbols.get("observations")
    seen = observations.size if observations is not None else states.size
    what = f"{path}: a model of {states.size} states, {actions.size} actions and {seen} observations"
    memory.require((actions.size * states.size + seen) * PAIR_BYTES, what, "use fewer of them")
    moves = (actions, states, states)
    specs = {"T": Spec("T", moves, 1, _writes(moves))}
    if observations is None:  # an MDP: statements of R end with the next state, which is what is seen
        specs["R"] = Spec("R", moves, 1, _writes((*moves, states)))
        return specs
    specs["O"] = Spec("O", (actions, states, observations), 1, _writes((actions, states, observations)))
    specs["R"] = Spec("R", (*moves, observations), 2, _writes((*moves, observations)))
    return specs


def _writes(axes: tuple[Symbols, ...]) -> Writes:
    return Writes(tuple(axis.size for axis in axes))
