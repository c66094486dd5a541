"""K models side by side: one for each (task, teammates) pair thought possible.

State spaces may differ: smaller ones are padded with states that no belief reaches. Actions and observations
must agree. Stacked models have a leading axis K on every array, for `jax.vmap(..., in_axes=0)`.

A library is also one POMDP whose hidden state is (model, state): `joint`. Who does not know the model stands before
that one, and its belief is p(k) b_k(x), one model after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax import Array

from jatpo import validate
from jatpo.errors import JatpoError
from jatpo.model import POMDP, Names
from jatpo.storage import BlockedObservation
from jatpo.validate import Coordinates


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True, repr=False, eq=False)
class Library:
    """Stacked models, which of their states are real, and the prior over models."""

    models: POMDP  # every array with a leading K
    state_mask: Array  # [K, X] bool
    prior: Array  # [K]
    names: tuple[Names, ...] = ()

    @classmethod
    def from_models(
        cls, models: Sequence[POMDP], prior: np.ndarray | Sequence[float] | None = None
    ) -> Library:
        """Stack `models`; the prior is uniform unless given."""
        models = list(models)
        if not models:
            raise JatpoError("a library needs at least one model")
        for k, model in enumerate(models[1:], 1):
            _same_interface(models[0], model, k)
        names = tuple(model.names for model in models)
        sizes = np.array([model.num_states for model in models])
        if len({model.storage for model in models}) > 1:
            models = [model.with_storage("blocked") for model in models]
        if models[0].storage == "blocked":
            models = _common_kinds(models)
        stacked = jax.tree.map(_stack, *models)
        uniform = np.full(len(models), 1 / len(models))
        weights = validate.distribution("prior", uniform if prior is None else np.asarray(prior), len(models))
        mask = jax.device_put(np.arange(sizes.max()) < sizes[:, None])
        return cls(stacked, mask, jax.device_put(weights.astype(stacked.reward.dtype)), names)

    @property
    def num_models(self) -> int:
        return self.state_mask.shape[0]

    @property
    def num_states(self) -> int:
        """The size of the largest state space."""
        return self.state_mask.shape[1]

    @property
    def num_actions(self) -> int:
        return self.models.num_actions

    @property
    def num_observations(self) -> int:
        return self.models.num_observations

    def model(self, k: int) -> POMDP:
        """Model k, padded as in the library."""
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[k]), self.models)

    def joint(self, prior: np.ndarray | Sequence[float] | None = None) -> POMDP:
        """The library as one model with the states (k, x): those of model 0 first, without padding.

        Nothing leads from one model to another, and the start is prior x starts (the library's own prior unless given).
        """
        weights = self.prior if prior is None else prior
        weights = validate.distribution("prior", np.asarray(weights, np.float64), self.num_models)
        discounts = np.asarray(self.models.discount)
        if np.any(discounts != discounts[0]):
            told = ", ".join(f"{discount:.6g}" for discount in discounts)
            raise JatpoError(f"the models have discounts {told}: a joint model needs one discount for all")
        place = _places(np.asarray(self.state_mask))
        parts = [self.model(k).to_sparse() for k in range(self.num_models)]
        real = np.asarray(self.state_mask)
        return POMDP.from_sparse(
            _concatenated([_moved(part.transition, place[k], (1, 2)) for k, part in enumerate(parts)]),
            _concatenated([_moved(part.observation, place[k], (1,)) for k, part in enumerate(parts)]),
            np.concatenate([part.reward[real[k]] for k, part in enumerate(parts)]),
            np.concatenate([part.initial[real[k]] * weights[k] for k, part in enumerate(parts)]),
            parts[0].discount,
            num_observations=self.num_observations,
            states=self._joint_states(),
            actions=self.names[0].actions if self.names else None,
            observations=self.names[0].observations if self.names else None,
            storage=self.models.storage,
            dtype=self.prior.dtype,
        )

    def join(self, posterior: np.ndarray | Array, beliefs: np.ndarray | Array) -> np.ndarray:
        """The belief of `joint` [sum of all states], from a posterior [K] and the models' beliefs [K, X]."""
        weighed = np.asarray(posterior)[:, None] * np.asarray(beliefs)
        return weighed[np.asarray(self.state_mask)]

    def split(self, belief: np.ndarray | Array) -> tuple[np.ndarray, np.ndarray]:
        """The posterior [K] and the models' beliefs [K, X] that `join` makes `belief` of; 0 for a model ruled out."""
        mask, belief = np.asarray(self.state_mask), np.asarray(belief)
        parts = np.zeros(mask.shape, belief.dtype)
        parts[mask] = belief
        posterior = parts.sum(axis=1)
        return posterior, parts / np.where(posterior > 0, posterior, 1)[:, None]

    def _joint_states(self) -> list[str] | None:
        """Names of the states of `joint`, if the models have any."""
        if not self.names or all(names.states is None for names in self.names):
            return None
        sizes = np.asarray(self.state_mask).sum(axis=1).tolist()
        own = (names.states or tuple(map(str, range(sizes[k]))) for k, names in enumerate(self.names))
        return [f"{k}: {state}" for k, states in enumerate(own) for state in states]

    def __repr__(self) -> str:
        return f"Library({self.num_models} models, {self.models!r})"

    def tree_flatten_with_keys(self) -> tuple:
        fields = ("models", "state_mask", "prior")
        return tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in fields), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Sequence) -> Library:
        del aux
        return cls(*children)


