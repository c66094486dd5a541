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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

from jatpo import memory
from jatpo.errors import JatpoError, unknown
from jatpo.evaluate import loops
from jatpo.evaluate.agents.protocol import Agent, informed, permit, sight
from jatpo.evaluate.noise import Noise, make_noise
from jatpo.evaluate.scenario import Scenario, context_of, needed, refuse
from jatpo.evaluate.simulated_loop import play_simulators
from jatpo.evaluate.simulator_scenario import SimulatorScenario
from jatpo.evaluate.trials import Trials, concatenate, take
from jatpo.evaluate.turn import check_shapes, complain
from jatpo.keys import require_key
from jatpo.library import Library

CHUNK = 128
CHUNK_BYTES = 1 << 30  # of beliefs and their successors under every action, at most
STEP_BYTES = (
    64  # of one step of one trial while it is played: random numbers, keys and what they are made from
)
TRIAL_BYTES = 64  # of one trial in the result, without records
TOGETHER = 8  # chunks that are played together when nothing is recorded
OF_TIME = ("states",)


def chunk_size(library: Library) -> int:
    """How many trials make a chunk: a power of two, smaller for very large libraries."""
    size = CHUNK
    if library.simulated:
        return size
    each = library.num_models * library.num_states * (library.num_actions + 2) * library.prior.dtype.itemsize
    while size > 2 and size * each > CHUNK_BYTES:
        size //= 2
    return size


@partial(jax.jit, static_argnames=("mesh", "horizon", "record", "places"))
def _run(
    mesh: Mesh,
    horizon: int,
    record: tuple[str, ...],
    places: int,
    noise: Noise,
    counts: Array,
    setup: loops.Setup,
) -> Any:
    """The trials of `noise` on every device of `mesh`, each with its own; all arrays have a leading axis."""

    def on_device(noise: Noise, counts: Array, setup: loops.Setup) -> Any:
        own = jax.tree.map(lambda leaf: leaf[0], noise)
        if setup.scenario.simulated:
            found = play_simulators(setup, horizon, record, own)
        elif needs_steps(record):
            found = loops.record(setup, horizon, record, own)
        else:
            found = loops.play(setup, horizon, places, own, counts[0], record)
        return jax.tree.map(lambda leaf: leaf[None], found)

    each, same = PartitionSpec("devices"), PartitionSpec()
    specs = (each, each, same)
    run = jax.shard_map(on_device, mesh=mesh, in_specs=specs, out_specs=each, check_vma=False)
    return run(noise, counts, setup)


def run_chunks(
    key: Array,
    agent: Agent,
    scenario: Scenario,
    solved: Mapping[str, Any],
    horizon: int,
    chunks: Iterable[int],
    record: Sequence[str] = (),
    devices: Sequence[Any] | None = None,
) -> Iterator[tuple[int, Trials]]:
    """Whole chunks by number, as soon as they are done; the next ones already run meanwhile."""
    refuse(agent, scenario.library)
    solved = needed(agent, solved, scenario.library)
    names = _checked(agent, scenario, solved, record)
    alone = scenario.simulated or needs_steps(names)
    size, together = chunk_size(scenario.library), 1 if alone else TOGETHER
    chunks = list(chunks)
    _require(scenario, horizon, size * together, names)
    devices = (jax.local_devices() if devices is None else list(devices))[: max(len(chunks), 1)]
    mesh = Mesh(np.array(devices), ("devices",))
    traced = jax.tree.map(jnp.asarray, agent)
    setup = loops.Setup(traced, jnp.asarray(informed(agent)), scenario, solved)
    waiting: deque = deque()
    for shares in _shares(chunks, len(devices), together):
        numbers = [_padded(share, size, together) for share in shares]
        noises = [
            make_noise(key, part, len(scenario.prior), horizon, np.dtype(scenario.prior.dtype))
            for part in numbers
        ]
        noise = jax.tree.map(lambda *parts: jnp.stack(parts), *noises)
        counts = jnp.array([size * len(share) for share in shares], jnp.int32)
        waiting.append((shares, _run(mesh, horizon, names, size, noise, counts, setup)))
        if len(waiting) > 1:
            shares_done, running = waiting.popleft()
            yield from _fetch(agent, shares_done, running, size, horizon)
    for shares_done, running in waiting:
        yield from _fetch(agent, shares_done, running, size, horizon)


