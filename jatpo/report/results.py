"""The tables of a directory of results, as `jatpo reproduce`, `jatpo evaluate` and `jatpo experiment` leave them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jatpo.disk import digest_json, is_whole, read_json
from jatpo.errors import JatpoError

Row = Mapping[str, Any]
TABLES = (
    "summary",
    "times",
    "solutions",
    "identification",
    "curves",
    "scaling",
    "rules",
    "effects",
    "aggregate",
    "profile",
)
BEYOND = ("beyond", "certificates", "stress", "sizes")
"""Tables of `jatpo experiment beyond`, in the directory itself or in one called "beyond" inside it."""
RUN = "run.json"
AGAIN = "run the command that made it again"
TEXTS = ("domain", "agent")  # columns that every figure of returns needs
NUMBERS = ("mean", "low", "high", "published_mean", "published_std")


@dataclass(frozen=True)
class Results:
    """Tables by name, each a list of rows; a table that was not made is empty. `run` holds the settings."""

    tables: Mapping[str, Sequence[Row]]
    run: Mapping[str, Any]
    manifest: Mapping[str, Any]

    def __getitem__(self, table: str) -> Sequence[Row]:
        return self.tables.get(table, ())

    def domains(self, table: str = "summary") -> list[str]:
        """The domains of a table, in its order."""
        return list(dict.fromkeys(row["domain"] for row in self[table]))

    def of(self, table: str, domain: str) -> list[Row]:
        """The rows of one domain."""
        return [row for row in self[table] if row["domain"] == domain]


def load(directory: str | os.PathLike[str]) -> Results:
    """Read all tables that are in a directory of results; one that has changed since it was written is refused."""
    path = Path(directory)
    if not (path / "manifest.json").is_file():
        raise JatpoError(
            f"{path} holds no results of jatpo: give the directory that 'jatpo reproduce --out' wrote"
        )
    manifest = _sealed(path / "manifest.json")
    tables = {name: _table(path, name, manifest) for name in TABLES}
    beside = path / "beyond"
    other = _sealed(beside / "manifest.json") if (beside / "manifest.json").is_file() else {}
    for name in BEYOND:
        tables[name] = _table(path, name, manifest) or _table(beside, name, other)
    return Results(tables, _sealed(path / RUN), manifest)


def _table(path: Path, name: str, manifest: Mapping[str, Any]) -> Sequence[Row]:
    """The rows of a table, whose digest is in the manifest."""
    rows = read_json(path / f"{name}.json", [])
    if rows and digest_json(rows) not in manifest.get("tables", {}).get(name, ()):
        raise _changed(path / f"{name}.json")
    _check_shape(rows, name, path / f"{name}.json")
    return [_known(row) for row in rows]


def _check_shape(rows: Any, table: str, path: Path) -> None:
    """Refuse what is no table: not a list of objects, or one whose columns are missing or of another kind."""
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise JatpoError(f"{path} is not a list of objects: {AGAIN}")
    for number, row in enumerate(rows):
        absent = [name for name in (*TEXTS, *NUMBERS) if table == "summary" and name not in row]
        if absent:
            raise JatpoError(f"row {number} of {path} has no '{absent[0]}': {AGAIN}")
        for name in row:
            kinds, wanted = (str, "a text") if name in TEXTS else ((int, float, type(None)), "a number")
            if name in (*TEXTS, *NUMBERS) and not isinstance(row[name], kinds):
                raise JatpoError(
                    f"row {number} of {path} has {row[name]!r} as '{name}', not {wanted}: {AGAIN}"
                )


def _known(row: Row) -> Row:
    """A row without the means whose interval is unknown, as of a single trial: figures show means with intervals."""
    unknown = {name for name in row if f"{name}_low" in row and row[f"{name}_low"] is None}
    return {name: None if name in unknown else value for name, value in row.items()}


def _sealed(path: Path) -> Mapping[str, Any]:
    """An object that carries its own digest; an empty one where there is no file."""
    found = read_json(path, {})
    if not is_whole(found) and (found or path.exists()):
        raise _changed(path)
    return found


def _changed(path: Path) -> JatpoError:
    return JatpoError(f"{path} is not as it was written: {AGAIN}")
