"""Maximum likelihood by gradient, with a trust region and early stopping on held-out histories.

    maximise   sum_n log L(h_n; θ) - trust · KL(start || θ)

A share of the histories is held out. Every few steps their log-likelihood is evaluated; the best parameters so far
are kept, the start among them, and the fit stops after `patience` evaluations without improvement. Steps are those
of Adam on batches whose order depends on the seed alone. With a directory, the state is checkpointed: the same
call resumes where it was stopped and gives the same result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jatpo import interrupts
from jatpo.errors import JatpoError
from jatpo.events import Event, OnEvent, ignore
from jatpo.learn import ascent
from jatpo.learn.fit_state import FitState, SavedFit
from jatpo.learn.histories import Histories
from jatpo.learn.parametrisation import Parametrisation, Params, check_possible, mean_log_likelihood, take

FEWEST = 5  # histories below which none is held out


@dataclass(frozen=True)
class FitSettings:
    """Options of a fit. `trust` is the number of pseudo-observations in agreement with the start (see `divergence`)."""

    steps: int = 300  # at most
    rate: float = 0.1  # of Adam
    batch: int = 64  # histories for each step
    held_out: float = 0.2  # share of the histories
    every: int = 5  # steps between evaluations on the held-out histories
    patience: int = 8  # evaluations without improvement before the fit stops
    improvement: float = 1e-4  # smallest that counts, in log-likelihood per history
    trust: float = 1.0

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.every, self.patience) < 1:
            raise JatpoError("steps, batch, every and patience must be at least 1")
        if not 0 <= self.held_out < 1:
            raise JatpoError(f"held_out must be in [0, 1), got {self.held_out}")
        if self.rate <= 0 or self.trust < 0:
            raise JatpoError(f"rate must be positive and trust at least 0, got {self.rate} and {self.trust}")


@dataclass(frozen=True)
class Fitted:
    """Result of a fit. Likelihoods are means of log L per history; `curve` has one row per evaluation."""

    params: Params
    log_likelihood: float  # of the training histories
    start_log_likelihood: float
    held_out: float | None  # of those held out; None if there were too few
    start_held_out: float | None
    steps: int
    stopped: str
    seconds: float
    curve: list[dict[str, float]] = field(repr=False)


def fit(
    parametrisation: Parametrisation,
    histories: Histories,
    settings: FitSettings | None = None,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    on_event: OnEvent = ignore,
    save_seconds: float = 10.0,
) -> Fitted:
    """The parameters under which `histories` are most probable, within the trust region.

    An event is sent after every evaluation on the held-out histories. Checkpoints are written to `directory`, at
    most one every `save_seconds`, and one when the fit is interrupted.
    """
    settings = settings or FitSettings()
    start = parametrisation.start()
    data = parametrisation.prepare(histories)
    train, held = _split(histories.num_histories, settings.held_out, seed)
    saved = SavedFit(directory, parametrisation, histories, settings, seed, on_event) if directory else None
    evaluate = partial(mean_log_likelihood, parametrisation, data=data)
    check_possible(parametrisation, start, data)
    run = _begin(start, evaluate(start, held if len(held) else train))
    run = saved.load(run) if saved else run
    began, last_save = time.perf_counter() - run.seconds, time.perf_counter()
    whole = True
    try:
        while not run.stopped:
            with interrupts.deferred():
                whole = False
                _advance(run, parametrisation, data, train, held, settings, seed, evaluate)
                whole = True
            run.seconds = time.perf_counter() - began
            on_event(Event(done=run.steps, total=settings.steps, figures=run.curve[-1]))
            if saved and (run.stopped or time.perf_counter() - last_save >= save_seconds):
                saved.save(run)
                last_save = time.perf_counter()
    except BaseException:
        if saved and run.steps and whole:
            saved.save(run)
        raise
    return Fitted(
        params=run.best,
        log_likelihood=evaluate(run.best, train),
        start_log_likelihood=evaluate(start, train),
        held_out=evaluate(run.best, held) if len(held) else None,
        start_held_out=evaluate(start, held) if len(held) else None,
        steps=run.steps,
        stopped=run.stopped,
        seconds=run.seconds,
        curve=run.curve,
    )


def _begin(start: Params, score: float) -> FitState:
    return FitState(start, ascent.initial_moments(start), start, score)


def _advance(
    run: FitState,
    parametrisation: Parametrisation,
    data: Any,
    train: np.ndarray,
    held: np.ndarray,
    settings: FitSettings,
    seed: int,
    evaluate: Callable[[Params, np.ndarray], float],
) -> None:
    """`every` steps and an evaluation on the held-out histories; `run` changes only when all of it is done."""
    params, moments, scores, steps = run.params, run.moments, [], run.steps
    last = min(steps + settings.every, settings.steps)
    penalty = np.float32(settings.trust / len(train))
    rate = np.float32(settings.rate)
    for step in range(steps, last):
        part = take(data, _batch(train, settings.batch, seed, step))
        params, moments, score = ascent.step(parametrisation, params, moments, part, rate, penalty)
        scores.append(float(score))
    now = (
        evaluate(params, held)
        if len(held)
        else _objective(parametrisation, params, evaluate, train, settings)
    )
    better = now > run.best_score + settings.improvement
    run.params, run.moments, run.steps = params, moments, last
    run.waited = 0 if better else run.waited + 1
    if now > run.best_score:
        run.best, run.best_score = params, now
    run.curve.append({"train": float(np.mean(scores)), "held_out": now if len(held) else float("nan")})
    if run.waited >= settings.patience:
        run.stopped = f"no improvement in {settings.patience * settings.every} steps"
    elif last >= settings.steps:
        run.stopped = f"{settings.steps} steps"


def _objective(
    parametrisation: Parametrisation,
    params: Params,
    evaluate: Callable,
    train: np.ndarray,
    settings: FitSettings,
) -> float:
    """The penalised objective per history, used where none is held out."""
    return evaluate(params, train) - settings.trust / len(train) * float(parametrisation.divergence(params))


def _split(count: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the training histories and of those held out."""
    order = np.random.default_rng([seed, 1]).permutation(count)
    size = math.ceil(share * count) if count >= FEWEST and share > 0 else 0
    return np.sort(order[size:]), np.sort(order[:size])


def _batch(train: np.ndarray, size: int, seed: int, step: int) -> np.ndarray:
    """Indices of one step's histories: passes over all of them, each in a new order."""
    if len(train) <= size:
        return train
    sweep, place = divmod(step, len(train) // size)
    order = np.random.default_rng([seed, 2, sweep]).permutation(train)
    return order[place * size : (place + 1) * size]
