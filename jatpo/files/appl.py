"""APPL's policy format: alpha vectors in XML, as written by SARSOP.

Vectors are dense (``<Vector action="0" obsValue="0">9.5 9.5 </Vector>``) or sparse (``<SparseVector>`` with
an ``<Entry>index value</Entry>`` for each value other than 0). A policy for a mixed-observability model has
vectors for several values of the observed part; such a policy is not one set of vectors over all states, and
is refused.
"""

from __future__ import annotations

from typing import BinaryIO, TextIO
from xml.parsers import expat

import numpy as np

from jatpo import memory
from jatpo.errors import JatpoError, shown
from jatpo.files.decimals import shortest
from jatpo.files.tokens import Window, number, run_of_floats

VECTORS = ("Vector", "SparseVector")
PARENTS = {
    "Policy": (),
    "AlphaVector": ("Policy",),
    "Vector": ("AlphaVector",),
    "SparseVector": ("AlphaVector",),
}
LONGEST = 1 << 27  # values of one vector
SHORT = 256  # characters that are read faster one number at a time


def read(file: BinaryIO, path: str) -> tuple[np.ndarray, np.ndarray]:
    """The vectors [V, X] and actions [V] of an open file."""
    reader = _Reader(path)
    try:
        reader.parser.ParseFile(file)
    except (LookupError, ValueError) as error:  # an encoding that Python or the parser does not know
        raise JatpoError(f"{path}:1: found an unknown encoding, expected ISO-8859-1 or UTF-8") from error
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise JatpoError(
            f"{path}:{error.lineno}: found broken XML ({reason}), expected an APPL policy"
        ) from error
    return reader.result()


def write(file: TextIO, vectors: np.ndarray, actions: np.ndarray) -> None:
    """Write the vectors, all dense."""
    file.write('<?xml version="1.0" encoding="ISO-8859-1"?>\n')
    file.write('<Policy version="0.1" type="value" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"')
    file.write(' xsi:noNamespaceSchemaLocation="policyx.xsd">\n')
    file.write(
        f'<AlphaVector vectorLength="{vectors.shape[1]}" numObsValue="1" numVectors="{len(vectors)}">\n'
    )
    for vector, action in zip(vectors, actions.tolist(), strict=True):
        file.write(
            f'<Vector action="{action}" obsValue="0">{" ".join(shortest(vector).tolist())} </Vector>\n'
        )
    file.write("</AlphaVector>\n</Policy>\n")


class _Reader:
    """Takes what the XML parser finds, vector by vector."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.length = 0
        self.announced: int | None = None
        self.vectors: list[np.ndarray] = []
        self.actions: list[int] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self._sparse: np.ndarray | None = None
        self._entries: list[tuple[int, list[str]]] = []  # the line and the words of each
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append
        self.parser.StartDoctypeDeclHandler = self._doctype

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.vectors:
            raise JatpoError(f"{self.path}: found no <Vector>, expected a policy of alpha vectors")
        if self.announced is not None and self.announced != len(self.vectors):
            raise JatpoError(
                f"{self.path}: found {len(self.vectors)} vectors, expected numVectors={self.announced}"
            )
        return np.stack(self.vectors), np.array(self.actions)

    def _fail(self, found: str, expected: str) -> JatpoError:
        return JatpoError(f"{self.path}:{self.parser.CurrentLineNumber}: found {found}, expected {expected}")

    def _doctype(self, *_: object) -> None:
        raise self._fail("a document type", "an APPL policy, which has none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        inside = self._open[-1] if self._open else ""
        if not self._open and tag != "Policy":
            raise self._fail(f"<{shown(tag)}>", "<Policy>")
        if tag in PARENTS and PARENTS[tag] and inside not in PARENTS[tag]:
            raise self._fail(f"<{tag}> in <{shown(inside)}>", f"it in <{PARENTS[tag][0]}>")
        self._open.append(tag)
        self._text.clear()
        if tag == "Policy" and attributes.get("type", "value") != "value":
            raise self._fail(f"a policy of type '{shown(attributes['type'])}'", "type 'value', alpha vectors")
        if tag == "AlphaVector":
            self.length = self._integer(attributes, "vectorLength", 1, LONGEST)
            if "numVectors" in attributes:
                self.announced = self._integer(attributes, "numVectors", 0, 1 << 40)
        elif tag in VECTORS:
            self._begin_vector(tag, attributes)

    def _begin_vector(self, tag: str, attributes: dict[str, str]) -> None:
        self.actions.append(self._integer(attributes, "action", 0, 1 << 30))
        if self._integer({"obsValue": "0", **attributes}, "obsValue", 0, 1 << 30):
            raise self._fail("a vector for an observed part of the state", "obsValue 0: solve the flat POMDP")
        if tag == "SparseVector":
            what = f"{self.path}: {len(self.actions)} vectors of {self.length} values"
            memory.require(24 * len(self.actions) * self.length, what, "use a policy with fewer vectors")
            self._sparse = np.zeros(self.length)
            self._entries = []

    def _integer(self, attributes: dict[str, str], name: str, low: int, high: int) -> int:
        text = attributes.get(name)
        if text is None:
            raise self._fail(f"no attribute {name}", "it to be an integer")
        text = text.strip()
        if not (text.isascii() and text.isdigit() and len(text) < 16 and low <= int(text) <= high):
            raise self._fail(f"{name}='{shown(text)}'", f"an integer from {low} to {high}")
        return int(text)

    def _end(self, tag: str) -> None:
        self._open.pop()
        if tag == "Vector":
            values = self._numbers()
            if len(values) != self.length:
                raise self._fail(f"a vector of {len(values)} values", f"vectorLength={self.length} values")
            self.vectors.append(values)
        elif tag == "Entry" and self._sparse is not None:
            self._entries.append((self.parser.CurrentLineNumber, "".join(self._text).split()))
        elif tag == "SparseVector" and self._sparse is not None:
            self._fill(self._sparse)
            self.vectors.append(self._sparse)
            self._sparse = None
        self._text.clear()

    def _fill(self, vector: np.ndarray) -> None:
        """Put in the entries, all at once: one at a time takes a hundred times as long."""
        words = [word for _, pair in self._entries if len(pair) == 2 for word in pair]
        values = _floats(words).reshape(-1, 2)
        place = values[:, 0]
        fits = (place == np.floor(place)) & (place >= 0) & (place < self.length) & np.isfinite(values[:, 1])
        if len(values) < len(self._entries) or not fits.all():
            right = iter(fits)
            line = next(line for line, pair in self._entries if len(pair) != 2 or not next(right))
            expected = f"an index from 0 to {self.length - 1} and a value"
            raise JatpoError(f"{self.path}:{line}: found another <Entry>, expected {expected}")
        vector[place.astype(np.int64)] = values[:, 1]

    def _numbers(self) -> np.ndarray:
        text = "".join(self._text)
        if len(text) <= SHORT:
            values = _floats(text.split())
        else:
            window = Window(text.encode(), self.parser.CurrentLineNumber, self.path)
            values = run_of_floats(window, 0, len(window))
        if values is None or np.isnan(values).any():
            raise self._fail(f"'{shown(text.strip())}'", "numbers")
        return values


def _floats(words: list[str]) -> np.ndarray:
    """Words as numbers, NaN for one that is none."""
    return np.array([number(word) for word in words], np.float64)
