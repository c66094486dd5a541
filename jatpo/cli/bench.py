"""`jatpo bench`: what this machine does in which time and memory.

A benchmark is a function in a module of its own, `jatpo/cli/bench_*.py`, with a light top level, that is
added to `app` below. They print a table, or one JSON object with `--json`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.cli import bench_domains, bench_evaluate, bench_learn, bench_solve
from jatpo.cli.output import print_json, print_table
from jatpo.errors import JatpoError, unknown

if TYPE_CHECKING:
    import numpy as np

    from jatpo.model import POMDP

READINGS, KINDS, OBSERVATIONS = (
    3,
    100,
    50,
)  # possible observations of a state, distinct rows of O, observations
FORMS = ("batch", "columns")

app = typer.Typer(
    help="Measure speed and memory on this machine.", no_args_is_help=True, add_completion=False
)


@app.callback()
def bench() -> None:
    """Measure speed and memory on this machine."""
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # compiling is part of what is measured


app.command("domains")(bench_domains.domains)
app.command("solve")(bench_solve.solve)
app.command("evaluate")(bench_evaluate.evaluate)
app.command("learn")(bench_learn.learn)


class CoreFigures(NamedTuple):
    """What `core` found; seconds and bytes."""

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


@app.command()
def core(
    states: Annotated[int, typer.Option(help="States of the random model.", min=10)] = 100_000,
    actions: Annotated[int, typer.Option(help="Its actions.", min=1)] = 5,
    successors: Annotated[int, typer.Option(help="Successors of each state and action.", min=1)] = 5,
    beliefs: Annotated[int, typer.Option(help="How many beliefs to update.", min=1)] = 1000,
    chunk: Annotated[int, typer.Option(help="How many of them at once.", min=1)] = 64,
    form: Annotated[str, typer.Option(help="Kernel: columns or batch (rows).")] = "columns",
    seed: Annotated[int, typer.Option(help="Seed of the model and the beliefs.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build, check and filter a large random model in blocked storage."""
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if successors > states:
        raise JatpoError(f"a state cannot have {successors} successors among {states} states: ask for fewer")
    figures = measure_core(states, actions, successors, beliefs, min(chunk, beliefs), form, seed)
    if json:
        print_json(figures)
        return
    sizes = f"{states} states, {actions} actions, {successors} successors"
    title = f"{sizes}; {beliefs} beliefs in chunks of {figures.chunk} ({form})"
    print_table(("measure", "figure"), _core_rows(figures), title)


def measure_core(
    states: int, actions: int, successors: int, beliefs: int, chunk: int, form: str, seed: int
) -> CoreFigures:
    """Time the building of a random blocked model (its validation included) and the update of `beliefs`."""
    from jatpo.model import POMDP

    parts = random_model(states, actions, successors, seed)
    start = time.perf_counter()
    model = POMDP.from_sparse(*parts, num_observations=OBSERVATIONS, storage="blocked")
    building = time.perf_counter() - start
    del parts
    before = peak_bytes()
    compiling, updating = _time_updates(model, beliefs, chunk, form, seed)
    return CoreFigures(
        states,
        actions,
        successors,
        beliefs,
        chunk,
        form,
        build_seconds=building,
        compile_seconds=compiling,
        update_seconds=updating,
        updates_per_second=beliefs / updating,
        model_bytes=model.nbytes,
        build_peak_bytes=before,
        peak_bytes=peak_bytes(),
    )


def random_model(states: int, actions: int, successors: int, seed: int) -> tuple[Any, ...]:
    """Coordinates of P and O, rewards, initial belief and discount, for `POMDP.from_sparse`.

    Every (state, action) has exactly `successors` different successors. O does not depend on the action;
    every state has one of `KINDS` rows.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    shape = (actions, states, successors)
    first = random.integers(states, size=(actions, states, 1))
    gaps = random.integers(1, states // successors + 1, shape).cumsum(axis=-1)
    chances = random.random(shape) + 0.1
    chances /= chances.sum(axis=-1, keepdims=True)
    a, x, _ = np.indices(shape)
    transition = _flat(a, x, (first + gaps) % states, chances)
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
    import jax
    import jax.numpy as jnp

    from jatpo.belief import update_batch, update_columns

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
        off = float(jnp.max(jnp.abs(jnp.sum(after, axis=axis) - 1)))
        if not off < 1e-3:
            raise RuntimeError(f"an updated belief is off a sum of 1 by {off}")
    return compiling, updating


def peak_bytes() -> int:
    """The most memory this process has held so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _core_rows(figures: CoreFigures) -> list[tuple[str, str]]:
    from jatpo.memory import readable

    return [
        ("build and validate", f"{figures.build_seconds:.2f} s"),
        ("compile the update", f"{figures.compile_seconds:.2f} s"),
        ("update", f"{figures.update_seconds:.2f} s ({figures.updates_per_second:.0f} beliefs/s)"),
        ("model", readable(figures.model_bytes)),
        ("peak memory of building", readable(figures.build_peak_bytes)),
        ("peak memory", readable(figures.peak_bytes)),
    ]
