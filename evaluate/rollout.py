"""Many trials at once, in chunks, on all devices.

A trial's random numbers depend only on the seed and its number (`noise`), and all programs have the same shapes
whatever is asked for (`loops`). So a trial is the same, bit for bit, alone and in any company, on one device or
many. Chunks are what results are kept by: chunk c holds trials c·N, ..., (c+1)·N - 1, with N fixed by the
library; a part of a chunk is a whole chunk of which the rest is dropped.

Recorded, by name: "rewards", "actions", "observations" [N, T] and "probabilities" [N, T, A] of each step; "states"
[N, T+1] and what the agent reports, such as "posterior" [N, T+1, K], before each action and at the end. Apart
from those, and without the cost of keeping every step: "steps" [N] of a trial, and "steps_sure" [N] until the true
model had 0.9, or -1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jatpo.errors import JatpoError, unknown
from jatpo.evaluate import loops
from jatpo.evaluate.agent import Agent, Functions
from jatpo.evaluate.noise import Noise, make_noise
from jatpo.evaluate.task import Task, for_agent
from jatpo.library import Library

CHUNK = 128
CHUNK_BYTES = 1 << 30  # of beliefs and their successors under every action, at most
TOGETHER = 8  # chunks that are played together when nothing is recorded
OF_TIME = ("states",)


class Trials(NamedTuple):
    """Results of trials, on the host. `records` holds what was asked for, by name."""

    trial: np.ndarray  # [N]
    truth: np.ndarray  # [N], the true model
    returns: np.ndarray  # [N], undiscounted
    discounted: np.ndarray  # [N]
    records: dict[str, np.ndarray]


def chunk_size(library: Library) -> int:
    """How many trials make a chunk: a power of two, smaller for very large libraries."""
    size = CHUNK
    each = library.num_models * library.num_states * (library.num_actions + 2) * library.prior.dtype.itemsize
    while size > 2 and size * each > CHUNK_BYTES:
        size //= 2
    return size


@partial(jax.jit, static_argnames=("mesh", "agent", "horizon", "record", "places"))
def _run(
    mesh: Mesh,
    agent: Functions,
    horizon: int,
    record: tuple[str, ...],
    places: int,
    noise: Noise,
    counts: Array,
    task: Task,
    parameters: Any,
    informed: Array,
) -> Any:
    """The trials of `noise` on every device of `mesh`, each with its own; all arrays have a leading axis."""

    def on_device(noise: Noise, counts: Array, task: Task, parameters: Any, informed: Array) -> Any:
        own = jax.tree.map(lambda leaf: leaf[0], noise)
        player = loops.Player(agent, parameters, informed)
        if _needs_steps(record):
            found = loops.record(player, horizon, record, own, task)
        else:
            found = loops.play(player, horizon, places, own, counts[0], task, record)
        return jax.tree.map(lambda leaf: leaf[None], found)

    each, same = PartitionSpec("devices"), PartitionSpec()
    specs = (each, each, same, same, same)
    run = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)
    return run(noise, counts, task, parameters, informed)


def run_chunks(
    key: Array,
    agent: Agent,
    task: Task,
    horizon: int,
    chunks: Iterable[int],
    record: Sequence[str] = (),
    devices: Sequence[Any] | None = None,
) -> Iterator[tuple[int, Trials]]:
    """Whole chunks by number, as soon as they are done; the next ones already run meanwhile."""
    reason = agent.refuses(task.library)
    if reason:
        raise JatpoError(f"agent '{agent.name}' cannot run: {reason}")
    task = for_agent(task, agent)
    names = _checked(agent, task, record)
    size, together = chunk_size(task.library), 1 if _needs_steps(names) else TOGETHER
    chunks = list(chunks)
    devices = (jax.local_devices() if devices is None else list(devices))[: max(len(chunks), 1)]
    mesh = Mesh(np.array(devices), ("devices",))
    rest = jax.tree.map(jnp.asarray, (agent.parameters, agent.informed))
    waiting: deque = deque()
    for shares in _shares(chunks, len(devices), together):
        numbers = [_padded(share, size, together) for share in shares]
        noises = [
            make_noise(key, part, len(task.prior), horizon, np.dtype(task.prior.dtype)) for part in numbers
        ]
        noise = jax.tree.map(lambda *parts: jnp.stack(parts), *noises)
        counts = jnp.array([size * len(share) for share in shares], jnp.int32)
        waiting.append(
            (shares, _run(mesh, agent.functions, horizon, names, size, noise, counts, task, *rest))
        )
        if len(waiting) > 1:
            shares_done, running = waiting.popleft()
            yield from _fetch(shares_done, running, size)
    for shares_done, running in waiting:
        yield from _fetch(shares_done, running, size)


def _shares(chunks: list[int], devices: int, together: int) -> Iterator[list[list[int]]]:
    """Rounds of chunks, each as one share of at most `together` for every device; shares may be empty."""
    while chunks:
        each = min(-(-len(chunks) // devices), together)
        now, chunks = chunks[: each * devices], chunks[each * devices :]
        yield [now[at * each : (at + 1) * each] for at in range(devices)]


def _padded(share: list[int], size: int, together: int) -> np.ndarray:
    """The numbers of a share's trials, filled up to `together` chunks."""
    numbers = [chunk * size + np.arange(size) for chunk in share]
    filling = [np.zeros(size, int)] * (together - len(share))
    return np.concatenate([*numbers, *filling])


