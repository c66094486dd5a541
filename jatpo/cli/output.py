"""What commands print on standard output: tables for people, or the same in a format for programs and papers.

    @exports
    def domains(name: ..., form: Form = TEXT) -> None:
        ...
        if form.chosen:
            form.write([table], data)
            return
        print(table)

makes a command with --json, --csv, --markdown and --latex in the place of `form`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.cli.grouped import grouped
from jatpo.errors import JatpoError
from jatpo.plain import to_json
from jatpo.screen import CONTROL

if TYPE_CHECKING:
    from jatpo.tables import Table

EXPORTS: Mapping[str, tuple[Any, Any]] = {
    "json": (Annotated[bool, typer.Option("--json", help="Print JSON.")], False),
    "csv": (Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")], False),
    "markdown": (Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")], False),
    "latex": (
        Annotated[bool, typer.Option("--latex", help="Print LaTeX tabulars (package booktabs).")],
        False,
    ),
}


class Form(NamedTuple):
    """The format that was asked for; at most one."""

    json: bool = False
    csv: bool = False
    markdown: bool = False
    latex: bool = False

    @property
    def chosen(self) -> bool:
        """Whether one was asked for."""
        return any(self)

    def write(self, tables: Sequence[Table], data: Any = None, raw: Sequence[Table] | None = None) -> None:
        """Print `tables` in the chosen format: JSON of `data` (default: the rows), CSV of `raw` (default: `tables`)."""
        if self.json:
            rows = [table.rows for table in tables]
            print_json((rows[0] if len(rows) == 1 else rows) if data is None else data)
            return
        if self.csv:
            texts = [table.to_csv() for table in (tables if raw is None else raw)]
        else:
            texts = [table.to_markdown() if self.markdown else table.to_latex() for table in tables]
        print("\n".join(texts), end="")


TEXT = Form()


def one_form(**flags: bool) -> Form:
    """The format of the flags; more than one is an error."""
    given = [f"--{name}" for name, flag in flags.items() if flag]
    if len(given) > 1:
        raise JatpoError(f"{' and '.join(given)} are different formats: choose one of them")
    return Form(**flags)


def exports(function: Callable[..., None]) -> Callable[..., None]:
    """`function` as a command that has the options of `EXPORTS` in the place of its parameter `form`."""
    return grouped(function, "form", EXPORTS, one_form)


def print_json(value: Any) -> None:
    """Print `value` as strict JSON: NaN and infinities become null, arrays become lists."""
    text = json.dumps(to_json(value), indent=2, ensure_ascii=False, allow_nan=False)
    print(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}" if found[0] != "\n" else "\n", text))
