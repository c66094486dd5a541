"""The adapt experiment: a teammate that the library lacks, and what a model learned from histories is worth.

ATPO plays some episodes with the library it has. From its own actions and observations a model is fitted: it starts
from the model of the library that explains them best, its teammate's policy moves within the trust region of `fit`.
The fitted model is solved and joins the library, and ATPO continues with it:

    atpo                  the library as it is
    atpo_prior            the same with a prior learned from the first n episodes
    atpo_softened         the library and the model that the fit starts from, its teammate softened and nothing learned
    atpo_adapted          the library and the model fitted to the first n episodes, all equally probable
    atpo_adapted_prior    both
    informed              the policy of the true model

All play the same trials, which are not the episodes that were learned from, so differences are paired. Their
intervals are over trials, for the histories that were drawn; `repeats` draws others.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate import agents as ways
from jatpo.evaluate import statistics
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.experiment import Experiment, Tables, register
from jatpo.evaluate.option_fields import integers, option, words
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.session import Cell, Session
from jatpo.evaluate.solved import Solved
from jatpo.evaluate.trials import Trials
from jatpo.events import Event, OnEvent, titled
from jatpo.learn import FitSettings, Histories, Teammate, fit, log_likelihoods
from jatpo.learn.adapting import expecting, teammate_of
from jatpo.learn.unseen import Unseen, check_scenarios, unseen_teammates
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import Policy, Request
from jatpo.solve.policy import stack
from jatpo.tables import Row

ATPO, INFORMED = ways.ATPO(), ways.Informed(name="informed")
LEARNED_PRIOR, SOFTENED, ADAPTED, BOTH = (
    ways.ATPO(name=f"atpo_{name}") for name in ("prior", "softened", "adapted", "adapted_prior")
)
RECORD = ("actions", "observations")
TEST_HISTORIES = 64
LEARNING_SEED = 1_000_003  # histories to learn from are drawn with other seeds than the trials

Runs = dict[tuple[str, str, int | None], dict[int, list[np.ndarray]]]
"""Returns [N] of every repeat, by (scenario, agent, episodes) and true model."""

_jit_likelihoods = jax.jit(log_likelihoods)


def parameters_of(pairs: Sequence[str]) -> Mapping[str, Any]:
    """Parameters from texts such as teammate=optimal or noise=0.4."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise JatpoError(f"'{pair}' has no value: write it as PARAMETER=VALUE")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


@register
@dataclass(frozen=True)
class Adapt(Experiment):
    """Compare ATPO beside a teammate missing from its library: unchanged, with a learned model, and informed.

    The model is fitted to the agent's actions and observations alone, solved, and added to the library.
    """

    name = "adapt"
    agents = ("atpo", "perseus")
    trials = 512
    sources = ("gridworld", "pursuit-teammate")
    columns: ClassVar = {
        "adapt": (
            *("domain", "scenario", "agent", "episodes", "trials", "mean", "low", "high"),
            *("minus_atpo", "minus_atpo_low", "minus_atpo_high", "closed"),
        )
    }
    without = ("agents", "preset")

    scenarios: tuple[str, ...] = option(
        "left-out,noisy", "left-out, noisy, changed, comma-separated.", parse=words, kept=False
    )
    share: float = option(0.5, "Share of actions that a noisy teammate takes at random.")
    change: Mapping[str, Any] = option(
        (),
        "For 'changed': PARAMETER=VALUE of the domain; may be repeated.",
        parse=parameters_of,
        kind=list[str],
    )
    models: tuple[int, ...] | None = option(
        None, "True models by number, comma-separated; default: all.", parse=integers, kept=False
    )
    episodes: tuple[int, ...] = option(
        "1,4,16,64", "Numbers of episodes to learn from, comma-separated.", parse=integers, kept=False
    )
    by: str = option("state", "What the teammate's policy depends on: state, features or a variable.")
    trust: float = option(1.0, "Strength of the trust region.", min=0)
    rounds: int = option(12, "Rounds of the anytime solver for a fitted model.", min=1)
    repeats: int = option(1, "Sets of episodes to learn from.", min=1, kept=False)
    fit: FitSettings = field(default_factory=FitSettings)  # its trust region is `trust`

    def __post_init__(self) -> None:
        if not self.episodes or min(self.episodes) < 1:
            raise JatpoError(f"episodes are {list(self.episodes)}: give numbers from 1 on")
        for name in ("repeats", "rounds"):
            if getattr(self, name) < 1:
                raise JatpoError(f"{name} is {getattr(self, name)}, expected at least 1")
        check_scenarios(self.scenarios, self.share, self.change)

    def title(self, stage: Stage) -> str:
        return f"adapting in {stage.title}"

    def play(self, session: Session, cases: Iterator[Case]) -> Iterator[Tables]:
        """Returns, one row for each scenario, number of episodes and agent; and one row for each model fitted."""
        for case in cases:
            unseen = unseen_teammates(case.library, self.scenarios, self.share, self.change, self.models)
            total = len(unseen) * self.repeats * (2 + 4 * len(self.episodes))
            progress = Inner(self.title(case.stage), total, session.on_event)
            inner = Session(session.seed, session.store, progress)
            runs: Runs = {}
            fits: list[Row] = []
            for one in unseen:
                team = _Team(case, one, self, inner)
                for repeat in range(self.repeats):
                    for run in team.play(repeat):
                        found = runs.setdefault((one.scenario, run.agent, run.episodes), {})
                        found.setdefault(one.model, []).append(run.trials.returns)
                        fits += [run.fit] if run.fit else []
                        progress.next()
            yield {"adapt": _rows(case, runs), "fits": fits}


