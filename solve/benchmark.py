"""Measurements of the solvers: compiling and running apart, next to plain NumPy backups in the same process.

Seconds differ from machine to machine; the reference, `reference_backup`, is a fixed piece of NumPy in float64 that
does the same arithmetic without any of the structure, so the ratio to it carries over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jatpo.model import POMDP
from jatpo.solve.backup import fill, jit_backup
from jatpo.solve.driver import Settings, solve
from jatpo.solve.plan import make_plan
from jatpo.solve.points import explore

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


def reference_backup(model: POMDP, beliefs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Point-based backups of `beliefs` [B, X] on `vectors` [V, X] in plain NumPy, float64: alpha [B, X]."""
    dense = model.to_dense()
    alphas = []
    for belief in beliefs:
        best, alpha = -np.inf, np.zeros(model.num_states)
        for a in range(model.num_actions):
            joint = (belief @ dense.transition[a])[:, None] * dense.observation[a]  # [X, Z]
            scores = vectors @ joint
            value = belief @ dense.reward[:, a] + dense.discount * scores.max(axis=0).sum()
            if value > best:
                best = value
                after = np.einsum("yz,zy->y", dense.observation[a], vectors[scores.argmax(axis=0)])
                alpha = dense.reward[:, a] + dense.discount * dense.transition[a] @ after
        alphas.append(alpha)
    return np.array(alphas)


def time_solve(models: Sequence[POMDP], settings: Settings, seed: int = 0) -> dict[str, Any]:
    """Seconds of a solve from cold and of the same solve again; the difference is compiling."""
    jax.clear_caches()
    key = jax.random.key(seed)
    seconds, solutions = [], []
    for _ in range(2):
        started = time.perf_counter()
        solutions = solve(models, settings, key)
        seconds.append(time.perf_counter() - started)
    backups = sum(solution.backups for solution in solutions)
    return {
        "cold_seconds": seconds[0],
        "warm_seconds": seconds[1],
        "compile_seconds": max(seconds[0] - seconds[1], 0.0),
        "backups": backups,
        "backups_per_second": backups / seconds[1],
        "vectors": sum(solution.num_vectors for solution in solutions),
        "lower": solutions[0].lower,
        "upper": solutions[0].upper,
        "stopped": solutions[0].stopped,
    }


def time_backups(model: POMDP, vectors: int = 256, batch: int = 64, seed: int = 0) -> dict[str, float]:
    """Seconds of one backup in a batch, and of the reference where its dense arrays are small enough."""
    random = np.random.default_rng(seed)
    beliefs = explore(random, model, batch, steps=8)
    alpha = random.normal(size=(vectors, model.num_states))
    buffer = fill(alpha.astype(model.dtype), np.zeros(vectors), model.num_states)
    plan = make_plan(model)
    ours = _best_of(lambda: jax.block_until_ready(jit_backup(model, plan, beliefs, buffer))) / batch
    figures = {"backup_seconds": ours}
    if model.num_states <= 5000 and model.num_observations <= 200:
        sample = beliefs[:, :2].T.astype(np.float64)
        figures["reference_seconds"] = _best_of(lambda: reference_backup(model, sample, alpha), 2) / len(
            sample
        )
        figures["ratio"] = figures["reference_seconds"] / ours
    return figures


def _best_of(call: Any, times: int = 3) -> float:
    """The shortest of `times` runs after one that compiles."""
    call()
    spans = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        spans.append(time.perf_counter() - started)
    return min(spans)


def synthetic(states: int, seed: int = 0) -> POMDP:
    """A random blocked model: 5 actions, 5 successors near each state, 81 observations in 40 kinds of state."""
    random = np.random.default_rng(seed)
    actions, width, observations, kinds = 5, 5, 81, 40
    a, x, _ = np.indices((actions, states, width)).reshape(3, -1)
    y = (x + random.integers(-20, 21, len(x))) % states
    p = random.random((actions * states, width)) + 0.1
    p = (p / p.sum(axis=1, keepdims=True)).ravel()
    rows = random.random((kinds, observations)) * (random.random((kinds, observations)) < 0.2) + 1e-3
    rows /= rows.sum(axis=1, keepdims=True)
    kind = random.integers(0, kinds, states)
    oa, oy, oz = np.indices((actions, states, observations)).reshape(3, -1)
    reward = random.normal(size=(states, actions))
    initial = np.zeros(states)
    initial[:20] = 1 / 20
    return POMDP.from_sparse(
        (a, x, y, p), (oa, oy, oz, rows[kind[oy], oz]), reward, initial, 0.95, num_observations=observations
    )
