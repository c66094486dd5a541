"""Tables of results: rows of values under columns that know how to show them.

    table = Table([{"agent": "atpo", "mean": 85.41}], title="gridworld")
    print(table)
    table.to_csv(), table.to_markdown(), table.to_pandas()

Text for people (`print`, Markdown, LaTeX) has headers and formatted cells; data for programs (CSV, JSON, pandas)
has keys and values as they are.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jatpo.errors import JatpoError
from jatpo.plain import to_json
from jatpo.screen import colourful, readable, terminal_width, visible
from jatpo.table_layout import Cells, fit, plain

MISSING = "-"
NOT_AVAILABLE = "N.A."
REPR_LINES, REPR_WIDTH = 10, 120
SOURCES = ("domain",)  # keys whose values may be paths; text has their endings, data the whole
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: the key of its values, a header, how to format a value, and "left" or "right".

    On a narrow terminal `short` takes the place of the header, and an `optional` column may be left out, with a note.
    """

    key: str
    header: str = ""  # default: the key, with spaces for underscores
    format: str | Callable[[Any], str] | None = None  # a format such as "z.1f", or a function
    align: str | None = None  # default: numbers to the right
    short: str = ""  # default: the header
    optional: bool = False

    @property
    def title(self) -> str:
        """The header that is shown."""
        return self.header or self.key.replace("_", " ")

    def text(self, value: Any) -> str:
        """A cell for people; None and NaN are shown as ``-``, a control character as ``?``."""
        if _is_unknown(value):
            return MISSING
        if callable(self.format):
            return visible(self.format(value))
        if self.format and not isinstance(value, str):
            return format(value, self.format)
        return visible(format_cell(value))


@dataclass(frozen=True, repr=False)
class Table:
    """Rows with columns (default: all keys, in order of appearance), a title above and notes below."""

    rows: Sequence[Row]
    columns: Sequence[Column | str] = ()
    title: str = ""
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        chosen = self.columns or dict.fromkeys(key for row in self.rows for key in row)
        columns = tuple(Column(column) if isinstance(column, str) else column for column in chosen)
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "columns", columns)

    @classmethod
    def of(cls, headers: Sequence[str], lines: Sequence[Sequence[Any]], title: str = "") -> Table:
        """A table of lines of cells under headers."""
        for line in lines:
            if len(line) != len(headers):
                raise ValueError(f"a row has {len(line)} cells under {len(headers)} columns: {line}")
        rows = [dict(zip(headers, line, strict=True)) for line in lines]
        return cls(rows, [Column(header, header) for header in headers], title)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        """For standard output: laid out in the width of a terminal; in a pipe, one plain line for each row."""
        width, table = terminal_width(), self._text()
        lines = plain(table) if width is None else fit(table, width, bold=colourful())
        return "\n".join(self._with_notes(lines, width))

    def __repr__(self) -> str:
        lines = self._with_notes(plain(self._text()))
        lines = [line if len(line) <= REPR_WIDTH else f"{line[: REPR_WIDTH - 1]}…" for line in lines]
        if len(lines) <= REPR_LINES:
            return "\n".join(lines)
        size = f"... {len(self.rows)} rows, {len(self.columns)} columns"
        return "\n".join([*lines[: REPR_LINES - 1], size])

    def to_csv(self) -> str:
        """Comma-separated values under the keys; None and NaN are empty."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self._keys())
        writer.writerows([[_csv_cell(row.get(key)) for key in self._keys()] for row in self.rows])
        return text.getvalue()

    def to_json(self) -> str:
        """A strict JSON list with one object for each row; NaN and infinities are null."""
        keys = set(self._keys())
        rows = [{key: value for key, value in row.items() if key in keys} for row in self.rows]
        return json.dumps(to_json(rows), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """A Markdown table, with the title above and the notes below."""
        right = self._right()
        lines = [_markdown_line(column.title for column in self._columns())]
        lines.append(_markdown_line("---:" if each else "---" for each in right))
        lines += [_markdown_line(cells) for cells in self._cells()]
        parts = [[f"**{self.title}**"] if self.title else [], lines, *([note] for note in self.notes)]
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"

    def to_latex(self) -> str:
        """A LaTeX tabular for the package booktabs; title and notes are comments."""
        align = "".join("r" if each else "l" for each in self._right())
        lines = [f"% {text}" for text in (self.title, *self.notes) if text]
        lines += [rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
        lines += [_latex_line(column.title for column in self._columns()), r"\midrule"]
        lines += [_latex_line(cells) for cells in self._cells()]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the keys as columns."""
        try:
            pandas = importlib.import_module("pandas")  # optional, and unknown to a type checker without it
        except ImportError as error:
            raise JatpoError(
                "to_pandas needs pandas, which is not installed: pip install 'jatpo[pandas]'"
            ) from error
        return pandas.DataFrame.from_records([dict(row) for row in self.rows], columns=self._keys())

    def _columns(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if isinstance(column, Column))

    def _keys(self) -> list[str]:
        return [column.key for column in self._columns()]

    def _cells(self) -> list[list[str]]:
        columns = [column.text for column in self._columns()]
        values = [self._values(column.key) for column in self._columns()]
        rows = zip(*values, strict=True) if values else ([] for _ in self.rows)
        return [[text(value) for text, value in zip(columns, row, strict=True)] for row in rows]

    def _values(self, key: str) -> list[Any]:
        """The values of a column as they are shown."""
        values = [row.get(key) for row in self.rows]
        if key not in SOURCES:
            return values
        endings = distinct_endings([value for value in values if isinstance(value, str)])
        return [endings.get(value, value) if isinstance(value, str) else value for value in values]

    def _right(self) -> list[bool]:
        """Which columns stand to the right."""
        return [
            column.align == "right"
            if column.align
            else _is_numeric([row.get(column.key) for row in self.rows])
            for column in self._columns()
        ]

    def _text(self) -> Cells:
        """The cells in the characters that standard output can show."""
        columns = self._columns()
        headers = [readable(column.title) for column in columns]
        short = [readable(column.short) or header for column, header in zip(columns, headers, strict=True)]
        lines = [[readable(" ".join(text.split("\n"))) for text in line] for line in self._cells()]
        return Cells(headers, short, lines, self._right(), [column.optional for column in columns])

    def _with_notes(self, lines: Iterable[str], width: int | None = None) -> list[str]:
        notes = [visible(readable(note)) for note in self.notes]
        if width is not None:
            notes = [line for note in notes for line in textwrap.wrap(note, max(width, 20))]
        return [*([visible(readable(self.title))] if self.title else []), *lines, *notes]


