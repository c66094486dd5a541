"""Help as plain text, folded to the terminal: it needs neither rich nor the parser's types, so it comes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

NAMES = ("-h", "--help")
WIDTH = 100  # columns at most, on a wide terminal
SETTINGS = {"help_option_names": list(NAMES), "max_content_width": WIDTH}
OTHERS = "Commands"  # the heading of commands without a panel


def answer(command: TyperCommand | TyperGroup, context: Any, arguments: Sequence[str]) -> None:
    """Print the help and stop, if the arguments ask for nothing else."""
    if arguments and arguments[0] in NAMES and not context.resilient_parsing:
        typer.echo(command.get_help(context))
        raise typer.Exit()


def forward(group: TyperGroup, context: Any, arguments: Sequence[str]) -> None:
    """Let the named command answer a request for its help, before the group's own options are parsed."""
    *words, last = arguments or [""]
    if (
        last not in NAMES
        or not words
        or any(word.startswith("-") for word in words)
        or context.resilient_parsing
    ):
        return
    command = group.get_command(context, words[0])
    if command is not None:
        command.make_context(words[0], [*words[1:], last], parent=context)


def panels(group: TyperGroup, context: Any) -> dict[str, list[tuple[str, str]]]:
    """The commands of a group with the first sentence of their help, by panel."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            panel = getattr(command, "rich_help_panel", None) or OTHERS
            found.setdefault(panel, []).append((name, command.get_short_help_str(limit=1000)))
    return found
