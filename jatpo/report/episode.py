"""One episode, step by step: states, actions, observations, rewards and the agent's beliefs.

The numbers are those of trial `trial` of a rollout with the same seed, so an episode can be looked at that
an evaluation counted. Of the beliefs only that of the leading model is kept, the one with the highest
posterior at that time. Shapes: T steps, K models, A actions, X states; what holds before each action and at
the end has T+1 entries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jatpo.domains import Scene, Stage, scene_of
from jatpo.domains.mmdp import ABSORBING
from jatpo.errors import JatpoError
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.agents.protocol import Agent, refusal
from jatpo.evaluate.solved import Solved, SolveOptions, load_solved
from jatpo.evaluate.trials import Trials
from jatpo.events import Event, ignore
from jatpo.library import Library
from jatpo.report.simulated_episode import episode_parts
from jatpo.report.trial import LEADING, end, roll
from jatpo.report.words import action_words, observation_words
from jatpo.solve import Request

FAINT = 5e-4  # a place less likely than this is left out of a heat map
DIGITS = 6


@dataclass(frozen=True, eq=False)
class Episode:
    """An episode of T steps, with names and labels. `scenes` are those of the true and leading models."""

    title: str
    agent: str
    sees: str
    knows: str
    rules: str | None
    seed: int
    trial: int
    horizon: int
    labels: tuple[str, ...]
    truth: int
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    scenes: Mapping[int, Scene]
    states: np.ndarray  # [T+1]
    actions: np.ndarray  # [T]
    observations: np.ndarray  # [T]
    rewards: np.ndarray  # [T]
    probabilities: np.ndarray  # [T, A], of the agent's choice
    posterior: np.ndarray | None = None  # [T+1, K]
    entropy: np.ndarray | None = None  # [T+1]
    beliefs: np.ndarray | None = None  # [T+1, X], of the leading model

    @property
    def num_steps(self) -> int:
        """T."""
        return len(self.actions)

    @cached_property
    def returns(self) -> np.ndarray:
        """The undiscounted return so far [T+1]."""
        return np.concatenate([[0.0], np.cumsum(self.rewards, dtype=np.float64)])

    @cached_property
    def leaders(self) -> np.ndarray | None:
        """The model with the highest posterior [T+1]."""
        return None if self.posterior is None else np.argmax(self.posterior, axis=1)

    def leader(self, time: int) -> int | None:
        """The leading model at a time, for agents that have a posterior."""
        return None if self.leaders is None else int(self.leaders[time])

    def state_name(self, time: int) -> str:
        """The name of the state at a time."""
        return self.scenes[self.truth].states[self.states[time]]

    def did(self, time: int) -> str | None:
        """The action that led to a time, in words; None at the start."""
        if time == 0:
            return None
        return action_words(self.action_names[self.actions[time - 1]], self.action_names)

    def saw(self, time: int) -> str | None:
        """What the agent saw at a time, in words; None where it saw nothing."""
        if self.sees == "state":
            return f"the state itself: {self.state_name(time)}"
        if time == 0 or self.sees == "nothing":
            return None
        if self.state_name(time) == ABSORBING:  # its observation stands for others too
            return "nothing: the episode has ended"
        action = self.action_names[self.actions[time - 1]]
        return observation_words(
            self.observation_names[self.observations[time - 1]], action, self.action_names
        )

    def belief(self, time: int) -> tuple[Scene, np.ndarray] | None:
        """The leading model's scene and its belief over states [X], for agents that have beliefs."""
        leader = self.leader(time)
        if self.beliefs is None or leader is None:
            return None
        scene = self.scenes[leader]
        return scene, self.beliefs[time, : len(scene.states)]

    def to_json(self) -> dict[str, Any]:
        """Everything a replay shows, in terms of JSON's own types."""
        own = ("title", "agent", "sees", "knows", "rules", "seed", "trial", "horizon", "truth")
        return {
            **{name: getattr(self, name) for name in own},
            "steps": self.num_steps,
            "return": _round(self.returns[-1]),
            "models": list(self.labels),
            "actions": list(self.action_names),
            "phrases": [action_words(name, self.action_names) for name in self.action_names],
            "stages": {str(k): _stage(scene) for k, scene in self.scenes.items()},
            "frames": [self._frame(time) for time in range(self.num_steps + 1)],
        }

    def _frame(self, time: int) -> dict[str, Any]:
        """One moment: the state, and the step that led to it."""
        before = time - 1
        return {
            "time": time,
            "state": self.state_name(time),
            "snapshot": _snapshot(self.scenes[self.truth], int(self.states[time])),
            "action": self.action_names[self.actions[before]] if time else None,
            "observation": self.observation_names[self.observations[before]] if time else None,
            "did": self.did(time),
            "saw": self.saw(time),
            "reward": _round(self.rewards[before]) if time else None,
            "return": _round(self.returns[time]),
            "chances": None if time == self.num_steps else _list(self.probabilities[time]),
            "posterior": None if self.posterior is None else _list(self.posterior[time]),
            "entropy": None if self.entropy is None else _round(self.entropy[time]),
            "leader": self.leader(time),
            "belief": self._believed(time),
        }

    def _believed(self, time: int) -> dict[str, Any] | None:
        """The heat map of the leading model, and its likeliest states."""
        found = self.belief(time)
        if found is None:
            return None
        scene, belief = found
        likely = [[name, _round(probability)] for name, probability in scene.likeliest(belief)]
        heat = {} if scene.stage is None else _heat(scene.stage, belief)
        return {"heat": heat, "likely": likely, "snapshot": _snapshot(scene, int(np.argmax(belief)))}


