"""The table of commands and the typer application made from it.

A new command is a module with a light top level (no jax, no matplotlib), a function whose docstring
and annotations are its help, and one line in `COMMANDS`. A module may also offer a `typer.Typer`
with commands below it, as in ``jatpo bench solve``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from jatpo.cli import help_text
from jatpo.errors import JatpoError, nearest, unknown
from jatpo.version import __version__

HELP = """Ad hoc teamwork under partial observability (ATPO) in JAX.

Build or read POMDPs, solve them, and evaluate agents that do not know their team."""
LARGEST = (1 << 63) - 1  # whole numbers of options
PANELS = ("Models", "Solving", "Evaluation", "Files", "Development")


class Command(NamedTuple):
    """Where a command is found: `attribute` of `module` is a function or a typer.Typer."""

    panel: str
    name: str
    module: str
    attribute: str


COMMANDS: tuple[Command, ...] = (
    Command("Models", "domains", "jatpo.cli.domains", "domains"),
    Command("Solving", "solve", "jatpo.cli.solve", "solve"),
    Command("Solving", "certify", "jatpo.cli.certificates", "certify"),
    Command("Solving", "plan", "jatpo.cli.memory_plan", "plan"),
    Command("Solving", "compare", "jatpo.cli.against", "compare"),
    Command("Evaluation", "evaluate", "jatpo.cli.evaluate", "evaluate"),
    Command("Evaluation", "experiment", "jatpo.cli.experiments", "experiment"),
    Command("Evaluation", "run", "jatpo.cli.study", "run"),
    Command("Evaluation", "watch", "jatpo.cli.watch", "watch"),
    Command("Evaluation", "serve", "jatpo.cli.serve", "serve"),
    Command("Evaluation", "reproduce", "jatpo.cli.reproduce", "reproduce"),
    Command("Evaluation", "learn", "jatpo.cli.learn", "learn"),
    Command("Evaluation", "plot", "jatpo.cli.plot", "plot"),
    Command("Files", "convert", "jatpo.cli.files", "convert"),
    Command("Files", "info", "jatpo.cli.files", "info"),
    Command("Files", "check", "jatpo.cli.files", "check"),
    Command("Development", "cluster", "jatpo.cli.cluster", "app"),
    Command("Development", "bench", "jatpo.cli.bench", "app"),
)


class CheckedCommand(TyperCommand):
    """A command that refuses numbers that are not finite or fit no integer, which a range of typer lets through."""

    def parse_args(self, ctx, args):
        """As in typer, after a request for help."""
        help_text.answer(self, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx):
        """As in typer, after the check."""
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            if isinstance(value, float) and not math.isfinite(value):
                name = max(parameter.opts, key=len)
                raise JatpoError(f"{name} must be a finite number, got {value}")
            if isinstance(value, int) and abs(value) > LARGEST:
                name = max(parameter.opts, key=len)
                raise JatpoError(f"{name} must be at most {LARGEST}, got {str(value)[:40]}")
        return super().invoke(ctx)


class NearestGroup(TyperGroup):
    """A group that answers an unknown command with the nearest one, and lists its commands by panel."""

    def parse_args(self, ctx, args):
        """As in typer, after a request for help."""
        help_text.answer(self, ctx, args)
        help_text.forward(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx, formatter):
        """The commands, under the headings of their panels."""
        for panel, rows in help_text.panels(self, ctx).items():
            with formatter.section(panel):
                formatter.write_dl(rows)

    def resolve_command(self, ctx, args):
        """As in typer, with jatpo's error for an unknown name."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown(f"command of '{ctx.command_path}'", args[0], list(self.commands))
        return super().resolve_command(ctx, args)


def build(arguments: Sequence[str]) -> TyperGroup:
    """The command tree for one command line: only the named command is imported, or all for help."""
    app = typer.Typer(
        cls=NearestGroup,
        help=HELP,
        context_settings=help_text.SETTINGS,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(_root)
    for command in _needed(arguments, COMMANDS):
        target = getattr(import_module(command.module), command.attribute)
        if isinstance(target, typer.Typer):
            group = target.info.cls if isinstance(target.info.cls, type) else NearestGroup
            app.add_typer(target, name=command.name, cls=group, rich_help_panel=command.panel)
        else:
            settings = {"rich_help_panel": command.panel, "context_settings": help_text.SETTINGS}
            app.command(command.name, cls=CheckedCommand, **settings)(target)
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def _needed(arguments: Sequence[str], commands: Sequence[Command]) -> list[Command]:
    """The named command; or, when an option or nothing comes first, all that are installed, by panel."""
    if not arguments or arguments[0].startswith("-"):
        present = [command for command in commands if find_spec(command.module)]
        return sorted(present, key=lambda command: PANELS.index(command.panel))
    names = [command.name for command in commands]
    if arguments[0] not in names:
        raise unknown("command", arguments[0], names)
    return [commands[names.index(arguments[0])]]


def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"jatpo {__version__}")
        raise typer.Exit()


def describe_usage_error(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """One sentence for a wrong option or argument, with the command whose help has the answer."""
    context = getattr(error, "ctx", None)  # typer leaves it out of some errors
    path = context.command_path if context else " ".join(["jatpo", *arguments[:1]])
    if type(error).__name__ == "NoSuchOption":
        option = getattr(error, "option_name", "")
        options = [name for parameter in context.command.params for name in parameter.opts] if context else []
        return f"'{path}' has no option '{option}'" + (
            nearest(option, options) or f"; '{path} --help' lists them"
        )
    message = error.format_message().strip().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; '{path} --help' explains"
