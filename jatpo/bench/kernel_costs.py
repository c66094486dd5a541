"""Operations and bytes of the kernels that dominate, the share of this machine's peak they reach, and a GPU's limit.

Operations and bytes are those of XLA's `cost_analysis` of the compiled program. It counts the body of a loop once, so
a body of known length is compiled apart and counted as often as it runs; loops of unknown length run once here, since
the vectors fit one tile. The peaks of this machine are measured beside: a matrix product, and an array that is scaled.

    limit on a device = max(operations / its operations per second, bytes / its bytes per second)

The limit says how fast a device could be if nothing but arithmetic and memory took time; starting a program does, too,
and small kernels do not fill a GPU. So it is a prediction, and only of what cannot be beaten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from jatpo import domains, filter
from jatpo.beliefs import Support
from jatpo.bench.benchmarks import KernelOptions
from jatpo.bench.local_family import local_model
from jatpo.bench.stopwatch import time_calls
from jatpo.events import Event, OnEvent
from jatpo.model import POMDP
from jatpo.solve import backup, bounds, device_rounds
from jatpo.solve.scoring import make_plan
from jatpo.tables import Table

GPUS = {"NVIDIA A100 80 GB": (19.5e12, 2.04e12), "NVIDIA H100 SXM": (66.9e12, 3.35e12)}
"""Operations a second in float32 and bytes a second, by the maker's data sheets."""

SIDE = 2048  # of the matrices that are multiplied
STREAM, PASSES = 1 << 26, 16  # numbers that are scaled in place, and how often: pages are slow at first
STEPS, SUPPORT, LOCAL = 100, 512, 100_000  # of a round of `sparse`, and the states of its model


class Cost(NamedTuple):
    """Operations and bytes of a program."""

    operations: float
    bytes: float


class Kernel(NamedTuple):
    """A function with its arguments, and what it is called."""

    name: str
    function: Callable
    arguments: tuple


def measure(options: KernelOptions, on_event: OnEvent) -> dict[str, Any]:
    """The peaks, and a row for each kernel."""
    makers = (_dense, _blocked, partial(_movers, options.size), _perseus, _sparse)
    peak, rows = peaks(options.repeats), []
    for done, make in enumerate(makers):
        kernel = make()
        on_event(Event(done=done, total=len(makers), figures={"kernel": kernel.name}))
        rows.append(row(kernel, peak, options.repeats))
    on_event(Event(done=len(makers), total=len(makers)))
    return {"operations_per_s": peak.operations, "bytes_per_s": peak.bytes, "kernels": rows}


def peaks(repeats: int) -> Cost:
    """What this process reaches in a second of processor time: in a matrix product, and in scaling an array."""
    square = jnp.ones((SIDE, SIDE), jnp.float32)
    product = jax.jit(lambda one: one @ one)
    stream = jnp.ones(STREAM, jnp.float32)
    scaled = jax.jit(lambda one: jax.lax.fori_loop(0, PASSES, lambda _, each: each * 1.5, one))
    seconds = [_seconds(Kernel("", f, (part,)), repeats) for f, part in ((product, square), (scaled, stream))]
    return Cost(2 * SIDE**3 / seconds[0], 2 * PASSES * stream.nbytes / seconds[1])


def row(kernel: Kernel, peak: Cost, repeats: int) -> dict[str, Any]:
    """Figures of one kernel."""
    cost = cost_of(kernel.function, *kernel.arguments)
    seconds = _seconds(kernel._replace(function=jax.jit(kernel.function)), repeats)
    limit = limit_of(cost, peak)
    found = {
        "kernel": kernel.name,
        "operations": cost.operations,
        "bytes": cost.bytes,
        "seconds": seconds,
        "share_of_operations": cost.operations / seconds / peak.operations,
        "share_of_bytes": cost.bytes / seconds / peak.bytes,
        "limit_s": limit,
        "bound_by": "operations" if limit == cost.operations / peak.operations else "memory",
    }
    return found | {gpu: limit_of(cost, Cost(*each)) for gpu, each in GPUS.items()}


def limit_of(cost: Cost, peak: Cost) -> float:
    """The seconds that a device with `peak` needs at least."""
    return max(cost.operations / peak.operations, cost.bytes / peak.bytes)


def cost_of(function: Callable, *arguments: Any) -> Cost:
    """What XLA counts in the compiled program, with each loop of known length as often as it runs."""
    return _cost(jax.make_jaxpr(function)(*arguments))


