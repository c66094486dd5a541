"""`jatpo experiment NAME`: one command for each registered experiment, made from the fields of its dataclass.

A command has the experiment's own options (`jatpo.evaluate.experiment.option`), then those that all share. It writes
its tables and a manifest into one directory and resumes there when it is run again.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from jatpo.cli import help_text, solving
from jatpo.cli.app import CheckedCommand, NearestGroup
from jatpo.cli.described import described_commands
from jatpo.cli.options import RULES_HELP, SOURCES, Preset, Quiet, Seed, Trials, domain_names, names_of
from jatpo.cli.output import EXPORTS, TEXT, Form, one_form
from jatpo.cli.progress import Steps
from jatpo.errors import JatpoError
from jatpo.registry import extension_files

if TYPE_CHECKING:
    from jatpo.evaluate.experiment import Experiment
    from jatpo.tables import Table

PACKAGES = ("jatpo.evaluate.experiments", "jatpo.learn.adapt")  # importing them enters their experiments
PAGES = {
    "beyond": "jatpo.report.beyond_tables",
    "evaluate": "jatpo.report.comparison_page",
}  # with `write_page`


class Shared(NamedTuple):
    """What was chosen with the options that all experiments share, in the order of the help."""

    agents: str | None = None
    trials: int | None = None
    seed: int = 0
    rules: str = "as_run"
    preset: str = "exact"
    solving: solving.Solving = solving.DEFAULTS
    out: Path | None = None
    page: Path | None = None
    form: Form = TEXT
    quiet: bool = False


class Experiments(NearestGroup):
    """The experiments of the registry as commands, made when one is needed: help of jatpo's own imports none."""

    def parse_args(self, ctx, args):
        """As in typer; what asks for help only is answered from a description."""
        if (not args or args[-1] in help_text.NAMES) and not extension_files():
            self.commands.update(described_commands())
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx, args):
        """As in typer."""
        self.commands.clear()
        self._fill()
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx):
        """The names, in order."""
        self._fill()
        return sorted(self.commands)

    def get_command(self, ctx, cmd_name):
        """The command of one experiment."""
        self._fill()
        return super().get_command(ctx, cmd_name)

    def _fill(self) -> None:
        if self.commands:
            return
        app = typer.Typer(rich_markup_mode=None)
        app.callback()(lambda: None)
        for kind in registered():
            app.command(kind.name, cls=CheckedCommand, context_settings=help_text.SETTINGS)(command_of(kind))
        self.commands.update(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


experiment = typer.Typer(
    cls=Experiments,
    help="Experiments beyond the main table, each with its results in one directory.",
)


@experiment.callback(invoke_without_command=True)
def listed(context: typer.Context) -> None:
    """List the experiments unless one is named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def registered() -> list[type[Experiment]]:
    """All experiments: jatpo's own, and those of files named in JATPO_EXTENSIONS."""
    from jatpo.evaluate.experiment import EXPERIMENTS

    for package in PACKAGES:
        import_module(package)
    return [EXPERIMENTS.get(name) for name in EXPERIMENTS.names()]


def command_of(kind: type[Experiment]) -> Callable[..., None]:
    """The function that typer makes the command of."""
    own = {each.name: each for each in dataclasses.fields(kind) if "help" in each.metadata}  # type: ignore[arg-type]
    offered = {name: each for name, each in _shared(kind).items() if name not in kind.without}
    parameters = [_names(kind), *_own(kind, own), *offered.values()]

    def command(names: list[str] | None = None, **values: Any) -> None:
        settings = {name: _parsed(name, each.metadata, values.pop(name)) for name, each in own.items()}
        given = {name: values.pop(name) for name in solving.KINDS if name in values}
        form = one_form(**{name: values.pop(name) for name in EXPORTS})
        chosen = Shared(**values, solving=solving.Solving(**given), form=form)
        perform(kind(**settings), names, chosen)

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = inspect.cleandoc(kind.__doc__ or kind.name)
    return command


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _names(kind: type[Experiment]) -> inspect.Parameter:
    text = f"{SOURCES}; default: {', '.join(kind.sources)}."
    return _parameter(
        "names",
        None,
        Annotated[list[str] | None, typer.Argument(metavar="NAME", help=text, autocompletion=domain_names)],
    )


def _own(kind: type[Experiment], fields: Mapping[str, dataclasses.Field]) -> list[inspect.Parameter]:
    """The options of the experiment itself, from its fields."""
    hints = get_type_hints(kind)
    found = []
    for name, each in fields.items():
        more, text = dict(each.metadata["more"]), each.metadata["text"]
        parsed = each.metadata["parse"] is not None
        annotation = more.pop("kind", str if parsed else hints[name])
        if text is None or text == ():
            annotation, text = annotation | None, None
        flags = [f"--{name.replace('_', '-')}"] if annotation is bool else []
        found.append(
            _parameter(
                name, text, Annotated[annotation, typer.Option(*flags, help=each.metadata["help"], **more)]
            )
        )
    return found


def _shared(kind: type[Experiment]) -> dict[str, inspect.Parameter]:
    """The options that all experiments share."""
    names = f"Agents by name, comma-separated; default: {', '.join(kind.agents)}."
    out = (
        f"Directory for results; the same command resumes there; default: results/{kind.name}; "
        "other settings get a new directory next to it."
    )
    page = "Write the tables as a Markdown page, or between their markers in it."
    extra = "".join(f"; {name}" for name in kind.rules if name not in RULES_HELP)
    options: dict[str, tuple[Any, Any]] = {
        "agents": (None, Annotated[str | None, typer.Option(help=names)]),
        "trials": (kind.trials, Trials),
        "seed": (0, Seed),
        "rules": ("as_run", Annotated[str, typer.Option(help=f"{RULES_HELP}{extra}.")]),
        "preset": ("exact", Preset),
        **{name: (None, annotation) for name, annotation in solving.KINDS.items()},
        "out": (None, Annotated[Path | None, typer.Option(help=out)]),
        "page": (None, Annotated[Path | None, typer.Option(help=page)]),
        **{name: (default, annotation) for name, (annotation, default) in EXPORTS.items()},
        "quiet": (False, Quiet),
    }
    if kind.name not in PAGES:
        del options["page"]
    return {name: _parameter(name, *option) for name, option in options.items()}


def _parsed(name: str, metadata: Mapping[str, Any], value: Any) -> Any:
    """The value of a field, from that of its option."""
    if metadata["parse"] is None:
        return value
    try:
        if value is None:
            return None if metadata["text"] is None else metadata["parse"](metadata["text"])
        return metadata["parse"](value)
    except JatpoError as error:
        raise JatpoError(f"--{name.replace('_', '-')}: {error}") from error


def perform(experiment: Experiment, names: Sequence[str] | None, shared: Shared) -> dict[str, Table]:
    """Run an experiment with its progress shown, and print its tables."""
    from jatpo.disk import check_file
    from jatpo.evaluate.experiment import Config, run
    from jatpo.evaluate.results_store import place_for

    if shared.page and shared.page.parent.is_dir():  # a missing directory is made when the page is written
        check_file(shared.page)
    wanted = names_of(shared.agents)
    config = Config(
        trials=shared.trials,
        seed=shared.seed,
        rules=shared.rules,
        preset=shared.preset,
        request=shared.solving.request(),
        solutions=shared.solving.directory,
        chunks=shared.solving.engines.chunks,
    )
    with (
        Steps(experiment.name, shared.quiet) as progress,
        shared.solving.engines.engine(progress) as engine,
    ):
        config = dataclasses.replace(config, engine=engine)
        usual = place_for(Path("results") / experiment.name, experiment.name, experiment.settings(config))
        out = shared.out or usual
        tables = run(experiment, names, wanted, config, out, progress, replace=shared.out is None)
    if shared.page:
        found = {name: table.rows for name, table in tables.items()}
        settings = {**experiment.settings(config), "trials": config.trials}
        import_module(PAGES[experiment.name]).write_page(shared.page, found, settings)
    if shared.form.chosen:
        main = {name: tables[name] for name in experiment.main() if name in tables}
        rows = {name: table.rows for name, table in main.items()}
        data = next(iter(rows.values())) if len(rows) == 1 else rows
        shared.form.write(experiment.shown(tables), data, list(main.values()))
        return tables
    print("\n\n".join(str(table) for table in experiment.shown(tables)))
    print(f"\nresults are in {out}")
    return tables
