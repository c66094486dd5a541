"""How fast agents act: steps per second in rollouts, growth with trials and models, latency of one decision.

Alpha vectors are stand-ins (random numbers, as many as asked for): the time depends on their number, not on
what they say, and nothing has to be solved. The reference is one ATPO step of one trial in plain NumPy
float64 on the same library, so that figures from different machines can be compared by their ratio to it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jatpo import domains
from jatpo.evaluate import mixture, registry, rollout
from jatpo.evaluate.action_values import action_values
from jatpo.evaluate.player import Player
from jatpo.evaluate.task import Task, make_task
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve.policy import Policy


def stand_in(models: Sequence[POMDP], vectors: int, seed: int = 0) -> tuple[Library, Task]:
    """A task on `models` whose policies and values are random numbers."""
    library = Library.from_models(models)
    random = np.random.default_rng(seed)
    count, size, dtype = library.num_models, library.num_states, library.prior.dtype
    alpha = random.normal(size=(count, vectors, size)).astype(dtype)
    actions = random.integers(library.num_actions, size=(count, vectors)).astype(np.int32)
    q = random.normal(size=(count, size, library.num_actions)).astype(dtype)
    solved = {"policies": Policy(jnp.asarray(alpha), jnp.asarray(actions)), "q": jnp.asarray(q)}
    return library, make_task(library, solved)


def time_of(function: Callable[[], Any], repeats: int = 3) -> tuple[float, float]:
    """Seconds of the first call (it compiles) and the least of some more."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return times[0], min(times[1:])


def rollout_rows(
    name: str, agents: Sequence[str], trials: int, vectors: int, rules: str = "as_run", repeats: int = 2
) -> list[dict[str, Any]]:
    """Steps per second of each agent in a domain, and how that compares with the reference."""
    models = domains.library(name, rules)
    library, task = stand_in(models, vectors)
    if any("action_values" in registry.get(agent).needs for agent in agents):
        few = jax.tree.map(lambda part: part[:, :8], task.solved["policies"])
        task = task._replace(solved={**task.solved, "action_values": action_values(library, few)})
    horizon = domains.get(name).horizon
    reference = numpy_step_seconds(models, vectors)
    rows = []
    for agent in map(registry.get, agents):
        if agent.refuses(task.library):
            continue
        first, best = time_of(lambda: rollout.run(jax.random.key(0), agent, task, horizon, trials), repeats)  # noqa: B023
        speed = trials * horizon / best
        row = {"domain": name, "agent": agent.name, "models": len(models), "states": task.library.num_states}
        row |= {"trials": trials, "vectors": vectors, "compile_s": first - best, "seconds": best}
        rows.append(
            {**row, "steps_per_s": speed, "reference_steps_per_s": 1 / reference, "ratio": speed * reference}
        )
    return rows


def growth_rows(name: str, vectors: int, trials: Sequence[int], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds of ATPO's rollouts as trials grow, and as the library grows."""
    horizon = domains.get(name).horizon
    pool = domains.library(name, pool=True)
    rows = []

    def measure(count: int, models: Sequence[POMDP], what: str) -> None:
        _, task = stand_in(models, vectors)
        _, best = time_of(lambda: rollout.run(jax.random.key(0), mixture.ATPO, task, horizon, count), 2)
        row = {"domain": name, "growth_in": what, "trials": count, "models": len(models), "seconds": best}
        rows.append({**row, "microseconds_per_step_and_model": 1e6 * best / (count * horizon * len(models))})

    for count in trials:
        measure(count, pool[:4], "trials")
    for size in sizes:
        measure(rollout.CHUNK, pool[:size], "models")
    return rows


def latency_row(name: str, vectors: int, decisions: int = 200) -> dict[str, Any]:
    """Milliseconds of one ATPO decision (observe and act) in a user's own loop."""
    models = domains.library(name)
    library, task = stand_in(models, vectors)
    player = Player(mixture.ATPO, library, task.solved)
    player.reset()
    times = []
    for step in range(decisions + 5):
        began = time.perf_counter()
        player.observe(step % library.num_actions, 0)
        player.act()
        times.append(1e3 * (time.perf_counter() - began))
    times = sorted(times[5:])
    row = {"domain": name, "models": len(models), "states": library.num_states, "vectors": vectors}
    return {**row, "median_ms": statistics.median(times), "p95_ms": times[int(0.95 * len(times))]}


def numpy_step_seconds(models: Sequence[POMDP], vectors: int, repeats: int = 5) -> float:
    """Seconds of one ATPO step of one trial in NumPy float64: filter, evidence, scores of the vectors."""
    random = np.random.default_rng(0)
    parts = []
    for model in models:
        sparse = model.to_sparse()
        of_action = sparse.transition[0] == 0
        moves = tuple(part[of_action] for part in sparse.transition[1:])
        seen = (sparse.observation[0] == 0) & (sparse.observation[2] == sparse.observation[2][0])
        weight = np.zeros(model.num_states)
        weight[sparse.observation[1][seen]] = sparse.observation[3][seen]
        parts.append((moves, weight, sparse.initial, random.normal(size=(vectors, model.num_states))))

    def step() -> None:
        for (x, y, p), weight, belief, alpha in parts:
            joint = np.bincount(y, belief[x] * p, minlength=len(belief)) * weight
            total = joint.sum()
            (alpha @ (joint / total if total > 0 else joint)).argmax()

    return time_of(step, repeats)[1]
