"""`jatpo evaluate`: the paper's main table for some domains, next to the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jatpo.cli.experiments import Shared, perform
from jatpo.cli.options import Agents, Names, Out, Preset, Quiet, Rules, Seed, Trials
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.solving import DEFAULTS, Solving, solves


@solves
@exports
def evaluate(
    names: Names,
    agents: Agents = None,
    trials: Trials = 1024,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    baseline: Annotated[
        str, typer.Option(help="The agent that the others are compared with, trial by trial.")
    ] = "atpo",
    solving: Solving = DEFAULTS,
    out: Out = None,
    page: Annotated[Path | None, typer.Option(help="Write the comparison as a Markdown page.")] = None,
    form: Form = TEXT,
    quiet: Quiet = False,
) -> None:
    """Run agents in domains and compare their returns with the published ones.

    Solves what is missing. All agents play the same trials, so differences between them are paired.
    """
    from jatpo.evaluate.experiments import Comparison

    shared = Shared(agents, trials, seed, rules, preset, solving, out, page, form, quiet)
    perform(Comparison(baseline.replace("-", "_")), names, shared)
