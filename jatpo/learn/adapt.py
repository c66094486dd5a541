"""The adapt experiment: a teammate that the library lacks, and what a model learnt from histories is worth.

ATPO plays some episodes with the library it has. From its own actions and observations a model is fitted: it starts
from the model of the library that explains them best, its teammate's policy moves within the trust region of `fit`.
The fitted model is solved and joins the library, and ATPO plays on with it:

    atpo                  the library as it is
    atpo_prior            the same with a prior learnt from the first n episodes
    atpo_adapted          the library and the model fitted to the first n episodes, all alike likely
    atpo_adapted_prior    both
    informed              the policy of the true world

All meet the same trials, which are not the episodes that were learnt from, so differences are paired. Their
intervals are over trials, for the histories that were drawn; `repeats` draws others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate import mixture, statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.rollout import Trials
from jatpo.evaluate.solutions import digest
from jatpo.evaluate.task import Task, make_task
from jatpo.learn import (
    FitSettings,
    Histories,
    Prior,
    Teammate,
    em,
    fit,
    log_evidences,
    log_likelihoods,
)
from jatpo.learn.strangers import Stranger
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import AnytimeSettings, Policy, default_directory, solve_library
from jatpo.solve.policy import stack

ATPO, INFORMED = mixture.ATPO, dataclasses.replace(mixture.PERSEUS, name="informed")
LEARNT_PRIOR, ADAPTED, BOTH = (
    dataclasses.replace(mixture.ATPO, name=f"atpo_{name}") for name in ("prior", "adapted", "adapted_prior")
)
RECORD = ("actions", "observations")
TEST_HISTORIES = 64
LEARNING_SEED = 1_000_003  # histories to learn from are drawn with other seeds than the trials

Show = Callable[[str], Callable[..., None] | None]
Runs = dict[tuple[str, str, int | None], dict[int, list[np.ndarray]]]
"""Returns [N] of every repeat, by (scenario, agent, episodes) and true model."""


@dataclass(frozen=True)
class AdaptSettings:
    """What is learnt from how much, and how the fitted model is solved."""

    episodes: tuple[int, ...] = (1, 4, 16, 64)
    trials: int = 512
    repeats: int = 1
    by: str = "state"
    rounds: int = 12  # of the anytime solver, for the fitted and for the true model
    fit: FitSettings = field(default_factory=FitSettings)

    def __post_init__(self) -> None:
        if not self.episodes or min(self.episodes) < 1:
            raise JatpoError(f"episodes are {list(self.episodes)}: give numbers from 1 on")
        for name in ("trials", "repeats", "rounds"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} is {getattr(self, name)}, expected at least 1")

    @property
    def solver(self) -> AnytimeSettings:
        return AnytimeSettings(seconds=0, gap=0.01, stages=self.rounds)


@dataclass(frozen=True, eq=False)
class Known:
    """What the agent has: models, their policies, and a prior over them, uniform if None."""

    models: tuple[POMDP, ...]
    policies: tuple[Policy, ...]
    prior: np.ndarray | None = None

    def library(self) -> Library:
        return Library.from_models(self.models, self.prior)

    def task(self, world: POMDP) -> Task:
        """Trials in `world` alone, for agents that have this library."""
        library = self.library()
        first = np.eye(len(self.models))[0]
        solved = {"policies": stack(self.policies, library.num_states)}
        return make_task(library, solved, worlds=[world] * len(self.models), weights=first)

    def joined_by(self, model: POMDP, policy: Policy) -> Known:
        """The library with one more model, all alike likely."""
        return Known((*self.models, model), (*self.policies, policy))

    def expecting(self, histories: Histories) -> Known:
        """The library with a prior learnt from histories, and from one more that says nothing."""
        library = self.library()
        explained = np.flatnonzero(np.isfinite(np.asarray(_jit_evidences(library, histories))).any(axis=1))
        if not len(explained):
            return self
        prior = Prior.of_library(library)
        learnt = prior.value(em(prior, histories.take(explained)).params)
        weights = np.asarray(learnt, np.float64)
        return dataclasses.replace(self, prior=weights / weights.sum())


_jit_evidences, _jit_likelihoods = jax.jit(log_evidences), jax.jit(log_likelihoods)


def known(prepared: Prepared, numbers: Sequence[int]) -> Known:
    """Some of the prepared models, with their policies."""
    solved: Policy = prepared.task.solved["policies"]
    models = tuple(prepared.models[k] for k in numbers)
    vectors, actions = np.asarray(solved.vectors), np.asarray(solved.actions)
    sizes = [model.num_states for model in models]
    cut = [(vectors[k, :, :size], actions[k]) for k, size in zip(numbers, sizes, strict=True)]
    policies = [Policy(*map(jnp.asarray, pair)) for pair in cut]
    return Known(models, tuple(policies))


def adapt(
    prepared: Prepared,
    strangers: Sequence[Stranger],
    settings: AdaptSettings,
    session: Session,
    show: Show = lambda title: None,
    solutions: Path | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of returns, one for each scenario, number of episodes and agent; and one for each model fitted.

    `show` is told what goes on and gives a function for its progress, or None.
    """
    runs: Runs = {}
    fits: list[dict[str, Any]] = []
    for stranger in strangers:
        case = _Case(prepared, stranger, settings, session, show, solutions)
        for repeat in range(settings.repeats):
            for agent, episodes, trials, row in case.play(repeat):
                found = runs.setdefault((stranger.scenario, agent, episodes), {})
                found.setdefault(stranger.model, []).append(trials.returns)
                fits += [row] if row else []
    return _rows(prepared, runs), fits


