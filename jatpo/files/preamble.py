"""The head of a Cassandra file: discount, values, states, actions, observations and start, in any order."""

from __future__ import annotations

import numpy as np

from jatpo.errors import nearest, shown
from jatpo.files.tokens import Symbols, Window, number, run_of_floats
from jatpo.validate import DUST

ITEMS = ("discount", "values", "states", "actions", "observations", "start")
SPECS = ("T", "O", "R")
RESERVED = frozenset((*ITEMS, *SPECS, "uniform", "identity", "reward", "cost", "include", "exclude", "reset"))
LARGEST = (1 << 31) - 1  # indices are 32-bit
SIMILAR = 2000  # names among which a similar one is looked for


class Preamble:
    """The contents of the head of the file at `path`. `start` is kept as text until the states are known."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.discount: float | None = None
        self.sign: float | None = None
        self.symbols: dict[str, Symbols] = {}
        self._start: tuple[str, Window] | None = None

    def read(self, window: Window, head: int, stop: int) -> None:
        """One item: the tokens from `head` up to `stop`."""
        item = window.token(head)
        if item not in ITEMS:
            expected = f"one of {', '.join(f'{name}:' for name in (*ITEMS, *SPECS))}"
            raise window.fail(head, expected + nearest(item[:40], (*ITEMS, *SPECS)))
        if self._has(item):
            raise window.fail(head, f"no second '{item}:'")
        if item == "start":
            self._keep_start(window, head, stop)
        elif stop <= head + 2:
            raise window.fail(stop, f"something after '{item}:'")
        elif item == "discount":
            self.discount = self._discount(window, head + 2, stop)
        elif item == "values":
            self.sign = self._sign(window, head + 2, stop)
        else:
            self.symbols[item] = self._symbols(item, window, head + 2, stop)

    def _has(self, item: str) -> bool:
        known = {"discount": self.discount, "values": self.sign, "start": self._start}
        return item in self.symbols or known.get(item) is not None

    def _discount(self, window: Window, first: int, stop: int) -> float:
        value = number(window.token(first))
        if not 0 <= value <= 1:
            raise window.fail(first, "a discount from 0 to 1")
        _only(window, first, stop)
        return value

    def _sign(self, window: Window, first: int, stop: int) -> float:
        word = window.token(first)
        if word not in ("reward", "cost"):
            raise window.fail(first, "'reward' or 'cost'")
        _only(window, first, stop)
        return 1.0 if word == "reward" else -1.0

    def _symbols(self, item: str, window: Window, first: int, stop: int) -> Symbols:
        kind = item[:-1]
        words = [window.token(at) for at in range(first, stop)]
        if len(words) == 1 and words[0].isascii() and words[0].isdigit():
            if len(words[0]) > 18 or not 1 <= int(words[0]) <= LARGEST:
                raise window.fail(first, f"a number of {item} from 1 to {LARGEST}")
            return Symbols(kind, int(words[0]), None)
        if all(word == str(place) for place, word in enumerate(words)):  # some files list the numbers
            return Symbols(kind, len(words), None)
        known: set[str] = set()
        for place, word in enumerate(words):
            if word in RESERVED or word in ("*", ":") or word[0] in "0123456789+-.":
                rule = "which begins with a letter and is not a keyword"
                raise window.fail(first + place, f"the name of {_article(kind)}, {rule}")
            if word in known:
                raise window.fail(first + place, f"a different name for each {kind}")
            known.add(word)
        return Symbols(kind, len(words), tuple(words))

    def _keep_start(self, window: Window, head: int, stop: int) -> None:
        form = window.token(head + 1)
        body = head + 2 if form == ":" else head + 3
        if stop <= body:
            raise window.fail(stop, "something after 'start:'")
        self._start = ("vector" if form == ":" else form, window.part(body, stop))

    def start(self) -> np.ndarray:
        """The start distribution [X]; uniform if the file gives none."""
        states = self.symbols["states"]
        if self._start is None:
            return np.full(states.size, 1 / states.size)
        form, window = self._start
        if form != "vector":
            return self._listed(window, states, form == "include")
        word = window.token(0)
        if len(window) == 1 and word == "uniform":
            return np.full(states.size, 1 / states.size)
        if len(window) == 1 and states.get(word) is not None:
            return self._listed(window, states, True)
        return self._vector(window, states)

    def _listed(self, window: Window, states: Symbols, include: bool) -> np.ndarray:
        """Uniform over the states listed in `window`, or over the others."""
        mask = np.full(states.size, not include)
        for at in range(len(window)):
            index = self.index(states, window, at)
            if index is None:
                raise window.fail(at, "a state by name or number")
            mask[index] = include
        if not mask.any():
            raise window.error(0, "'start exclude:' of all states", "one to be left")
        return mask / mask.sum()

    def _vector(self, window: Window, states: Symbols) -> np.ndarray:
        values = run_of_floats(window, 0, len(window))
        if values is None or (len(values) == 1 and states.size > 1):
            bad = next((at for at in range(len(window)) if np.isnan(number(window.token(at)))), 0)
            hint = self._near(states, window.token(bad))
            raise window.fail(bad, f"{states.size} probabilities, 'uniform' or a state{hint}")
        wrong = np.flatnonzero((values < 0) | (values > 1 + DUST))
        if len(wrong):
            raise window.fail(int(wrong[0]), "a probability from 0 to 1")
        if len(values) != states.size:
            raise window.error(0, f"{len(values)} start probabilities", f"{states.size}, one for each state")
        if abs(values.sum() - 1) > DUST:
            raise window.error(0, f"start probabilities that sum to {values.sum():.6g}", "1")
        return values

    def index(self, symbols: Symbols, window: Window, at: int) -> int | None:
        """The index that token `at` stands for; None for `*`."""
        word = window.token(at)
        if word == "*":
            return None
        index = symbols.get(word)
        if index is None:
            choice = f"{_article(symbols.kind)} by {'name or by ' if symbols.names else ''}a number"
            raise window.fail(at, f"{choice} from 0 to {symbols.size - 1}{self._near(symbols, word)}")
        return index

    def _near(self, symbols: Symbols, word: str) -> str:
        if not symbols.names or symbols.size > SIMILAR:
            return ""
        return shown(nearest(shown(word), symbols.names), 200)


def _only(window: Window, first: int, stop: int) -> None:
    if stop > first + 1:
        raise window.fail(first + 1, f"the next statement after '{window.token(first)}'")


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "ao" else f"a {kind}"
