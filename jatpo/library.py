"""K models side by side: one for each (task, teammates) pair thought possible.

State spaces may differ: smaller ones are padded with states that no belief reaches. Actions and observations
must agree. Stacked models have a leading axis K on every array, for `jax.vmap(..., in_axes=0)`.
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
