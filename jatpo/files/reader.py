"""Reading Cassandra's .POMDP format: a stream of tokens in which line breaks are whitespace.

A statement begins at a word before a colon that follows no colon, and ends where the next one begins. The
file is read in windows of a megabyte. In each, the statements that look alike are read together (`bulk`), the
others one by one; the time of a statement says which writes are later than which.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

import numpy as np

from jatpo.checked_model import Checked
from jatpo.errors import RenormalisedWarning
from jatpo.files import bulk, model_builder, naming
from jatpo.files.guard import open_file
from jatpo.files.preamble import SPECS, Preamble
from jatpo.files.spec import Body, Header, Spec, make_specs, numbers, refuse_improbable
from jatpo.files.tokens import Window

T = TypeVar("T")
WINDOW = 1 << 20
LONG = 1 << 16  # tokens after which the numbers of an unfinished statement are taken in
KEPT = 8  # tokens at the end of a window that may belong to the head of a statement


def read_statements(path: str | os.PathLike[str]) -> Reader:
    """All statements of the Cassandra file at `path`."""
    name = os.fspath(path)
    reader = Reader(name)
    with open_file(name, "model") as file:
        reader.read(file)
    return reader


def naming_the_file(path: str | os.PathLike[str], build: Callable[[], T]) -> T:
    """The result of `build`; rounding dust in probabilities is reported as a `RenormalisedWarning` with the file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RenormalisedWarning)
        found = build()
    for warning in caught:
        if issubclass(warning.category, RenormalisedWarning):
            warnings.warn(f"{os.fspath(path)}: {warning.message}", RenormalisedWarning, stacklevel=3)
    return found


def read_checked(path: str | os.PathLike[str]) -> Checked:
    """The numbers and names of the model in the Cassandra file at `path`."""
    found = read_statements(path)
    return naming_the_file(
        path, lambda: model_builder.checked_model(found.preamble, found.specs, found.originals)
    )


