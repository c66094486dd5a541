"""A domain as a PettingZoo environment with two agents: "agent", who is ad hoc, and "teammate".

    env = TeamEnv("gridworld")
    mate = env.library_teammate(seed=1)          # who plays in the domain's POMDPs; or bring your own
    seen, infos = env.reset(seed=0)
    while env.agents:
        action = ...
        reply = mate(seen["teammate"], action)
        seen, rewards, _, ended, infos = env.step({"agent": action, "teammate": reply})

The agent sees its observations, and Z before the first action; the teammate sees the state, as the teammates
of the domains do. Both get the same reward. The true model is drawn from the library's prior on reset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jatpo.envs.extras import require
from jatpo.envs.functional import Source
from jatpo.envs.team import Team, draw, teams_of
from jatpo.envs.views import MODES, Views, checked_mode
from jatpo.errors import JatpoError
from jatpo.files import load

require("gymnasium", extra="pettingzoo")
require("pettingzoo", extra="pettingzoo")

import pettingzoo  # noqa: E402
from gymnasium import spaces  # noqa: E402

AGENT, TEAMMATE = "agent", "teammate"


class TeamEnv(pettingzoo.ParallelEnv):
    """Two agents in one domain. Arguments as in `jatpo.envs.make`; `render_mode` is "ansi" or "rgb_array"."""

    metadata = {"name": "jatpo_team_v0", "render_modes": list(MODES), "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        source: Source,
        rules: str = "as_run",
        *,
        pool: bool = False,
        horizon: int | None = None,
        prior: Sequence[float] | np.ndarray | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = checked_mode(render_mode)
        library = load(source, rules=rules, pool=pool)
        if prior is not None:
            library = library.with_prior(prior)
        self.library, self.teams, self.prior = library, teams_of(library), library.host_prior
        self.horizon = library.horizon if horizon is None else horizon
        if self.horizon < 1:
            raise JatpoError(f"the horizon must be at least 1, got {horizon}")
        self.possible_agents = [AGENT, TEAMMATE]
        self.agents: list[str] = []
        model, replies = library.member(0), self.teams[0].mmdp.teammate_actions
        largest = max(team.num_states for team in self.teams)
        self.observation_spaces = _spaces(model.num_observations + 1, largest)
        self.action_spaces = _spaces(model.num_actions, len(replies))
        self._views = Views(library)
        self._generator = np.random.default_rng()
        self._model = self._state = self._time = 0

    def observation_space(self, agent: str) -> spaces.Space:
        """The observations of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """The actions of an agent."""
        return self.action_spaces[agent]

    @property
    def team(self) -> Team:
        """The true model of this episode."""
        return self.teams[self._model]

    def reset(
        self, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[dict, dict]:
        """Draw a model and a start state; the agent has no observation yet."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._model = draw(self._generator, (np.arange(len(self.teams)), self.prior))
        self._state = draw(self._generator, self.team.start())
        self._time = 0
        self.agents = list(self.possible_agents)
        return self._seen(self.library.member(0).num_observations), self._infos()

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        """Both act at once: (observations, rewards, terminations, truncations, infos)."""
        action, reply = (self._checked(agent, actions) for agent in self.possible_agents)
        reward = self.team.reward(self._state, action, reply)
        self._state = draw(self._generator, self.team.arrivals(self._state, action, reply))
        observation = draw(self._generator, self.team.observations(self._state, action))
        self._time += 1
        ended = self._time >= self.horizon
        rewards, over, out_of_time = (dict.fromkeys(self.agents, part) for part in (reward, False, ended))
        if ended:
            self.agents = []
        return self._seen(observation), rewards, over, out_of_time, self._infos()

    def state(self) -> np.ndarray:
        """The true model and the hidden state."""
        return np.array([self._model, self._state])

    def render(self) -> str | np.ndarray | None:
        """The hidden state as text or picture."""
        return self._views.render(self.render_mode, self._model, self._state)

    def library_teammate(self, seed: int | None = None) -> LibraryTeammate:
        """The teammate that is part of the library's models, as an agent of its own."""
        return LibraryTeammate(self, np.random.default_rng(seed))

    def _seen(self, observation: int) -> dict[str, int]:
        return {AGENT: observation, TEAMMATE: self._state}

    def _infos(self) -> dict[str, dict[str, int]]:
        return {agent: {"model": self._model, "state": self._state} for agent in self.possible_agents}

    def _checked(self, agent: str, actions: dict[str, int]) -> int:
        if not self.agents:
            raise JatpoError("the episode has ended or not begun: call reset() first")
        if agent not in actions:
            raise JatpoError(f"the action of '{agent}' is missing: both agents act in every step")
        mmdp = self.team.mmdp
        count = len(mmdp.actions if agent == AGENT else mmdp.teammate_actions)
        if not self.action_spaces[agent].contains(actions[agent]):
            raise JatpoError(f"'{agent}' has no action {actions[agent]!r}: choose from 0 to {count - 1}")
        return int(actions[agent])


def _spaces(agent: int, teammate: int) -> dict[str, spaces.Space]:
    return {AGENT: spaces.Discrete(agent), TEAMMATE: spaces.Discrete(teammate)}


class LibraryTeammate:
    """The library's teammate as a function of the state, and of the agent's action where its policy depends on it."""

    def __init__(self, env: TeamEnv, generator: np.random.Generator) -> None:
        self._env, self._generator = env, generator

    def probabilities(self, state: int, action: int | None = None) -> np.ndarray:
        """The probabilities [B] of its actions in this episode's model."""
        return self._env.team.teammate(state, action)

    def __call__(self, state: int, action: int | None = None) -> int:
        probabilities = self.probabilities(state, action)
        return draw(self._generator, (np.arange(len(probabilities)), probabilities))