def _cost(program: Any) -> Cost:
    total = _counted(program)
    for length, body in _loops(program.jaxpr):
        once, whole = _counted(body), _cost(body)
        total = Cost(
            *(part + length * all_of - one for part, all_of, one in zip(total, whole, once, strict=True))
        )
    return total


def _counted(program: Any) -> Cost:
    """What XLA counts, the bodies of loops once."""
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.in_avals]
    known = jax.jit(jaxpr_as_fun(program)).lower(*shapes).compile().cost_analysis() or {}
    return Cost(known.get("flops", 0.0), known.get("bytes accessed", 0.0))


def _loops(jaxpr: Any) -> Iterator[tuple[int, Any]]:
    """The outermost loops of known length, and their bodies; also those inside of calls and other loops."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation.params["length"], equation.params["jaxpr"]
            continue
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda part: hasattr(part, "eqns")
        ):
            if hasattr(inner, "eqns") or hasattr(getattr(inner, "jaxpr", None), "eqns"):
                yield from _loops(getattr(inner, "jaxpr", inner))


def _seconds(kernel: Kernel, repeats: int) -> float:
    """Seconds of processor time of the fastest call."""
    given = jax.device_put(kernel.arguments)
    return time_calls(lambda: jax.block_until_ready(kernel.function(*given)), repeats, time.process_time).best


def _filter(name: str, model: POMDP, count: int) -> Kernel:
    beliefs = jnp.broadcast_to(model.initial[:, None], (model.num_states, count)) + 0.0
    numbers = jnp.arange(count, dtype=jnp.int32)
    actions, seen = numbers % model.num_actions, numbers % model.num_observations
    sizes = f"{model.num_states:,} states, {count} belief{'s' if count > 1 else ''}"
    return Kernel(f"filter, {name}, {sizes}", filter.update_columns, (model, beliefs, actions, seen))


def _stored(model: POMDP, storage: str) -> POMDP:
    parts = model.exact()
    return POMDP.from_sparse(
        *parts, num_observations=model.num_observations, storage=storage, dtype=model.dtype
    )


def _gridworld(**parameters: Any) -> POMDP:
    return domains.make("gridworld", 0, **parameters)


def _dense() -> Kernel:
    return _filter("dense", _stored(_gridworld(), "dense"), 256)


def _blocked() -> Kernel:
    return _filter("blocked", _stored(_gridworld(), "blocked"), 256)


def _movers(size: int) -> Kernel:
    return _filter("two movers", _gridworld(size=size), 1)


def _perseus() -> Kernel:
    model = _gridworld()
    random = np.random.default_rng(0)
    vectors = random.normal(size=(backup.TILE, model.num_states)).astype(model.dtype)
    beliefs = random.dirichlet(np.ones(model.num_states), 64).T.astype(model.dtype)
    bank = backup.fill(vectors, np.zeros(len(vectors)), model.num_states, backup.TILE)
    name = f"backup, {model.num_states} states, 64 beliefs, {backup.TILE} vectors"
    return Kernel(name, backup.backup, (model, make_plan(model), jnp.asarray(beliefs), bank))


def _sparse() -> Kernel:
    model = local_model(LOCAL)
    bank = device_rounds.empty_bank(bounds.blind(model), 2 * STEPS)
    q, _ = device_rounds.observed_bound(model, 1e-3)
    play = partial(device_rounds.play_round, steps=STEPS, capacity=SUPPORT, belief=Support(SUPPORT))
    name = f"round of sparse, {LOCAL:,} states, {STEPS} backups"
    return Kernel(name, play, (jax.random.key(0), model, q, bank, np.int32(0)))


def tables(figures: dict[str, Any], options: KernelOptions | None) -> Sequence[Table]:
    """What was measured here, and the limit that each GPU has."""
    del options
    rows = figures["kernels"]
    here = [
        {
            "kernel": each["kernel"],
            "Mflop": each["operations"] / 1e6,
            "MB": each["bytes"] / 1e6,
            "ms": 1e3 * each["seconds"],
            "limit ms": 1e3 * each["limit_s"],
            "bound by": each["bound_by"],
            "flop/s %": 100 * each["share_of_operations"],
            "byte/s %": 100 * each["share_of_bytes"],
        }
        for each in rows
    ]
    speed = f"{figures['operations_per_s'] / 1e9:.0f} Gflop/s, {figures['bytes_per_s'] / 1e9:.1f} GB/s"
    there = [
        {"kernel": each["kernel"], **{f"{gpu}, at least ms": 1e3 * each[gpu] for gpu in GPUS}}
        for each in rows
    ]
    return [
        Table(here, title=f"one core, peak measured: {speed}"),
        Table(there, title="predicted, not measured"),
    ]
