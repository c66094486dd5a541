"""`jatpo bench evaluate`: steps per second of every agent, growth, latency of a decision."""

from __future__ import annotations

from typing import Annotated

import typer

from jatpo.cli.evaluate import Agents, Json, Quiet, chosen_sources, names_of, working
from jatpo.cli.output import print_json, print_table


def evaluate(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Domains; all without it.")
    ] = None,
    agents: Agents = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each run.")] = 256,
    vectors: Annotated[
        int, typer.Option(min=1, help="Alpha vectors of each model (stand-ins; nothing is solved).")
    ] = 300,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure rollouts and decisions, next to a plain NumPy reference measured in the same run."""
    chosen = chosen_sources(names or ["all"])

    from jatpo.evaluate import benchmark
    from jatpo.evaluate.prepare import PAPER

    found: dict[str, list] = {"rollouts": [], "growth": [], "latency": []}
    with working("measuring", quiet) as progress:
        for done, name in enumerate(chosen):
            progress.update(done, len(chosen), domain=name)
            found["rollouts"] += benchmark.rollout_rows(name, names_of(agents) or PAPER, trials, vectors)
            found["latency"].append(benchmark.latency_row(name, vectors))
        if "gridworld" in chosen:
            found["growth"] = benchmark.growth_rows(
                "gridworld", vectors, (128, 256, 512, 1024), (1, 2, 4, 8, 16, 32)
            )
        progress.update(len(chosen), len(chosen))
    if json:
        print_json(found)
        return
    for title, rows in found.items():
        if rows:
            columns = list(rows[0])
            shown = [column.replace("_", " ") for column in columns]
            print_table(shown, [[row[column] for column in columns] for row in rows], title=title)
            print()