def distinct_endings(paths: Iterable[str]) -> dict[str, str]:
    """For each path the shortest ending that no other one has; what is not a path stands for itself."""
    parts = {path: path.rstrip(os.sep).split(os.sep) for path in paths}
    found = {}
    for path, own in parts.items():
        others = [other for each, other in parts.items() if each != path]
        lengths = range(1, len(own))
        unique = (length for length in lengths if all(other[-length:] != own[-length:] for other in others))
        length = next(unique, len(own))
        found[path] = path if own in others else os.sep.join(own[-length:]) or path
    return found


def interval_text(low: float | None, high: float | None, form: str = "z.2f", between: str = " .. ") -> str:
    """An interval for people; ``-`` where it is unknown, as that of a single value is."""
    unknown = _is_unknown(low) or _is_unknown(high)
    return MISSING if unknown else f"{low:{form}}{between}{high:{form}}"


def number_text(value: float | None, form: str = "z.2f") -> str:
    """A number for people; ``-`` where it is unknown."""
    return MISSING if _is_unknown(value) else f"{value:{form}}"


def _is_unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def format_cell(value: Any) -> str:
    """A value for people: text as it is, numbers short, None and NaN as ``-``."""
    if _is_unknown(value):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers only (None and ``N.A.`` aside)."""
    present = [value for value in values if value is not None and value != NOT_AVAILABLE]
    return bool(present) and all(map(_looks_numeric, present))


def _looks_numeric(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _csv_cell(value: Any) -> Any:
    return "" if _is_unknown(value) else value


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
LATEX |= {"±": r"$\pm$", "−": "$-$", "×": r"$\times$", "<": "$<$", ">": "$>$", "|": r"\textbar{}"}
LATEX |= {"≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$", "γ": r"$\gamma$", "…": r"\dots{}"}


def _latex_line(cells: Iterable[str]) -> str:
    escaped = ("".join(LATEX.get(letter, letter) for letter in cell) for cell in cells)
    return f"{' & '.join(escaped)} \\\\"
