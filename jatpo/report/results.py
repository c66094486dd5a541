"""The tables of a directory of results, as `jatpo reproduce`, `jatpo evaluate` and `jatpo experiment` leave them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jatpo.disk import read_json
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
    """Read all tables that are in a directory of results."""
    path = Path(directory)
    if not (path / "manifest.json").is_file():
        raise JatpoError(
            f"{path} holds no results of jatpo: give the directory that 'jatpo reproduce --out' wrote"
        )
    tables = {name: read_json(path / f"{name}.json", []) for name in TABLES}
    for name in BEYOND:
        tables[name] = read_json(path / f"{name}.json") or read_json(path / "beyond" / f"{name}.json", [])
    return Results(tables, read_json(path / RUN, {}), read_json(path / "manifest.json", {}))
