"""`jatpo bench`: time and memory of this machine, one command for each benchmark of `jatpo.bench.benchmarks`."""

from __future__ import annotations

import dataclasses
import inspect
import json as text
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jatpo.bench.benchmarks import BENCHMARKS, Benchmark, Help
from jatpo.cli.app import CheckedCommand
from jatpo.cli.output import EXPORTS, one_form
from jatpo.cli.progress import Progress
from jatpo.plain import to_json
from jatpo.tables import Table

SUMMARY = "Measure speed and memory on this machine; without a name: list what can be measured."
COMMON: dict[str, tuple[Any, Any]] = {
    "out": (
        Annotated[Path | None, typer.Option(help="Write bench-NAME.json and pictures to this directory.")],
        None,
    ),
    **EXPORTS,
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")], False),
}

app = typer.Typer(help=SUMMARY, add_completion=False)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Switch the cache of compiled programs off; list the benchmarks where none is named."""
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # compiling is part of what is measured
    if context.invoked_subcommand is None:
        lines = [(name, benchmark.summary) for name, benchmark in BENCHMARKS.items()]
        print(Table.of(("benchmark", "what it measures"), lines))


def command_of(benchmark: Benchmark) -> Callable[..., None]:
    """The command of a benchmark, with its options and those that all have."""
    parameters = {part.name: _parameter(part) for part in dataclasses.fields(benchmark.options)} | COMMON

    def command(out: Path | None, quiet: bool, **values: Any) -> None:
        form = one_form(**{name: values.pop(name) for name in EXPORTS})
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        options = benchmark.options(**{name: value for name, value in given.items() if value is not None})
        with Progress(f"bench {benchmark.name}", quiet) as progress:
            figures = benchmark.measure(options, progress)
        if out:
            _write(benchmark, figures, out)
        tables = benchmark.tables(figures, options)
        if form.chosen:
            form.write(tables, figures)
        else:
            print("\n\n".join(map(str, tables)))

    keyword = inspect.Parameter.KEYWORD_ONLY
    vars(command)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(name, keyword, default=default, annotation=kind)
            for name, (kind, default) in parameters.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    command.__doc__ = benchmark.options.__doc__
    return command


def _parameter(part: dataclasses.Field[Any]) -> tuple[Any, Any]:
    """The annotation and the default of an option for typer."""
    shown: Help = part.metadata["help"]
    if shown.is_argument:
        return Annotated[list[str] | None, typer.Argument(metavar="NAME", help=shown.text)], None
    return Annotated[type(part.default), typer.Option(help=shown.text, min=shown.minimum)], part.default


def _write(benchmark: Benchmark, figures: Any, out: Path) -> None:
    from jatpo.disk import write_whole

    write_whole(out / f"bench-{benchmark.name}.json", text.dumps(to_json(figures), indent=2))
    for name, picture in benchmark.pictures(figures).items():
        write_whole(out / name, picture)


for _name, _benchmark in BENCHMARKS.items():
    app.command(_name, cls=CheckedCommand)(command_of(_benchmark))
