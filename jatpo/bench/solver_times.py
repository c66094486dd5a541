"""Times of solvers: compiling and running apart, next to plain NumPy backups in the same process.

Seconds differ from machine to machine; the reference, `reference_backup`, is a fixed piece of NumPy in float64 that
does the same arithmetic without any of the structure, so the ratio to it carries over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jatpo.bench.stopwatch import time_calls
from jatpo.model import POMDP
from jatpo.solve.backup import fill, jit_backup
from jatpo.solve.base import Solver
from jatpo.solve.driver import solve_models
from jatpo.solve.points import explore
from jatpo.solve.scoring import make_plan
from jatpo.solve.stopping import Stop


def reference_backup(model: POMDP, beliefs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Point-based backups of `beliefs` [B, X] on `vectors` [V, X] in plain NumPy, float64: alpha [B, X].

    It stays as it is and shares nothing with the backups of the solvers: it is the unit in which they are measured.
    """
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


def time_solve(models: Sequence[POMDP], solver: Solver, stop: Stop, seed: int = 0) -> dict[str, Any]:
    """Seconds of a solve from cold and of the same solve again; the difference is compiling."""
    jax.clear_caches()
    key = jax.random.key(seed)
    seconds, solutions = [], []
    for _ in range(2):
        started = time.perf_counter()
        solutions = solve_models(models, solver, stop, key=key)
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
        "status": solutions[0].status.value,
    }


def time_backups(model: POMDP, vectors: int = 256, batch: int = 64, seed: int = 0) -> dict[str, float]:
    """Seconds of one backup in a batch, and of the reference where its dense arrays are small enough."""
    random = np.random.default_rng(seed)
    beliefs = explore(random, model, batch, steps=8)
    alpha = random.normal(size=(vectors, model.num_states))
    buffer = fill(alpha.astype(model.dtype), np.zeros(vectors), model.num_states)
    plan = make_plan(model)
    ours = time_calls(lambda: jax.block_until_ready(jit_backup(model, plan, beliefs, buffer))).best / batch
    figures = {"backup_seconds": ours}
    if model.num_states <= 5000 and model.num_observations <= 200:
        sample = beliefs[:, :2].T.astype(np.float64)
        reference = time_calls(lambda: reference_backup(model, sample, alpha), 2).best / len(sample)
        figures["reference_seconds"] = reference
        figures["ratio"] = reference / ours
    return figures


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
