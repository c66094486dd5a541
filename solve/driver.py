"""Solve models: check, load what is finished, resume what is not, step until a limit is reached, report and keep.

The driver knows solvers by `jatpo.solve.base.Solver` only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo import disk, interrupts
from jatpo.engine import Engine, Rate, Unit
from jatpo.events import Event, OnEvent, ignore
from jatpo.evidence import Evidence, trimmed
from jatpo.model import POMDP
from jatpo.solve import side_by_side
from jatpo.solve.base import Solver
from jatpo.solve.cache import Cache, OwnCache, settings_of
from jatpo.solve.defaults import default_directory
from jatpo.solve.evidence_store import load_evidence
from jatpo.solve.jobs import Job, jobs_of, places, problems_of, refuse_unsolvable, require_room, seed_of
from jatpo.solve.problem import Problem
from jatpo.solve.side_by_side import Lead
from jatpo.solve.solution import Solution
from jatpo.solve.stopping import Info, Status, Stop

SAVE_EVERY = 5.0  # seconds between two states of a solve on disk
READY = 256  # models that are prepared at once for the workers of an engine


def solve_models(
    models: Sequence[POMDP],
    solvers: Solver | Sequence[Solver],
    stops: Stop | Sequence[Stop],
    *,
    key: Array,
    cache: str | Path | None = None,
    labels: Sequence[str] | None = None,
    on_event: OnEvent = ignore,
    save_every: float = SAVE_EVERY,
    engine: Engine | None = None,
) -> list[Solution]:
    """Solve each of `models`, with one solver and stop for all or one for each.

    The result for a model is the same alone as among others of its shape; padding to a larger one may change the
    rounding of compiled products. As many are solved at once as there are devices (`jobs.places`). With a directory
    `cache`, finished solutions are loaded and unfinished ones resumed, whose states are saved every `save_every`
    seconds. Models with equal content are solved once. With an `engine`, each model is a unit of work for one of its
    workers.
    """
    seed = seed_of(key)
    jobs = jobs_of(models, solvers, stops, labels, seed)
    store = None if cache is None else Cache(cache, on_event)
    found: dict[str, Solution] = {}
    for entry in dict.fromkeys(job.entry for job in jobs):
        solution = store.load_solution(entry) if store else None
        if solution is not None:
            found[entry] = solution
    missing = list({job.entry: job for job in reversed(jobs) if job.entry not in found}.values())[::-1]
    for job in missing:
        require_room(job)
    if store and missing:
        disk.prepare()
    if engine is not None:
        found |= _solve_elsewhere(engine, jobs, missing, key, store, on_event, save_every)
        return [found[job.entry] for job in jobs]
    problems, where = problems_of(jobs, missing), places(missing)
    leads, moved = {job.solver: Lead() for job in missing}, where[0] is not None
    tasks = []
    for done, job in enumerate(missing):
        company = _Company(leads[job.solver], moved, done, len(missing))
        tasks.append(partial(_solve_and_keep, job, problems[job.number], key, store, save_every, company))
    for job, solution in zip(missing, side_by_side.run(tasks, where, on_event), strict=True):
        found[job.entry] = solution
    return [found[job.entry] for job in jobs]


def _solve_elsewhere(
    engine: Engine,
    jobs: Sequence[Job],
    missing: Sequence[Job],
    key: Array,
    store: Cache | None,
    on_event: OnEvent,
    save_every: float,
) -> dict[str, Solution]:
    """The solutions of `missing` by entry, each computed by a worker; what is finished is kept as it comes."""
    words, impl = np.asarray(jax.random.key_data(key)), str(jax.random.key_impl(key))
    directory = store.directory if store and engine.common_files else None
    more = words, impl, store is not None, directory, save_every
    for job in missing:
        refuse_unsolvable(job)
    units = (
        Unit(job.label, solve_unit, (job, problem, *more)) for job, problem in _made_ready(jobs, missing)
    )
    found: dict[str, Solution] = {}
    rate = Rate("models")
    if missing:
        on_event(Event("", 0, len(missing), engine.figures()))
    for number, solution, worker in engine.run(units):
        job = missing[number]
        kept = _keep(store, job.entry, solution) if directory is None else solution
        found[job.entry] = replace(kept, worker=worker)
        figures = {**rate.figures(len(found)), **engine.figures()}
        on_event(Event("", len(found), len(missing), figures))
    return found


def _made_ready(jobs: Sequence[Job], missing: Sequence[Job]) -> Iterator[tuple[Job, Problem]]:
    """Each job that is missing with its problem; of many, not all problems are there at once."""
    if len(jobs) <= READY:
        problems = problems_of(jobs, missing)
        yield from ((job, problems.pop(job.number)) for job in missing)
        return
    for first in range(0, len(missing), READY):
        group = missing[first : first + READY]
        problems = problems_of(group, group)
        yield from ((job, problems.pop(job.number)) for job in group)


def solve_unit(
    job: Job,
    problem: Problem,
    words: np.ndarray,
    impl: str,
    keep: bool,
    directory: Path | None,
    save_every: float,
) -> Solution:
    """The solution of one model on a worker, kept in `directory`, or with its evidence in the worker's own cache."""
    key = jax.random.wrap_key_data(jax.device_put(words), impl=impl)
    store = (Cache(directory) if directory else OwnCache(default_directory())) if keep else None
    found = store.load_solution(job.entry) if store else None
    if found is None:
        found = _solve(job, problem, key, store, _Progress(job.label, 0, 1, ignore), save_every)
        kept = _keep(store, job.entry, found)
        return kept if directory else found
    if store and not directory:
        found = replace(found, evidence=load_evidence(store.directory, job.entry))
    return found


