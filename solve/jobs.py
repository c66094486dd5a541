"""What is to be solved: models with solver and stop, checked before any work, and the problems made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax import Array

from jatpo import memory
from jatpo.errors import JatpoError
from jatpo.keys import require_key
from jatpo.model import POMDP
from jatpo.solve.base import Room, Solver
from jatpo.solve.cache import entry_key
from jatpo.solve.policy import NEVER
from jatpo.solve.problem import Problem, key_words, prepare
from jatpo.solve.side_by_side import Place
from jatpo.solve.stopping import Stop


@dataclass(frozen=True)
class Job:
    """One model to solve, and the name of its entry in the cache."""

    number: int
    label: str
    model: POMDP
    solver: Solver
    stop: Stop
    model_hash: str
    entry: str


def jobs_of(
    models: Sequence[POMDP],
    solvers: Solver | Sequence[Solver],
    stops: Stop | Sequence[Stop],
    labels: Sequence[str] | None,
    seed: int,
) -> list[Job]:
    """A job for each of `models`, with one solver and stop for all or one for each."""
    count = len(models)
    each = list(solvers) if isinstance(solvers, Sequence) else [solvers] * count
    until = list(stops) if isinstance(stops, Sequence) else [stops] * count
    names = labels or [str(k) for k in range(count)]
    jobs = []
    for k, (model, solver, stop, label) in enumerate(zip(models, each, until, names, strict=True)):
        solver.check(stop)
        model_hash = model.content_hash()
        entry = entry_key(model.exact_hash(), solver, stop, seed)
        jobs.append(Job(k, label, model, solver, stop, model_hash, entry))
    return jobs


def seed_of(key: Array) -> int:
    """The seed that `key` was made of, or the number that its words are."""
    words = key_words(require_key(key))
    return sum(int(word) << 32 * place for place, word in enumerate(reversed(words)))


def require_room(job: Job) -> None:
    """Refuse a solve that would not fit into the memory of this machine."""
    options = " and ".join(f"'{option}'" for _, _, _, option in _rooms(job) if option)
    remedy = f"lower {options}; 'jatpo plan' shows by how much"
    memory.require(_needed(job), f"solving model '{job.label}' by '{job.solver.name}'", remedy)


def _rooms(job: Job) -> Sequence[Room]:
    model = job.model
    return job.solver.reserve(model.num_states, model.num_actions, np.dtype(model.dtype).itemsize)


def _needed(job: Job) -> int:
    """Bytes that a solve takes besides the model."""
    return sum(number * each for _, number, each, _ in _rooms(job))


def places(missing: Sequence[Job]) -> list[Place]:
    """Where models are solved at once: on every device, as far as memory allows; None stands for the usual device.

    A CPU's devices are its cores, and threads on the usual one run on all of them without compiling for each. Models
    that a clock stops are solved there one after another: their seconds are those of a machine without others.
    """
    devices = jax.local_devices()
    host = devices[0].platform == "cpu"
    if host and any(job.stop.seconds for job in missing):
        return [None]
    needed = max((_needed(job) for job in missing), default=0)
    fitting = int(memory.SHARE * memory.free_bytes()) // needed if host and needed else len(devices)
    return [None if host else device for device in devices[: max(1, fitting)]]


def problems_of(jobs: Sequence[Job], missing: Sequence[Job]) -> dict[int, Problem]:
    """The problems of all jobs, by number; those of solvers that want every state apart, so they change no other."""
    problems: dict[int, Problem] = {}
    for every_state, planned in {(job.solver.every_state, job.solver.planned) for job in missing}:
        kind = (every_state, planned)
        group = [job for job in jobs if (job.solver.every_state, job.solver.planned) == kind]
        for job in group:
            refuse_unsolvable(job)
        made = prepare([job.model for job in group], every_state, planned)
        problems |= {job.number: problem for job, problem in zip(group, made, strict=True)}
    return problems


def refuse_unsolvable(job: Job) -> None:
    """Refuse a model whose values its precision does not hold."""
    exact, dtype = job.model.exact(), np.dtype(job.model.dtype)
    if exact.discount >= 1:
        raise JatpoError(f"model {job.number} has discount 1: an infinite horizon needs a discount below 1")
    remedy = "set JAX_ENABLE_X64=1" if dtype != np.float64 else "use a smaller one"
    if float(job.model.discount) >= 1:
        raise JatpoError(
            f"model {job.number} has discount {exact.discount!r}, which is 1 in {dtype}: {remedy}"
        )
    most = float(np.abs(exact.reward).max(initial=0.0)) / (1 - exact.discount)
    bound = min(float(np.finfo(dtype).max) / 4, -NEVER / 10)  # more would look like padding
    if not most < bound:
        raise JatpoError(
            f"model {job.number} has values up to {most:.2g}, and a policy holds values below {bound:.2g}: "
            "scale its rewards"
        )
