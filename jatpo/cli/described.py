"""Help of commands whose modules take a second to import, from a file that `.ci/commands.py` makes of them.

A described command answers --help as the command itself does, and does nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jatpo.cli import help_text
from jatpo.cli.app import CheckedCommand

FILE = Path(__file__).parent / "experiments.json"


class Parameter(NamedTuple):
    """What help shows of an option or argument."""

    param_type_name: str
    usage: list[str]
    record: list[str] | None

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        """Its place in the usage line."""
        del ctx
        return self.usage

    def get_help_record(self, ctx: Any) -> tuple[str, ...] | None:
        """Its row in the list of options."""
        del ctx
        return None if self.record is None else tuple(self.record)


class DescribedCommand(CheckedCommand):
    """A command that knows its help only."""

    described: Sequence[Any] = ()

    def get_params(self, ctx):
        """What the command itself has."""
        del ctx
        return list(self.described)


def describe(command: Any, context: Any) -> Mapping[str, Any]:
    """The help of a command, as JSON."""
    parts = [
        Parameter(each.param_type_name, each.get_usage_pieces(context), each.get_help_record(context))
        for each in command.get_params(context)
    ]
    return {"help": command.help, "parameters": parts}


def described_commands() -> dict[str, DescribedCommand]:
    """The commands in the file, by name."""
    found = {}
    for name, each in json.loads(FILE.read_text(encoding="utf-8")).items():
        settings = {"context_settings": dict(help_text.SETTINGS), "rich_markup_mode": None}
        made = DescribedCommand(name, help=each["help"], **settings)
        made.described = [Parameter(*part) for part in each["parameters"]]
        found[name] = made
    return found
