"""The solvers on this machine, next to the figures of other solvers; growth with models and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from matplotlib.figure import Figure

from jatpo.bench.benchmarks import SolverOptions
from jatpo.bench.solver_times import synthetic, time_backups, time_solve
from jatpo.bench.stopwatch import peak_bytes
from jatpo.domains import get, library, make
from jatpo.events import Event, OnEvent
from jatpo.library import Published
from jatpo.report.style import to_bytes
from jatpo.solve import Anytime, Perseus, Request, Stop, choose, solve_models
from jatpo.tables import Column, Table

ANCHORS: dict[str, tuple[str, int, dict[str, float]]] = {
    # what other solvers reach on a two-core machine: solver, model, seconds and value at the start
    "abandoned-power-plant": ("AI-Toolbox PERSEUS", 1, {"seconds": 20.6, "value": 45.15}),
    "ntu": ("AI-Toolbox PERSEUS", 0, {"seconds": 504.0, "value": 83.43}),
    "gridworld": ("AI-Toolbox PERSEUS", 0, {"seconds": 558.0, "value": 66.35}),
}
SARSOP: tuple[tuple[str, int, float, float], ...] = (
    # domain, model, value at the start that SARSOP has within 60 s, and our target in seconds
    ("gridworld", 0, 68.01, 10.0),
    ("pursuit-teammate", 0, 43.2, 10.0),
    ("pursuit-teammate", 1, 31.1, 10.0),
    ("overcooked", 0, 35.59, 5.0),
    ("overcooked", 3, -15.85, 5.0),
    ("ntu", 0, 83.86, 5.0),
    ("isr", 0, 54.04, 5.0),
    ("mit", 0, 32.92, 5.0),
    ("pentagon", 0, 55.44, 5.0),
    ("cit", 0, 36.26, 15.0),
)
STATES = (500, 1_500, 5_000, 15_000, 50_000)


def measure(options: SolverOptions, on_event: OnEvent) -> dict[str, Any]:
    """Rows of Perseus, the anytime solver, growth with models and with states; peak memory."""
    figures: dict[str, Any] = {"perseus": _perseus(on_event)}
    figures["anytime"] = _anytime(on_event) if options.anchors else []
    figures["models"] = _growth_in_models(on_event)
    figures["states"] = _growth_in_states(options.largest, on_event)
    return {**figures, "peak_bytes": peak_bytes()}


def _perseus(on_event: OnEvent) -> list[dict[str, Any]]:
    """The paper's settings on the models with an anchor."""
    rows = []
    for name, (solver, k, anchor) in ANCHORS.items():
        on_event(Event(figures={"measuring": f"Perseus on {name}"}))
        model, own = make(name, k), get(name)
        published = Published(own.beliefs, own.tolerance)
        choice = choose(Request(), num_models=1, horizon=own.horizon, published=published)
        row = time_solve([model], *choice) | time_backups(model)
        times = anchor["seconds"] / row["cold_seconds"]
        rows.append({"domain": name, "model": k, "anchor": solver, **anchor, **row, "times_faster": times})
    return rows


def _anytime(on_event: OnEvent) -> list[dict[str, Any]]:
    """The anytime solver against the values that SARSOP has within a minute, each from cold."""
    rows = []
    for name, k, value, seconds in SARSOP:
        on_event(Event(figures={"measuring": f"anytime on {name} {k}"}))
        reached: list[float] = []

        def record(event: Event, value=value, reached=reached) -> None:
            if event.figures["lower"] >= value - 0.005 and not reached:
                reached.append(event.figures["seconds"])

        jax.clear_caches()
        [solution] = solve_models(
            [make(name, k)], Anytime(), Stop(seconds, gap=0.01), key=jax.random.key(0), on_event=record
        )
        rows.append(
            {
                "domain": name,
                "model": k,
                "sarsop": value,
                "target_seconds": seconds,
                "lower": solution.lower,
                "upper": solution.upper,
                "seconds": solution.seconds,
                "reached_after": reached[0] if reached else None,
            }
        )
    return rows


def _growth_in_models(on_event: OnEvent) -> list[dict[str, Any]]:
    """Perseus on 1, 2, 4, 8 models of gridworld's pool."""
    pool = library("gridworld", pool=True)
    rows = []
    for count in (1, 2, 4, 8):
        on_event(Event(figures={"measuring": f"{count} models"}))
        row = time_solve(pool.members[:count], Perseus(beliefs=1000, steps=20), Stop(stages=20))
        rows.append({"models": count, **row})
    return rows


def _growth_in_states(largest: int, on_event: OnEvent) -> list[dict[str, Any]]:
    """One backup in a synthetic family of growing size."""
    rows = []
    for size in [*(size for size in STATES if size < largest), largest]:
        on_event(Event(figures={"measuring": f"{size} states"}))
        model = synthetic(size)
        rows.append({"states": size, "model_bytes": model.nbytes, **time_backups(model)})
    return rows


def tables(figures: Mapping[str, Any], options: SolverOptions) -> Sequence[Table]:
    """Perseus, the anytime solver, growth with models, growth with states."""
    heads = {"lower": "ours", "value": "anchor", "cold_seconds": "cold s", "compile_seconds": "compile s"}
    heads |= {"seconds": "anchor s", "times_faster": "times faster", "ratio": "vs NumPy"}
    perseus = ["domain", "model", *(Column(key, head) for key, head in heads.items())]
    anytime = ["domain", "model", "lower", "upper", "sarsop", "seconds", "target_seconds", "reached_after"]
    models = ["models", "cold_seconds", "warm_seconds", "backups", "backups_per_second"]
    states = ["states", "model_bytes", "backup_seconds", "reference_seconds", "ratio"]
    peak = f"peak memory {figures['peak_bytes'] / 1e6:.0f} MB"
    made = [
        Table(figures["perseus"], perseus, "Perseus, the paper's settings, next to AI-Toolbox"),
        Table(figures["anytime"], anytime, "anytime, next to SARSOP"),
        Table(figures["models"], models, "growth with models"),
        Table(figures["states"], states, "growth with states", [peak]),
    ]
    return [table for table in made if len(table)]


def pictures(figures: Mapping[str, Any]) -> dict[str, bytes]:
    """Both kinds of growth."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    models, states = figures["models"], figures["states"]
    left.plot([row["models"] for row in models], [row["warm_seconds"] for row in models], "o-")
    left.set(xlabel="models", ylabel="seconds, compiled", title="gridworld, 1,000 beliefs, 20 stages")
    right.loglog([row["states"] for row in states], [1e3 * row["backup_seconds"] for row in states], "o-")
    right.set(xlabel="states", ylabel="ms for one backup", title="synthetic models, 256 vectors")
    return {"bench-solve.svg": to_bytes(figure, "svg")}