class Inner:
    """A listener that reports pieces of work, each with events of its own, as steps of one whole."""

    def __init__(self, title: str, total: int, on_event: OnEvent) -> None:
        self._title, self._total, self._on_event, self._done = title, total, on_event, 0

    def __call__(self, event: Event) -> None:
        """Show what is under way."""
        if event.note:
            self._on_event(event)
            return
        figures = {"now": event.title, "at": f"{event.done:g}/{event.total:g}" if event.total else None}
        self._on_event(Event(self._title, self._done, self._total, figures))

    def next(self) -> None:
        """One more step is finished."""
        self._done += 1
        self._on_event(Event(self._title, self._done, self._total))


class Run(NamedTuple):
    """An agent's trials, the episodes it learned from, and a row about the model that was fitted for it."""

    agent: str
    episodes: int | None
    trials: Trials
    fit: Row | None = None


class _Team:
    """One unseen teammate: everything is played, fitted and solved for it."""

    def __init__(self, case: Case, unseen: Unseen, experiment: Adapt, session: Session) -> None:
        self.case, self.unseen, self.experiment, self.session = case, unseen, experiment, session
        self.library = with_solved(case.solved).select(unseen.numbers)
        self._softened: dict[int, Trials] = {}
        self.part = f"{case.part}/{unseen.scenario}/model-{unseen.model}"
        self.label = f"{unseen.scenario} {unseen.model}"

    def play(self, repeat: int) -> Iterator[Run]:
        """Every run."""
        truth = self.unseen.truth
        yield Run(ATPO.name, None, self.run(self.part, ATPO, self.library))
        alone = Library.from_models([truth], policies=[self.solve(truth)])
        yield Run(INFORMED.name, None, self.run(self.part, INFORMED, alone))
        histories = self.histories(repeat)
        test = histories.take(np.arange(max(self.experiment.episodes), histories.num_histories))
        for episodes in self.experiment.episodes:
            seen = histories.take(np.arange(episodes))
            scores = [np.asarray(_jit_likelihoods(model, seen)) for model in self.starts]
            start = closest(scores)
            yield Run(SOFTENED.name, episodes, self.softened(start))
            usable = np.flatnonzero(np.isfinite(scores[start]))
            model, row = self.fitted(seen.take(usable), start, episodes, repeat)
            row = {**row, "impossible": episodes - len(usable), **self.tested(test, start, model)}
            more = self.library.with_member(model, "learned", policy=self.solve(model))
            part = f"{self.part}/episodes-{episodes}-repeat-{repeat}"
            prior = self.run(part, LEARNED_PRIOR, expecting(self.library, seen))
            yield Run(LEARNED_PRIOR.name, episodes, prior)
            yield Run(ADAPTED.name, episodes, self.run(part, ADAPTED, more), row)
            yield Run(BOTH.name, episodes, self.run(part, BOTH, expecting(more, seen)))

    def run(self, folder: str, agent: Agent, having: Library, **more: Any) -> Trials:
        """The trials of an agent with that library in the true model; `more` are fields of the cell."""
        library, place = self.case.library, f"{folder}/{agent.name}"
        scenario, solved = scenario_in(self.unseen.truth, having)
        made_of = {
            **self.case.identity,
            "world": self.unseen.truth.content_hash()[:16],
            "library": [model.content_hash()[:16] for model in having.members],
            "learned_prior": having.host_prior.round(6).tolist(),
        }
        cell = Cell(place, agent, scenario, solved, library.horizon, self.case.trials, made_of=made_of)
        cell = dataclasses.replace(cell, **more)
        ((_, trials, _, _),) = self.session.play([cell], f"{self.label}, {agent.name}")
        assert trials is not None
        return trials

    def histories(self, repeat: int) -> Histories:
        """Episodes of ATPO with the library as it is: to learn from, and some more to test with."""
        place = f"{self.part}/histories-{repeat}"
        count = max(self.experiment.episodes) + TEST_HISTORIES
        seed = self.session.seed + LEARNING_SEED * (repeat + 1)
        run = self.run(self.part, ATPO, self.library, part=place, trials=count, record=RECORD, seed=seed)
        actions, observations = (np.asarray(run.records[name], np.int32) for name in RECORD)
        return Histories(actions, observations, np.ones(actions.shape, bool))

    def softened(self, start: int) -> Trials:
        """The trials of the agent that has one more model, from which a fit would start; each is played once."""
        if start not in self._softened:
            model = self.starts[start]
            more = self.library.with_member(model, "learned", policy=self.solve(model))
            self._softened[start] = self.run(f"{self.part}/start-{start}", SOFTENED, more)
        return self._softened[start]

    def fitted(self, seen: Histories, start: int, episodes: int, repeat: int) -> tuple[POMDP, Row]:
        """A model fitted to histories, and a row about the fit; the start where there are no histories."""
        teammate = self.teammates[start]
        row = {"domain": self.case.name, "scenario": self.unseen.scenario, "model": self.unseen.model}
        row |= {"episodes": episodes, "repeat": repeat, "start": self.unseen.numbers[start]}
        if not seen.num_histories:
            return self.starts[start], row
        found = fit(
            teammate,
            seen,
            dataclasses.replace(self.experiment.fit, trust=self.experiment.trust),
            seed=self.session.seed + repeat,
            directory=self.session.folder("fits", f"{self.part.replace('/', '-')}-{episodes}-{repeat}"),
            on_event=titled(f"{self.label}, fitting {episodes} episodes", self.session.on_event),
        )
        (model,) = teammate.models(found.params)
        divergence = float(teammate.divergence(found.params))
        return model, {**row, "steps": found.steps, "stopped": found.stopped, "divergence": divergence}

    def tested(self, test: Histories, start: int, model: POMDP) -> Row:
        """The mean log-likelihood of histories that were not learned from; -inf if one is impossible."""
        models = {"start": self.starts[start], "fitted": model, "true": self.unseen.truth}
        return {f"test_{name}": float(jnp.mean(_jit_likelihoods(one, test))) for name, one in models.items()}

    @cached_property
    def teammates(self) -> list[Teammate]:
        """Where a fit may start: the teammate of each model of the library."""
        return [teammate_of(origin, self.experiment.by) for origin in self.library.origins]

    @cached_property
    def starts(self) -> list[POMDP]:
        """The models beside them, softened."""
        return [teammate.models(teammate.start())[0] for teammate in self.teammates]

    def solve(self, model: POMDP) -> Policy:
        """A policy by the anytime solver, with as many rounds as the experiment says."""
        options = self.case.solved.options
        assert options is not None
        request = Request("anytime", stages=self.experiment.rounds)
        listen = titled(f"{self.label}, solving", self.session.on_event)
        options = dataclasses.replace(options, request=request, on_event=listen)
        return Solved(Library.from_models([model], name=self.label), options=options).solutions[0].policy


