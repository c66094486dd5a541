"""Fit by expectation maximisation, a check of the fit by gradient (see `expected_counts` for the equations)."""

from __future__ import annotations

import time

import jax
import numpy as np

from jatpo.events import Event, OnEvent, ignore
from jatpo.learn.expected_counts import Maximisable, expect, maximise
from jatpo.learn.fitting import Fitted
from jatpo.learn.histories import Histories
from jatpo.learn.parametrisation import batched_log_likelihoods, batches, check_possible


def em(
    parametrisation: Maximisable,
    histories: Histories,
    *,
    iterations: int = 100,
    tolerance: float = 1e-6,
    trust: float = 1.0,
    on_event: OnEvent = ignore,
) -> Fitted:
    """EM until the objective per history rises by less than `tolerance`; no history is held out."""
    began = time.perf_counter()
    start = params = parametrisation.start()
    data = parametrisation.prepare(histories)
    check_possible(parametrisation, start, data)
    count, weight = histories.num_histories, np.float32(trust)
    curve: list[dict[str, float]] = []
    before, stopped = -np.inf, f"{iterations} rounds"
    for iteration in range(1, iterations + 1):
        counted = [expect(parametrisation, params, part) for part in batches(data)]
        score, counts = jax.tree.map(lambda *parts: sum(parts), *counted)
        objective = (float(score) - trust * float(parametrisation.divergence(params))) / count
        curve.append({"train": float(score) / count, "objective": objective})
        on_event(Event(done=iteration, total=iterations, figures={"train": curve[-1]["train"]}))
        if objective - before < tolerance:
            stopped = f"the objective rose by less than {tolerance:g}"
            break
        before, params = objective, maximise(parametrisation, counts, weight)
    ends = [
        np.mean(np.asarray(batched_log_likelihoods(parametrisation, part, data))) for part in (params, start)
    ]
    seconds = time.perf_counter() - began
    return Fitted(params, float(ends[0]), float(ends[1]), None, None, len(curve), stopped, seconds, curve)
