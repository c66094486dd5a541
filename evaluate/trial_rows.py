"""The table of single trials, kept as arrays and written as CSV in pieces: it may have millions of rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from jatpo.evaluate.trials import Trials
from jatpo.tables import Row

HEADS = ("domain", "agent", "trial", "model", "return")
PIECE = 1 << 14  # rows that are written at once


class TrialRows(Sequence[Row]):
    """Rows with domain, agent, trial, true model and return, made when they are asked for."""

    def __init__(self, parts: Sequence[tuple[str, str, Trials]] = ()) -> None:
        self.parts = tuple(parts)  # of a domain, an agent and its trials

    def __len__(self) -> int:
        return sum(len(trials.trial) for _, _, trials in self.parts)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        left = place + len(self) if place < 0 else place
        for domain, agent, trials in self.parts:
            if 0 <= left < len(trials.trial):
                cells = (trials.trial[left], trials.truth[left], trials.returns[left])
                return dict(zip(HEADS, (domain, agent, *(cell.item() for cell in cells)), strict=True))
            left -= len(trials.trial)
        raise IndexError(place)

    def __add__(self, more: TrialRows) -> TrialRows:
        return TrialRows([*self.parts, *more.parts])

    def returns(self, most: int) -> dict[str, dict[str, np.ndarray]]:
        """The returns of the first `most` trials, by domain and agent."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for domain, agent, trials in self.parts:
            found.setdefault(domain, {})[agent] = np.asarray(trials.returns[:most], np.float64)
        return found

    def csv_pieces(self) -> Iterator[tuple[int, str]]:
        """The text of a CSV file in pieces, each with the number of rows so far."""
        done = 0
        yield done, ",".join(HEADS) + "\n"
        for domain, agent, trials in self.parts:
            begin = _cells(domain, agent)
            for first in range(0, len(trials.trial), PIECE):
                piece = slice(first, first + PIECE)
                columns = (trials.trial, trials.truth, trials.returns)
                lines = zip(*(column[piece].tolist() for column in columns), strict=True)
                text = "".join(f"{begin},{number},{model},{earned!r}\n" for number, model, earned in lines)
                done += len(trials.trial[piece])
                yield done, text


def _cells(*texts: str) -> str:
    """Texts as cells of a line of CSV, quoted where they must be."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="").writerow(texts)
    return line.getvalue()
