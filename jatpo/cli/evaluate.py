"""`jatpo evaluate`: the paper's main table for some domains, next to the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jatpo.cli.experiments import Shared, perform
from jatpo.cli.options import Agents, Json, Names, Out, Preset, Quiet, Rules, Seed, Trials
from jatpo.cli.solving import DEFAULTS, Solving, solves


@solves
def evaluate(
    names: Names,
    agents: Agents = None,
    trials: Trials = 1024,
    seed: Seed = 0,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    solving: Solving = DEFAULTS,
    out: Out = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the comparison as a Markdown page.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run agents in domains and compare their returns with the published ones.

    Solves what is missing. All agents meet the same trials, so differences between them are paired.
    """
    from jatpo.evaluate.experiments import Comparison

    shared = Shared(agents, trials, seed, rules, preset, solving, out, markdown, json, quiet)
    perform(Comparison(), names, shared)
