"""Many trials at once: a scan over steps, chunks of trials, whole chunks on each device.

A trial's random numbers depend only on the seed and its number (`noise`). Rounding may depend on the shape
of a batch: so trial i is always computed in slot i mod N of chunk i div N, with N fixed by the library, and
a part of a chunk is a whole chunk of which the rest is dropped. That makes a trial the same, bit for bit,
in any company.

Recorded, by name: "rewards", "actions", "observations" [N, T] and "probabilities" [N, T, A] of each step;
"states" [N, T+1] and what the agent reports, such as "posterior" [N, T+1, K], before each action and at the
end.
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
from jatpo.evaluate import world
from jatpo.evaluate.agent import Agent, Functions, Memory, choose, permit, sight
from jatpo.evaluate.noise import Noise, make_noise
from jatpo.evaluate.task import Draw, Task, draw, for_agent, knowledge_of
from jatpo.library import Library

CHUNK = 128
CHUNK_BYTES = 1 << 30  # of beliefs and their successors under every action, at most
OF_STEP = ("rewards", "actions", "observations", "probabilities")
OF_TIME = ("states",)


class Trials(NamedTuple):
    """Results of trials, on the host. `records` holds what was asked for, by name."""

    trial: np.ndarray  # [N]
    truth: np.ndarray  # [N], the true model
    returns: np.ndarray  # [N], undiscounted
    discounted: np.ndarray  # [N]
    records: dict[str, np.ndarray]


class Carry(NamedTuple):
    """Between two steps: the world's states, the agent's memory, what was earned."""

    states: Array  # [N]
    memory: Memory
    returns: Array  # [N]
    discounted: Array  # [N]
    weight: Array  # [N], discount to the power t


def run_chunk(
    agent: Functions,
    horizon: int,
    record: tuple[str, ...],
    noise: Noise,
    task: Task,
    parameters: Any,
    informed: Array,
) -> tuple[Array, Array, Array, dict[str, Array]]:
    """Truth, return and discounted return [N] of the trials that `noise` belongs to, and the records."""
    truth, prior = jax.vmap(draw, in_axes=(0, None), out_axes=Draw(0, 1))(noise.draw, task)
    states = world.start(task.world, noise.start, truth)
    knowledge = permit(agent, knowledge_of(task, parameters, prior), informed, truth)
    num_actions = task.library.num_actions

    def before(carry: Carry) -> dict[str, Array]:
        told = {"states": carry.states, **agent.report(knowledge, carry.memory)}
        return {name: told[name] for name in record if name in told}

    def step(carry: Carry, noise: tuple[Array, Array, Array]) -> tuple[Carry, tuple[dict, dict]]:
        of_world, choice, keys = noise
        told = before(carry)
        probabilities = agent.policy(keys, knowledge, carry.memory)
        actions = choose(choice, probabilities)
        joined = truth * num_actions + actions
        arrived, observations, rewards = world.step_apart(task.world, of_world, carry.states, joined)
        memory = agent.observe(knowledge, carry.memory, actions, sight(agent, arrived, observations))
        done = dict(zip(OF_STEP, (rewards, actions, observations, probabilities), strict=True))
        discounted = carry.discounted + carry.weight * rewards
        weight = carry.weight * task.world.discount[truth]
        carry = Carry(arrived, memory, carry.returns + rewards, discounted, weight)
        return carry, (told, {name: done[name] for name in record if name in done})

    memory = agent.init(noise.first_keys, knowledge, sight(agent, states, None))
    nothing = jnp.zeros(truth.shape, task.world.reward.dtype)
    start = Carry(states, memory, nothing, nothing, jnp.ones_like(nothing))
    steps = jax.tree.map(lambda leaf: leaf[:horizon], (noise.world, noise.choice, noise.plan_keys))
    end, (told, done) = jax.lax.scan(step, start, steps)
    told = jax.tree.map(lambda steps, last: jnp.concatenate([steps, last[None]]), told, before(end))
    return truth, end.returns, end.discounted, {**told, **done}


@partial(jax.jit, static_argnames=("mesh", "agent", "horizon", "record"))
def _run_chunks(
    mesh: Mesh,
    agent: Functions,
    horizon: int,
    record: tuple[str, ...],
    noise: Noise,
    task: Task,
    parameters: Any,
    informed: Array,
) -> Any:
    """`run_chunk` on every device of `mesh`, each with its own noise; all arrays have a leading axis."""
    chunk = partial(run_chunk, agent, horizon, record)
    each, same = PartitionSpec("chunks"), PartitionSpec()

    def on_device(noise: Noise, task: Task, parameters: Any, informed: Array) -> Any:
        own = jax.tree.map(lambda leaf: leaf[0], noise)
        return jax.tree.map(lambda leaf: leaf[None], chunk(own, task, parameters, informed))

    specs = (each, same, same, same)
    return jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)(
        noise, task, parameters, informed
    )


def chunk_size(library: Library) -> int:
    """How many trials run together: a power of two, smaller for very large libraries."""
    size = CHUNK
    each = library.num_models * library.num_states * (library.num_actions + 2) * library.prior.dtype.itemsize
    while size > 2 and size * each > CHUNK_BYTES:
        size //= 2
    return size


def run_chunks(
    key: Array,
    agent: Agent,
    task: Task,
    horizon: int,
    chunks: Iterable[int],
    record: Sequence[str] = (),
    devices: Sequence[jax.Device] | None = None,
) -> Iterator[tuple[int, Trials]]:
    """Whole chunks by number, each as soon as it is done; the next ones already run meanwhile."""
    reason = agent.refuses(task.library)
    if reason:
        raise JatpoError(f"agent '{agent.name}' cannot run: {reason}")
    task = for_agent(task, agent)
    size, (num_models, dtype) = (
        chunk_size(task.library),
        (task.library.num_models, np.dtype(task.prior.dtype)),
    )
    chunks = list(chunks)
    devices = (jax.local_devices() if devices is None else list(devices))[: max(len(chunks), 1)]
    mesh = Mesh(np.array(devices), ("chunks",))
    record = _checked(agent, task, record)
    waiting: deque = deque()
    parameters, informed = jax.tree.map(jnp.asarray, (agent.parameters, agent.informed))
    for group in _groups(chunks, len(devices)):
        padded = group + group[-1:] * (len(devices) - len(group))
        noises = [make_noise(key, chunk * size, size, num_models, horizon, dtype) for chunk in padded]
        noise = jax.tree.map(lambda *parts: jnp.stack(parts), *noises)
        waiting.append(
            (group, _run_chunks(mesh, agent.functions, horizon, record, noise, task, parameters, informed))
        )
        if len(waiting) > 1:
            yield from _fetch(*waiting.popleft(), size)
    while waiting:
        yield from _fetch(*waiting.popleft(), size)


def run(
    key: Array,
    agent: Agent,
    task: Task,
    horizon: int,
    trials: int | Sequence[int],
    record: Sequence[str] = (),
    devices: Sequence[jax.Device] | None = None,
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


def _groups(chunks: list[int], width: int) -> Iterator[list[int]]:
    """The chunks in groups of one for each device; the last group may be smaller."""
    for at in range(0, len(chunks), width):
        yield chunks[at : at + width]


def _fetch(group: list[int], result: Any, size: int) -> Iterator[tuple[int, Trials]]:
    truth, returns, discounted, records = jax.tree.map(np.asarray, result)
    for place, chunk in enumerate(group):
        numbers = np.arange(chunk * size, (chunk + 1) * size)
        ordered = {name: _trials_first(part[place]) for name, part in records.items()}
        yield chunk, Trials(numbers, truth[place], returns[place], discounted[place], ordered)


def _trials_first(record: np.ndarray) -> np.ndarray:
    """[T, ..., N] as [N, T, ...]; beliefs [T, K, X, N] as [N, T, K, X]."""
    return np.ascontiguousarray(np.moveaxis(record, -1, 0))


def _checked(agent: Agent, task: Task, record: Sequence[str]) -> tuple[str, ...]:
    """The names to record, each known."""
    known = (*OF_STEP, *OF_TIME, *reported(agent, task))
    for name in record:
        if name not in known:
            raise unknown(f"record of agent '{agent.name}'", name, known)
    return tuple(sorted(set(record)))


def reported(agent: Agent, task: Task) -> tuple[str, ...]:
    """The names of what the agent reports of its memory."""

    def names(task: Task) -> dict[str, Array]:
        keys = jax.random.split(jax.random.key(0), 2)
        truth = jnp.zeros(2, jnp.int32)
        prior = jnp.broadcast_to(task.prior[:, None], (task.prior.shape[0], 2))
        knowledge = knowledge_of(task, agent.parameters, prior)
        knowledge = permit(agent.functions, knowledge, jnp.asarray(agent.informed), truth)
        memory = agent.init(keys, knowledge, sight(agent.functions, truth, None))
        return agent.report(knowledge, memory)

    return tuple(jax.eval_shape(names, task))
