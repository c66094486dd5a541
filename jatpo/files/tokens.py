"""A piece of a text file as tokens, and whole columns of tokens as numbers.

A token is a colon, or a run of characters without blanks and colons; newlines are blanks; a comment runs from
`#` to the end of its line. Tokens are kept as positions in the text, so that a hundred megabytes are cut up,
looked up and converted by array operations: eight characters of every token are loaded at once as one 64-bit
word. What those operations cannot read, they mark; only then is a token looked at by itself.
"""

from __future__ import annotations

import re
import warnings
from functools import cached_property

import numpy as np

from jatpo.errors import JatpoError, shown

COLON = ord(":")
LONGEST = 64  # characters of a token that the array operations handle
PADDING = bytes(LONGEST + 8)
COMMENT = re.compile(rb"#[^\n]*")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # one way to match each

_MASK = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)  # keeps the first `count` bytes
_ZEROS = np.array([0x3030303030303030 >> 8 * count for count in range(8)] + [0], np.uint64)
_SHIFT = np.array([8 * (8 - count) for count in range(9)], np.uint64)


class Window:
    """The tokens of `text`, whose first line is line `line` of the file called `path`."""

    def __init__(self, text: bytes, line: int, path: str) -> None:
        self.text = COMMENT.sub(b"", text) if b"#" in text else text
        self.line = line
        self.path = path
        self.bytes = np.frombuffer(self.text + PADDING, np.uint8)
        here = self.bytes[: len(self.text)]
        _refuse_controls(here, self)
        solid, colon = here > 32, here == COLON
        edge = np.ones(len(here) + 1, bool)  # a token begins or ends before this byte, if there is one
        if len(here):
            edge[1:-1] = (solid[1:] != solid[:-1]) | colon[1:] | colon[:-1]
        self.start = np.flatnonzero(solid & edge[:-1])
        self.end = np.flatnonzero(solid & edge[1:]) + 1
        self.length = self.end - self.start
        self.colon = colon[self.start]

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def colons_before(self) -> np.ndarray:
        """How many colons stand before each token, and in all [N + 1]."""
        return np.concatenate([[0], np.cumsum(self.colon)])

    @cached_property
    def _words(self) -> np.ndarray:
        """The eight bytes from every position on, as one little-endian word."""
        return np.ndarray((len(self.bytes) - 7,), "<u8", self.bytes, strides=(1,))

    def token(self, at: int) -> str:
        """Token number `at`; bytes that are not UTF-8 become replacement characters."""
        return self.text[self.start[at] : self.end[at]].decode("utf-8", "replace")

    def words(self, at: np.ndarray, count: int) -> np.ndarray:
        """The first 8 * `count` bytes of the tokens `at`, zero beyond their ends: [len(at), count] uint64."""
        start, length = self.start[at], self.length[at]
        words = np.empty((len(at), count), np.uint64)
        for j in range(count):
            words[:, j] = self._words[start + 8 * j] & _MASK[np.clip(length - 8 * j, 0, 8)]
        return words

    def first_bytes(self, at: np.ndarray) -> np.ndarray:
        return self.bytes[self.start[at]]

    def line_of(self, at: int) -> int:
        """The line on which token `at` stands; the last line for a token past the end."""
        place = int(self.start[at]) if at < len(self) else len(self.text)
        return self.line + self.text.count(b"\n", 0, place)

    def error(self, at: int, found: str, expected: str) -> JatpoError:
        """The error for what was found at token `at` (or at the end of the text)."""
        return JatpoError(f"{self.path}:{self.line_of(at)}: found {found}, expected {expected}")

    def fail(self, at: int, expected: str) -> JatpoError:
        """The error for token `at` (or for the end of the text) where something else was expected."""
        found = f"'{shown(self.token(at))}'" if at < len(self) else "the end of the file"
        return self.error(at, found, expected)

    def part(self, first: int, stop: int) -> Window:
        """The tokens from `first` up to `stop` as a window of their own."""
        begin = int(self.start[first]) if first < len(self) else len(self.text)
        end = int(self.end[stop - 1]) if stop > first else begin
        return Window(self.text[begin:end], self.line_of(first), self.path)


def _refuse_controls(text: np.ndarray, window: Window) -> None:
    """Refuse control characters other than blanks: they would part a name without being seen."""
    strange = np.flatnonzero((text < 32) & ((text < 9) | (text > 13)))
    if len(strange):
        line = window.line + window.text.count(b"\n", 0, int(strange[0]))
        raise JatpoError(
            f"{window.path}:{line}: found the control character {text[strange[0]]:#04x}: remove it"
        )


