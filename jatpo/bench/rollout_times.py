"""Speed of agents: steps per second in rollouts, growth with trials and models, latency of one decision.

Alpha vectors are random numbers, as many as asked for: the time depends on their number, not on their values, and
nothing has to be solved. The reference is one ATPO step of one trial in plain NumPy
float64 on the same library, so that figures from different machines can be compared by their ratio to it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jatpo import domains
from jatpo.bench.benchmarks import RolloutOptions
from jatpo.bench.choice import ALL, chosen_domains
from jatpo.bench.stopwatch import time_calls
from jatpo.errors import JatpoError
from jatpo.evaluate import rollout
from jatpo.evaluate.action_values import action_values
from jatpo.evaluate.agents import ATPO, catalogue
from jatpo.evaluate.player import Player
from jatpo.evaluate.scenario import Scenario
from jatpo.events import Event, OnEvent
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve.policy import Policy
from jatpo.tables import Table

GROWING, TRIALS, SIZES = "gridworld", (128, 256, 512, 1024), (1, 2, 4, 8, 16, 32)


def stand_in(
    models: Library | Sequence[POMDP], vectors: int, seed: int = 0
) -> tuple[Scenario, dict[str, Any]]:
    """A scenario of `models`, with policies and values that are random numbers."""
    library = Library.from_models(list(models))
    random = np.random.default_rng(seed)
    count, size, dtype = library.num_models, library.num_states, library.prior.dtype
    alpha = random.normal(size=(count, vectors, size)).astype(dtype)
    actions = random.integers(library.num_actions, size=(count, vectors)).astype(np.int32)
    q = random.normal(size=(count, size, library.num_actions)).astype(dtype)
    solved = {"policies": Policy(jnp.asarray(alpha), jnp.asarray(actions)), "q": jnp.asarray(q)}
    return Scenario(library), solved


def measure(options: RolloutOptions, on_event: OnEvent) -> dict[str, list[dict[str, Any]]]:
    """Rows of rollouts, growth (of gridworld) and latency."""
    names = chosen_domains(options.names or (ALL,))
    agents = [name.strip() for name in options.agents.split(",") if name.strip()]
    if not agents:
        raise JatpoError(f"--agents '{options.agents}' names no agent: give comma-separated names")
    found: dict[str, list[dict[str, Any]]] = {"rollouts": [], "growth": [], "latency": []}
    for done, name in enumerate(names):
        on_event(Event(done=done, total=len(names), figures={"domain": name}))
        found["rollouts"] += rollout_rows(name, agents, options.trials, options.vectors)
        found["latency"].append(latency_row(name, options.vectors))
    if GROWING in names:
        found["growth"] = growth_rows(GROWING, options.vectors, TRIALS, SIZES)
    on_event(Event(done=len(names), total=len(names)))
    return found


def tables(figures: dict[str, list[dict[str, Any]]], options: RolloutOptions) -> Sequence[Table]:
    """One table for each kind of rows."""
    return [Table(rows, title=title) for title, rows in figures.items() if rows]


def rollout_rows(
    name: str, agents: Sequence[str], trials: int, vectors: int, rules: str = "as_run", repeats: int = 2
) -> list[dict[str, Any]]:
    """Steps per second of each agent in a domain, and how that compares with the reference."""
    models = domains.library(name, rules)
    scenario, solved = stand_in(models, vectors)
    library = scenario.library
    if any("action_values" in catalogue.get(agent).needs for agent in agents):
        few = jax.tree.map(lambda part: part[:, :8], solved["policies"])
        solved["action_values"] = action_values(library, few)
    horizon = domains.get(name).horizon
    reference = numpy_step_seconds(models.members, vectors)
    rows = []
    for agent in map(catalogue.get, agents):
        if agent.refuses(library):
            continue
        play = partial(rollout.rollout, jax.random.key(0), agent, scenario, solved, horizon, trials=trials)
        first, best = time_calls(play, repeats)
        speed = trials * horizon / best
        row = {"domain": name, "agent": agent.name, "models": len(models), "states": library.num_states}
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
        setup = stand_in(models, vectors)
        play = partial(rollout.rollout, jax.random.key(0), ATPO(), *setup, horizon, trials=count)
        _, best = time_calls(play, 2)
        row = {"domain": name, "growth_in": what, "trials": count, "models": len(models), "seconds": best}
        rows.append({**row, "microseconds_per_step_and_model": 1e6 * best / (count * horizon * len(models))})

    for count in trials:
        measure(count, pool.members[:4], "trials")
    for size in sizes:
        measure(rollout.CHUNK, pool.members[:size], "models")
    return rows


def latency_row(name: str, vectors: int, decisions: int = 200) -> dict[str, Any]:
    """Milliseconds of one ATPO decision (observe and act) in a user's own loop."""
    models = domains.library(name)
    scenario, solved = stand_in(models, vectors)
    library = scenario.library
    player = Player(ATPO(), library, solved)
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

    return time_calls(step, repeats)[1]