class _Company(NamedTuple):
    """The other models: who compiles first, whether each is on a device of its own, and how many there are."""

    lead: Lead
    moved: bool
    done: int
    total: int


def _solve_and_keep(
    job: Job,
    problem: Problem,
    key: Array,
    store: Cache | None,
    save_every: float,
    company: _Company,
    on_event: OnEvent,
) -> Solution:
    own = Cache(store.directory, on_event) if store else None
    if company.moved:
        problem = problem.here()
    send, lead = _Progress(job.label, company.done, company.total, on_event), company.lead
    return _keep(own, job.entry, _solve(job, problem, key, own, send, save_every, lead))


def _keep(store: Cache | None, entry: str, solution: Solution) -> Solution:
    """The solution; with a store it is there, and what proves its bounds is there alone."""
    if store is None:
        return solution
    if solution.evidence is not None:
        store.save_evidence(entry, solution.evidence)
    store.save_solution(entry, solution)
    return replace(solution, evidence=None)


@dataclass(frozen=True)
class _Progress:
    """Reports one model's steps."""

    label: str
    done: int
    total: int
    on_event: OnEvent

    def __call__(self, info: Info, seconds: float) -> None:
        figures = {
            "stage": info.stages,
            "vectors": info.vectors,
            "backups": info.backups,
            "lower": info.lower,
            "upper": info.upper,
            "gap": info.upper - info.lower,
            "seconds": seconds,
        }
        self.on_event(Event(self.label, self.done, self.total, figures))

    def note(self, text: str) -> None:
        self.on_event(Event(note=f"{self.label}: {text}"))


def _solve(
    job: Job,
    problem: Problem,
    key: Array,
    store: Cache | None,
    send: _Progress,
    save_every: float,
    lead: Lead | None = None,
) -> Solution:
    """The solution of one model; its states are kept in `store` meanwhile."""
    solver = job.solver
    with (lead or Lead()).taken():
        state, seconds = _start(job, problem, key, store)
    saved, info, status, whole = time.monotonic(), None, None, False
    try:
        while status is None:
            began = time.perf_counter()
            with interrupts.deferred():  # a step may change its state in place
                whole = False
                state, info = solver.step_within(problem, key, state, job.stop.clock(seconds))
                whole = True
                seconds += job.stop.counted(time.perf_counter() - began, info.apart)
            status = info.status or job.stop.reached(info, seconds)
            send(info, seconds)
            if info.note:
                send.note(info.note)
            if store and status is None and time.monotonic() - saved > save_every:
                store.save_run(job.entry, info.stages, seconds, solver.pack(state))
                saved = time.monotonic()
    except KeyboardInterrupt:
        if store and info is not None and whole and status is None:  # a state that is to be continued
            store.save_run(job.entry, info.stages, seconds, solver.pack(state))
            send.note(f"{Status.INTERRUPTED.value} after {info.stages} stages: {Status.INTERRUPTED.remedy}")
        raise
    assert info is not None
    return replace(
        _checked(problem, solver.solution(problem, state), job.label),
        evidence=_evidence(job, problem, state),
        status=status,
        seconds=seconds,
        stages=info.stages,
        backups=info.backups,
        seed=seed_of(key),
        solver=solver.name,
        settings=settings_of(solver),
        stop=job.stop,
        model_hash=job.model_hash,
        key=job.entry,
    )


def _evidence(job: Job, problem: Problem, state: Any) -> Evidence | None:
    """What proves the bounds, in terms of the model that was given."""
    evidence = job.solver.evidence(problem, state)
    return None if evidence is None else trimmed(evidence)._replace(states=problem.reachable)


def _start(job: Job, problem: Problem, key: Array, store: Cache | None) -> tuple[Any, float]:
    """The state to continue with and the seconds it took, with what it takes to prepare a new one."""
    kept = store.load_run(job.entry) if store else None
    if kept is not None:
        return job.solver.unpack(problem, key, kept[0]), kept[1]
    began = time.perf_counter()
    state = job.solver.init(problem, key)
    return state, time.perf_counter() - began


def _checked(problem: Problem, solution: Solution, label: str) -> Solution:
    """The solution, unless its bounds cross by more than the rounding of the model's precision: then one is wrong."""
    finite = [abs(bound) for bound in (solution.lower, solution.upper) if np.isfinite(bound)]
    eps = float(np.finfo(problem.model.dtype).eps)
    rounding = 64 * eps * max(1.0, *finite) / (1 - problem.part.exact().discount) if finite else 0.0
    if not solution.lower <= solution.upper + rounding or solution.lower == np.inf:
        raise RuntimeError(
            f"{label}: the lower bound {solution.lower:.6g} is above the upper bound {solution.upper:.6g}"
        )
    return solution
