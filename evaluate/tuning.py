"""Tuning ATPO itself by gradient: policy temperature, evidence tempering and prior.

The parameters of `SoftATPO` mean the same in every library, so what was trained on some domains can be tried on
another (`jatpo experiment tune`). Training climbs the expected return of soft ATPO (`returns.surrogate` with the true
model's values as critic), averaged over the domains after it was divided by the span between the random agent and value
iteration. Every step has trials of its own; the result is the mean of the last quarter of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jatpo.disk import Arrays, Checkpoints, from_arrays, to_arrays
from jatpo.errors import JatpoError
from jatpo.evaluate import returns
from jatpo.evaluate.agents import Random, SoftATPO, ValueIteration
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.noise import Noise
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.solved import Solved
from jatpo.events import Event, OnEvent, ignore
from jatpo.tables import Row

SPAN_TRIALS = 512
TRAINED = ("temperature", "temper", "tilt")
WARMEST = 50.0  # temperatures, in units of value, beyond which all actions are alike


class Theta(NamedTuple):
    """What is trained, without constraints; each []."""

    log_temperature: Array | np.float32
    log_temper: Array | np.float32
    tilt: Array | np.float32


@dataclass(frozen=True)
class TuneSettings:
    """How to train. The start is ATPO but for the temperature, since a hard policy has no gradient."""

    steps: int = 60
    batch: int = 128  # trials of a step and domain
    rate: float = 0.1
    temperature: float = 1.0  # to start with

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "rate", "temperature"):
            if not getattr(self, name) > 0:
                raise JatpoError(f"{name} is {getattr(self, name)}, expected more than 0")
        if self.batch < 2:
            raise JatpoError("a batch of 1 has no baseline: take at least 2 trials")

    def start(self) -> Theta:
        """Theta before training."""
        return Theta(*(np.float32(value) for value in (math.log(self.temperature), 0.0, 0.0)))


def agent_of(theta: Theta) -> SoftATPO:
    """Soft ATPO with these numbers."""
    return SoftATPO(
        temperature=jnp.minimum(jnp.exp(theta.log_temperature), WARMEST),
        temper=jnp.exp(theta.log_temper),
        tilt=jnp.asarray(theta.tilt),
    )


def tuned(theta: Theta, trained_on: str) -> SoftATPO:
    """Soft ATPO with trained numbers, under a name of its own."""
    values: Mapping[str, Any] = {name: float(getattr(agent_of(theta), name)) for name in TRAINED}
    return SoftATPO(name=f"soft_atpo_{trained_on}", **values)


@partial(jax.jit, static_argnames="horizon")
def return_and_slope(
    horizon: int, noise: Noise, scenario: Scenario, solved: Mapping[str, Any], theta: Theta
) -> tuple[Array, Theta]:
    """The mean return of soft ATPO over the trials of `noise`, and an estimate of its gradient in theta."""

    def value(theta: Theta) -> Array:
        return returns.surrogate(agent_of(theta), horizon, noise, scenario, solved, returns.true_values)

    return jax.value_and_grad(value)(theta)


class Trainee(NamedTuple):
    """A library to train on."""

    scenario: Scenario
    solved: Solved
    worst: float  # return of the random agent
    span: float  # return of value iteration minus that


def trainee(scenario: Scenario, solved: Solved, seed: int) -> Trainee:
    """A library with its span."""

    def mean(agent: Agent) -> float:
        run = rollout(jax.random.key(seed), agent, scenario, solved, trials=SPAN_TRIALS)
        return run.returns.mean()

    best, worst = mean(ValueIteration()), mean(Random())
    if not best > worst:
        raise JatpoError(
            f"in {solved.library.name} value iteration earns {best:.4g} and random {worst:.4g}: nothing to train"
        )
    return Trainee(scenario, solved, float(worst), float(best - worst))


def train(
    trainees: Sequence[Trainee],
    settings: TuneSettings,
    seed: int,
    checkpoints: Checkpoints | None = None,
    on_event: OnEvent = ignore,
) -> tuple[Theta, list[Row]]:
    """Theta, and a row for every step. The state is kept in `checkpoints`; the same call resumes from there."""
    schedule = optax.cosine_decay_schedule(settings.rate, settings.steps, alpha=0.1)
    optimiser = optax.adam(schedule)
    theta = settings.start()
    state = optimiser.init(theta)
    theta, state, curve = _resume(checkpoints, theta, state)
    key = jax.random.split(jax.random.key(seed))[1]  # rollouts fold trials into the seed's key itself
    for step in range(len(curve), settings.steps):
        value, slope = _slope(jax.random.fold_in(key, step), trainees, settings.batch, theta)
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimiser.update(jax.tree.map(lambda part: -part, slope), state, theta)
            theta = jax.tree.map(lambda part, move: np.asarray(part + move), theta, change)
        curve.append({"step": step, "value": value, **{n: float(v) for n, v in theta._asdict().items()}})
        if checkpoints:
            checkpoints.save_newest("step-", step + 1, {"curve": curve}, to_arrays(state))
        on_event(Event("", step + 1, settings.steps, {"relative": 100 * value}))
    last = curve[-max(settings.steps // 4, 1) :]
    return Theta(*(np.float32(np.mean([row[name] for row in last])) for name in Theta._fields)), curve


def _slope(key: Array, trainees: Sequence[Trainee], batch: int, theta: Theta) -> tuple[float, Theta]:
    """The mean return, random being 0 and value iteration 1, and its gradient."""
    value, total = 0.0, jax.tree.map(np.zeros_like, theta)
    for place, (scenario, solved, worst, span) in enumerate(trainees):
        horizon = solved.library.horizon
        noise = returns.draw_noise(jax.random.fold_in(key, place), scenario, horizon, np.arange(batch))
        found, slope = return_and_slope(horizon, noise, scenario, {"policies": solved["policies"]}, theta)
        share = np.float32(1 / (span * len(trainees)))
        value += (float(found) - worst) * float(share)
        total = jax.tree.map(lambda part, more: part + share * np.asarray(more), total, slope)  # noqa: B023
    return value, total


def _resume(checkpoints: Checkpoints | None, theta: Theta, state: Any) -> tuple[Theta, Any, list[Row]]:
    """The newest state that was kept, or the one given."""

    def read(meta: Row, arrays: Arrays) -> tuple[Theta, Any, list[Row]]:
        last = Theta(*(np.float32(meta["curve"][-1][name]) for name in Theta._fields))
        return last, from_arrays(arrays, state), meta["curve"]

    found = checkpoints.load_newest("step-", read) if checkpoints else None
    return found or (theta, state, [])
