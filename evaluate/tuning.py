"""Tuning ATPO itself by gradient: policy temperature, evidence tempering and prior, on some domains for others.

The numbers of `soft.Settings` mean the same in every library, so what was trained on some domains can be tried on
another. Training climbs the expected return of soft ATPO (`returns.surrogate` with the true model's values as critic),
averaged over the domains after it was divided by the span between the random agent and value iteration. Every step
has trials of its own; the result is the mean of the last quarter of the steps.

Each domain is tested with numbers that were trained on all the others, and with its own, which tells how much there
was to gain. All agents meet the same trials, none of which was trained on.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jatpo.errors import JatpoError
from jatpo.evaluate import mixture, returns, rollout, soft, statistics
from jatpo.evaluate.agent import Agent, Functions
from jatpo.evaluate.noise import Noise
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.states import RANDOM, VALUE_ITERATION
from jatpo.evaluate.store import Store, write_whole
from jatpo.evaluate.task import Task

AGENTS = ("value_iteration", "perseus", "atpo", "soft_atpo", "random")
SPAN_TRIALS = 512
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
        return Theta(*(np.float32(value) for value in (math.log(self.temperature), 0.0, 0.0)))


def settings_of(theta: Theta) -> soft.Settings:
    """The agent's parameters."""
    return soft.Settings(
        jnp.minimum(jnp.exp(theta.log_temperature), WARMEST),
        jnp.exp(theta.log_temper),
        0.0,
        jnp.asarray(theta.tilt),
    )


@partial(jax.jit, static_argnames=("functions", "horizon"))
def return_and_slope(
    functions: Functions, horizon: int, noise: Noise, task: Task, theta: Theta
) -> tuple[Array, Theta]:
    """The mean return of soft ATPO over the trials of `noise`, and an estimate of its gradient in theta."""

    def value(theta: Theta) -> Array:
        return returns.surrogate(functions, horizon, noise, task, settings_of(theta), returns.true_values)

    return jax.value_and_grad(value)(theta)


class Trainee(NamedTuple):
    """A domain to train on."""

    prepared: Prepared
    worst: float  # return of the random agent
    span: float  # return of value iteration minus that


def trainee(prepared: Prepared, seed: int) -> Trainee:
    """The domain with its span."""
    best, worst = (
        rollout.run(jax.random.key(seed), agent, prepared.task, prepared.horizon, SPAN_TRIALS).returns.mean()
        for agent in (VALUE_ITERATION, RANDOM)
    )
    if not best > worst:
        raise JatpoError(
            f"in {prepared.name} value iteration earns {best:.4g} and random {worst:.4g}: nothing to train"
        )
    return Trainee(prepared, float(worst), float(best - worst))