class Reader:
    """The statements of a file, gathered; `read` takes all of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.preamble = Preamble(path)
        self.specs: dict[str, Spec] = {}
        self.originals = naming.Originals()
        self._open: Body | None = None
        self._time = 0

    def read(self, file: BinaryIO, size: int = WINDOW) -> None:
        """Take in the whole file."""
        text, line, enough = b"", 1, 0
        for data in _pieces(file, size):
            raw = text + data if data else text
            cut = _safe_cut(raw) if data else len(raw)
            if data and (cut == 0 or len(raw) < enough):
                text = raw
                continue
            self.originals.collect(raw[:cut])
            window = Window(raw[:cut], line, self.path)
            used = self._consume(window, not data)
            text = window.text[used:] + raw[cut:]
            line += window.text.count(b"\n", 0, used)
            enough = 0 if used else 2 * len(raw)  # a long statement is not cut up again and again

    def _consume(self, window: Window, last: bool) -> int:
        """Read what is complete in the window; the position from which on it is not."""
        head = _heads(window)
        stop = np.append(head[1:], len(window)).astype(np.int64)
        before = int(head[0]) if len(head) else len(window)
        complete = len(head) if last else max(len(head) - 1, 0)
        if len(head) or last:
            self._feed_open(window, before)
            self._close(window, before)
        elif self._open is not None:
            return self._feed_most(window, 0)
        self._statements(window, head[:complete], stop[:complete])
        if last:
            return len(window.text)
        if complete < len(head):
            return self._tail(window, int(head[-1]))
        return 0

    def _tail(self, window: Window, head: int) -> int:
        """Leave the unfinished last statement for the next window, or begin it if it is long."""
        word = window.token(head)
        if len(window) - head > LONG and word in SPECS:
            header, at = self._header(window, head, len(window))
            if len(header) < len(self.specs[word].axes):
                self._open = Body(self.specs[word], header, self._next_time())
                return self._feed_most(window, at)
        return int(window.start[head])

    def _feed_most(self, window: Window, first: int) -> int:
        """Feed the open statement all but the last tokens; the position of the first one left."""
        stop = max(len(window) - KEPT, first)
        if stop > first and window.token(stop - 1) in ("+", "-"):
            stop -= 1
        self._feed_open(window, stop, first)
        return int(window.start[stop]) if stop < len(window) else len(window.text)

    def _feed_open(self, window: Window, stop: int, first: int = 0) -> None:
        if self._open is not None:
            self._open.feed(window, first, stop)
        elif stop > first:
            raise window.fail(first, "a statement such as 'discount:', 'states:' or 'T:'")

    def _close(self, window: Window, at: int) -> None:
        if self._open is not None:
            self._open.close(window, at)
            self._open = None

    def _statements(self, window: Window, head: np.ndarray, stop: np.ndarray) -> None:
        """Read complete statements: the preamble first, then all that look alike, then the rest in order."""
        kind = np.where(window.length[head] == 1, window.first_bytes(head), 0)
        model = np.flatnonzero(np.isin(kind, np.frombuffer("".join(SPECS).encode(), np.uint8)))
        first = int(model[0]) if len(model) else len(head)
        for place in range(first):
            self._one(window, int(head[place]), int(stop[place]), self._next_time())
        if first == len(head):
            return
        self._begin(window, int(head[first]))
        time = self._time + 2 * np.arange(len(head) - first)
        self._time += 2 * (len(head) - first)
        left = np.ones(len(head), bool)
        left[:first] = False
        for keyword, spec in self.specs.items():
            own = first + np.flatnonzero(kind[first:] == ord(keyword))
            left[own] = ~bulk.take(spec, window, head[own], stop[own], time[own - first])
        for place in np.flatnonzero(left):
            self._one(window, int(head[place]), int(stop[place]), int(time[place - first]))

    def _one(self, window: Window, head: int, stop: int, time: int) -> None:
        """Read one statement by itself."""
        word = window.token(head)
        if word not in SPECS:
            if self.specs and word in ("states", "actions", "observations"):
                raise window.fail(head, f"'{word}:' before the first T, O or R")
            self.preamble.read(window, head, stop)
            return
        header, at = self._header(window, head, stop)
        spec = self.specs[word]
        if len(header) == len(spec.axes):
            self._single(spec, header, window, at, stop, time)
        elif at < stop and window.token(at) in spec.words(header):
            if at + 1 < stop:
                raise window.fail(at + 1, f"the next statement after '{window.token(at)}'")
            spec.put_word(window.token(at), header, time)
        else:
            body = Body(spec, header, time)
            body.feed(window, at, stop)
            body.close(window, stop)

    def _header(self, window: Window, head: int, stop: int) -> tuple[Header, int]:
        """The indices of a statement, and the token after them."""
        self._begin(window, head)
        spec = self.specs.get(window.token(head))
        if spec is None:
            raise window.fail(head, "'observations:' in the preamble of a file with O")
        header: list[int | None] = []
        at = head + 2
        while True:
            axis = spec.axes[len(header)]
            if at >= stop:
                raise window.fail(at, f"the {axis.kind} of {spec.keyword}")
            header.append(self.preamble.index(axis, window, at))
            at += 1
            more = at < stop and bool(window.colon[at])
            if len(header) == len(spec.axes) or not more:
                break
            at += 1
        if len(header) < spec.fewest:
            raise window.fail(at, f"':' and the {spec.axes[len(header)].kind} of {spec.keyword}")
        return tuple(header), at

    def _single(self, spec: Spec, header: Header, window: Window, at: int, stop: int, time: int) -> None:
        expected = (
            f"one {'probability' if spec.probability else 'number'} after the indices of {spec.keyword}"
        )
        values, places = numbers(window, at, stop, expected)
        if len(values) != 1:
            raise window.fail(stop if not len(values) else int(places[1]), expected)
        if spec.probability:
            refuse_improbable(window, values, places)
        spec.put(header, float(values[0]), time)

    def _begin(self, window: Window, head: int) -> None:
        if not self.specs:
            where = f"{self.path}:{window.line_of(head)}: found '{window.token(head)}'"
            self.specs = make_specs(self.preamble.symbols, where, self.path)

    def _next_time(self) -> int:
        self._time += 2
        return self._time - 2


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The file in pieces, and an empty one at the end."""
    while data := file.read(size):
        yield data
    yield b""


def _safe_cut(text: bytes) -> int:
    """Where `text` may be cut: not in a token, not in a comment. 0 if nowhere."""
    cut = text.rfind(b"\n") + 1
    if cut or b"#" in text:
        return cut
    return max(text.rfind(b" "), text.rfind(b"\t")) + 1


def _heads(window: Window) -> np.ndarray:
    """The tokens at which statements begin."""
    if not len(window):
        return np.empty(0, np.int64)
    colon = window.colon
    before = np.append(False, colon[:-1])
    after = np.append(colon[1:], False)
    head = np.flatnonzero(~colon & ~before & after)
    word = np.isin(window.length[head], (7,)) & np.isin(
        window.first_bytes(head), np.frombuffer(b"ie", np.uint8)
    )
    for place in np.flatnonzero(word):  # start include: and start exclude: have two words before the colon
        at = int(head[place])
        if at and window.token(at) in ("include", "exclude") and window.token(at - 1) == "start":
            head[place] -= 1
    return head