def _shares(chunks: list[int], devices: int, together: int) -> Iterator[list[list[int]]]:
    """Rounds of chunks, each as one share of at most `together` for every device; shares may be empty."""
    first = 0
    while first < len(chunks):
        each = min(-(-(len(chunks) - first) // devices), together)
        now = chunks[first : first + each * devices]
        first += each * devices
        yield [now[at * each : (at + 1) * each] for at in range(devices)]


def _padded(share: list[int], size: int, together: int) -> np.ndarray:
    """The numbers of a share's trials, filled up to `together` chunks."""
    numbers = [chunk * size + np.arange(size) for chunk in share]
    filling = [np.zeros(size, int)] * (together - len(share))
    return np.concatenate([*numbers, *filling])


def _fetch(
    agent: Agent, shares: list[list[int]], result: Any, size: int, horizon: int
) -> Iterator[tuple[int, Trials]]:
    truth, returns, discounted, records, faults = jax.tree.map(np.asarray, result)
    for device, share in enumerate(shares):
        if share and faults[device] != loops.NO_FAULT:
            fault, slot, step = loops.decoded(int(faults[device]), horizon)
            trial = share[slot // size] * size + slot % size if slot // size < len(share) else 0
            complain(agent, fault, f"at step {step} of trial {trial}")
        for place, chunk in enumerate(share):
            own = (device, slice(place * size, (place + 1) * size))
            ordered = {name: _of_chunk(name, part, own) for name, part in records.items()}
            numbers = np.arange(chunk * size, (chunk + 1) * size)
            yield chunk, Trials(numbers, truth[own], returns[own], discounted[own], ordered)


def rollout(
    key: Array,
    agent: Agent,
    scenario: Scenario | SimulatorScenario,
    solved: Mapping[str, Any] = {},
    horizon: int | None = None,
    *,
    trials: int | Sequence[int],
    record: Sequence[str] = (),
    devices: Sequence[Any] | None = None,
) -> Trials:
    """The first `trials` trials, or those whose numbers are given; as many steps as the library says by default.

    `solved` is a `Solved`, or what the agent needs by name.
    """
    require_key(key)
    _require_kinds(agent, scenario)
    drawn = cast(Scenario, scenario)  # the callee distinguishes the two kinds by `simulated`
    horizon = drawn.library.horizon if horizon is None else horizon
    count = trials if isinstance(trials, int) else len(trials)
    _require(drawn, horizon, count, record, result=True)
    wanted = np.arange(trials) if isinstance(trials, int) else np.asarray(trials)
    if not wanted.size:
        raise JatpoError("there are no trials: ask for at least one")
    size = chunk_size(drawn.library)
    numbers = np.unique(wanted // size).tolist()
    parts = [part for _, part in run_chunks(key, agent, drawn, solved, horizon, numbers, record, devices)]
    return take(concatenate(parts), wanted)


def _require_kinds(agent: Any, scenario: Any) -> None:
    """Refuse what is easily given in place of an agent or a scenario: a class, a name, a library."""
    if isinstance(agent, type) or not hasattr(agent, "act"):
        given = getattr(agent, "__name__", type(agent).__name__)
        raise JatpoError(f"agent must be an instance such as jatpo.agents.ATPO(), got {given}")
    if not hasattr(scenario, "library"):
        given = type(scenario).__name__
        raise JatpoError(f"scenario must be jatpo.Scenario(library), which draws the trials, got {given}")


def _require(
    scenario: Scenario, horizon: int, trials: int, names: Sequence[str], *, result: bool = False
) -> None:
    """Refuse trials or records that do not fit into memory; `result`: what is returned, else what is played at once."""
    library = scenario.library
    sizes = {"posterior": library.num_models, "probabilities": library.num_actions}
    numbers = sum(sizes.get(name, 1) for name in names) if needs_steps(names) else 0
    item = np.dtype(library.prior.dtype).itemsize
    of_step = 2 * numbers * item if result else STEP_BYTES + numbers * item
    needed = trials * (TRIAL_BYTES + horizon * of_step)
    memory.require(
        needed, f"playing {trials} trials of {horizon} steps", "play fewer at once, or shorten the horizon"
    )


def needs_steps(names: Sequence[str]) -> bool:
    """Whether every step has to be kept, and trials cannot give up their places when they end."""
    return any(name not in loops.OF_TRIAL for name in names)


def _of_chunk(name: str, record: Any, own: tuple[int, slice]) -> Any:
    """One chunk's part of a record, the trial first; `own` says on which device and at which places it is."""
    if name in loops.OF_TRIAL:
        return record[own]
    return jax.tree.map(lambda leaf: _trials_first(leaf[own[0]]), record)


def _trials_first(record: np.ndarray) -> np.ndarray:
    """[T, ..., N] as [N, T, ...]; beliefs [T, K, X, N] as [N, T, K, X]."""
    return np.ascontiguousarray(np.moveaxis(record, -1, 0))


def _checked(
    agent: Agent, scenario: Scenario, solved: Mapping[str, Any], record: Sequence[str]
) -> tuple[str, ...]:
    """The names to record, each known."""
    found = reported(agent, scenario, solved)
    of_trial = [name for name in loops.OF_TRIAL if name == "steps" or "posterior" in found]
    known = (*loops.OF_STEP, *OF_TIME, *found, *of_trial)
    for name in record:
        if name not in known:
            raise unknown(f"record of agent '{agent.name}'", name, known)
    if not scenario.simulated and needs_steps(record) and any(name in loops.OF_TRIAL for name in record):
        raise JatpoError(
            f"{' and '.join(loops.OF_TRIAL)} cannot be recorded with what belongs to single steps: ask for them alone"
        )
    return tuple(sorted(set(record)))


def _observed(library: Any, trials: int) -> Any:
    """Observations of a library of simulators, for their shapes."""
    return library.example_observations(trials)


def reported(agent: Agent, scenario: Scenario, solved: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of what the agent reports of its memory; refuses one whose shapes or types are wrong."""
    trials = 2
    numbers = jnp.zeros(trials, jnp.int32)
    prior = jnp.broadcast_to(scenario.prior[:, None], (scenario.prior.shape[0], trials))
    everything = context_of(scenario, solved, prior)
    context = permit(agent, everything, jnp.asarray(informed(agent)), numbers)
    observed = _observed(scenario.library, trials) if scenario.simulated else numbers
    seen = (sight(agent, numbers, None), sight(agent, numbers, observed))
    return tuple(check_shapes(jax.tree.map(jnp.asarray, agent), context, seen, trials))
