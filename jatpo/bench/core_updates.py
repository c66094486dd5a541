"""Belief updates in a large random model: building, compiling and filtering, in seconds and bytes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.bench.benchmarks import CoreOptions
from jatpo.bench.stopwatch import peak_bytes
from jatpo.events import OnEvent
from jatpo.filter import update_batch, update_columns
from jatpo.memory import readable
from jatpo.model import POMDP
from jatpo.tables import Table

READINGS, KINDS = 3, 100  # possible observations of a state, distinct rows of O
OBSERVATIONS = 50


class CoreFigures(NamedTuple):
    """Sizes, seconds and bytes."""

    states: int
    actions: int
    successors: int
    beliefs: int
    chunk: int
    form: str
    build_seconds: float
    compile_seconds: float
    update_seconds: float
    updates_per_second: float
    model_bytes: int
    build_peak_bytes: int
    peak_bytes: int


def measure(options: CoreOptions, on_event: OnEvent) -> CoreFigures:
    """Time the building of a random blocked model (its validation included) and the update of beliefs."""
    del on_event  # one measurement
    parts = random_model(options.states, options.actions, options.successors, options.seed)
    start = time.perf_counter()
    model = POMDP.from_sparse(*parts, num_observations=OBSERVATIONS, storage="blocked")
    building = time.perf_counter() - start
    del parts
    before = peak_bytes()
    chunk = min(options.chunk, options.beliefs)
    compiling, updating = _time_updates(model, options.beliefs, chunk, options.form, options.seed)
    return CoreFigures(
        options.states,
        options.actions,
        options.successors,
        options.beliefs,
        chunk,
        options.form,
        build_seconds=building,
        compile_seconds=compiling,
        update_seconds=updating,
        updates_per_second=options.beliefs / updating,
        model_bytes=model.nbytes,
        build_peak_bytes=before,
        peak_bytes=peak_bytes(),
    )


def random_model(states: int, actions: int, successors: int, seed: int) -> tuple[Any, ...]:
    """Coordinates of P and O, rewards, initial belief and discount, for `POMDP.from_sparse`.

    Every (state, action) has exactly `successors` different successors. O does not depend on the action;
    every state has one of `KINDS` rows.
    """
    random = np.random.default_rng(seed)
    shape = (actions, states, successors)
    first = random.integers(states, size=(actions, states, 1))
    gaps = random.integers(1, states // successors + 1, shape).cumsum(axis=-1)
    probabilities = random.random(shape) + 0.1
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    a, x, _ = np.indices(shape)
    transition = _flat(a, x, (first + gaps) % states, probabilities)
    shown = (random.integers(OBSERVATIONS, size=(KINDS, 1)) + np.arange(READINGS) * 7) % OBSERVATIONS
    clarity = random.dirichlet(np.ones(READINGS), KINDS)
    kind = random.integers(KINDS, size=states)
    a, y, _ = np.indices((actions, states, READINGS))
    observation = _flat(a, y, *(np.broadcast_to(part[kind], a.shape) for part in (shown, clarity)))
    return transition, observation, random.normal(size=(states, actions)), np.full(states, 1 / states), 0.95


def _flat(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(part.ravel() for part in parts)


def _time_updates(model: POMDP, beliefs: int, chunk: int, form: str, seed: int) -> tuple[float, float]:
    """Seconds to compile, and to update `beliefs` random beliefs, `chunk` of them at a time."""
    axis = 1 if form == "batch" else 0  # of the states

    @jax.jit
    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        for_belief, for_action, for_observation = jax.random.split(key, 3)
        shape = (chunk, model.num_states) if form == "batch" else (model.num_states, chunk)
        weights = jax.random.exponential(for_belief, shape, model.dtype)
        actions = jax.random.randint(for_action, (chunk,), 0, model.num_actions)
        observations = jax.random.randint(for_observation, (chunk,), 0, model.num_observations)
        return weights / jnp.sum(weights, axis=axis, keepdims=True), actions, observations

    keys = jax.random.split(jax.random.key(seed), -(-beliefs // chunk))
    given = jax.block_until_ready(draw(keys[0]))
    start = time.perf_counter()
    update = jax.jit(update_batch if form == "batch" else update_columns).lower(model, *given).compile()
    compiling, updating = time.perf_counter() - start, 0.0
    for key in keys:
        given = jax.block_until_ready(draw(key))
        start = time.perf_counter()
        after, _ = jax.block_until_ready(update(model, *given))
        updating += time.perf_counter() - start
        error = float(jnp.max(jnp.abs(jnp.sum(after, axis=axis) - 1)))
        if not error < 1e-3:
            raise RuntimeError(f"an updated belief sums to 1 only within {error}")
    return compiling, updating


def tables(figures: CoreFigures, options: CoreOptions) -> Sequence[Table]:
    """Measures and figures."""
    sizes = f"{figures.states} states, {figures.actions} actions, {figures.successors} successors"
    title = f"{sizes}; {figures.beliefs} beliefs in chunks of {figures.chunk} ({figures.form})"
    rows = [
        ("build and validate", f"{figures.build_seconds:.2f} s"),
        ("compile the update", f"{figures.compile_seconds:.2f} s"),
        ("update", f"{figures.update_seconds:.2f} s ({figures.updates_per_second:.0f} beliefs/s)"),
        ("model", readable(figures.model_bytes)),
        ("peak memory of building", readable(figures.build_peak_bytes)),
        ("peak memory", readable(figures.peak_bytes)),
    ]
    return [Table.of(("measure", "figure"), rows, title)]
