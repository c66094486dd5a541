"""A model made ready to be solved: padded to the library's shape, with its scoring plan and an upper bound."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import bounds
from jatpo.solve.backup import fill, jit_backup
from jatpo.solve.compiling import in_background, jit
from jatpo.solve.plan import Plan, make_plans, reveals
from jatpo.solve.small import Small, shrink

jit_qmdp = jit(bounds.qmdp)
jit_informed = jit(bounds.informed)

BATCH = 16  # beliefs backed up at once; larger batches are hardly cheaper, and less of each is of use


@dataclass(frozen=True)
class Problem:
    """A model made ready for backups: its reachable states, padded to the shape of its library."""

    model: POMDP
    plan: Plan
    reveals: bool  # every observation betrays the state, whatever the plan says for the sake of others
    reachable: np.ndarray  # [X'], the states of the original model that `model` has
    num_states: int  # of the original model
    floor: float  # below every value of it
    model_hash: str

    @cached_property
    def small(self) -> Small | None:
        """The model for Perseus in NumPy, if it is small; that does not depend on the library around it."""
        return shrink(self.model, len(self.reachable))

    def expand(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors over all states of the original model; what is never reached gets the floor."""
        full = np.full((len(vectors), self.num_states), self.floor, vectors.dtype)
        full[:, self.reachable] = vectors[:, : len(self.reachable)]
        return full


def prepare(models: Sequence[POMDP], whole: bool = False) -> list[Problem]:
    """All models with arrays of one shape, so that they share compiled programs.

    States that cannot be reached are left out unless the `whole` model is wanted.
    """
    for k, model in enumerate(models):
        if float(model.discount) >= 1:
            raise JatpoError(f"model {k} has discount 1: an infinite horizon needs a discount below 1")
    states = [np.arange(model.num_states) if whole else reachable_states(model) for model in models]
    parts = [restrict(model, keep) for model, keep in zip(models, states, strict=True)]
    library = Library.from_models(parts)
    padded = [library.model(k) for k in range(len(models))]
    plans = make_plans(padded)
    return [
        Problem(
            padded[k],
            plans[k],
            reveals(parts[k]),
            states[k],
            model.num_states,
            floor_of(model),
            model.content_hash(),
        )
        for k, model in enumerate(models)
    ]


def reachable_states(model: POMDP) -> np.ndarray:
    """The states that can follow the initial belief under some actions: their numbers in order."""
    sparse = model.to_sparse()
    _, x, y, _ = sparse.transition
    reached = sparse.initial > 0
    count = 0
    while count != (count := int(reached.sum())):
        reached[y[reached[x]]] = True
    return np.flatnonzero(reached)


def restrict(model: POMDP, states: np.ndarray) -> POMDP:
    """`model` with only `states`, a set that no transition leaves."""
    if len(states) == model.num_states:
        return model
    sparse = model.to_sparse()
    place = np.full(model.num_states, -1)
    place[states] = np.arange(len(states))
    a, x, y, p = (part[place[sparse.transition[1]] >= 0] for part in sparse.transition)
    oa, oy, oz, op = (part[place[sparse.observation[1]] >= 0] for part in sparse.observation)
    return POMDP.from_sparse(
        (a, place[x], place[y], p),
        (oa, place[oy], oz, op),
        sparse.reward[states],
        sparse.initial[states],
        sparse.discount,
        num_observations=model.num_observations,
        storage=model.storage,
        dtype=model.dtype,
    )


def floor_of(model: POMDP) -> float:
    """R_min / (1 - γ), below every value."""
    return float(np.asarray(model.reward).min() / (1 - float(model.discount)))


def upper_vectors(problem: Problem) -> Array:
    """Vectors [A, X] above the optimum: the fast informed bound, or q* where observations betray the state."""
    start = jit_qmdp(problem.model)
    if problem.reveals:
        return start
    return jit_informed(problem.model, start)


def warm_up(problem: Problem) -> threading.Thread:
    """Compile the backup of a batch in a thread of its own, by running it on blank input."""
    model = problem.model
    vectors = fill(np.zeros((1, 1), model.dtype), np.zeros(1), model.num_states)
    beliefs = np.zeros((model.num_states, BATCH), model.dtype)
    return in_background(lambda: jit_backup(model, problem.plan, beliefs, vectors))


def upper_bound(problem: Problem, upper: Array) -> float:
    """An upper bound on the optimum at the initial belief: two steps of look-ahead on the vectors `upper`.

    A backup is linear in the size of its belief, so the beliefs after one step need no normalising.
    """
    model = problem.model
    initial, above = np.asarray(model.initial), np.asarray(upper)
    value = float(np.max(above.dot(initial)))
    if problem.reveals:
        return value
    vectors = fill(above, np.arange(model.num_actions), model.num_states)
    after = _after_one_step(model)  # [X, A Z]
    padded = np.pad(after, ((0, 0), (0, -after.shape[1] % BATCH)))
    chunks = np.split(padded, padded.shape[1] // BATCH, axis=1)
    values = np.concatenate([jit_backup(model, problem.plan, chunk, vectors)[2] for chunk in chunks])
    after_each = values[: after.shape[1]].reshape(model.num_actions, -1).sum(axis=1)
    q = np.asarray(model.reward).T.dot(initial) + float(model.discount) * after_each
    return min(value, float(np.max(q)))


def _after_one_step(model: POMDP) -> np.ndarray:
    """sum_x b(x) P(y | x, a) O(z | y, a) from the initial belief [X, A Z]; runs on the host."""
    sparse = model.to_sparse()
    a, x, y, p = sparse.transition
    shape = (model.num_actions, model.num_states)
    predicted = np.bincount(a * shape[1] + y, weights=sparse.initial[x] * p, minlength=shape[0] * shape[1])
    a, y, z, p = sparse.observation
    after = np.zeros((shape[1], shape[0] * model.num_observations), model.dtype)
    after[y, a * model.num_observations + z] = predicted.reshape(shape)[a, y] * p
    return after


def words(key: Array) -> list[int]:
    """What a random key is made of; to be asked once, since asking takes as long as a stage of a small model."""
    return np.asarray(jax.random.key_data(key)).ravel().tolist()


def generator(key: Array | list[int], number: int) -> np.random.Generator:
    """The host's random numbers of round `number`: they need no compiling and stay the same on every backend.

    The key may be given as its words.
    """
    own = words(key) if isinstance(key, Array) else key
    return np.random.default_rng([*own, number])
