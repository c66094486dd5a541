"""`jatpo reproduce`: the paper's experiments in one command, and a page that shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.evaluate import Json, Preset, Quiet, Rules, Seconds, Seed, Solutions, Trials, check_rules
from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress, format_seconds
from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.report.results import Results
    from jatpo.report.schedule import Schedule

EVERY_SIZE = "2-32"


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Domains; all eleven without a name.")
    ] = None,
    trials: Trials = 32,
    rules: Rules = "as_run",
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for results and report, results/reproduce without it; run again to go on."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Library sizes for the scaling experiment on gridworld, as in 2-32 or 2,8,32, or none; "
            "2-32 when no domain is named, none otherwise."
        ),
    ] = None,
    preset: Preset = "exact",
    seconds: Seconds = None,
    solutions: Solutions = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Also draw replay.png and results.png into this directory.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build, solve, play and compare with the published numbers; write a report.

    Solves by the paper's settings. What has been done is kept: the same command goes on where it was stopped,
    and more trials or domains add to what is there.
    """
    chosen = _chosen(names)
    check_rules(rules)
    wanted = _sizes(sizes, chosen, everything=not names)

    from jatpo.evaluate.solutions import in_seconds
    from jatpo.report.pictures import draw_pictures
    from jatpo.report.plan import Plan
    from jatpo.report.reproduce import Reproduction

    settings = None if seconds is None else in_seconds(seconds)
    plan = Plan(chosen, trials, seed, rules, preset, wanted, settings=settings, solutions=solutions)
    progress = Overall("reproducing", quiet)
    with progress:
        work = Reproduction(plan, out or _default(rules), progress.follow)
        results = work.run()
        report = work.write_report(results)
        if pictures:
            draw_pictures(pictures, results, work.episodes)
        progress.finish()
    if json:
        print_json({"directory": work.store.directory, "report": report, **results.tables})
    else:
        show(results)
        print(f"\nThe report is {report}; open it in a browser.")


class Overall(Progress):
    """Progress over all steps: what is being done, how much of the whole is done, how long it still takes."""

    _schedule: Schedule | None = None
    _text = ""
    _finished = False

    def follow(self, schedule: Schedule, text: str) -> None:
        """Show where a schedule is."""
        self._schedule, self._text = schedule, text
        self.update(schedule.done, 1.0)

    def finish(self) -> None:
        """All is done."""
        self._finished = True
        self.update(1.0, 1.0)

    def line(self) -> str:
        """As in ``solving ntu (step 3 of 10): model 1 of 4, stage 12; 31 % done, 20 s, about 45 s left``."""
        elapsed = format_seconds(self._clock() - self._start)
        schedule = self._schedule
        if schedule is None or self._finished:
            return f"{self.title}: {'done, ' if self._finished else ''}{elapsed}"
        inside = f"{self._text}; " if self._text else ""
        where = f"{schedule.step.title} (step {schedule.number} of {len(schedule.steps)})"
        left = format_seconds(schedule.left)
        return f"{where}: {inside}{100 * schedule.done:.0f} % done, {elapsed}, about {left} left"


def _chosen(names: Sequence[str] | None) -> list[str]:
    """The domains named, or the paper's eleven."""
    from jatpo import domains
    from jatpo.evaluate import published

    if not names or "all" in names:
        return list(published.load()["returns"])
    return list(dict.fromkeys(domains.get(name).name for name in names))


def _sizes(text: str | None, chosen: Sequence[str], everything: bool) -> list[int]:
    from jatpo.cli.experiment import parse_sizes

    if text is None:
        text = EVERY_SIZE if everything else "none"
    if text == "none":
        return []
    sizes = parse_sizes(text)
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


def show(results: Results) -> None:
    """Print Table 3 next to the published numbers, and the verdict."""
    import textwrap

    from jatpo.report import verdict
    from jatpo.report.style import mark

    agents = list(dict.fromkeys(row["agent"] for row in results["summary"]))
    cells = {(row["domain"], row["agent"]): row for row in results["summary"]}
    lines = [(name, *(_cell(cells[name, agent]) for agent in agents)) for name in results.domains()]
    columns = ("domain", *(mark(agent).label for agent in agents))
    trials = results.run["trials"]
    print_table(columns, lines, title=f"Table 3: mean returns over {trials} trials (published)")
    if any(row.get("compatible") is False for row in results["summary"]):
        print("! differs from the published mean by more than three standard errors, both counted")
    width = min(os.get_terminal_size().columns, 110) if os.isatty(1) else 110
    print("\n" + textwrap.fill(verdict.judge(results).sentence, width))


def _cell(row: Any) -> str:
    if row["mean"] is None:
        return "N.A."
    theirs = "" if row["published_mean"] is None else f" ({row['published_mean']:.1f})"
    return f"{row['mean']:.1f}{theirs}{' !' if row.get('compatible') is False else ''}"
