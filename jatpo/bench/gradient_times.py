"""Time and memory of the log-likelihood's gradient, next to the filter of the same model.

Processor time of the fastest of several runs, which other load on the machine disturbs least; memory is what XLA
reserves beside inputs and results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import domains, environment
from jatpo.bench.benchmarks import GradientOptions
from jatpo.bench.choice import chosen_domains
from jatpo.bench.stopwatch import time_calls
from jatpo.events import Event, OnEvent
from jatpo.learn.histories import Histories
from jatpo.learn.likelihood import log_likelihoods
from jatpo.learn.noise_level import Noise
from jatpo.learn.support import with_probabilities
from jatpo.learn.teammate import Teammate
from jatpo.model import POMDP
from jatpo.tables import Table

DOMAINS = ("gridworld", "isr")
COLUMNS = (
    "domain",
    "gradient",
    "parameters",
    "filter_ms",
    "gradient_ms",
    "ratio",
    "memory_mb",
    "all_beliefs_mb",
)


def measure(options: GradientOptions, on_event: OnEvent) -> list[dict[str, Any]]:
    """Rows of all domains."""
    names = chosen_domains(options.names or DOMAINS)
    found: list[dict[str, Any]] = []
    for done, name in enumerate(names):
        on_event(Event(done=done, total=len(names), figures={"domain": name}))
        found += rows(name, options.histories, options.steps, options.repeats)
    on_event(Event(done=len(names), total=len(names)))
    return found


def tables(figures: list[dict[str, Any]], options: GradientOptions) -> Sequence[Table]:
    """One row for each domain and gradient."""
    return [Table(figures, COLUMNS, f"{options.histories} histories of {options.steps} steps")]


def rows(name: str, num_histories: int, num_steps: int, repeats: int) -> list[dict[str, Any]]:
    """One row for the gradient by P, O and the initial belief, by the noise level, and by a teammate's policy."""
    model = domains.make(name)
    histories = random_histories(jax.random.key(0), model, num_histories, num_steps)
    cases: dict[str, tuple[Callable, Any]] = {"P, O, start": _all(model)}
    if "noise" in domains.get(name).parameters:
        cases["noise"] = _learned(Noise.of_domain(name, [0]))
    if hasattr(domains.get(name).structure(0), "mmdp"):
        cases["teammate"] = _learned(Teammate.of_domain(name))
    beliefs = model.num_states * num_histories * num_steps * np.dtype(model.dtype).itemsize
    found = []
    for what, (function, params) in cases.items():
        loss = jax.jit(lambda params, data, function=function: jnp.sum(function(params, data)))
        by = jax.jit(jax.grad(lambda params, data, function=function: jnp.sum(function(params, data))))
        plain, gradient = (part.lower(params, histories).compile() for part in (loss, by))
        once, back = (_milliseconds(part, repeats, params, histories) for part in (plain, gradient))
        found.append(
            {
                "domain": name,
                "gradient": what,
                "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
                "filter_ms": once,
                "gradient_ms": back,
                "ratio": back / once,
                "memory_mb": getattr(gradient.memory_analysis(), "temp_size_in_bytes", math.nan) / 1e6,
                "all_beliefs_mb": beliefs / 1e6,
            }
        )
    return found


def _all(model: POMDP) -> tuple[Callable, Any]:
    """The log-likelihoods as a function of P, O and the initial belief."""

    def function(params: tuple[Array, Array, Array], data: Histories) -> Array:
        moves, signs, start = params
        return log_likelihoods(with_probabilities(model, moves, signs).replace(initial=start), data)

    kernels: tuple[Any, Any] = model.transition, model.observation  # blocked: with their probabilities
    return function, (*(kernel.probability for kernel in kernels), model.initial)


def _learned(part: Any) -> tuple[Callable, Any]:
    """The log-likelihoods as a function of the parameters of a parametrisation."""
    return lambda params, data: part.log_likelihoods_of(part.weights(params), data), part.start()


def _milliseconds(program: Callable, repeats: int, *arguments: Any) -> float:
    """Processor time of the fastest run."""
    return (
        1000 * time_calls(lambda: jax.block_until_ready(program(*arguments)), repeats, time.process_time).best
    )


def random_histories(key: Array, model: POMDP, num_histories: int, num_steps: int) -> Histories:
    """Histories of an agent that acts at random."""

    def episode(key: Array) -> tuple[Array, Array]:
        keys = jax.random.split(key, num_steps + 1)

        def step(state: Array, key: Array) -> tuple[Array, tuple[Array, Array]]:
            choose, move = jax.random.split(key)
            action = jax.random.randint(choose, (), 0, model.num_actions)
            state, observation, _ = environment.step(move, model, state, action)
            return state, (action, observation)

        return jax.lax.scan(step, environment.reset(keys[0], model), keys[1:])[1]

    actions, observations = jax.jit(jax.vmap(episode))(jax.random.split(key, num_histories))
    return Histories(actions, observations, jnp.ones(actions.shape, bool))
