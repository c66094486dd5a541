"""Building the models of the domains: seconds and bytes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from jatpo import domains
from jatpo.bench.benchmarks import DomainOptions
from jatpo.bench.stopwatch import peak_bytes
from jatpo.domains import make  # imports jax, which is not part of what is timed
from jatpo.domains.parameters import RULES
from jatpo.errors import unknown
from jatpo.events import Event, OnEvent
from jatpo.memory import dense_bytes
from jatpo.tables import Table

COLUMNS = ("domain", "models", "states", "seconds", "slowest", "largest_bytes", "dense_bytes")


def measure(options: DomainOptions, on_event: OnEvent) -> dict[str, Any]:
    """One row for each domain, and their sum."""
    if options.rules not in RULES:
        raise unknown("rule set", options.rules, RULES)
    rows, names = [], domains.names()
    for done, name in enumerate(names):
        on_event(Event(done=done, total=len(names), figures={"domain": name}))
        rows.append(_time_domain(name, options.rules))
    total = {"seconds": sum(row["seconds"] for row in rows), "models": sum(row["models"] for row in rows)}
    return {"rules": options.rules, "domains": rows, **total, "peak_bytes": peak_bytes()}


def _time_domain(name: str, rules: str) -> dict[str, Any]:
    """Seconds for all models of a pool, from the rules to arrays on the device, and bytes of the largest."""
    spans, models = [], []
    for k in range(domains.get(name).pool):
        started = time.perf_counter()
        models.append(make(name, k, rules))
        spans.append(time.perf_counter() - started)
    largest = max(models, key=lambda model: model.nbytes)
    return {
        "domain": name,
        "models": len(models),
        "states": largest.num_states,
        "seconds": sum(spans),
        "slowest": max(spans),
        "largest_bytes": largest.nbytes,
        "dense_bytes": dense_bytes(largest.num_states, largest.num_actions, largest.num_observations),
    }


def tables(figures: dict[str, Any], options: DomainOptions) -> Sequence[Table]:
    """One row for each domain."""
    peak = figures["peak_bytes"] / 1e6
    note = f"{figures['models']} models in {figures['seconds']:.1f} s; peak memory {peak:.0f} MB"
    return [Table(figures["domains"], COLUMNS, notes=[note])]