def record(
    source: str | os.PathLike[str] | Library | Solved,
    agent: str | Agent = "atpo",
    seed: int = 0,
    rules: str = "as_run",
    *,
    trial: int = 0,
    model: int | None = None,
    solutions: Path | None = None,
    horizon: int | None = None,
    preset: str = "exact",
    quiet: bool = True,
    **solving: Any,
) -> Episode:
    """Trial `trial` of `agent` on a domain, file or library; on `model`, if given, as the true one.

    `source` may also be a library that is solved already: then `rules` and how to solve do not matter. `solutions` is
    the directory of solutions; `solving` are `seconds` for each model (default: the paper's settings) or other fields
    of `SolveOptions`. Not `quiet`, the names of the models that are being solved appear on standard error.
    """
    chosen = choose_agent(agent, preset)
    if not isinstance(source, Solved):
        options = _options(solutions, quiet, **solving)
        place = source if isinstance(source, Library) else os.fspath(source)
        source = load_solved(place, [chosen], rules, options=options)
    return play(source, chosen, seed, trial=trial, model=model, horizon=horizon)


def _options(directory: Path | None, quiet: bool, seconds: float | None = None, **fields: Any) -> Any:
    """`SolveOptions`, by the paper's settings or for `seconds` each model."""
    fields.setdefault("request", Request(seconds=seconds))
    fields.setdefault("on_event", ignore if quiet else _print_models())
    return SolveOptions(directory=directory, **fields)


def _print_models() -> Callable[[Event], None]:
    """Progress of the solver on standard error: the name of each model when it is started."""
    begun: set[str] = set()

    def show(event: Event) -> None:
        if event.note:
            print(f"jatpo: note: {event.note}", file=sys.stderr, flush=True)
        elif event.title not in begun:
            begun.add(event.title)
            print(f"solving {event.title}", file=sys.stderr, flush=True)

    return show


def choose_agent(agent: str | Agent, preset: str = "exact") -> Agent:
    """An agent by its name, with the floor of `preset`; anything else is taken as an agent."""
    return choose_agents([agent], preset)[0] if isinstance(agent, str) else agent


def check_agent(agent: Agent, library: Library) -> None:
    """Refuse an agent that cannot run on a library."""
    reason = refusal(agent, library)
    if reason:
        raise JatpoError(f"agent '{agent.name}' cannot run on {library.name}: {reason}")


def play(
    solved: Solved,
    agent: Agent,
    seed: int = 0,
    *,
    trial: int = 0,
    model: int | None = None,
    horizon: int | None = None,
) -> Episode:
    """One trial on a library that is solved for the agent; it ends early in an absorbing state."""
    if trial < 0:
        raise JatpoError(f"trial must be at least 0, got {trial}")
    library = solved.library
    check_agent(agent, library)
    horizon = horizon or library.horizon
    found = roll(solved, agent, seed, trial, model, horizon)
    truth, steps = int(found.truth[0]), found.records
    simulated = library.simulated
    last = int(steps["steps"][0]) if simulated else end(library.member(truth), steps["states"][0])
    posterior = steps["posterior"][0, : last + 1] if "posterior" in steps else None
    leaders = [] if posterior is None else np.argmax(posterior, axis=1).tolist()
    parts_of: Callable[..., dict[str, Any]] = episode_parts if simulated else _table_parts
    parts = parts_of(library, found, leaders)
    return Episode(
        title=library.name,
        agent=agent.name,
        sees=agent.sees,
        knows=agent.knows,
        rules=getattr(library, "rules", None),
        seed=seed,
        trial=trial,
        horizon=horizon,
        labels=library.labels,
        truth=truth,
        actions=steps["actions"][0, :last],
        rewards=steps["rewards"][0, :last],
        probabilities=steps["probabilities"][0, :last],
        posterior=posterior,
        entropy=steps["entropy"][0, : last + 1] if "entropy" in steps else None,
        **parts,
    )


def _table_parts(library: Library, found: Trials, leaders: Sequence[int]) -> dict[str, Any]:
    """The parts of an episode of tables, as `jatpo.report.simulated_episode` has them for simulators."""
    truth, steps = int(found.truth[0]), found.records
    states = steps["states"][0]
    last = end(library.member(truth), states)
    return {
        "action_names": library.member(0).actions,
        "observation_names": library.member(0).observations,
        "scenes": {k: scene_of(library, k) for k in sorted({truth, *leaders})},
        "states": states[: last + 1],
        "observations": steps["observations"][0, :last],
        "beliefs": steps[LEADING][0, : last + 1] if LEADING in steps else None,
    }


def _stage(scene: Scene) -> dict[str, Any] | None:
    if scene.stage is None:
        return None
    return {**scene.stage.to_json(), "uncertain": list(scene.stage.uncertain[:2])}


def _heat(stage: Stage, belief: np.ndarray) -> dict[str, list]:
    """By person, pairs of place and probability."""
    found = {who: stage.marginal(who, belief) for who in stage.uncertain}
    return {
        who: [[int(place), _round(marginal[place])] for place in np.flatnonzero(marginal > FAINT)]
        for who, marginal in found.items()
    }


def _snapshot(scene: Scene, state: int) -> dict[str, Any] | None:
    shown = scene.snapshot(state)
    if shown is None:
        return None
    marks = {str(place): text for place, text in shown.marks.items()}
    return {"positions": shown.positions, "marks": marks, "hands": shown.hands, "goals": list(shown.goals)}


def _round(value: Any) -> float:
    return round(float(value), DIGITS)


def _list(values: np.ndarray) -> list[float]:
    return [_round(value) for value in values]
