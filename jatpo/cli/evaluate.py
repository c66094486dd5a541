"""`jatpo evaluate`: the paper's main table for some domains, next to the published numbers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress
from jatpo.errors import JatpoError, unknown

if TYPE_CHECKING:
    from jatpo.evaluate.prepare import Session
    from jatpo.evaluate.solutions import SolveOptions

ALL = "all"

# Options that the experiments share.
Trials = Annotated[int, typer.Option(min=1, help="Trials for each agent.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of worlds and agents.")]
Rules = Annotated[
    str, typer.Option(help="as_run: the rules behind the published tables; as_written: the paper's text.")
]
BY_NAME = "Agents by name, with commas between"
Agents = Annotated[str | None, typer.Option(help=f"{BY_NAME}; the paper's six without it.")]
Preset = Annotated[
    str,
    typer.Option(
        help="exact: filters as in the paper's text; as_run: 1e-8 added, as in the published program."
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(min=0.1, help="Solve each model for so long; by the paper's settings without it."),
]
Solutions = Annotated[
    Path | None, typer.Option(help="Where solutions are kept; $JATPO_CACHE or .jatpo/solutions without it.")
]
Out = Annotated[
    Path | None, typer.Option(help="Directory for results; the same command there goes on with them.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


def evaluate(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Domains, files or libraries; 'all': all domains.")
    ],
    agents: Agents = None,
    trials: Trials = 1024,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    out: Out = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the comparison as a Markdown page.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run agents in domains and compare their returns with the published ones.

    Solves what is missing. All agents meet the same worlds, so differences between them are paired.
    """
    chosen = chosen_sources(names)
    wanted = names_of(agents)
    check_rules(rules)

    from jatpo.evaluate import comparison
    from jatpo.evaluate.prepare import choose_agents, prepare
    from jatpo.evaluate.report import write_page

    players = choose_agents(wanted, preset)
    settings = {"seed": seed, "rules": rules, "preset": preset, **solver_settings(seconds)}
    store = open_store(out, "evaluate", settings)
    rows: list[dict[str, Any]] = []
    trial_rows: list[dict[str, Any]] = []
    times: dict[str, dict[str, float]] = {}
    for name in chosen:
        with working(f"solving {name}", quiet) as progress:
            prepared = prepare(name, players, rules, solve_options(seconds, solutions, progress))
        tell(prepared.notes)
        with session(f"evaluating {name}", seed, store, quiet) as running:
            results = comparison.play(prepared, players, trials, running)
        rows += comparison.compare(results)
        times[name] = prepared.seconds
        if store:
            trial_rows += comparison.trial_rows(results)
            store.write_table("summary", rows)
            store.write_table("trials", trial_rows)
    if markdown:
        write_page(markdown, rows, {**settings, "trials": trials, "domains": chosen})
    if json:
        print_json(rows)
    else:
        show(rows)


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the comparison, and below it the paired differences."""
    columns = (
        "domain",
        "agent",
        "mean",
        "std",
        "95 % interval",
        "published",
        "compatible",
        "relative %",
        "published %",
    )
    print_table(columns, [_line(row) for row in rows])
    paired = [row for row in rows if row.get("atpo_minus") is not None]
    if paired:
        print()
        table = [(row["domain"], row["agent"], _signed(row["atpo_minus"]), _paired(row)) for row in paired]
        print_table(
            ("domain", "rival", "difference", "95 % interval"), table, title="ATPO minus rival, paired"
        )


def _line(row: dict[str, Any]) -> tuple:
    published = _two(row["published_mean"], row["published_std"])
    relative = [
        f"{row[name]:.1f}" if row.get(name) is not None else None
        for name in ("relative", "published_relative")
    ]
    if row["mean"] is None:
        return row["domain"], row["agent"], "N.A.", None, None, published, None, None, None
    interval = f"{row['low']:.2f} .. {row['high']:.2f}"
    ours = (f"{row['mean']:.2f}", f"{row['std']:.2f}", interval)
    return (row["domain"], row["agent"], *ours, published, row["compatible"], *relative)


def _two(mean: float | None, std: float | None) -> str | None:
    return None if mean is None else f"{mean:.2f} ± {std:.2f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def _paired(row: dict[str, Any]) -> str:
    return f"{row['atpo_minus_low']:+.2f} .. {row['atpo_minus_high']:+.2f}"


def chosen_sources(names: Sequence[str]) -> list[str]:
    """The domains, files and libraries named, each once; `all` stands for all domains."""
    from jatpo import domains

    chosen: list[str] = []
    for name in names:
        known = name.partition(":")[0] in domains.names() or os.path.exists(name)
        if name != ALL and not known:
            from jatpo.files import resolve

            resolve(name)  # raises
        chosen += domains.names() if name == ALL else [name]
    return list(dict.fromkeys(chosen))


def names_of(agents: str | None) -> list[str] | None:
    """Names between commas."""
    if agents is None:
        return None
    found = [name.strip() for name in agents.split(",") if name.strip()]
    if not found:
        raise JatpoError("--agents names no agent: give names with commas between")
    return found


def check_rules(rules: str) -> None:
    """Refuse an unknown rule set at once."""
    from jatpo.domains.parameters import RULES

    if rules not in RULES:
        raise unknown("rule set", rules, RULES)


def solver_settings(seconds: float | None) -> dict[str, Any]:
    """How models are solved, for the manifest."""
    return {"solver": "perseus, paper's settings" if seconds is None else f"anytime, {seconds:g} s"}


def solve_options(seconds: float | None, directory: Path | None, progress: Progress) -> SolveOptions:
    """Options for the solver, with its progress shown."""
    from jatpo.evaluate.solutions import SolveOptions, in_seconds

    settings = None if seconds is None else in_seconds(seconds)
    return SolveOptions(settings, directory=directory, progress=_shown(progress), note=_warn)


def _warn(text: str) -> None:
    print(f"jatpo: {text}", file=sys.stderr)


def tell(notes: Sequence[str]) -> None:
    """Say what was mended on reading files."""
    for text in notes:
        print(f"jatpo: note: {text}", file=sys.stderr)


def _shown(progress: Progress) -> Callable[..., None]:
    def update(**fields: Any) -> None:
        label = fields.get("label")
        if label:
            progress.title = f"solving {label}"
        shown = {name: fields[name] for name in ("vectors", "lower", "upper") if name in fields}
        progress.update(fields.get("stage", 0), None, **shown)

    return update


def open_store(out: Path | None, experiment: str, settings: dict[str, Any]) -> Any:
    """The store in `out`, or None."""
    if out is None:
        return None
    from jatpo.evaluate.store import Store

    return Store(out, experiment, settings)


@contextlib.contextmanager
def working(title: str, quiet: bool) -> Iterator[Progress]:
    """A progress display."""
    with Progress(title, quiet=quiet) as progress:
        yield progress


@contextlib.contextmanager
def session(title: str, seed: int, store: Any, quiet: bool) -> Iterator[Session]:
    """A session that shows its progress."""
    from jatpo.evaluate.prepare import Session

    with Progress(title, quiet=quiet) as progress:
        yield Session(seed, store, progress.update)
