"""The POMDP: a frozen pytree with dense or blocked storage, built and checked on the host.

Index order everywhere: P[a, x, y], O[a, y, z] (z is seen on arriving in y), R[x, a].
Names of states, actions and observations are for people. They are no part of the traced value: a model that
has passed through a JAX transformation has numbers for names, and two models that differ only in names share
one compiled program.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo import blocks, memory, validate
from jatpo.errors import JatpoError, unknown
from jatpo.storage import (
    BlockedObservation,
    BlockedTransition,
    DenseObservation,
    DenseTransition,
    Observation,
    Transition,
)

SMALL = 1 << 16  # a dense P of this many entries is kept dense whatever its sparsity


class Dense(NamedTuple):
    """A model as dense NumPy float64 arrays."""

    transition: np.ndarray  # [A, X, X]
    observation: np.ndarray  # [A, X, Z]
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float


class Sparse(NamedTuple):
    """A model with P and O as sorted coordinates, NumPy float64."""

    transition: validate.Coordinates  # a, x, y, p
    observation: validate.Coordinates  # a, y, z, p
    reward: np.ndarray  # [X, A]
    initial: np.ndarray  # [X]
    discount: float


class Names(NamedTuple):
    """Names for people; None stands for numbers."""

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    observations: tuple[str, ...] | None = None


UNNAMED = Names()


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

        `storage` is "dense", "blocked" or "auto" (from size and sparsity).
        """
        transition, observation = np.asarray(transition), np.asarray(observation)
        num_actions, num_states, num_observations = validate.dense_shapes(transition, observation)
        return cls.from_sparse(
            _nonzeros(transition),
            _nonzeros(observation),
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
        reward = np.asarray(reward)
        if reward.ndim != 2:
            raise JatpoError(f"reward has shape {reward.shape}, expected R[x, a]: one row per state")
        num_states = num_states if num_states is not None else int(reward.shape[0])
        num_actions = num_actions if num_actions is not None else int(reward.shape[1])
        if num_observations is None:
            largest = int(np.max(observation[2], initial=-1)) + 1
            num_observations = len(observations) if observations is not None else largest
        validate.counts(num_states, num_actions, num_observations)
        names = Names(
            validate.names_of("states", states, num_states),
            validate.names_of("actions", actions, num_actions),
            validate.names_of("observations", observations, num_observations),
        )
        sizes = (num_actions, num_states, num_states)
        dtype = _precision(dtype)
        sparse = Sparse(
            validate.rows("transition", transition, sizes, "xy", names.actions, names.states),
            validate.rows(
                "observation", observation, (*sizes[:2], num_observations), "yz", names.actions, names.states
            ),
            validate.reward(reward, num_states, num_actions, names.states, names.actions),
            validate.distribution("initial", initial, num_states, names.states),
            validate.discount(discount),
        )
        sizes = (num_actions, num_states, num_observations)
        storage = _choose(storage, len(sparse.transition[0]), sizes, dtype)
        pick = _dense_storage if storage == "dense" else _blocked_storage
        gains, start, gamma = (_array(np.array(part), dtype) for part in sparse[2:])  # copies of the caller's
        return cls(*pick(sparse, sizes, dtype), gains, start, gamma, names)

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
        """Either "dense" or "blocked"."""
        return "dense" if isinstance(self.transition, DenseTransition) else "blocked"

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

    def to_sparse(self) -> Sparse:
        """NumPy float64 copies, P and O as sorted coordinates."""
        return Sparse(
            _transition_coordinates(self.transition),
            _observation_coordinates(self),
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
        """The same model in "dense" or "blocked" storage."""
        if storage == self.storage:
            return self
        if storage not in ("dense", "blocked"):
            raise unknown("storage", storage, ("dense", "blocked"))
        sizes = (self.num_actions, self.num_states, self.num_observations)
        _choose(storage, 0, sizes, self.dtype)
        pick = _dense_storage if storage == "dense" else _blocked_storage
        transition, observation = pick(self.to_sparse(), sizes, self.dtype)
        return self.replace(transition=transition, observation=observation)

    def content_hash(self) -> str:
        """A digest of every number of the model; names and storage do not count."""
        digest = hashlib.sha256()
        sparse = self.to_sparse()
        parts = (*sparse.transition, *sparse.observation, sparse.reward, sparse.initial, sparse.discount)
        for part in (self.num_observations, *parts):
            digest.update(np.ascontiguousarray(part).tobytes())
            digest.update(repr(np.shape(part)).encode())
        return digest.hexdigest()

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


def _choose(storage: str, nonzeros: int, sizes: tuple[int, int, int], dtype: np.dtype) -> str:
    """The storage to use, for (A, X, Z) and the `nonzeros` of P; refuses a dense one that would not fit."""
    if storage not in ("auto", "dense", "blocked"):
        raise unknown("storage", storage, ("auto", "dense", "blocked"))
    num_actions, num_states, num_observations = sizes
    if storage == "auto":
        entries = num_actions * num_states * num_states
        full = entries <= SMALL or 4 * nonzeros > entries
        wide = num_actions * num_states * num_observations > max(16 * SMALL, 4 * entries)
        storage = "dense" if full and not wide else "blocked"
    if storage == "dense":
        counts = f"{num_states} states, {num_actions} actions and {num_observations} observations"
        size = memory.dense_bytes(num_states, num_actions, num_observations, dtype.itemsize)
        memory.require(size, f"dense storage of {counts}", "use storage='blocked'")
    return storage


def _dense_storage(
    sparse: Sparse, sizes: tuple[int, int, int], dtype: np.dtype
) -> tuple[Transition, Observation]:
    num_actions, num_states, num_observations = sizes
    transition = np.zeros((num_actions, num_states, num_states), dtype)
    transition[sparse.transition[:3]] = sparse.transition[3]
    observation = np.zeros((num_actions, num_states, num_observations), dtype)
    observation[sparse.observation[:3]] = sparse.observation[3]
    return DenseTransition(_array(transition, dtype)), DenseObservation(_array(observation, dtype))


def _blocked_storage(
    sparse: Sparse, sizes: tuple[int, int, int], dtype: np.dtype
) -> tuple[Transition, Observation]:
    transition = blocks.transition_blocks(sparse.transition, *sizes[:2])
    observation = blocks.observation_blocks(sparse.observation, *sizes[:2], dtype)
    return (
        BlockedTransition(**_arrays(transition, dtype)),
        BlockedObservation(**_arrays(observation, dtype), num_observations=sizes[2]),
    )


def _arrays(parts: dict[str, np.ndarray], dtype: np.dtype) -> dict[str, Array]:
    return {name: _array(part, dtype) for name, part in parts.items()}


def _array(part: np.ndarray, dtype: np.dtype) -> Array:
    """Indices as int32, numbers as `dtype`. Not by jnp.asarray, which compiles a program for each shape."""
    wanted = np.dtype(np.int32) if np.issubdtype(part.dtype, np.integer) else dtype
    return jax.device_put(part.astype(wanted, copy=False))


def _nonzeros(array: np.ndarray) -> validate.Coordinates:
    """The non-zero entries of an array with three axes."""
    first, second, third = np.nonzero(array)
    return first, second, third, array[first, second, third]


def _transition_coordinates(transition: Transition) -> validate.Coordinates:
    probability = np.asarray(transition.probability, np.float64)
    a, x, place, p = _nonzeros(probability)
    if isinstance(transition, DenseTransition):
        return a, x, place, p
    return a, x, np.asarray(transition.successor)[a, x, place].astype(np.int64), p


def _observation_coordinates(model: POMDP) -> validate.Coordinates:
    observation = model.observation
    probability = np.asarray(observation.probability, np.float64)
    if isinstance(observation, DenseObservation):
        return _nonzeros(probability)
    kind = np.broadcast_to(np.asarray(observation.kind), (model.num_actions, model.num_states))
    a, y, place, p = _nonzeros(probability[kind])  # of [A, X, L]
    return a, y, np.asarray(observation.symbol)[kind[a, y], place].astype(np.int64), p