def integers(window: Window, at: np.ndarray) -> np.ndarray:
    """Tokens of one to eight digits as int64; -1 for all others."""
    length = window.length[at]
    short = np.minimum(length, 8)
    word = (window.words(at, 1)[:, 0] << _SHIFT[short]) | _ZEROS[short]  # right-aligned, led by zeros
    high, six = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x0606060606060606)
    zeros = np.uint64(0x3030303030303030)
    digits = ((word & high) == zeros) & (((word + six) & high) == zeros) & (length <= 8)
    word = ((word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561)) >> np.uint64(8)  # pairs of digits,
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)  # fours,
    word = ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)  # eights
    return np.where(digits, word.astype(np.int64), -1)


def floats(window: Window, at: np.ndarray) -> np.ndarray:
    """Tokens as float64, correctly rounded; NaN where a token is not a finite number."""
    length, first = window.length[at], window.first_bytes(at)
    numeric = ((first >= ord("0")) & (first <= ord("9"))) | np.isin(first, np.frombuffer(b".+-", np.uint8))
    numeric &= length <= LONGEST
    words = window.words(at[numeric], (int(length[numeric].max(initial=1)) + 7) // 8)
    plain = ~(words.view(np.uint8) == ord("_")).any(axis=1)  # 1_000 is a number for Python, but not here
    numeric[numeric] = plain
    texts = np.ascontiguousarray(words[plain]).view(f"S{8 * words.shape[1]}")[:, 0]
    values = np.full(len(at), np.nan)
    try:
        values[numeric] = texts.astype(np.float64)
    except ValueError:  # at least one is not a number: parse them one by one
        values[numeric] = [number(text.decode("latin-1")) for text in texts]
    values[~np.isfinite(values)] = np.nan
    return values


def number(text: str) -> float:
    """`text` as a number; NaN if it is not a finite number."""
    value = float(text) if NUMBER.fullmatch(text) else np.nan
    return value if np.isfinite(value) else np.nan


def run_of_floats(window: Window, first: int, stop: int) -> np.ndarray | None:
    """The tokens from `first` up to `stop` as float64; None if one of them is not a finite number."""
    if stop <= first:
        return np.empty(0)
    text = window.text[int(window.start[first]) : int(window.end[stop - 1])]
    if text.translate(None, b"0123456789.eE+- \t\r\n"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # what NumPy < 2.3 does instead of raising
            values = np.fromstring(text, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    return values if len(values) == stop - first and np.isfinite(values).all() else None


class Symbols:
    """The `size` things of one kind ("state", "action", "observation"), called by number or by name."""

    WILD = -2  # stands for `*` in a column of indices
    UNKNOWN = -1

    def __init__(self, kind: str, size: int, names: tuple[str, ...] | None) -> None:
        self.kind, self.size, self.names = kind, size, names

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names or ())}

    @cached_property
    def _hashed(self) -> tuple[Window, np.ndarray, np.ndarray]:
        """The names as tokens, their hashes sorted, and the index of each."""
        window = Window("\n".join(self.names or ()).encode(), 1, "")
        hashes = _hashes(window.words(np.arange(len(window)), LONGEST // 8))
        order = np.argsort(hashes)
        return window, hashes[order], order

    def get(self, text: str) -> int | None:
        """The index of the thing called `text`; None if there is none."""
        if text in self._numbers:
            return self._numbers[text]
        if text.isascii() and text.isdigit() and len(text) < 20 and int(text) < self.size:
            return int(text)
        return None

    def find(self, window: Window, at: np.ndarray) -> np.ndarray:
        """The index of every token of `at`, `WILD` for `*`, `UNKNOWN` where `get` must be asked."""
        index = integers(window, at)
        index[index >= self.size] = self.UNKNOWN
        length = window.length[at]
        index[(length == 1) & (window.first_bytes(at) == ord("*"))] = self.WILD
        if self.names is not None:
            named = np.flatnonzero((index == self.UNKNOWN) & (length <= LONGEST))
            index[named] = self._find_names(window, at[named])
        return index

    def _find_names(self, window: Window, at: np.ndarray) -> np.ndarray:
        names, hashes, order = self._hashed
        count = (int(window.length[at].max(initial=1)) + 7) // 8
        words = window.words(at, count)
        place = np.searchsorted(hashes, _hashes(words))
        index = order[np.minimum(place, len(order) - 1)]
        same = (names.words(index, count) == words).all(axis=1) & (names.length[index] == window.length[at])
        return np.where(same, index, self.UNKNOWN)


def _hashes(words: np.ndarray) -> np.ndarray:
    """One number for each row of words; words of zero at the end do not count."""
    hashes = np.zeros(len(words), np.uint64)
    for j in range(words.shape[1]):
        hashes += words[:, j] * np.uint64(0x9E3779B97F4A7C15 ** (j + 1) % (1 << 64))
    return hashes ^ (hashes >> np.uint64(29))