def train(
    trainees: Sequence[Trainee],
    settings: TuneSettings,
    seed: int,
    file: Path | None = None,
    progress: Callable[..., None] | None = None,
) -> tuple[Theta, list[dict[str, float]]]:
    """Theta, and a row for every step. The state is kept in `file`; the same call there goes on with it."""
    schedule = optax.cosine_decay_schedule(settings.rate, settings.steps, alpha=0.1)
    optimiser = optax.adam(schedule)
    theta = settings.start()
    state = optimiser.init(theta)
    theta, state, curve = _load(file, theta, state)
    key = jax.random.split(jax.random.key(seed))[1]  # rollouts fold trials into the seed's key itself
    for step in range(len(curve), settings.steps):
        value, slope = _slope(jax.random.fold_in(key, step), trainees, settings.batch, theta)
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimiser.update(jax.tree.map(lambda part: -part, slope), state, theta)
            theta = jax.tree.map(lambda part, move: np.asarray(part + move), theta, change)
        curve.append({"step": step, "value": value, **{n: float(v) for n, v in theta._asdict().items()}})
        _save(file, state, curve)
        if progress:
            progress(step + 1, settings.steps, relative=100 * value)
    last = curve[-max(settings.steps // 4, 1) :]
    return Theta(*(np.float32(np.mean([row[name] for row in last])) for name in Theta._fields)), curve


def _slope(key: Array, trainees: Sequence[Trainee], batch: int, theta: Theta) -> tuple[float, Theta]:
    """The mean return, random being 0 and value iteration 1, and its gradient."""
    value, total = 0.0, jax.tree.map(np.zeros_like, theta)
    for place, (prepared, worst, span) in enumerate(trainees):
        task = prepared.task._replace(solved={"policies": prepared.task.solved["policies"]})
        noise = returns.draw_noise(jax.random.fold_in(key, place), task, prepared.horizon, np.arange(batch))
        found, slope = return_and_slope(soft.SOFT_ATPO.functions, prepared.horizon, noise, task, theta)
        share = np.float32(1 / (span * len(trainees)))
        value += (float(found) - worst) * float(share)
        total = jax.tree.map(lambda part, more: part + share * np.asarray(more), total, slope)  # noqa: B023
    return value, total


def _save(file: Path | None, state: Any, curve: list[dict[str, float]]) -> None:
    if file:
        leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(state)]
        write_whole(file, json.dumps({"optimiser": leaves, "curve": curve}).encode())


def _load(file: Path | None, theta: Theta, state: Any) -> tuple[Theta, Any, list[dict[str, float]]]:
    if file is None or not file.exists():
        return theta, state, []
    try:
        found = json.loads(file.read_text())
        curve, leaves = found["curve"], found["optimiser"]
        old = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
        kept = [np.asarray(new, leaf.dtype) for new, leaf in zip(leaves, old, strict=True)]
        theta = Theta(*(np.float32(curve[-1][name]) for name in Theta._fields))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise JatpoError(f"{file} is damaged: remove it and run the same command again") from error
    return theta, jax.tree.unflatten(jax.tree.structure(state), kept), curve


def tuned(theta: Theta, trained_on: str) -> Agent:
    """Soft ATPO with trained numbers, under a name of its own."""
    values = {name: float(value) for name, value in settings_of(theta)._asdict().items()}
    return dataclasses.replace(soft.SOFT_ATPO, name=f"soft_atpo_{trained_on}").with_parameters(**values)


def tune_domains(
    domains: Sequence[Prepared],
    settings: TuneSettings,
    trials: int,
    session: Session,
    show: Callable[[str], Callable[..., None] | None] = lambda title: None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the table, one for each domain and agent, and the curves of all trainings.

    `show` is told what goes on and gives a function for its progress, or None.
    """
    if len(domains) < 2:
        raise JatpoError("tuning on some domains for others needs at least two domains")
    trainees = {prepared.part: trainee(prepared, session.seed) for prepared in domains}
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for prepared in domains:
        session.open_part(prepared.part, prepared)
        own = trainees[prepared.part]
        sets = {"others": [other for other in trainees.values() if other is not own], "own": [own]}
        thetas = {}
        for name, chosen in sets.items():
            file = _file(session.store, f"{prepared.part}-{name}", chosen)
            title = f"training on {', '.join(one.prepared.name for one in chosen)}"
            thetas[name], curve = train(chosen, settings, session.seed, file, show(title))
            curves += [{"domain": prepared.name, "trained_on": name, **row} for row in curve]
        session.progress = show(f"testing in {prepared.name}")
        rows += _test(prepared, thetas, settings, trials, session)
    return rows, curves


def _file(store: Store | None, name: str, chosen: Sequence[Trainee]) -> Path | None:
    """Where a training keeps its state; refuses one of other models or solutions."""
    if store is None:
        return None
    made_of = {one.prepared.part: {**one.prepared.identity, **one.prepared.solutions} for one in chosen}
    store.open_part(f"training-{name}", made_of)
    return store.directory / "training" / f"{name}.json"


def _test(
    prepared: Prepared, thetas: dict[str, Theta], settings: TuneSettings, trials: int, session: Session
) -> list[dict[str, Any]]:
    """ATPO, the informed agent, and soft ATPO before and after training."""
    untrained = tuned(settings.start(), "untrained")
    players = [
        mixture.ATPO,
        mixture.PERSEUS,
        untrained,
        *(tuned(theta, name) for name, theta in thetas.items()),
    ]
    session.expect(players, prepared.task.library)
    found = {
        agent.name: session.run(prepared.part, agent, prepared.task, prepared.horizon, trials)
        for agent in players
    }
    rows = []
    for agent in players:
        run = found[agent.name]
        row: dict[str, Any] = {"domain": prepared.name, "rules": prepared.rules, "agent": agent.name}
        row |= statistics.estimate(run.returns)._asdict()
        gain = statistics.difference(run.returns, found["atpo"].returns)
        row |= {"minus_atpo": gain.mean, "minus_atpo_low": gain.low, "minus_atpo_high": gain.high}
        numbers = agent.parameters._asdict() if isinstance(agent.parameters, soft.Settings) else {}
        rows.append(row | {name: numbers.get(name) for name in ("temperature", "temper", "tilt")})
    return rows
