"""The adapt experiment: a teammate that the library lacks, and what a model learnt from histories is worth.

ATPO plays some episodes with the library it has. From its own actions and observations a model is fitted: it starts
from the model of the library that explains them best, its teammate's policy moves within the trust region of `fit`.
The fitted model is solved and joins the library, and ATPO plays on with it:

    atpo                  the library as it is
    atpo_prior            the same with a prior learnt from the first n episodes
    atpo_softened         the library and the model that the fit starts from, its teammate softened and nothing learnt
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
from jatpo.evaluate.task import Task
from jatpo.learn import FitSettings, Histories, Teammate, fit, log_likelihoods
from jatpo.learn.known import Known, known
from jatpo.learn.strangers import Stranger
from jatpo.model import POMDP
from jatpo.solve import AnytimeSettings, Policy, default_directory, solve_library

ATPO, INFORMED = mixture.ATPO, dataclasses.replace(mixture.PERSEUS, name="informed")
LEARNT_PRIOR, SOFTENED, ADAPTED, BOTH = (
    dataclasses.replace(mixture.ATPO, name=f"atpo_{name}")
    for name in ("prior", "softened", "adapted", "adapted_prior")
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


_jit_likelihoods = jax.jit(log_likelihoods)


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
        self._softened: dict[int, Trials] = {}
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
            scores = [np.asarray(_jit_likelihoods(model, lived)) for model in self.starts]
            start = closest(scores)
            yield SOFTENED.name, episodes, self.softened(start), None
            usable = np.flatnonzero(np.isfinite(scores[start]))
            model, row = self.fitted(lived.take(usable), start, episodes, repeat)
            row |= {"impossible": episodes - len(usable), **self.tested(test, start, model)}
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

    def softened(self, start: int) -> Trials:
        """The trials of the agent that has one more model, from which a fit would start; each is played once."""
        if start not in self._softened:
            model = self.starts[start]
            more = self.known.joined_by(model, self.solve(model))
            self._softened[start] = self.run(f"{self.part}/start-{start}", SOFTENED, more)
        return self._softened[start]

    def fitted(
        self, lived: Histories, start: int, episodes: int, repeat: int
    ) -> tuple[POMDP, dict[str, Any]]:
        """A model fitted to the histories lived, and what became of it; the start where there are none."""
        teammate = self.teammates[start]
        row = {"domain": self.prepared.name, "scenario": self.stranger.scenario, "model": self.stranger.model}
        row |= {"episodes": episodes, "repeat": repeat, "start": self.stranger.library[start]}
        if not lived.num_histories:
            return self.starts[start], row
        found = fit(
            teammate,
            lived,
            self.settings.fit,
            seed=self.session.seed + repeat,
            directory=self.directory(f"{episodes}-{repeat}"),
            progress=self.show(f"{self.label}: fitting {episodes} episodes"),
        )
        (model,) = teammate.models(found.params)
        divergence = float(teammate.divergence(found.params))
        return model, row | {"steps": found.steps, "stopped": found.stopped, "divergence": divergence}

    def tested(self, test: Histories, start: int, model: POMDP) -> dict[str, float]:
        """The mean log likelihood of histories that were not learnt from; -inf if one is impossible."""
        likely = {"start": self.starts[start], "fitted": model, "true": self.stranger.world}
        return {f"test_{name}": float(jnp.mean(_jit_likelihoods(one, test))) for name, one in likely.items()}

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


def closest(scores: Sequence[np.ndarray]) -> int:
    """The number of the model that explains most histories, and those best; log likelihoods [N] of each model."""
    finite = [score[np.isfinite(score)] for score in scores]
    return max(range(len(scores)), key=lambda k: (len(finite[k]), finite[k].sum()))


def _rows(prepared: Prepared, runs: Runs) -> list[dict[str, Any]]:
    """Returns over all strangers of a scenario; differences to ATPO, and how much of the gap to the informed.

    Agents that have episodes are compared with the control as well, which is softened and has learnt nothing. A trial
    counts once, with its mean over the repeats.
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
        control = returns.get((scenario, SOFTENED.name, episodes))
        if control is not None:
            learnt = statistics.difference(earned, control)
            row |= {"minus_softened": learnt.mean, "minus_softened_low": learnt.low}
            row |= {"minus_softened_high": learnt.high}
        gap = statistics.relative(earned, base, best)
        rows.append(row | {"closed": gap.mean, "closed_low": gap.low, "closed_high": gap.high})
    return rows
