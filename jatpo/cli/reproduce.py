"""`jatpo reproduce`: the paper's experiments in one command, and a page that shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.options import Preset, Quiet, Rules, Seed, Trials, check_rules
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.progress import Progress, format_seconds
from jatpo.cli.solving import DEFAULTS, Solving, solves
from jatpo.errors import JatpoError
from jatpo.events import Event
from jatpo.tables import Table

if TYPE_CHECKING:
    from jatpo.report.results import Results

EVERY_SIZE = "2-32"


@solves
@exports
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Domains; default: all eleven.")
    ] = None,
    trials: Trials = 32,
    rules: Rules = "as_run",
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for results and report; the same command resumes there; default: results/reproduce."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Library sizes for the scaling experiment on gridworld, as in 2-32 or 2,8,32, or none; "
            "default: 2-32 when no domain is named, otherwise none."
        ),
    ] = None,
    preset: Preset = "exact",
    solving: Solving = DEFAULTS,
    pictures: Annotated[
        Path | None, typer.Option(help="Also draw replay.png and results.png into this directory.")
    ] = None,
    form: Form = TEXT,
    quiet: Quiet = False,
) -> None:
    """Build, solve, play and compare with the published numbers; write a report.

    Solves by the paper's settings. What has been done is kept: the same command resumes where it was stopped,
    and more trials or domains add to what is there.
    """
    chosen = _chosen(names)
    check_rules(rules)
    wanted = _sizes(sizes, chosen, everything=not names)

    from jatpo.evaluate.experiment import Config
    from jatpo.report.pictures import draw_pictures
    from jatpo.report.plan import Plan
    from jatpo.report.reproduction import reproduce

    config = Config(
        trials, seed, rules, preset, solving.request(), solving.directory, chunks=solving.engines.chunks
    )
    directory = out or _default(rules)
    with Overall("reproducing", quiet) as progress, solving.engines.engine(progress) as engine:
        config = replace(config, engine=engine)
        found = reproduce(Plan(chosen, wanted, config), directory, progress)
        if pictures:
            draw_pictures(pictures, found.results, found.episodes)
        progress(Event("reproducing", 1.0, 1.0))
    if form.chosen:
        data = {"directory": directory, "report": found.report, **found.results.tables}
        form.write([table_3(found.results)], data, [Table(found.results["summary"])])
    else:
        show(found.results)
        print(f"\nThe report is {found.report}; open it in a browser.")


class Overall(Progress):
    """Progress over all steps: what is being done, how much of the whole is done, how long it still takes."""

    def line(self) -> str:
        """As in ``solving ntu (step 3 of 10): model 1 of 4, stage 12; 31 % done, 20 s, about 45 s left``."""
        elapsed = format_seconds(self._clock() - self._start)
        if "left" not in self._fields:
            return f"{self.title}: {'done, ' if self._done else ''}{elapsed}"
        inside = f"{self._fields['doing']}; " if self._fields["doing"] else ""
        left = format_seconds(self._fields["left"])
        return f"{self.title}: {inside}{100 * self._done:.0f} % done, {elapsed}, about {left} left"


def _chosen(names: Sequence[str] | None) -> list[str]:
    """The domains named, or the paper's eleven."""
    from jatpo import domains
    from jatpo.evaluate import published

    if not names or "all" in names:
        return list(published.load()["returns"])
    return list(dict.fromkeys(domains.get(name).name for name in names))


def _sizes(text: str | None, chosen: Sequence[str], everything: bool) -> Sequence[int]:
    from jatpo.evaluate.option_fields import integers

    if text is None:
        text = EVERY_SIZE if everything else "none"
    if text == "none":
        return ()
    sizes = integers(text)
    if "gridworld" not in chosen:
        raise JatpoError(
            "--sizes is for the scaling experiment on gridworld: name gridworld too, or leave it out"
        )
    if not (sizes[0] >= 2 and sizes[-1] <= 32):
        raise JatpoError(f"--sizes {text} is not possible: libraries have 2 to 32 models")
    return sizes


def _default(rules: str) -> Path:
    name = "reproduce" if rules == "as_run" else f"reproduce-{rules.replace('_', '-')}"
    return Path("results") / name


def table_3(results: Results) -> Table:
    """Table 3 next to the published numbers."""
    from jatpo.report.style import mark

    agents = list(dict.fromkeys(row["agent"] for row in results["summary"]))
    cells = {(row["domain"], row["agent"]): row for row in results["summary"]}
    lines = [(name, *(_cell(cells[name, agent]) for agent in agents)) for name in results.domains()]
    columns = ("domain", *(mark(agent).label for agent in agents))
    trials = results.run["trials"]
    return Table.of(columns, lines, f"Table 3: mean returns over {trials} trials (published)")


def show(results: Results) -> None:
    """Print Table 3 and the verdict."""
    import textwrap

    from jatpo.report import verdict

    print(table_3(results))
    if any(row.get("compatible") is False for row in results["summary"]):
        print("! differs from the published mean by more than three standard errors, both counted")
    width = min(os.get_terminal_size().columns, 110) if os.isatty(1) else 110
    print("\n" + textwrap.fill(verdict.judge(results).sentence, width))


def _cell(row: Any) -> str:
    if row["mean"] is None:
        return "N.A."
    theirs = "" if row["published_mean"] is None else f" ({row['published_mean']:z.1f})"
    return f"{row['mean']:z.1f}{theirs}{' !' if row.get('compatible') is False else ''}"