def _same_interface(first: POMDP, other: POMDP, k: int) -> None:
    """Refuse a model whose actions or observations differ from those of model 0."""
    for kind in ("actions", "observations"):
        ours, theirs = getattr(first, kind), getattr(other, kind)
        if len(ours) != len(theirs):
            raise JatpoError(
                f"model {k} has {len(theirs)} {kind} and model 0 has {len(ours)}: they must agree"
            )
        if getattr(first.names, kind) and getattr(other.names, kind) and ours != theirs:
            at = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
            raise JatpoError(
                f"{kind[:-1]} {at} is '{theirs[at]}' in model {k} and '{ours[at]}' in model 0: "
                f"give all models the same {kind} in the same order"
            )


def _places(mask: np.ndarray) -> np.ndarray:
    """The number of each model's state among the real states of all models [K, X]; -1 for padding."""
    place = np.full(mask.shape, -1)
    place[mask] = np.arange(mask.sum())
    return place


def _moved(coordinates: Coordinates, place: np.ndarray, columns: tuple[int, ...]) -> Coordinates:
    """`coordinates` (a, state, ...) of real states, with the states in `columns` renumbered."""
    real = place[coordinates[1]] >= 0
    moved = [part[real] for part in coordinates]
    for column in columns:
        moved[column] = place[moved[column]]
    return moved[0], moved[1], moved[2], moved[3]


def _concatenated(parts: Sequence[Coordinates]) -> Coordinates:
    """The coordinates of all `parts` in one."""
    a, first, second, p = (np.concatenate(column) for column in zip(*parts, strict=True))
    return a, first, second, p


def _common_kinds(models: list[POMDP]) -> list[POMDP]:
    """All observation classes with one row per action if some model needs it."""
    found = [model.observation for model in models]
    blocked = [observation for observation in found if isinstance(observation, BlockedObservation)]
    if len({len(observation.kind) for observation in blocked}) == 1:
        return models

    def widen(model: POMDP, observation: BlockedObservation) -> POMDP:
        times = model.num_actions // len(observation.kind)
        kind = jax.device_put(np.repeat(observation.kind, times, axis=0))
        return model.replace(observation=dataclasses.replace(observation, kind=kind))

    return [widen(*pair) for pair in zip(models, blocked, strict=True)]


def _stack(*leaves: Array) -> Array:
    """`leaves` padded with zeros to a common shape, along a new first axis."""
    shape = tuple(max(sizes) for sizes in zip(*(leaf.shape for leaf in leaves), strict=True))
    stacked = np.zeros((len(leaves), *shape), leaves[0].dtype)
    for k, leaf in enumerate(leaves):
        stacked[(k, *(slice(size) for size in leaf.shape))] = leaf
    return jax.device_put(stacked)
