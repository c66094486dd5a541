"""A library as a Gymnasium environment: the ad hoc agent acts, the teammates are part of the environment.

    env = AdHocEnv("gridworld")
    env = gymnasium.make("jatpo/AdHoc-v0", source="gridworld")
    envs = gymnasium.make_vec("jatpo/AdHoc-v0", num_envs=64, source="gridworld")

Observations are numbers from 0 to Z: the model's observations, and Z for nothing yet, on reset. An episode is
truncated at the horizon and never terminated. `info` has the true model and the hidden state, for training
and debugging; an ad hoc agent must not use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jatpo.envs import episodes
from jatpo.envs.extras import require
from jatpo.envs.functional import Source, make
from jatpo.envs.views import MODES, Views, checked_mode
from jatpo.errors import JatpoError

require("gymnasium", extra="gymnasium")

import gymnasium  # noqa: E402
from gymnasium import spaces  # noqa: E402
from gymnasium.utils import seeding  # noqa: E402
from gymnasium.vector import AutoresetMode, VectorEnv  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

ID = "jatpo/AdHoc-v0"


def begun(episode: episodes.Episode | None) -> episodes.Episode:
    """The episode, if there is one."""
    if episode is None:
        raise gymnasium.error.ResetNeeded("no episode has begun: call reset() first")
    return episode


class AdHocEnv(gymnasium.Env):
    """One episode at a time. Arguments as in `jatpo.envs.make`; `render_mode` is "ansi" or "rgb_array"."""

    metadata = {"render_modes": list(MODES), "render_fps": 4}  # noqa: RUF012 - as Gymnasium has it

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
        self.environment = make(source, rules, pool=pool, horizon=horizon, prior=prior)
        self.observation_space = spaces.Discrete(self.environment.num_observations + 1)
        self.action_space = spaces.Discrete(self.environment.num_actions)
        self._params = self.environment.default_params
        self._views = Views(self.environment.library)
        self._episode: episodes.Episode | None = None
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[int, dict]:
        """Begin the next episode; with a seed, the first of that seed."""
        super().reset(seed=seed)
        if seed is not None or self._episode is None:
            (key,) = episodes.make_seeds(np.array([episodes.seed_number(self.np_random)]))
            number = np.int32(0)
        else:
            key, number = self._episode.seed, self._episode.number + 1
        self._episode, outcome = episodes.begin(self._params, key, number)
        self._ended = False
        return int(outcome.observation), self._info()

    def step(self, action: int | np.integer) -> tuple[int, float, bool, bool, dict]:
        """(observation, reward, False, whether the horizon is reached, info)."""
        if self._ended:
            raise gymnasium.error.ResetNeeded("the episode has ended or not begun: call reset() first")
        if not self.action_space.contains(action):
            raise JatpoError(f"unknown action {action!r}: choose from 0 to {self._params.num_actions - 1}")
        self._episode, outcome = episodes.advance(self._params, self._episode, np.int32(action))
        self._ended = bool(outcome.ended)
        return int(outcome.observation), float(outcome.reward), False, self._ended, self._info()

    def render(self) -> str | np.ndarray | None:
        """The hidden state as text or picture."""
        info = self._info()
        return self._views.render(self.render_mode, info["model"], info["state"])

    def _info(self) -> dict[str, int]:
        state = begun(self._episode).state
        return {"model": int(state.model), "state": int(state.state)}


class AdHocVectorEnv(VectorEnv):
    """N episodes at a time in one compiled step. Environment i of seed s is `AdHocEnv` of seed s + i."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        source: Source,
        num_envs: int = 1,
        rules: str = "as_run",
        *,
        pool: bool = False,
        horizon: int | None = None,
        prior: Sequence[float] | np.ndarray | None = None,
    ) -> None:
        if num_envs < 1:
            raise JatpoError(f"num_envs must be at least 1, got {num_envs}")
        self.environment = make(source, rules, pool=pool, horizon=horizon, prior=prior)
        self.num_envs = num_envs
        self.single_observation_space = spaces.Discrete(self.environment.num_observations + 1)
        self.single_action_space = spaces.Discrete(self.environment.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._params = self.environment.default_params
        self._episodes: episodes.Episode | None = None

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Begin an episode everywhere; `seed` may be a list with one for each environment."""
        if seed is not None or self._episodes is None:
            keys = episodes.make_seeds(self._seed_numbers(seed))
            numbers = np.zeros(self.num_envs, np.int32)
        else:
            keys, numbers = self._episodes.seed, self._episodes.number + 1
        self._episodes, outcome = episodes.begin_all(self._params, keys, numbers)
        return np.array(outcome.observation, np.int64), self._infos()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """One step everywhere; where the last one ended an episode, the next begins instead."""
        before, actions = begun(self._episodes), np.asarray(actions)
        if actions.shape != (self.num_envs,) or not self.action_space.contains(actions.astype(np.int64)):
            last = self._params.num_actions - 1
            raise JatpoError(f"actions must be {self.num_envs} numbers from 0 to {last}, got {actions}")
        self._episodes, outcome = episodes.advance_all(self._params, before, actions.astype(np.int32))
        never = np.zeros(self.num_envs, np.bool_)
        return (
            np.array(outcome.observation, np.int64),
            np.array(outcome.reward, np.float64),
            never,
            np.array(outcome.ended),
            self._infos(),
        )

    def _seed_numbers(self, seed: int | Sequence[int] | None) -> np.ndarray:
        """One number for each environment, as an `AdHocEnv` with its seed would draw it."""
        if seed is None:
            return np.array([episodes.seed_number(self.np_random) for _ in range(self.num_envs)])
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else list(seed)
        if len(seeds) != self.num_envs:
            raise JatpoError(f"got {len(seeds)} seeds for {self.num_envs} environments: give one for each")
        super().reset(seed=int(seeds[0]))
        return np.array([episodes.seed_number(seeding.np_random(int(part))[0]) for part in seeds])

    def _infos(self) -> dict[str, np.ndarray]:
        state = begun(self._episodes).state
        everywhere = np.ones(self.num_envs, np.bool_)
        infos = {"model": np.array(state.model, np.int64), "state": np.array(state.state, np.int64)}
        return {**infos, **{f"_{name}": everywhere.copy() for name in infos}}


if ID not in gymnasium.registry:
    gymnasium.register(
        ID,
        entry_point="jatpo.envs.gymnasium:AdHocEnv",
        vector_entry_point="jatpo.envs.gymnasium:AdHocVectorEnv",
    )
