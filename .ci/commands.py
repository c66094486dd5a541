"""The page docs/reference/commands.md and the help of `jatpo experiment`, made from the commands themselves.

python .ci/commands.py            writes both files
python .ci/commands.py --check    exit code 1 where one of them is not what it would be
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer
from typer.core import TyperGroup

from jatpo.cli import app, described

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
HEAD = """# Commands

After reading this page you know every command of jatpo, its options and their defaults. It is made from the texts of
`--help` by `python .ci/commands.py`.

Wrong input ends a command with one sentence and exit code 2. Ctrl-C ends it with exit code 130; the same command then
resumes. `jatpo --install-completion` lets your shell complete names and options.
"""
Row = tuple[str, str]


def page() -> str:
    """The whole page."""
    root = app.build([])
    with root.make_context("jatpo", [], resilient_parsing=True) as context:
        parts = [HEAD]
        for panel in app.PANELS:
            commands = [command for command in root.commands.values() if command.rich_help_panel == panel]
            parts += [f"## {panel}\n"]
            for command in commands:
                parts += section(command, context, "###")
    return "\n".join(parts)


def section(command, parent: typer.Context, mark: str) -> list[str]:
    """A command: its usage, what it does, and its options; then the commands below it."""
    context = typer.Context(command, info_name=command.name, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"{mark} jatpo {context.command_path.removeprefix('jatpo ')}\n", f"```text\n{usage}\n```\n"]
    parts += [f"{marked(command.help or '')}\n"]
    if not isinstance(command, TyperGroup):
        return parts + table("option", records(command, context))
    children = [command.get_command(context, name) for name in command.list_commands(context)]
    common = shared([records(child, typer.Context(child, parent=context)) for child in children])
    if common:
        parts += ["Options of all of them:\n", *table("option", common)]
    for child in children:
        parts += [part for part in without(section(child, context, mark + "#"), common) if part]
    return parts


def records(command, context: typer.Context) -> list[Row]:
    """Arguments and options with their help, but for --help."""
    found = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    return [row for row in found if row is not None and "--help" not in row[0]]


def shared(lists: list[list[Row]]) -> list[Row]:
    """The rows that all of several lists have, if there are several."""
    return [row for row in lists[0] if all(row in rows for rows in lists)] if len(lists) > 1 else []


def table(title: str, rows: list[Row]) -> list[str]:
    """A Markdown table, nothing without rows."""
    if not rows:
        return []
    lines = [f"| {title} | what it does |", "|---|---|", *(line(row) for row in rows)]
    return ["\n".join(lines) + "\n"]


def line(row: Row) -> str:
    """A row of a table: the option as code, and its help."""
    name, text = row
    return f"| `{name.replace('|', '/')}` | {marked(text)} |"


def without(parts: list[str], rows: list[Row]) -> list[str]:
    """The parts of a section without some rows of its table; no table without rows."""
    for row in rows:
        parts = [part.replace(line(row) + "\n", "") for part in parts]
    return ["" if part == "| option | what it does |\n|---|---|\n" else part for part in parts]


def marked(text: str) -> str:
    """Plain text as Markdown: no sign in it is markup."""
    for sign in ("\\", "|", "*", "<"):
        text = text.replace(sign, "\\" + sign)
    return text.replace("  [", " [").strip()


def experiments() -> str:
    """The help of all experiments, as JSON: importing them takes a second."""
    root = app.build(["experiment"])
    with root.make_context("jatpo", [], resilient_parsing=True) as context:
        group = root.commands["experiment"]
        place = typer.Context(group, info_name=group.name, parent=context)
        commands = {name: group.get_command(place, name) for name in group.list_commands(place)}
        found = {
            name: described.describe(command, typer.Context(command, info_name=name, parent=place))
            for name, command in commands.items()
        }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """The exit code."""
    code = 0
    for path, text in ((PAGE, page()), (described.FILE, experiments())):
        if arguments != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or text != path.read_text(encoding="utf-8"):
            print(f"{path.name} is out of date: run python .ci/commands.py")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
