"""Maximum likelihood by gradient, with a trust region and an eye on histories that were held out.

    maximise   sum_n log L(h_n; θ) - trust · KL(start || θ)

A share of the histories is held out. After every few steps their log likelihood is taken; the best parameters
so far are kept, the start among them, and the fit stops when nothing has improved for a while. Steps are those
of Adam on batches whose order depends on the seed alone. With a directory, the state is checkpointed: the same
call goes on where it was stopped and gives the same result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jatpo.errors import JatpoError
from jatpo.learn.checkpoints import Checkpoints, digest
from jatpo.learn.histories import Histories
from jatpo.library import Library
from jatpo.model import POMDP

TOGETHER = 256  # histories whose likelihood is computed at once
FEWEST = 5  # histories below which none is held out
Params = Any
Progress = Callable[..., None]


class Parametrisation(Protocol):
    """What can be fitted: `Noise`, `Prior`, `Teammate`, or a frozen pytree of your own with these methods."""

    def start(self) -> Params: ...
    def weights(self, params: Params) -> Any: ...
    def prepare(self, histories: Histories) -> Any: ...
    def log_likelihoods_of(self, weights: Any, data: Any) -> Array: ...
    def divergence(self, params: Params) -> Array: ...
    def library(self, params: Params) -> Library: ...
    def models(self, params: Params) -> list[POMDP]: ...


@dataclass(frozen=True)
class FitSettings:
    """How a fit runs. `trust` counts imagined observations that agree with the start (see `divergence`)."""

    steps: int = 300  # at most
    rate: float = 0.1  # of Adam
    batch: int = 64  # histories for each step
    held_out: float = 0.2  # share of the histories
    every: int = 5  # steps between looks at the held-out histories
    patience: int = 8  # looks without improvement before the fit stops
    improvement: float = 1e-4  # least one, in log likelihood per history
    trust: float = 1.0

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.every, self.patience) < 1:
            raise JatpoError("steps, batch, every and patience have to be 1 or more")
        if not 0 <= self.held_out < 1:
            raise JatpoError(f"held_out={self.held_out} is no share of the histories: give 0 up to below 1")
        if self.rate <= 0 or self.trust < 0:
            raise JatpoError(f"rate={self.rate} has to be positive and trust={self.trust} 0 or more")


@dataclass(frozen=True)
class Fitted:
    """What a fit found. Likelihoods are means of log L per history; `curve` has one row per look."""

    params: Params
    log_likelihood: float  # of the histories it learned from
    start_log_likelihood: float
    held_out: float | None  # of those held out; None if there were too few
    start_held_out: float | None
    steps: int
    stopped: str
    seconds: float
    curve: list[dict[str, float]] = field(repr=False)


def log_likelihoods(parametrisation: Parametrisation, params: Params, data: Any) -> Array:
    """log L of every history [N], some of them at a time."""
    return jnp.concatenate([_jit_scores(parametrisation, params, part) for part in pieces(data)])


def pieces(data: Any) -> Iterator[Any]:
    """`data` in parts of at most `TOGETHER` histories."""
    count = len(jax.tree.leaves(data)[0])
    for first in range(0, count, TOGETHER):
        yield jax.tree.map(lambda leaf: leaf[first : first + TOGETHER], data)  # noqa: B023 - used at once


@jax.jit
def _jit_scores(parametrisation: Parametrisation, params: Params, data: Any) -> Array:
    return parametrisation.log_likelihoods_of(parametrisation.weights(params), data)


@jax.jit
def _step(
    parametrisation: Parametrisation, params: Params, memory: Any, data: Any, rate: Array, pull: Array
) -> tuple[Params, Any, Array]:
    """One step of Adam up mean log L - pull · divergence; the mean log L before it."""

    def loss(params: Params) -> tuple[Array, Array]:
        score = jnp.mean(parametrisation.log_likelihoods_of(parametrisation.weights(params), data))
        return pull * parametrisation.divergence(params) - score, score

    with jax.numpy_dtype_promotion("standard"):
        gradient, score = jax.grad(loss, has_aux=True)(params)
        moved, memory = optax.scale_by_adam().update(gradient, memory)
        params = jax.tree.map(lambda param, move: param - (rate * move).astype(param.dtype), params, moved)
    return params, memory, score


@dataclass
class _Run:
    """The state of a fit between two steps."""

    params: Params
    memory: Any
    best: Params
    best_score: float
    waited: int = 0
    steps: int = 0
    stopped: str = ""
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


def fit(
    parametrisation: Parametrisation,
    histories: Histories,
    settings: FitSettings | None = None,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    progress: Progress | None = None,
    save_seconds: float = 10.0,
) -> Fitted:
    """The parameters under which `histories` are most probable, within the trust region.

    `progress(step, steps, train=, held_out=)` is called after every look at the held-out histories. Checkpoints go
    to `directory`, one every `save_seconds` at most, and one when the fit is interrupted.
    """
    settings = settings or FitSettings()
    start = parametrisation.start()
    data = parametrisation.prepare(histories)
    train, held = _split(histories.num_histories, settings.held_out, seed)
    checkpoints = (
        Checkpoints(directory, digest(parametrisation, histories, settings, seed)) if directory else None
    )
    look = partial(_mean, parametrisation, data=data)
    _possible(parametrisation, start, data)
    run = _begin(start, look(start, held if len(held) else train))
    if checkpoints:
        checkpoints.load(run)
    began = time.perf_counter() - run.seconds
    saved = time.perf_counter()
    try:
        while not run.stopped:
            _advance(run, parametrisation, data, train, held, settings, seed, look)
            run.seconds = time.perf_counter() - began
            if progress:
                progress(run.steps, settings.steps, **run.curve[-1])
            if checkpoints and (run.stopped or time.perf_counter() - saved >= save_seconds):
                checkpoints.save(run)
                saved = time.perf_counter()
    except BaseException:
        if checkpoints and run.steps:
            checkpoints.save(run)
        raise
    return Fitted(
        params=run.best,
        log_likelihood=look(run.best, train),
        start_log_likelihood=look(start, train),
        held_out=look(run.best, held) if len(held) else None,
        start_held_out=look(start, held) if len(held) else None,
        steps=run.steps,
        stopped=run.stopped,
        seconds=run.seconds,
        curve=run.curve,
    )


def _begin(start: Params, score: float) -> _Run:
    return _Run(start, optax.scale_by_adam().init(start), start, score)


def _advance(
    run: _Run,
    parametrisation: Parametrisation,
    data: Any,
    train: np.ndarray,
    held: np.ndarray,
    settings: FitSettings,
    seed: int,
    look: Callable[[Params, np.ndarray], float],
) -> None:
    """Some steps and a look at the held-out histories; `run` changes only when all of it is done."""
    params, memory, scores, steps = run.params, run.memory, [], run.steps
    last = min(steps + settings.every, settings.steps)
    pull = jnp.asarray(settings.trust / len(train), jnp.float32)
    rate = jnp.asarray(settings.rate, jnp.float32)
    for step in range(steps, last):
        part = _take(data, _batch(train, settings.batch, seed, step))
        params, memory, score = _step(parametrisation, params, memory, part, rate, pull)
        scores.append(float(score))
    now = look(params, held) if len(held) else _objective(parametrisation, params, look, train, settings)
    better = now > run.best_score + settings.improvement
    run.params, run.memory, run.steps = params, memory, last
    run.waited = 0 if better else run.waited + 1
    if now > run.best_score:
        run.best, run.best_score = params, now
    run.curve.append({"train": float(np.mean(scores)), "held_out": now if len(held) else float("nan")})
    if run.waited >= settings.patience:
        run.stopped = f"no improvement in {settings.patience * settings.every} steps"
    elif last >= settings.steps:
        run.stopped = f"{settings.steps} steps"


def _objective(
    parametrisation: Parametrisation, params: Params, look: Callable, train: np.ndarray, settings: FitSettings
) -> float:
    """What is maximised, per history, where none is held out."""
    return look(params, train) - settings.trust / len(train) * float(parametrisation.divergence(params))


def _split(count: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the histories to learn from and of those held out."""
    order = np.random.default_rng([seed, 1]).permutation(count)
    size = math.ceil(share * count) if count >= FEWEST and share > 0 else 0
    return np.sort(order[size:]), np.sort(order[:size])


def _batch(train: np.ndarray, size: int, seed: int, step: int) -> np.ndarray:
    """The histories of one step: a pass over all of them in a new order, again and again."""
    if len(train) <= size:
        return train
    sweep, place = divmod(step, len(train) // size)
    order = np.random.default_rng([seed, 2, sweep]).permutation(train)
    return order[place * size : (place + 1) * size]


def _take(data: Any, numbers: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[numbers], data)


def _mean(parametrisation: Parametrisation, params: Params, numbers: np.ndarray, data: Any) -> float:
    return float(np.mean(np.asarray(log_likelihoods(parametrisation, params, _take(data, numbers)))))


def _possible(parametrisation: Parametrisation, start: Params, data: Any) -> None:
    """Refuse histories that the start calls impossible: no gradient leads out of there."""
    scores = np.asarray(log_likelihoods(parametrisation, start, data))
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise JatpoError(
            f"history {wrong[0]}{more} cannot have happened in the starting model: "
            "start from another model, or from a noise level above 0"
        )