def with_solved(solved: Solved) -> Library:
    """The library, with the policies that were solved for it."""
    policies, library = solved["policies"], solved.library
    vectors, actions = np.asarray(policies.vectors), np.asarray(policies.actions)
    sizes = [model.num_states for model in library.members]
    cut = [(vectors[k, :, :size], actions[k]) for k, size in enumerate(sizes)]
    return library.with_policies([Policy(*map(jnp.asarray, pair)) for pair in cut])


def scenario_in(truth: POMDP, library: Library) -> tuple[Scenario, Solved]:
    """Trials in `truth` alone, for agents that have this library and its policies."""
    count = library.num_models
    policies = [policy for policy in library.policies if policy is not None]
    solved = Solved(library, {"policies": stack(policies, library.num_states)})
    return Scenario(library, [truth] * count, weights=np.eye(count)[0]), solved


def closest(scores: Sequence[np.ndarray]) -> int:
    """The number of the model that explains most histories, and those best; log-likelihoods [N] of each model."""
    finite = [score[np.isfinite(score)] for score in scores]
    return max(range(len(scores)), key=lambda k: (len(finite[k]), finite[k].sum()))


def _rows(case: Case, runs: Runs) -> list[Row]:
    """Returns over all unseen teammates of a scenario; differences to ATPO, and how much of the gap to the informed.

    Agents that have episodes are compared with the control as well, which is softened and has learned nothing. A trial
    counts once, with its mean over the repeats.
    """
    returns = {
        name: np.concatenate([np.mean(repeats, axis=0) for repeats in found.values()])
        for name, found in runs.items()
    }
    rows = []
    for (scenario, agent, episodes), earned in returns.items():
        base, best = returns[scenario, ATPO.name, None], returns[scenario, INFORMED.name, None]
        row = {**case.row(), "scenario": scenario, "agent": agent, "episodes": episodes}
        row |= statistics.estimate(earned)._asdict()
        row |= statistics.difference(earned, base).interval("minus_atpo")
        control = returns.get((scenario, SOFTENED.name, episodes))
        if control is not None:
            row |= statistics.difference(earned, control).interval("minus_softened")
        rows.append(row | statistics.relative(earned, base, best).interval("closed"))
    return rows
