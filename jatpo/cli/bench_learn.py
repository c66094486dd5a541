"""`jatpo bench learn`: the gradient of the log likelihood next to the filter itself, in time and memory."""

from __future__ import annotations

from typing import Annotated

import typer

from jatpo.cli.evaluate import Json, Quiet, chosen_sources, working
from jatpo.cli.output import print_json, print_table

DOMAINS = ("gridworld", "isr")
COLUMNS = (
    "domain",
    "gradient",
    "parameters",
    "filter_ms",
    "gradient_ms",
    "ratio",
    "memory_mb",
    "all_beliefs_mb",
)


def learn(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Domains; gridworld and isr without it.")
    ] = None,
    histories: Annotated[int, typer.Option(min=1, help="Histories side by side.")] = 256,
    steps: Annotated[int, typer.Option(min=1, help="Their length.")] = 75,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of which the fastest counts.")] = 5,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the log likelihood of a batch of histories and its gradient, by everything and by what is learned.

    The ratio is that of the gradient to the filter of the same model; times are processor time.
    """
    chosen = chosen_sources(names or list(DOMAINS))

    from jatpo.learn.benchmark import rows

    found: list[dict] = []
    with working("measuring", quiet) as progress:
        for done, name in enumerate(chosen):
            progress.update(done, len(chosen), domain=name)
            found += rows(name, histories, steps, repeats)
        progress.update(len(chosen), len(chosen))
    if json:
        print_json(found)
        return
    shown = [column.replace("_", " ") for column in COLUMNS]
    table = [[row[column] for column in COLUMNS] for row in found]
    print_table(shown, table, title=f"{histories} histories of {steps} steps")
