"""`jatpo bench domains`: how long it takes to build the models, and how large they are."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress
from jatpo.errors import unknown


def domains(
    rules: Annotated[str, typer.Option(help="as_run or as_written.")] = "as_run",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Build every model of every domain's pool and tell seconds and bytes."""
    import jatpo.model  # noqa: F401  (importing jax is not part of building)
    from jatpo import domains as built_in
    from jatpo.cli.bench import peak_bytes
    from jatpo.domains.parameters import RULES

    if rules not in RULES:
        raise unknown("rule set", rules, RULES)
    rows: list[dict[str, Any]] = []
    with Progress("bench domains", quiet) as progress:
        names = built_in.names()
        for done, name in enumerate(names):
            progress.update(done, len(names), domain=name)
            rows.append(_measure(name, rules))
    total = {"seconds": sum(row["seconds"] for row in rows), "models": sum(row["models"] for row in rows)}
    figures = {"rules": rules, "domains": rows, **total, "peak_bytes": peak_bytes()}
    if json:
        print_json(figures)
        return
    columns = ("domain", "models", "states", "seconds", "slowest", "largest_bytes", "dense_bytes")
    print_table(columns, [[row[column] for column in columns] for row in rows])
    print(
        f"{total['models']} models in {total['seconds']:.1f} s; peak memory {figures['peak_bytes'] / 1e6:.0f} MB"
    )


def _measure(name: str, rules: str) -> dict[str, Any]:
    """Seconds for all models of a pool, from the rules to arrays on the device, and bytes of the largest."""
    from jatpo import domains as built_in
    from jatpo.memory import dense_bytes

    spans, models = [], []
    for k in range(built_in.get(name).pool):
        started = time.perf_counter()
        models.append(built_in.make(name, k, rules))
        spans.append(time.perf_counter() - started)
    largest = max(models, key=lambda model: model.nbytes)
    sizes = (largest.num_states, largest.num_actions, largest.num_observations)
    return {
        "domain": name,
        "models": len(models),
        "states": largest.num_states,
        "seconds": sum(spans),
        "slowest": max(spans),
        "largest_bytes": largest.nbytes,
        "dense_bytes": dense_bytes(*sizes),
    }
