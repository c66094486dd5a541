"""From names to results: find the models, solve what the agents need, run them with a store."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jatpo.errors import JatpoError
from jatpo.evaluate import registry
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.rollout import Trials, chunk_size, concatenate, run_chunks
from jatpo.evaluate.solutions import Request, SolveOptions, digest, solve_needs
from jatpo.evaluate.store import Store
from jatpo.evaluate.task import Task, make_task
from jatpo.files import resolve
from jatpo.library import Library
from jatpo.model import POMDP

PAPER = ("value_iteration", "perseus", "atpo", "random_picker", "bopa", "random")
PRESETS = {"exact": 0.0, "as_run": 1e-8}
"""The floor of the filters: none, or that of the published program."""

Progress = Callable[..., None]


@dataclass(frozen=True)
class Prepared:
    """A library, from a domain or from files, solved for some agents."""

    name: str
    rules: str
    horizon: int
    labels: tuple[str, ...]
    models: Sequence[POMDP]
    task: Task
    identity: dict[str, Any]  # what results depend on: hashes of models, prior, horizon, rules
    solutions: dict[str, str]  # digests of what was solved
    seconds: dict[str, float]  # spent on building and solving
    notes: tuple[str, ...] = ()  # what was mended on reading

    @property
    def part(self) -> str:
        """The name as part of a path."""
        return re.sub(r"[^\w.-]+", "-", self.name).strip("-.") or "library"


def choose_agents(names: Sequence[str] | None, preset: str = "exact") -> list[Agent]:
    """Agents by name (the paper's six by default) with the floor of `preset` where they have one."""
    if preset not in PRESETS:
        raise JatpoError(f"there is no preset '{preset}'; choose from {', '.join(PRESETS)}")
    chosen = [registry.get(name) for name in dict.fromkeys(names or PAPER)]
    floor = PRESETS[preset]
    return [
        agent.with_parameters(floor=floor) if "floor" in getattr(agent.parameters, "_fields", ()) else agent
        for agent in chosen
    ]


def prepare(
    name: str,
    agents: Sequence[Agent],
    rules: str = "as_run",
    options: SolveOptions | None = None,
    *,
    pool: bool = False,
    horizon: int | None = None,
) -> Prepared:
    """Find the models that `name` stands for (a domain, a file, a library), solve what the agents need."""
    began = time.perf_counter()
    target = resolve(name, rules, pool=pool)
    built = time.perf_counter()
    library = target.stacked()
    able = [agent for agent in agents if agent.refuses(library) is None]
    solved = solve_needs(Request(target, library, options or SolveOptions()), able)
    horizon = horizon or target.horizon
    identity = {
        "rules": rules,
        "horizon": horizon,
        "models": [model.content_hash()[:16] for model in target.models],
        "prior": target.prior,
    }
    seconds = {"build": built - began, "solve": time.perf_counter() - built}
    task = make_task(library, solved)
    return Prepared(
        name=name,
        rules=rules,
        horizon=horizon,
        labels=target.labels,
        models=target.models,
        task=task,
        identity=identity,
        solutions=digest(solved),
        seconds=seconds,
        notes=target.notes,
    )


class Session:
    """Runs agents, takes from the store what is there and puts into it what is new."""

    def __init__(self, seed: int, store: Store | None = None, progress: Progress | None = None) -> None:
        self.seed, self.store, self.progress = seed, store, progress
        self._solutions: dict[str, dict[str, str]] = {}  # digests, by part
        self._expected = self._finished = 0

    def expect(self, agents: Sequence[Agent], library: Library, times: int = 1) -> None:
        """Say how many runs are to come, so that progress is that of all of them; without it, of each."""
        self._finished = 0
        self._expected = times * sum(agent.refuses(library) is None for agent in agents)

    def open_part(self, part: str, prepared: Prepared, **settings: Any) -> None:
        """Say what a part of the experiment is made of, before its agents run."""
        self._solutions[part] = prepared.solutions
        if self.store:
            self.store.open_part(part, {**prepared.identity, **settings})

    def run(
        self, part: str, agent: Agent, task: Task, horizon: int, trials: int, record: Sequence[str] = ()
    ) -> Trials:
        """The first `trials` trials of an agent in one part of an experiment."""
        if trials < 1:
            raise JatpoError(f"there are {trials} trials to run: ask for at least one")
        chunks = range(-(-trials // chunk_size(task.library)))
        done = self._stored(part, agent, chunks, record)
        began = time.perf_counter()
        missing = [chunk for chunk in chunks if chunk not in done]
        for chunk, result in run_chunks(jax.random.key(self.seed), agent, task, horizon, missing, record):
            done[chunk] = result
            if self.store:
                self.store.save(part, agent.name, chunk, result)
            if self.progress:
                before, runs = (self._finished, self._expected) if self._expected else (0, 1)
                self.progress(before * len(chunks) + len(done), runs * len(chunks), agent=agent.name)
        self._finished += 1
        if self.store and missing:
            self.store.add_seconds(f"{part}/{agent.name}", time.perf_counter() - began)
        whole = concatenate([done[chunk] for chunk in chunks])
        return jax.tree.map(lambda leaf: leaf[:trials], whole)

    def _stored(self, part: str, agent: Agent, chunks: range, record: Sequence[str]) -> dict[int, Trials]:
        """The chunks that have been done before, by number."""
        if self.store is None:
            return {}
        solved = {name: self._solutions.get(part, {}).get(name) for name in agent.needs}
        self.store.open_agent(part, agent.name, {**fingerprint(agent), "solutions": solved, "record": record})
        return {
            c: self.store.load(part, agent.name, c) for c in chunks if self.store.has(part, agent.name, c)
        }