def _fetch(shares: list[list[int]], result: Any, size: int) -> Iterator[tuple[int, Trials]]:
    truth, returns, discounted, records = jax.tree.map(np.asarray, result)
    for device, share in enumerate(shares):
        for place, chunk in enumerate(share):
            own = (device, slice(place * size, (place + 1) * size))
            ordered = {name: _of_chunk(name, part[device], own[1]) for name, part in records.items()}
            numbers = np.arange(chunk * size, (chunk + 1) * size)
            yield chunk, Trials(numbers, truth[own], returns[own], discounted[own], ordered)


def run(
    key: Array,
    agent: Agent,
    task: Task,
    horizon: int,
    trials: int | Sequence[int],
    record: Sequence[str] = (),
    devices: Sequence[Any] | None = None,
) -> Trials:
    """The first `trials` trials, or those whose numbers are given."""
    wanted = np.arange(trials) if isinstance(trials, int) else np.asarray(trials)
    size = chunk_size(task.library)
    numbers = sorted({int(i) // size for i in wanted})
    parts = [part for _, part in run_chunks(key, agent, task, horizon, numbers, record, devices)]
    return take(concatenate(parts), wanted)


def concatenate(parts: Sequence[Trials]) -> Trials:
    """The trials of several chunks in one."""
    if not parts:
        raise JatpoError("there are no trials: ask for at least one")
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def take(results: Trials, wanted: np.ndarray) -> Trials:
    """The trials with the numbers `wanted`, in that order."""
    order = np.argsort(results.trial)
    place = order[np.searchsorted(results.trial[order], wanted)]
    return jax.tree.map(lambda leaf: leaf[place], results)


def _needs_steps(names: Sequence[str]) -> bool:
    """Whether every step has to be kept, and trials cannot give up their places when they are over."""
    return any(name not in loops.OF_TRIAL for name in names)


def _of_chunk(name: str, record: np.ndarray, own: slice) -> np.ndarray:
    """One chunk's part of a record, the trial first."""
    return record[own] if name in loops.OF_TRIAL else _trials_first(record)


def _trials_first(record: np.ndarray) -> np.ndarray:
    """[T, ..., N] as [N, T, ...]; beliefs [T, K, X, N] as [N, T, K, X]."""
    return np.ascontiguousarray(np.moveaxis(record, -1, 0))


def _checked(agent: Agent, task: Task, record: Sequence[str]) -> tuple[str, ...]:
    """The names to record, each known."""
    told = reported(agent, task)
    of_trial = [name for name in loops.OF_TRIAL if name == "steps" or "posterior" in told]
    known = (*loops.OF_STEP, *OF_TIME, *told, *of_trial)
    for name in record:
        if name not in known:
            raise unknown(f"record of agent '{agent.name}'", name, known)
    if _needs_steps(record) and any(name in loops.OF_TRIAL for name in record):
        raise JatpoError(
            f"{' and '.join(loops.OF_TRIAL)} cannot be recorded with what belongs to single steps: ask for them alone"
        )
    return tuple(sorted(set(record)))


def reported(agent: Agent, task: Task) -> tuple[str, ...]:
    """The names of what the agent reports of its memory."""

    def names(task: Task) -> dict[str, Array]:
        keys = jax.random.split(jax.random.key(0), 2)
        states = jnp.zeros(2, jnp.int32)
        player = loops.Player(agent.functions, agent.parameters, jnp.asarray(agent.informed))
        prior = jnp.broadcast_to(task.prior[:, None], (task.prior.shape[0], 2))
        knowledge = player.knowledge(task, states, prior)
        return agent.report(knowledge, player.begin(keys, knowledge, states))

    return tuple(jax.eval_shape(names, task))
