"""The POMDP: a frozen pytree over some storage of P and O, built and checked on the host.

Index order everywhere: P[a, x, y], O[a, y, z] (z is seen on arriving in y), R[x, a].
Names of states, actions and observations are for people. They are no part of the traced value: a model that
has passed through a JAX transformation has numbers for names, and two models that differ only in names share
one compiled program.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo import memory, validate
from jatpo import storage as storages
from jatpo.checked_model import UNNAMED, Names, Sparse, checked
from jatpo.disk import digest
from jatpo.errors import JatpoError
from jatpo.storage import Observation, Transition
from jatpo.storage.kernel_protocol import device_array, nonzeros, stack_padded


class Dense(NamedTuple):
    """A model as dense NumPy float64 arrays."""

    transition: np.ndarray  # [A, X, X]
    observation: np.ndarray  # [A, X, Z]
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float


EXACT_ENTRIES = 4_000_000  # of P or O up to which a model in float32 keeps its numbers in float64 too


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True, repr=False, eq=False)
class POMDP:
    """A partially observable Markov decision problem. Make one with `from_dense` or `from_sparse`."""

    transition: Transition
    observation: Observation
    reward: Array  # [X, A]
    initial: Array  # [X]
    discount: Array  # []
    names: Names = UNNAMED

    @classmethod
    def from_dense(
        cls,
        transition: np.ndarray,
        observation: np.ndarray,
        reward: np.ndarray,
        initial: np.ndarray,
        discount: float,
        *,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
        storage: str = "auto",
        dtype: np.dtype | type | None = None,
    ) -> POMDP:
        """A model from P[a, x, y], O[a, y, z], R[x, a], the initial belief and the discount.

        `storage` is the name of one (`jatpo.storage.names()`), or "auto" (from size and sparsity).
        """
        transition, observation = np.asarray(transition), np.asarray(observation)
        num_actions, num_states, num_observations = validate.dense_shapes(transition, observation)
        return cls.from_sparse(
            nonzeros(transition),
            nonzeros(observation),
            reward,
            initial,
            discount,
            num_states=num_states,
            num_actions=num_actions,
            num_observations=num_observations,
            states=states,
            actions=actions,
            observations=observations,
            storage=storage,
            dtype=dtype,
        )

    @classmethod
    def from_sparse(
        cls,
        transition: validate.Coordinates,
        observation: validate.Coordinates,
        reward: np.ndarray,
        initial: np.ndarray,
        discount: float,
        *,
        num_states: int | None = None,
        num_actions: int | None = None,
        num_observations: int | None = None,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
        storage: str = "auto",
        dtype: np.dtype | type | None = None,
    ) -> POMDP:
        """A model from coordinates (a, x, y, p) of P and (a, y, z, p) of O: flat arrays of equal length.

        Entries given twice add up. No dense [X, X] array is made unless the storage asks for it. Sizes that
        are not given come from the shape of `reward` and from the names or the largest observation.
        """
        found = checked(
            transition,
            observation,
            reward,
            initial,
            discount,
            num_states=num_states,
            num_actions=num_actions,
            num_observations=num_observations,
            names=(states, actions, observations),
        )
        return cls.from_checked(*found, storage, dtype)

    @classmethod
    def from_checked(
        cls,
        sparse: Sparse,
        num_observations: int,
        names: Names = UNNAMED,
        storage: str = "auto",
        dtype: np.dtype | type | None = None,
    ) -> POMDP:
        """A model from what was validated before: sorted coordinates, each entry once. Nothing is checked again."""
        num_states, num_actions = sparse.reward.shape
        sizes, dtype = (num_actions, num_states, num_observations), _precision(dtype)
        validate.representable(sparse.reward, dtype, names.states, names.actions)
        storage = storages.choose(storage, len(sparse.transition[0]), sizes)
        reward, initial, discount = (device_array(np.array(part), dtype) for part in sparse[2:])  # copies
        made = cls(*_stored(storage, sparse, sizes, dtype), reward, initial, discount, names)
        return made._with_exact(sparse)

    @classmethod
    def stack(cls, models: Sequence[POMDP]) -> POMDP:
        """`models` padded to a common shape, along a new first axis K; in blocked storage if theirs differ."""
        if len({model.storage for model in models}) > 1:
            models = [model.with_storage("blocked") for model in models]
        transition = type(models[0].transition).stack([model.transition for model in models])
        observation = type(models[0].observation).stack([model.observation for model in models])
        reward, initial, discount = (
            stack_padded(*(getattr(model, name) for model in models))
            for name in ("reward", "initial", "discount")
        )
        return cls(transition, observation, reward, initial, discount)

    @property
    def num_states(self) -> int:
        return self.transition.num_states

    @property
    def num_actions(self) -> int:
        return self.transition.num_actions

    @property
    def num_observations(self) -> int:
        return self.observation.num_observations

    @property
    def storage(self) -> str:
        """The name of the storage, such as "dense" or "blocked"."""
        return storages.name_of(self.transition)

    @property
    def dtype(self) -> np.dtype:
        return self.reward.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(self))

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the states, or their numbers."""
        return self.names.states or tuple(map(str, range(self.num_states)))

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions, or their numbers."""
        return self.names.actions or tuple(map(str, range(self.num_actions)))

    @property
    def observations(self) -> tuple[str, ...]:
        """Names of the observations, or their numbers."""
        return self.names.observations or tuple(map(str, range(self.num_observations)))

    def replace(self, **changes: object) -> POMDP:
        """This model with some fields changed; nothing is checked."""
        return dataclasses.replace(self, **changes)

    def _with_exact(self, sparse: Sparse | None) -> POMDP:
        """This model, knowing its numbers in float64 where its own precision does not hold them.

        They live on the host beside the fields: what passes through a transformation or `replace` has its own numbers.
        """
        if sparse is not None and np.dtype(self.dtype) != np.float64:
            sizes = len(sparse.transition[0]), len(sparse.observation[0])
            if max(sizes) <= EXACT_ENTRIES and not _holds(np.dtype(self.dtype), sparse):
                self.__dict__["_exact"] = _compact(sparse)
        return self

    def exact(self) -> Sparse:
        """The numbers that were given, before any rounding to the model's precision: what bounds are computed from.

        Beyond `EXACT_ENTRIES` entries, and after a transformation, those of the arrays.
        """
        exact = self.__dict__.get("_exact")
        return self.to_sparse() if exact is None else _copied(exact)

    def to_sparse(self) -> Sparse:
        """NumPy float64 copies, P and O as sorted coordinates."""
        return Sparse(
            self.transition.coordinates(),
            self.observation.coordinates(self.num_actions),
            np.array(self.reward, np.float64),
            np.array(self.initial, np.float64),
            float(self.discount),
        )

    def to_dense(self) -> Dense:
        """NumPy float64 copies, P and O dense."""
        sizes = (self.num_states, self.num_actions, self.num_observations)
        memory.require(memory.dense_bytes(*sizes, itemsize=8), "a dense copy of the model", "use to_sparse()")
        sparse = self.to_sparse()
        transition = np.zeros((sizes[1], sizes[0], sizes[0]))
        transition[sparse.transition[:3]] = sparse.transition[3]
        observation = np.zeros((sizes[1], sizes[0], sizes[2]))
        observation[sparse.observation[:3]] = sparse.observation[3]
        return Dense(transition, observation, *sparse[2:])

    def with_storage(self, storage: str) -> POMDP:
        """The same model in the storage of that name."""
        if storage == self.storage:
            return self
        sizes = (self.num_actions, self.num_states, self.num_observations)
        sparse = self.exact()
        transition, observation = _stored(storage, sparse, sizes, np.dtype(self.dtype))
        return self.replace(transition=transition, observation=observation)._with_exact(sparse)

    def content_hash(self) -> str:
        """A digest of every number of the model, computed once; names do not count.

        Neither does the storage, but beyond `EXACT_ENTRIES` rows of P, where coordinates would take more than the
        model, and the arrays are read as they are.
        """
        return self._content_hash

    @cached_property
    def _content_hash(self) -> str:
        if self.num_states * self.num_actions > EXACT_ENTRIES:
            return digest((self.storage, self.num_observations, *jax.tree.leaves(self)))
        return _digest(self.to_sparse(), self.num_observations)

    def exact_hash(self) -> str:
        """The digest of `exact`; that of the content where nothing was rounded."""
        return (
            _digest(self.exact(), self.num_observations) if "_exact" in self.__dict__ else self._content_hash
        )

    def __repr__(self) -> str:
        if not all(hasattr(leaf, "ndim") for leaf in (self.reward, *jax.tree.leaves(self))):
            parts = (self.transition, self.observation, self.reward, self.initial, self.discount)
            return f"POMDP{parts}"  # a tree of something else, such as shapes or axes
        lead = f"{self.reward.shape[0]} x " if self.reward.ndim == 3 else ""
        sizes = f"{self.num_states} states, {self.num_actions} actions, {self.num_observations} observations"
        size = memory.readable(self.nbytes)
        return f"POMDP({lead}{sizes}, {self.storage}, {np.dtype(self.dtype).name}, {size})"

    def tree_flatten_with_keys(self) -> tuple:
        fields = ("transition", "observation", "reward", "initial", "discount")
        return tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in fields), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Sequence) -> POMDP:
        del aux
        return cls(*children)


def _precision(dtype: np.dtype | type | None) -> np.dtype:
    """The floating type to store: what JAX takes for a double unless asked for."""
    if dtype is None:
        return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))
    dtype = np.dtype(dtype)
    if not np.issubdtype(dtype, np.floating):
        raise JatpoError(f"the dtype is {dtype}, expected float32 or float64")
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise JatpoError(f"the dtype is {dtype}, which JAX has switched off: set JAX_ENABLE_X64=1")
    return dtype


def _digest(sparse: Sparse, num_observations: int) -> str:
    parts = (*sparse.transition, *sparse.observation, sparse.reward, sparse.initial, sparse.discount)
    return digest((num_observations, *parts))


def _holds(dtype: np.dtype, sparse: Sparse) -> bool:
    """Whether `dtype` holds every number of `sparse`."""
    parts = (sparse.transition[3], sparse.observation[3], sparse.reward, sparse.initial, sparse.discount)
    return all(np.array_equal(np.asarray(part).astype(dtype), part) for part in parts)


def _compact(sparse: Sparse) -> Sparse:
    """A copy with indices of 32 bits."""
    return _with_indices(sparse, np.int32)


def _copied(sparse: Sparse) -> Sparse:
    """A copy with indices of 64 bits."""
    return _with_indices(sparse, np.int64)


def _with_indices(sparse: Sparse, dtype: type[np.signedinteger]) -> Sparse:
    def copied(part: validate.Coordinates) -> validate.Coordinates:
        first, second, third, values = part
        return first.astype(dtype), second.astype(dtype), third.astype(dtype), np.array(values)

    transition, observation = copied(sparse.transition), copied(sparse.observation)
    return Sparse(transition, observation, np.array(sparse.reward), np.array(sparse.initial), sparse.discount)


def _stored(
    storage: str, sparse: Sparse, sizes: tuple[int, int, int], dtype: np.dtype
) -> tuple[Transition, Observation]:
    transition, observation = storages.get(storage)
    return transition.build(sparse.transition, sizes, dtype), observation.build(
        sparse.observation, sizes, dtype
    )
