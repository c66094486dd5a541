"""An episode that a person plays in the ad hoc agent's place, with ATPO's advice and posterior beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jatpo import environment
from jatpo.domains import render_text, scene_of
from jatpo.errors import JatpoError
from jatpo.evaluate.player import Player
from jatpo.evaluate.solved import Solved
from jatpo.report.words import action_words, observation_words

Shown = Mapping[str, Any]  # one moment as the page shows it

_reset = jax.jit(environment.reset)
_step = jax.jit(environment.step)


class HandPlay:
    """One episode: the world draws from the true model, the adviser follows with ATPO's filter and policy."""

    def __init__(self, solved: Solved, adviser: Player, seed: int, model: int | None = None) -> None:
        """The true model is `model`, or drawn from the library's prior by the seed."""
        library = solved.library
        self._key = jax.random.key(seed)
        if model is None:
            random = np.random.default_rng(seed)
            model = int(random.choice(library.num_models, p=np.asarray(library.host_prior, np.float64)))
        self.library, self.adviser, self.truth = library, adviser, model
        self._model = library.member(model)
        self._scene = scene_of(library, model)
        self._state = int(_reset(jax.random.fold_in(self._key, 0), self._model))
        self._saw = "nothing yet: this is the start"
        self._did, self._reward, self._earned, self.time = None, None, 0.0, 0
        adviser.reset()

    @property
    def over(self) -> bool:
        """Whether the horizon has been reached."""
        return self.time >= self.library.horizon

    def act(self, action: int) -> None:
        """Do an action, given by number: the world moves, and the adviser is given what was seen."""
        if self.over:
            raise JatpoError(f"the episode has ended after {self.time} steps: begin another one")
        if not 0 <= action < self.library.num_actions:
            raise JatpoError(f"no action has the number {action}: give 0 to {self.library.num_actions - 1}")
        self.time += 1
        moved = _step(jax.random.fold_in(self._key, self.time), self._model, self._state, action)
        self._state, seen, reward = int(moved[0]), int(moved[1]), float(moved[2])
        self.adviser.observe(action, seen)
        actions = self._model.actions
        self._did, self._reward = action_words(actions[action], actions), reward
        self._earned += reward
        self._saw = observation_words(self._model.observations[seen], actions[action], actions)

    def shown(self, reveal: bool = False) -> Shown:
        """What the page shows; the true model and state only where they are to be revealed."""
        actions = self._model.actions
        posterior, advice = self.adviser.posterior, self.adviser.probabilities
        leader = int(np.argmax(posterior))
        believed = scene_of(self.library, leader)
        belief = self.adviser.beliefs[leader, : len(believed.states)]
        truth = {"model": self.truth, "state": self._scene.states[self._state], "map": self._map()}
        return {
            "time": self.time,
            "horizon": self.library.horizon,
            "over": self.over,
            "did": self._did,
            "saw": self._saw,
            "reward": self._reward,
            "return": self._earned,
            "actions": [action_words(name, actions) for name in actions],
            "advice": [round(float(share), 4) for share in advice],
            "models": list(self.library.labels),
            "posterior": [round(float(share), 4) for share in posterior],
            "likely": [[name, round(share, 4)] for name, share in believed.likeliest(belief)],
            "truth": truth if reveal or self.over else None,
        }

    def _map(self) -> str:
        """The true state as a picture of letters, where the domain has one."""
        return "" if self._scene.stage is None else render_text(self._scene, self._state)
