"""Cost against size: rounds of the sparse solver over states, rollouts over models, rollouts over devices.

States: `jatpo.bench.local_family`, whose beliefs stay local, so that a round should cost no more in a larger model than
what its new vectors cost. Models: ATPO in libraries of the gridworld's pool. Devices: the same rollout in a process of
its own for each number of devices, since that is fixed when JAX starts. Times of rounds and models are processor time,
those of devices are not, since all devices work at once.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jatpo import domains
from jatpo.bench.benchmarks import ScaleOptions
from jatpo.bench.local_family import local_model
from jatpo.bench.rollout_times import stand_in
from jatpo.bench.stopwatch import peak_bytes, time_calls
from jatpo.cores import usable_cores
from jatpo.errors import JatpoError
from jatpo.evaluate import rollout
from jatpo.evaluate.agents import ATPO
from jatpo.events import Event, OnEvent
from jatpo.solve.problem import prepare
from jatpo.solve.sparse import Sparse
from jatpo.tables import Table

GROWING, VECTORS = "gridworld", 100
MODELS = (1, 2, 4, 8, 16, 32)
ROUNDS = 2  # the second of which is compiled
TITLES = {"states": "rounds over states", "models": "ATPO over models", "devices": "ATPO over devices"}

Rows = list[dict[str, Any]]


def measure(options: ScaleOptions, on_event: OnEvent) -> dict[str, Rows]:
    """Rows over states, models and devices."""
    sizes = [10**power for power in range(3, 10) if 10**power <= options.states]
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= usable_cores()]
    found: dict[str, Rows] = {name: [] for name in TITLES}
    total = len(sizes) + 2
    for done, states in enumerate(sizes):
        on_event(Event(done=done, total=total, figures={"states": states}))
        found["states"].append(state_row(states))
    on_event(Event(done=total - 2, total=total, figures={"growth in": "models"}))
    found["models"] = [model_row(count, options.trials) for count in MODELS]
    on_event(Event(done=total - 1, total=total, figures={"growth in": "devices"}))
    found["devices"] = [device_row(count, options.trials) for count in counts]
    on_event(Event(done=total, total=total))
    return found


def state_row(states: int) -> dict[str, Any]:
    """Processor seconds to build, to begin (compiling, first bounds), and of rounds; the interval after them."""
    clock = time.process_time
    began = clock()
    model = local_model(states)
    built = clock()
    solver, key = Sparse(), jax.random.key(0)
    (problem,) = prepare([model], every_state=True, planned=False)
    state = solver.init(problem, key)
    ready, spans = clock(), []
    for _ in range(ROUNDS):
        start = clock()
        state, _ = solver.step(problem, key, state)
        spans.append(clock() - start)
    row = {"states": states, "build_s": built - began, "begin_s": ready - built, "first_round_s": spans[0]}
    row |= {
        "round_s": spans[-1],
        "vectors": int(state.bank.count),
        "lower": state.lower,
        "upper": state.upper,
    }
    return {**row, "peak_bytes": peak_bytes()}


def model_row(count: int, trials: int) -> dict[str, Any]:
    """Processor seconds of ATPO's rollout in a library of `count` models."""
    best = time_calls(_play(count, trials), 2, time.process_time).best
    steps = trials * domains.get(GROWING).horizon
    return {"models": count, "trials": trials, "seconds": best, "us_per_step": 1e6 * best / steps}


def device_row(count: int, trials: int) -> dict[str, Any]:
    """Seconds of ATPO's rollout in the library of four models on `count` devices."""
    code = f"from jatpo.bench.scale_times import device_seconds; print(device_seconds({trials}))"
    given = {**os.environ, "JAX_NUM_CPU_DEVICES": str(count), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise JatpoError(f"the rollout on {count} devices ended with an error: {done.stderr.strip()[-300:]}")
    devices, seconds = json.loads(done.stdout.splitlines()[-1])
    return {"devices": devices, "trials": trials, "seconds": seconds}


def device_seconds(trials: int) -> str:
    """The number of devices of this process and seconds of a rollout on all of them, as JSON."""
    return json.dumps([jax.device_count(), time_calls(_play(4, trials), 2).best])


def _play(count: int, trials: int) -> Callable[[], Any]:
    models = domains.library(GROWING, pool=True).members[:count]
    setup = stand_in(models, VECTORS)
    horizon = domains.get(GROWING).horizon
    return partial(rollout.rollout, jax.random.key(0), ATPO(), *setup, horizon, trials=trials)


def tables(figures: dict[str, Rows], options: ScaleOptions) -> Sequence[Table]:
    """One table for each axis."""
    del options
    return [Table(rows, title=TITLES[name]) for name, rows in figures.items() if rows]


def pictures(figures: dict[str, Rows]) -> Mapping[str, bytes]:
    """Seconds against states, models and devices on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    lines = {
        "states": (
            ("round_s", "a round"),
            ("begin_s", "first bounds, with compiling"),
            ("build_s", "building"),
        ),
        "models": (("seconds", "a rollout"),),
        "devices": (("seconds", "a rollout"),),
    }
    for axes, (name, own) in zip(figure.subplots(1, 3), lines.items(), strict=True):
        rows = figures[name]
        size = [row[name] for row in rows]
        for key, label in own:
            axes.plot(size, [row[key] for row in rows], "o-", label=label, markersize=4)
        steady = rows[0][own[0][0]] * (np.array(size) / size[0]) ** (-1.0 if name == "devices" else 1.0)
        axes.plot(size, steady, color="0.6", linewidth=1, linestyle=(0, (4, 2)), label="in proportion")
        axes.set(xscale="log", yscale="log", xlabel=name, title=TITLES[name])
        axes.set_ylabel("seconds" if name == "devices" else "processor seconds")
        axes.legend(fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return {"bench-scale.png": buffer.getvalue()}
