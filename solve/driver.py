"""Solve models: choose the solver by its settings, load what is finished, resume what is not, report progress."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
from jax import Array

from jatpo.model import POMDP
from jatpo.solve import anytime, exact, perseus, small
from jatpo.solve.anytime import AnytimeSettings
from jatpo.solve.exact import ExactSettings
from jatpo.solve.perseus import PerseusSettings
from jatpo.solve.problem import Problem, prepare, upper_bound, upper_vectors, warm_up, words
from jatpo.solve.run import Run, finish
from jatpo.solve.solution import Solution

if TYPE_CHECKING:
    from jatpo.solve.store import Store

Settings = PerseusSettings | AnytimeSettings | ExactSettings
Progress = Callable[..., None]

SAVE_EVERY = 5.0  # seconds between two states of a run on disk


def default_directory() -> Path:
    """Where commands keep solutions: $JATPO_CACHE, or .jatpo/solutions in the current directory."""
    return Path(os.environ.get("JATPO_CACHE") or Path(".jatpo") / "solutions")


def solve(
    models: Sequence[POMDP], settings: Settings, key: Array, progress: Progress | None = None
) -> list[Solution]:
    """Solve each of `models`, in memory. The result for a model is the same alone as among others."""
    problems = prepare(models, whole=isinstance(settings, ExactSettings))
    seed = _seed_of(key)
    return [
        _solve_one(problem, settings, key, seed, None, progress, str(k)) for k, problem in enumerate(problems)
    ]


def solve_library(
    models: Sequence[POMDP],
    settings: Settings | Sequence[Settings],
    seed: int = 0,
    directory: str | Path | None = None,
    progress: Progress | None = None,
    labels: Sequence[str] | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> list[Solution]:
    """Like `solve`, with finished solutions loaded from `directory` and unfinished ones resumed.

    Models with equal content are solved once.
    """
    chosen = [settings] * len(models) if not isinstance(settings, Sequence) else list(settings)
    labels = labels or [str(k) for k in range(len(models))]
    keys = [_entry(model.content_hash(), each, seed) for model, each in zip(models, chosen, strict=True)]
    store = _open(directory, note)
    found: dict[str, Solution] = {}
    for key in dict.fromkeys(keys):
        solution = store.load_solution(key) if store else None
        if solution is not None:
            found[key] = solution
    whole = any(isinstance(each, ExactSettings) for each in chosen)
    problems = prepare(models, whole) if len(found) < len(set(keys)) else []
    for k, problem in enumerate(problems):
        if keys[k] not in found:
            found[keys[k]] = _solve_one(
                problem, chosen[k], jax.random.key(seed), seed, store, progress, labels[k]
            )
    return [found[key] for key in keys]


def _seed_of(key: Array) -> int:
    """The seed that `key` was made of, or the number that its words are."""
    return sum(word << 32 * place for place, word in enumerate(reversed(words(key))))


def _open(directory: str | Path | None, note: Callable[[str], None]) -> Store | None:
    if directory is None:
        return None
    from jatpo.solve.store import Store

    return Store(directory, note)


def _entry(model_hash: str, settings: Settings, seed: int) -> str:
    from jatpo.solve.store import entry_key

    return entry_key(model_hash, {"solver": type(settings).__name__, **dataclasses.asdict(settings)}, seed)


def _solve_one(
    problem: Problem,
    settings: Settings,
    key: Array,
    seed: int,
    store: Store | None,
    progress: Progress | None,
    label: str,
) -> Solution:
    """One model to the end, with states kept in `store` on the way."""
    if isinstance(settings, ExactSettings):
        solution = exact.solve(problem, settings, seed)
        return _kept(store, _entry(problem.model_hash, settings, seed), solution)
    started = time.perf_counter()
    entry = _entry(problem.model_hash, settings, seed)
    drawing = words(key)
    run, guide, bound = _ready(problem, settings, store, entry, drawing)
    if not run.stages:
        run = run._replace(seconds=time.perf_counter() - started)
    saved = time.monotonic()
    while not run.stopped:
        if progress:
            progress(
                label=label,
                stage=run.stages,
                vectors=int(run.vectors.count),
                backups=run.backups,
                lower=run.lower,
                upper=min(bound, run.upper),
                seconds=run.seconds,
            )
        if isinstance(settings, PerseusSettings):
            run = perseus.advance(problem, settings, drawing, run)
        else:
            run = anytime.advance(problem, settings, drawing, run, guide, bound)
        if store and not run.stopped and time.monotonic() - saved > SAVE_EVERY:
            store.save_run(entry, run, with_beliefs=isinstance(settings, AnytimeSettings))
            saved = time.monotonic()
    return _kept(store, entry, finish(problem, settings, seed, run, min(bound, run.upper)))


def _ready(
    problem: Problem,
    settings: PerseusSettings | AnytimeSettings,
    store: Store | None,
    entry: str,
    key: list[int],
) -> tuple[Run, Any, float]:
    """The run to go on with, and the upper bound: its vectors, and what it is at the start. Compiles on the way."""
    if isinstance(settings, PerseusSettings) and problem.small:
        run = _resume(store, entry, problem, settings, key)
        return run, problem.small.upper, small.upper_bound(problem.small)
    warming = [warm_up(problem)]
    if isinstance(settings, PerseusSettings):
        run = _resume(store, entry, problem, settings, key)
        warming += perseus.warm_up(problem, settings, run)
    else:
        warming += anytime.warm_up(problem, settings)
        run = _resume(store, entry, problem, settings, key)
    guide = upper_vectors(problem)
    for thread in warming:
        thread.join()
    return run, guide, upper_bound(problem, guide)


def _resume(store: Store | None, entry: str, problem: Problem, settings: Settings, key: list[int]) -> Run:
    """The saved state of this run, or its beginning."""
    run = store.load_run(entry) if store else None
    if isinstance(settings, AnytimeSettings):
        return run or anytime.begin(problem, settings, key)
    assert isinstance(settings, PerseusSettings)
    if run is None:
        return perseus.begin(problem, settings, key)
    return run._replace(beliefs=perseus.explore(problem, settings, key))


def _kept(store: Store | None, entry: str, solution: Solution) -> Solution:
    if store:
        store.save_solution(entry, solution)
    return solution