class _Case:
    """One stranger: everything is played, fitted and solved for it, and kept in the session's store."""

    def __init__(
        self,
        prepared: Prepared,
        stranger: Stranger,
        settings: AdaptSettings,
        session: Session,
        show: Show,
        solutions: Path | None,
    ) -> None:
        self.prepared, self.stranger, self.settings = prepared, stranger, settings
        self.session, self.show, self.solutions = session, show, solutions
        self.known = known(prepared, stranger.library)
        self.part = f"{prepared.part}/{stranger.scenario}/model-{stranger.model}"
        self.label = f"{prepared.name} {stranger.scenario} {stranger.model}"

    def play(self, repeat: int) -> Iterator[tuple[str, int | None, Trials, dict[str, Any] | None]]:
        """(agent, episodes, trials, row of the fit or None) of every run."""
        world = self.stranger.world
        yield ATPO.name, None, self.run(self.part, ATPO, self.known), None
        yield INFORMED.name, None, self.run(self.part, INFORMED, Known((world,), (self.solve(world),))), None
        histories = self.histories(repeat)
        test = histories.take(np.arange(max(self.settings.episodes), histories.num_histories))
        for episodes in self.settings.episodes:
            lived = histories.take(np.arange(episodes))
            model, row = self.fitted(lived, test, episodes, repeat)
            more = self.known.joined_by(model, self.solve(model))
            part = f"{self.part}/episodes-{episodes}-repeat-{repeat}"
            prior = self.run(part, LEARNT_PRIOR, self.known.expecting(lived))
            yield LEARNT_PRIOR.name, episodes, prior, None
            yield ADAPTED.name, episodes, self.run(part, ADAPTED, more), row
            yield BOTH.name, episodes, self.run(part, BOTH, more.expecting(lived)), None

    def run(self, part: str, agent: Agent, having: Known) -> Trials:
        """The trials of an agent with that library in this world, kept under `part`."""
        task = having.task(self.stranger.world)
        self.open(self.session, f"{part}/{agent.name}", having, task)
        self.session.progress = self.show(f"{self.label}: {agent.name}")
        horizon, trials = self.prepared.horizon, self.settings.trials
        return self.session.run(f"{part}/{agent.name}", agent, task, horizon, trials)

    def open(self, session: Session, part: str, having: Known, task: Task) -> None:
        """Say what a part is made of."""
        solved = dataclasses.replace(self.prepared, solutions=digest(task.solved))
        models = [model.content_hash()[:16] for model in having.models]
        prior = None if having.prior is None else having.prior.round(6).tolist()
        world = self.stranger.world.content_hash()[:16]
        session.open_part(part, solved, world=world, library=models, learnt_prior=prior)

    def histories(self, repeat: int) -> Histories:
        """What ATPO lives through with the library as it is: to learn from, and some more to test with."""
        learning = Session(self.session.seed + LEARNING_SEED * (repeat + 1), self.session.store)
        learning.progress = self.show(f"{self.label}: episodes to learn from")
        task, count = self.known.task(self.stranger.world), max(self.settings.episodes) + TEST_HISTORIES
        part = f"{self.part}/histories-{repeat}"
        self.open(learning, part, self.known, task)
        run = learning.run(part, ATPO, task, self.prepared.horizon, count, RECORD)
        actions, observations = (np.asarray(run.records[name], np.int32) for name in RECORD)
        return Histories(actions, observations, np.ones(actions.shape, bool))

    def fitted(
        self, lived: Histories, test: Histories, episodes: int, repeat: int
    ) -> tuple[POMDP, dict[str, Any]]:
        """A model fitted to the histories lived, and what became of it."""
        scores = [np.asarray(_jit_likelihoods(model, lived)) for model in self.starts]
        possible = [int(np.isfinite(score).sum()) for score in scores]
        sums = [float(score[np.isfinite(score)].sum()) for score in scores]
        best = max(range(len(scores)), key=lambda k: (possible[k], sums[k]))
        teammate, usable = self.teammates[best], np.flatnonzero(np.isfinite(scores[best]))
        row = {"domain": self.prepared.name, "scenario": self.stranger.scenario, "model": self.stranger.model}
        row |= {"episodes": episodes, "repeat": repeat, "start": self.stranger.library[best]}
        row |= {"impossible": episodes - len(usable)}
        model = self.starts[best]
        if len(usable):
            found = fit(
                teammate,
                lived.take(usable),
                self.settings.fit,
                seed=self.session.seed + repeat,
                directory=self.directory(f"{episodes}-{repeat}"),
                progress=self.show(f"{self.label}: fitting {episodes} episodes"),
            )
            (model,) = teammate.models(found.params)
            row |= {"steps": found.steps, "stopped": found.stopped}
            row |= {"divergence": float(teammate.divergence(found.params))}
        likely = {"start": self.starts[best], "fitted": model, "true": self.stranger.world}
        return model, row | {f"test_{name}": mean_likelihood(one, test) for name, one in likely.items()}

    @cached_property
    def teammates(self) -> list[Teammate]:
        """Where a fit may start: the teammate of each model of the library."""
        name, rules, by = self.prepared.name, self.prepared.rules, self.settings.by
        return [Teammate.of_domain(name, k, rules, by=by) for k in self.stranger.library]

    @cached_property
    def starts(self) -> list[POMDP]:
        """The models beside them, softened."""
        return [teammate.models(teammate.start())[0] for teammate in self.teammates]

    def directory(self, name: str) -> Path | None:
        """Where a fit keeps its checkpoints."""
        store = self.session.store
        return store.directory / "fits" / f"{self.part.replace('/', '-')}-{name}" if store else None

    def solve(self, model: POMDP) -> Policy:
        progress = self.show(f"{self.label}: solving")
        (solution,) = solve_library(
            [model],
            self.settings.solver,
            directory=self.solutions or default_directory(),
            progress=None
            if progress is None
            else lambda **f: progress(f.get("stage", 0), self.settings.rounds),
            labels=[self.label],
        )
        return solution.policy


