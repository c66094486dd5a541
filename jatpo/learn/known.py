"""What an agent has: models with their policies and a prior; how it grows by a model, and learns what to expect."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.evaluate.prepare import Prepared
from jatpo.evaluate.task import Task, make_task
from jatpo.learn import Histories, Prior, em, log_evidences
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import Policy
from jatpo.solve.policy import stack

_jit_evidences = jax.jit(log_evidences)


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


def known(prepared: Prepared, numbers: Sequence[int]) -> Known:
    """Some of the prepared models, with their policies."""
    solved: Policy = prepared.task.solved["policies"]
    models = tuple(prepared.models[k] for k in numbers)
    vectors, actions = np.asarray(solved.vectors), np.asarray(solved.actions)
    sizes = [model.num_states for model in models]
    cut = [(vectors[k, :, :size], actions[k]) for k, size in zip(numbers, sizes, strict=True)]
    policies = [Policy(*map(jnp.asarray, pair)) for pair in cut]
    return Known(models, tuple(policies))
