"""A model made ready to be solved: padded to the library's shape, with its scoring plan and an upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import numpy as np
from jax import Array

from jatpo.checked_model import reachable_states, restricted
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import bounds
from jatpo.solve.alpha_vectors import AlphaVectors
from jatpo.solve.backup import Plan, RevealingPlan, Vectors
from jatpo.solve.compiling import jit
from jatpo.solve.first_bounds import FirstBounds, first_bounds, rounding_of
from jatpo.solve.policy import Policy
from jatpo.solve.scoring import make_plans, reveals
from jatpo.solve.small import InNumPy, shrink

jit_qmdp = jit(bounds.qmdp)
jit_informed = jit(bounds.informed)

BATCH = 16  # beliefs backed up at once; larger batches are hardly cheaper per belief


@dataclass(frozen=True)
class Problem:
    """A model made ready for backups: its reachable states, padded to the shape of its library."""

    model: POMDP
    part: POMDP  # the same without padding, which knows its numbers in float64
    plan: Plan
    reveals: bool  # every observation reveals the state; the plan may be a general one for the others' sake
    reachable: np.ndarray  # [X'], the states of the original model that `model` has
    num_states: int  # of the original model
    floor: float  # a lower bound on its values

    @cached_property
    def small(self) -> InNumPy | None:
        """Perseus in NumPy, if the model is small; that does not depend on the library around it."""
        found = shrink(self.model, len(self.reachable))
        return None if found is None else InNumPy(found)

    @cached_property
    def upper_vectors(self) -> Array:
        """Upper bounds as vectors [A, X]: the fast informed bound, or q* where observations reveal the state."""
        start = jit_qmdp(self.model)
        return start if self.reveals else jit_informed(self.model, start)

    @cached_property
    def first(self) -> FirstBounds:
        """Sound bounds at the initial belief, in float64."""
        return first_bounds(self.part)

    @property
    def upper(self) -> float:
        """An upper bound on the optimum at the initial belief."""
        return self.first.upper

    @cached_property
    def rounding(self) -> float:
        """What is to be taken off a value that was computed in the precision of the model."""
        magnitude = max(self.first.magnitude, abs(self.floor))
        return rounding_of(self.part, magnitude, at_once=self.small is not None)

    def attained(self, value: float) -> float:
        """What a policy attains whose vectors give `value` in the precision of the model: less its rounding."""
        return value - self.rounding

    def here(self) -> Problem:
        """The same problem with its arrays on the default device."""
        model, plan = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)), (self.model, self.plan))
        return replace(self, model=model, plan=plan)

    def policy(self, vectors: Vectors) -> Policy:
        """The vectors in use, over all states of the original model."""
        count = int(vectors.count)
        alpha, action = (np.asarray(part)[:count] for part in vectors[:2])
        return Policy(*jax.device_put((self.expand(alpha), action)))

    def policy_of(self, found: AlphaVectors) -> Policy:
        """The scored vectors of a search, over all states of the original model."""
        values = self.expand(found.values.all.astype(self.model.dtype))
        return Policy(*jax.device_put((values, found.action.all.astype(np.int32))))

    def expand(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors over all states of the original model; what is never reached gets the floor."""
        full = np.full((len(vectors), self.num_states), self.floor, vectors.dtype)
        full[:, self.reachable] = vectors[:, : len(self.reachable)]
        return full


def prepare(models: Sequence[POMDP], every_state: bool = False, planned: bool = True) -> list[Problem]:
    """All models with arrays of one shape, so that they share compiled programs.

    States that cannot be reached are left out unless `every_state` is wanted; without a plan for backups none of ours
    can be made.
    """
    states = [
        np.arange(model.num_states) if every_state else reachable_states(model.exact()) for model in models
    ]
    parts = [restrict(model, keep) for model, keep in zip(models, states, strict=True)]
    library = Library.from_models(parts)
    padded = [library.model(k) for k in range(len(models))]
    plans = make_plans(padded) if planned else [RevealingPlan() for _ in padded]
    revealing = [planned and reveals(part) for part in parts]
    return [
        Problem(padded[k], parts[k], plans[k], revealing[k], states[k], model.num_states, floor_of(model))
        for k, model in enumerate(models)
    ]


def restrict(model: POMDP, states: np.ndarray) -> POMDP:
    """`model` with only `states`, a set that no transition leaves."""
    if len(states) == model.num_states:
        return model
    return POMDP.from_sparse(
        *restricted(model.exact(), states),
        num_observations=model.num_observations,
        storage=model.storage,
        dtype=model.dtype,
    )


def floor_of(model: POMDP) -> float:
    """R_min / (1 - γ), a lower bound on every value."""
    return float(np.asarray(model.reward).min() / (1 - float(model.discount)))


def key_words(key: Array) -> np.ndarray:
    """The integers of a random key; read once for a solve, since reading takes as long as a stage of a small model."""
    return np.asarray(jax.random.key_data(key)).ravel()


def generator(words: np.ndarray, number: int) -> np.random.Generator:
    """The host's random numbers of round `number`: they need no compiling and are the same on every backend."""
    return np.random.default_rng([*words.tolist(), number])