def mean_likelihood(model: POMDP, histories: Histories) -> float:
    """The mean log likelihood of histories; -inf if one is impossible."""
    return float(jnp.mean(_jit_likelihoods(model, histories)))


def _rows(prepared: Prepared, runs: Runs) -> list[dict[str, Any]]:
    """Returns over all strangers of a scenario; differences to ATPO, and how much of the gap to the informed.

    A trial counts once, with its mean over the repeats.
    """
    returns = {
        name: np.concatenate([np.mean(repeats, axis=0) for repeats in found.values()])
        for name, found in runs.items()
    }
    rows = []
    for (scenario, agent, episodes), earned in returns.items():
        base, best = returns[scenario, ATPO.name, None], returns[scenario, INFORMED.name, None]
        row: dict[str, Any] = {"domain": prepared.name, "rules": prepared.rules, "scenario": scenario}
        row |= {"agent": agent, "episodes": episodes, **statistics.estimate(earned)._asdict()}
        gain = statistics.difference(earned, base)
        row |= {"minus_atpo": gain.mean, "minus_atpo_low": gain.low, "minus_atpo_high": gain.high}
        gap = statistics.relative(earned, base, best)
        rows.append(row | {"closed": gap.mean, "closed_low": gap.low, "closed_high": gap.high})
    return rows
