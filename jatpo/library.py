"""K models side by side: one for each (task, teammates) pair thought possible, and where they come from.

State spaces may differ: smaller ones are padded with states that no belief reaches. Actions and observations
must agree. `models`, `state_mask` and `prior` are the traced part: every array of `models` has a leading axis K, for
`jax.vmap(..., in_axes=0)`. They are made on first use, so that reading a library costs no stacking. Everything else
stays on the host: a library that has passed through a JAX transformation has the three arrays only.

A library is also one POMDP whose hidden state is (model, state): `joint`. An agent that does not know the model faces
that one, and its belief is p(k) b_k(x), one model after the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array

from jatpo import validate
from jatpo.errors import JatpoError
from jatpo.interface import check_interface
from jatpo.joint import joint_model
from jatpo.model import POMDP, Names

HORIZON = 50  # steps of an episode, unless a library has its own
SHOWN = 6  # models in a repr
ARRAYS = ("models", "state_mask", "prior")


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: a file, a model of a domain, or neither (made in Python)."""

    file: str | None = None
    domain: str | None = None
    model: int | None = None
    rules: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """Settings of Perseus that came with a library; `noise` is a domain's, for the record."""

    beliefs: int = 1000
    tolerance: float = 0.01
    noise: float | None = None


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True, repr=False, eq=False)
class Library:
    """K models with the same actions and observations. Make one with `jatpo.load` or `from_models`."""

    members: tuple[POMDP, ...] = ()  # the models as they were read: named, without padding
    given_prior: np.ndarray | None = None  # [K] float64, as it was read
    name: str = "library"
    horizon: int = HORIZON
    labels: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    policies: tuple[Any, ...] = ()  # a Policy that came with the model, or None
    published: Published | None = None
    notes: tuple[str, ...] = ()  # what was corrected on reading

    simulated = False  # a SimulatorLibrary has True

    @classmethod
    def from_models(
        cls,
        models: Sequence[POMDP] | Library,
        prior: np.ndarray | Sequence[float] | None = None,
        *,
        name: str = "library",
        horizon: int = HORIZON,
        labels: Sequence[str] | None = None,
        origins: Sequence[Origin] | None = None,
        policies: Sequence[Any] | None = None,
        published: Published | None = None,
        notes: Sequence[str] = (),
    ) -> Library:
        """A library of `models`, checked for one interface; the prior is uniform unless given."""
        models = tuple(models)
        if not models:
            raise JatpoError(f"library '{name}' has no models: add at least one")
        count = len(models)
        labels = tuple(map(str, range(count))) if labels is None else tuple(labels)
        origins = (Origin(),) * count if origins is None else tuple(origins)
        policies = (None,) * count if policies is None else tuple(policies)
        for what, found in (("labels", labels), ("origins", origins), ("policies", policies)):
            if len(found) != count:
                raise JatpoError(
                    f"library '{name}' has {count} models and {len(found)} {what}: give one each"
                )
        for model, label in zip(models[1:], labels[1:], strict=True):
            check_interface(models[0], model, labels[0], label)
        weights = _distribution(name, prior, count)
        return cls(models, weights, name, horizon, labels, origins, policies, published, tuple(notes))

    @classmethod
    def from_arrays(cls, models: POMDP, state_mask: Array, prior: Array) -> Library:
        """A library of stacked arrays, which may be traced; nothing is checked, and nothing is known of the host."""
        made = cls()
        made.__dict__.update(models=models, state_mask=state_mask, prior=prior)
        return made

    @cached_property
    def models(self) -> POMDP:
        """The models stacked, padded to the largest state space: every array with a leading K."""
        with jax.ensure_compile_time_eval():  # first used within a transformation, it must not keep a tracer
            return POMDP.stack(self.members)

    @cached_property
    def state_mask(self) -> Array:
        """Which states are real, not padding [K, X] bool."""
        sizes = np.array([model.num_states for model in self.members])
        with jax.ensure_compile_time_eval():
            return jax.device_put(np.arange(sizes.max()) < sizes[:, None])

    @cached_property
    def prior(self) -> Array:
        """The prior over models [K]."""
        with jax.ensure_compile_time_eval():
            return jax.device_put(self.host_prior.astype(self.members[0].dtype))

    @property
    def host_prior(self) -> np.ndarray:
        """The prior over models [K] in NumPy float64, as it was read."""
        return np.asarray(self.prior, np.float64) if self.given_prior is None else self.given_prior

    @property
    def names(self) -> tuple[Names, ...]:
        """The names of the states, actions and observations of every model."""
        return tuple(model.names for model in self.members)

    @property
    def domain(self) -> str | None:
        """The domain that all models come from, or None."""
        domains = {origin.domain for origin in self.origins}
        return domains.pop() if len(domains) == 1 else None

    @property
    def rules(self) -> str | None:
        """The rule set of the models that come from domains; None if there are none."""
        return next((origin.rules for origin in self.origins if origin.rules), None)

    def member(self, k: int) -> POMDP:
        """Model k as it was read: named, without padding."""
        if not self.members:
            raise JatpoError(
                "this library has passed through a JAX transformation: use model(k), which is padded"
            )
        if not 0 <= k < len(self.members):
            raise JatpoError(
                f"library '{self.name}' has no model {k!r}: choose from 0 to {len(self.members) - 1}"
            )
        return self.members[k]

    def __iter__(self) -> Iterator[POMDP]:
        return iter(self.members)

    def __len__(self) -> int:
        return self.num_models

    def select(self, numbers: Sequence[int]) -> Library:
        """The library of some of the models, in that order, with their share of the prior."""
        parts = {"members": tuple(self.member(k) for k in numbers)}
        if not parts["members"]:
            raise JatpoError(f"no models of library '{self.name}' are selected: choose at least one")
        for part in ("labels", "origins", "policies"):
            parts[part] = tuple(getattr(self, part)[k] for k in numbers)
        weights = self.host_prior[list(numbers)]
        if not weights.sum() > 0:
            raise JatpoError(
                f"the models {list(numbers)} of library '{self.name}' have prior 0: choose others"
            )
        return dataclasses.replace(self, **parts, given_prior=weights / weights.sum())

    def with_member(
        self,
        model: POMDP,
        label: str,
        *,
        origin: Origin | None = None,
        policy: Any = None,
        prior: np.ndarray | Sequence[float] | None = None,
    ) -> Library:
        """The library with one more model as the last; the prior is uniform unless given."""
        check_interface(self.member(0), model, self.labels[0], label)
        return dataclasses.replace(
            self,
            members=(*self.members, model),
            labels=(*self.labels, label),
            origins=(*self.origins, origin or Origin()),
            policies=(*self.policies, policy),
            given_prior=_distribution(self.name, prior, len(self.members) + 1),
        )

    def with_model(
        self, k: int, model: POMDP, label: str | None = None, origin: Origin | None = None
    ) -> Library:
        """The library with `model` in the place of model k; a policy that came with the old one is dropped."""
        check_interface(self.member(0), model, self.labels[0], label or self.labels[k])

        def changed(parts: tuple, part: Any) -> tuple:
            return (*parts[:k], part, *parts[k + 1 :])

        return dataclasses.replace(
            self,
            members=changed(self.members, model),
            labels=changed(self.labels, label or self.labels[k]),
            origins=changed(self.origins, origin or Origin()),
            policies=changed(self.policies, None),
        )

    def with_prior(self, prior: np.ndarray | Sequence[float] | None) -> Library:
        """The library with another prior [K], which is checked; None is uniform."""
        weights = _distribution(self.name, prior, self.num_models)
        return self._changed(("models", "state_mask"), given_prior=weights)

    def with_policies(self, policies: Sequence[Any]) -> Library:
        """The library with a policy for each model, or None."""
        if len(policies) != self.num_models:
            raise JatpoError(
                f"there are {len(policies)} policies for {self.num_models} models: give one each"
            )
        return self._changed(ARRAYS, policies=tuple(policies))

    def with_labels(self, labels: Sequence[str]) -> Library:
        """The library with other labels, one for each model."""
        return self._changed(ARRAYS, labels=tuple(labels))

    def with_name(self, name: str) -> Library:
        """The library with another name."""
        return self._changed(ARRAYS, name=name)

    def with_notes(self, notes: Sequence[str]) -> Library:
        """The library with other notes."""
        return self._changed(ARRAYS, notes=tuple(notes))

    def replace(self, *, models: POMDP | None = None, prior: Array | None = None) -> Library:
        """The library with other arrays, which may be traced; nothing is checked."""
        made = self._changed(
            (),
            members=self.members if models is None else (),
            given_prior=self.given_prior if prior is None else None,
        )
        made.__dict__.update(
            models=self.models if models is None else models,
            state_mask=self.state_mask,
            prior=self.prior if prior is None else prior,
        )
        return made

    def _changed(self, arrays: Sequence[str], **fields: Any) -> Library:
        """The library with other fields; those of `arrays` that are made already stay."""
        made = dataclasses.replace(self, **fields)
        made.__dict__.update({name: self.__dict__[name] for name in arrays if name in self.__dict__})
        return made

    @property
    def num_models(self) -> int:
        return len(self.members) or self.state_mask.shape[0]

    @property
    def num_states(self) -> int:
        """The size of the largest state space."""
        return max((model.num_states for model in self.members), default=0) or self.state_mask.shape[1]

    @property
    def num_actions(self) -> int:
        return (self.members[0] if self.members else self.models).num_actions

    @property
    def num_observations(self) -> int:
        return (self.members[0] if self.members else self.models).num_observations

    def model(self, k: int) -> POMDP:
        """Model k, padded as in the library."""
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[k]), self.models)

    def joint(self, prior: np.ndarray | Sequence[float] | None = None) -> POMDP:
        """The library as one model with the states (k, x), for the library's own prior unless one is given."""
        weights = np.asarray(self.host_prior if prior is None else prior, np.float64)
        return joint_model(self.members, validate.distribution("prior", weights, self.num_models))

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

    def model_hashes(self) -> list[str]:
        """A short digest of every model, for records of what results depend on."""
        return [model.content_hash()[:16] for model in self.members]

    def __repr__(self) -> str:
        if not self.members:
            return f"Library({self.models!r})"
        sizes = f"{self.num_actions} actions, {self.num_observations} observations"
        lines = [f"Library '{self.name}': {self.num_models} models, {sizes}, horizon {self.horizon}"]
        for k, model in enumerate(self.members[:SHOWN]):
            lines.append(
                f"  {k}: {self.labels[k]}, {model.num_states} states, prior {self.host_prior[k]:.4g}"
            )
        if self.num_models > SHOWN:
            lines.append(f"  ... and {self.num_models - SHOWN} more")
        return "\n".join(lines)

    def tree_flatten_with_keys(self) -> tuple:
        return tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in ARRAYS), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Sequence) -> Library:
        del aux
        return cls.from_arrays(*children)


def _distribution(name: str, prior: np.ndarray | Sequence[float] | None, count: int) -> np.ndarray:
    """A checked prior [K] in float64, uniform if it is None."""
    weights = np.full(count, 1 / count) if prior is None else np.asarray(prior)
    return validate.distribution(f"the prior of {name}", weights, count)


def require_tables(library: Any) -> None:
    """Refuse a library of simulators."""
    if library.simulated:
        raise JatpoError(
            f"{library.name} is a library of simulators, and this needs tables; 'jatpo evaluate', 'jatpo watch' and "
            "'jatpo experiment simulators' run simulators"
        )
