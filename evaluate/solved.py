"""A library with what was solved for it: alpha vectors, values, bounds, why each solver stopped, digests.

    solved = solve_library(library, key=jax.random.key(0), stop=Stop(seconds=10))
    solved["policies"]                   alpha vectors of every model, stacked [K, V, X]

What agents need has names: "policies", "q" (of the MDPs [K, X, A]), "state_actions" (what to do in a known state),
"joint" (alpha vectors of the whole library as one problem [V, K, X]), "action_values" (alpha vectors of every action),
"classifier" (a trained network). Each has a provider in `PROVIDERS`, a function of the `Solved`; a module that adds an
agent with other needs adds a provider. What has not been solved yet is solved when it is asked for, and kept. This is
the only place of this package that calls the solvers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from jatpo.disk import Checkpoints, digest, digest_json
from jatpo.engine import Engine
from jatpo.errors import JatpoError, unknown
from jatpo.evaluate.action_values import ActionValues, action_values
from jatpo.evaluate.agents import bayes
from jatpo.evaluate.agents.belief_policies import state_actions
from jatpo.evaluate.agents.joint_planner import commit_values
from jatpo.evaluate.agents.protocol import Agent, refusal
from jatpo.evaluate.classifier import Training, train
from jatpo.events import Event, OnEvent, ignore
from jatpo.files import load
from jatpo.library import Library, require_tables
from jatpo.mdp import MDPSolution, value_iteration_library
from jatpo.model import POMDP
from jatpo.registry import Registry
from jatpo.solve import (
    Choice,
    Request,
    Solution,
    Solver,
    Status,
    Stop,
    choose_for,
    default_directory,
    notes,
    solve_models,
)
from jatpo.solve.defaults import usual_stop
from jatpo.solve.policy import Policy, stack

DIGITS = 16
OF_STATES = ("q", "state_actions")  # found at once, without options
TO_TRAIN = 1 << 30  # folded into a seed's key, so that no trial is one of the histories that were trained on


@dataclass(frozen=True)
class SolveOptions:
    """How to solve: the solver that was asked for, if any, and where solutions are kept."""

    request: Request = field(default_factory=Request)
    seed: int = 0
    directory: Path | None = None  # None: where commands keep them
    on_event: OnEvent = ignore
    choice: Choice | None = None  # a solver and when it stops, instead of `request`
    key: Array | None = None  # instead of `seed`
    keep: bool = True  # False: nothing is kept on disk
    engine: Engine | None = None  # where models are solved; default: here

    @property
    def cache(self) -> Path | None:
        """The directory of solutions."""
        return (self.directory or default_directory()) if self.keep else None


class Solved(Mapping[str, Any]):
    """A library with what was solved for it, by name; what is missing is solved when it is asked for."""

    def __init__(
        self, library: Library, given: Mapping[str, Any] | None = None, options: SolveOptions | None = None
    ) -> None:
        """`given` holds what is there already, by name; without `options` nothing else is solved."""
        self.library, self.options = library, options
        self._parts = dict(given or {})
        self._digests: dict[str, str] = {}
        self._solutions: dict[str, tuple[Solution, ...]] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._parts:
            if name not in PROVIDERS:
                raise unknown("solution", name, PROVIDERS.names())
            if self.options is None and name not in OF_STATES and not self.library.simulated:
                raise JatpoError(f"{self.library.name} has no solved {name}: solve it with solve_library")
            self._parts[name] = PROVIDERS.get(name)(self)
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts or (self.options is not None and str(name) in PROVIDERS)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The solution of every model; loaded where it has been solved before."""
        require_tables(self.library)
        name = self.library.name
        labels = [label if label == name else f"{name} {label}" for label in self.library.labels]
        return self._solve("models", self.library.members, labels)

    @property
    def joint(self) -> Solution:
        """The solution of the joint problem; no agent with this library can exceed its upper bound."""
        require_tables(self.library)
        if "joint" not in self._solutions:
            self._solve("joint", [self.library.joint()], [f"{self.library.name} joint"])
        return self._solutions["joint"][0]

    def _solve(self, kind: str, models: Sequence[POMDP], labels: Sequence[str]) -> tuple[Solution, ...]:
        """Solve `models` as the options say; solutions that are not complete become notes."""
        if kind in self._solutions:
            return self._solutions[kind]
        options = self.options
        if options is None:
            raise JatpoError(f"{self.library.name} has no solutions: solve it with solve_library")
        given = options.choice if kind == "models" else None
        solver, stop = given or choose_for(self.library, options.request, joint=kind == "joint")
        key = jax.random.key(options.seed) if options.key is None else options.key
        send = options.on_event
        found = solve_models(
            models,
            solver,
            stop,
            key=key,
            cache=options.cache,
            labels=labels,
            on_event=send,
            engine=options.engine,
        )
        for text in notes(found, labels):
            send(Event(note=text))
        self._solutions[kind] = tuple(found)
        return self._solutions[kind]

    @property
    def statuses(self) -> dict[str, Status]:
        """Why the solver stopped, by label, of all that was solved here."""
        return {label: each.status for label, each in self._labelled()}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper bound at the start, by label, of all that was solved here."""
        return {label: (each.lower, each.upper) for label, each in self._labelled()}

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each solution that is not complete."""
        found = self._labelled()
        return tuple(notes([each for _, each in found], [label for label, _ in found]))

    @property
    def computed(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """Which workers of an engine have just solved which models, by number; under "models" and "joint"."""
        found: dict[str, dict[str, list[int]]] = {}
        for kind, solutions in self._solutions.items():
            for number, each in enumerate(solutions):
                if each.worker:
                    found.setdefault(kind, {}).setdefault(each.worker, []).append(number)
        return found

    def _labelled(self) -> list[tuple[str, Solution]]:
        models = zip(self.library.labels, self._solutions.get("models", ()), strict=False)
        return [*models, *(("joint", each) for each in self._solutions.get("joint", ()))]

    def digest(self, name: str) -> str:
        """A short digest of something solved, to distinguish results of different policies."""
        if name not in self._digests:
            self._digests[name] = digest(jax.tree.leaves(self[name]))[:DIGITS]
        return self._digests[name]

    def __repr__(self) -> str:
        lines = [f"Solved({self.library.name}: {', '.join(self._parts) or 'nothing yet'})"]
        labelled = self._labelled()
        for label, each in labelled[:6]:
            lines.append(f"  {label}: {each.lower:.4g} to {each.upper:.4g}, {each.status.value}")
        return "\n".join(lines + [f"  and {len(labelled) - 6} more"] * (len(labelled) > 6))


def solve_library(
    library: Library,
    solver: Solver | None = None,
    *,
    key: Array,
    stop: Stop | None = None,
    cache: str | Path | None = None,
    on_event: OnEvent = ignore,
    agents: Sequence[Agent] = (),
    engine: Engine | None = None,
) -> Solved:
    """Solve every model of a library, and what else the `agents` need; other needs are solved when they are met.

    By default as all commands do (`jatpo.solve.defaults`). With `cache`, a directory, solutions are kept there and
    found again. With an `engine`, its workers solve the models.
    """
    if solver is None:
        limits = {} if stop is None else {name: getattr(stop, name) for name in stop.given}
        choice = choose_for(library, Request(**limits))
    else:
        choice = Choice(solver, stop or usual_stop(solver, Request(), library.horizon))
    directory = None if cache is None else Path(cache)
    keep = cache is not None
    options = SolveOptions(
        directory=directory, on_event=on_event, choice=choice, key=key, keep=keep, engine=engine
    )
    solved = Solved(library, options=options)
    solve_needs(solved, agents, ["policies"])
    return solved


def load_solved(
    source: str | Library,
    agents: Sequence[Agent],
    rules: str = "as_run",
    *,
    pool: bool = False,
    options: SolveOptions | None = None,
) -> Solved:
    """Load a library and solve what those of `agents` need that it does not refuse; its notes become events."""
    options = options or SolveOptions()
    library = load(source, rules=rules, pool=pool)
    for note in library.notes:
        options.on_event(Event(note=note))
    solved = Solved(library, options=options)
    solve_needs(solved, [agent for agent in agents if refusal(agent, library) is None])
    return solved


def solve_needs(solved: Solved, agents: Sequence[Agent], names: Sequence[str] = ()) -> None:
    """Solve all that the agents need, and `names`."""
    for name in dict.fromkeys([*names, *(need for agent in agents for need in agent.needs)]):
        solved[name]


VALUE_TOLERANCE, VALUE_SWEEPS = 1e-4, 10_000  # of value iteration for agents that observe the state
_jit_values = jax.jit(value_iteration_library)


def _policies(solved: Solved) -> Policy:
    """The alpha vectors of every model, stacked [K, V, X]; policies that came with the library are kept."""
    if solved.library.simulated:
        return _of_tables(solved, "policies")
    given = solved.library.policies
    found = solved.solutions if any(policy is None for policy in given) else ()
    policies = [found[k].policy if policy is None else policy for k, policy in enumerate(given)]
    return stack(policies, solved.library.num_states)


def _values(solved: Solved) -> Array:
    """q* of the MDP beneath every model [K, X, A]."""
    if solved.library.simulated:
        return _of_tables(solved, "q")
    found = _jit_values(solved.library.models, VALUE_TOLERANCE, VALUE_SWEEPS)
    if solved.options is not None:
        for note in _unfinished(solved.library, found):
            solved.options.on_event(Event(note=note))
    return found.q


def _state_actions(solved: Solved) -> Array:
    """What to do in every state of every model [K, X], as `belief_policies.state_actions` has it."""
    if solved.library.simulated:
        return _of_tables(solved, "state_actions")
    return jax.jit(state_actions)(solved["q"])


def _unfinished(library: Library, found: MDPSolution) -> Iterator[str]:
    """A sentence for each model whose values still change by more than the tolerance and their rounding."""
    eps = float(np.finfo(found.q.dtype).eps)
    for k, label in enumerate(library.labels):
        change, largest = float(found.change[k]), float(np.abs(found.q[k]).max())
        if change > max(VALUE_TOLERANCE, 4 * eps * largest):
            discount = float(library.member(k).discount)
            bound = f"{change * discount / (1 - discount):.2g}" if discount < 1 else "none"
            yield (
                f"{label}: value iteration stopped, sweep limit reached, after {int(found.sweeps[k])} sweeps; last "
                f"change of a value: {change:.2g}, bound on the error: {bound} (discount {discount:g})"
            )


def _of_tables(solved: Solved, name: str) -> Any:
    """What is solved for the tables that simulators were made of; an empty tuple where they are not made of any."""
    library: Any = solved.library  # a SimulatorLibrary
    tables = library.tables
    return () if tables is None else Solved(tables, options=solved.options)[name]


def _commit_values(solved: Solved) -> Any:
    """What following model j earns from every state of model k [J, K, X]; nothing for simulators without tables."""
    if solved.library.simulated:
        return _of_tables(solved, "commit_values")
    return commit_values(solved.library.models, solved["q"])


def _joint(solved: Solved) -> Policy:
    """The alpha vectors of the joint problem [V, K, X]."""
    return bayes.spread(solved.joint.policy, solved.library)


def _action_values(solved: Solved) -> ActionValues:
    """The value of every action in every model [K, A, P, X], by one step of look-ahead on its policy's vectors."""
    options = solved.options
    seed = 0 if options is None else options.seed
    return action_values(solved.library, solved["policies"], seed=seed)


def _classifier(solved: Solved) -> Any:
    """A recurrent network that was trained to recognise the models by histories, or the one that was kept."""
    options = solved.options or SolveOptions(keep=False)
    training, seed = Training(), options.seed
    checkpoints = None
    if options.cache is not None:
        hashes = solved.library.model_hashes()
        identity = {"models": hashes, "horizon": solved.library.horizon, "seed": seed, **asdict(training)}
        identity["policies"] = solved.digest("policies")
        place = options.cache / "classifiers" / digest_json(identity)[:DIGITS]
        checkpoints = Checkpoints(place, identity, options.on_event)
    key = jax.random.fold_in(jax.random.key(seed), TO_TRAIN)
    given = {"policies": solved["policies"]}
    return train(solved.library, given, key, training, checkpoints, options.on_event)[0]


PROVIDERS: Registry[Callable[[Solved], Any]] = Registry("solution")
for _name, _provider in (
    ("policies", _policies),
    ("q", _values),
    ("state_actions", _state_actions),
    ("joint", _joint),
    ("action_values", _action_values),
    ("commit_values", _commit_values),
    ("classifier", _classifier),
):
    PROVIDERS.add(_name, _provider)
