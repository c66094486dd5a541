"""What commands print on standard output: tables for people, strict JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from jatpo.plain import to_json


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print rows under headings, numbers to the right.

    On a terminal long text folds to its width; in a pipe or file each row is one plain line, so
    that other programs can search it. Floats show four significant digits, None shows as ``-``.
    """
    cells = [[format_cell(value) for value in row] for row in rows]
    for row in cells:
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(row)} cells under {len(columns)} columns: {row}")
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, right, title)
    else:
        _print_plain(columns, cells, right, title)


def format_cell(value: Any) -> str:
    """A table cell: text as it is, numbers short, None as ``-``."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def print_json(value: Any) -> None:
    """Print `value` as strict JSON: NaN and infinities become null, arrays become lists."""
    print(json.dumps(to_json(value), indent=2, ensure_ascii=False, allow_nan=False))


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers only (None and ``N.A.`` aside)."""
    present = [value for value in values if value is not None and value != "N.A."]
    return bool(present) and all(_looks_numeric(value) for value in present)


def _looks_numeric(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _print_plain(
    columns: Sequence[str], cells: list[list[str]], right: list[bool], title: str | None
) -> None:
    if title:
        print(title)
    lines = [list(columns), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        parts = [
            text.rjust(width) if aligned else text.ljust(width)
            for text, width, aligned in zip(line, widths, right, strict=True)
        ]
        print("  ".join(parts).rstrip())


def _print_rich(columns: Sequence[str], cells: list[list[str]], right: list[bool], title: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, (name, aligned) in enumerate(zip(columns, right, strict=True)):
        whole = aligned or i == 0  # numbers and the name of a row are never broken
        table.add_column(Text(name), justify="right" if aligned else "left", no_wrap=whole, overflow="fold")
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    Console().print(table)
