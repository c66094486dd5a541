"""Models that share one support: the same lists of successors and observations with other probabilities.

Learning moves probabilities and leaves the lists alone. `align` puts several kernels on the union of their
supports, on the host; `with_probabilities` gives a model new numbers, also under jit; `finished` makes a checked
model of what came out, without the entries that have become 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jax import Array

from jatpo.model import POMDP, Names
from jatpo.storage import BlockedObservation, BlockedTransition
from jatpo.storage import lists as listing
from jatpo.storage.kernel_protocol import device_array
from jatpo.validate import Coordinates

if TYPE_CHECKING:
    from jatpo.model import Sparse

DIGITS = 12  # decimals to which rows of O are compared


class Aligned(NamedTuple):
    """J kernels on one support: the storage that holds their mean, and the entries of each."""

    storage: BlockedTransition | BlockedObservation
    entries: np.ndarray  # [J, A, X, S] of P, [J, C, L] of O


def with_probabilities(
    model: POMDP, transition: Array | None = None, observation: Array | None = None
) -> POMDP:
    """`model` with new entries of P ([A, X, S], or [A, X, X] if dense) and of O ([C, L], or [A, X, Z]).

    They stand where those of the model stand: the model, all of whose listed entries are positive, says what
    is possible, and its zeros stay zeros.
    """
    if transition is not None:
        model = model.replace(transition=model.transition.with_probability(transition))
    if observation is not None:
        model = model.replace(observation=model.observation.with_probability(observation))
    return model


def align_transitions(kernels: Sequence[Coordinates], num_actions: int, num_states: int) -> Aligned:
    """Kernels (a, x, y, p) on the union of their supports."""
    (row, y), values = _union(kernels, num_states, num_states)
    a, x = np.divmod(row, num_states)
    sizes, mean = (num_actions, num_states, 1), (a, x, y, values.mean(axis=0))
    shape = (num_actions, num_states, -1)
    lists = [listing.padded_lists(row, y, p, num_actions * num_states)[1].reshape(shape) for p in values]
    return Aligned(BlockedTransition.build(mean, sizes, _precision()), np.stack(lists))


def align_observations(
    kernels: Sequence[Coordinates], num_actions: int, num_states: int, size: int
) -> Aligned:
    """Kernels (a, y, z, p) on the union of their supports; states whose rows agree in all kernels share one."""
    (row, z), values = _union(kernels, num_states, size)
    number = num_actions * num_states
    symbol = listing.padded_lists(row, z, values[0], number)[0]
    lists = np.stack([listing.padded_lists(row, z, p, number)[1] for p in values], axis=1)  # [A·X, J, L]
    rows = np.round(np.concatenate([symbol[:, None], lists], axis=1).reshape(number, -1), DIGITS) + 0.0
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    kind = kind.reshape(num_actions, num_states)
    if (kind == kind[0]).all():
        kind = kind[:1]
    entries = lists[first].swapaxes(0, 1)  # [J, C, L]
    parts = {"kind": kind, "symbol": symbol[first], "probability": entries.mean(axis=0)}
    parts = {name: device_array(part, _precision()) for name, part in parts.items()}
    return Aligned(BlockedObservation(**parts, num_symbols=size), entries)


def _union(kernels: Sequence[Coordinates], num_rows: int, num_columns: int) -> tuple:
    """(row a·X + x, column) of every entry that some kernel has, sorted, and the values [J, entries]."""
    keys = [(a.astype(np.int64) * num_rows + x) * num_columns + y for a, x, y, _ in kernels]
    every = np.unique(np.concatenate(keys))
    values = np.zeros((len(kernels), len(every)))
    for at, (own, kernel) in enumerate(zip(keys, kernels, strict=True)):
        values[at, np.searchsorted(every, own)] = kernel[3]
    return np.divmod(every, num_columns), values


def _precision() -> np.dtype:
    """The floating type that JAX takes for a double."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def finished(model: POMDP, names: Names, num_states: int | None = None) -> POMDP:
    """A checked model with names from learned arrays, without padding states; rows are normalised in doubles."""
    sparse: Sparse = model.to_sparse()
    count = num_states or model.num_states
    sizes = (model.num_actions, model.num_states)
    return POMDP.from_sparse(
        _normalised(sparse.transition, sizes, count),
        _normalised(sparse.observation, sizes, count),
        sparse.reward[:count],
        sparse.initial[:count] / sparse.initial.sum(),
        float(np.float32(sparse.discount)) if model.dtype == np.float32 else sparse.discount,
        num_states=count,
        num_observations=model.num_observations,
        states=names.states,
        actions=names.actions,
        observations=names.observations,
    )


def _normalised(coordinates: Coordinates, sizes: tuple[int, int], count: int) -> Coordinates:
    """The rows of the first `count` states, each with sum 1."""
    a, x, y, p = (part[coordinates[1] < count] for part in coordinates)
    row = a * sizes[1] + x
    total = np.bincount(row, weights=p, minlength=sizes[0] * sizes[1])
    return a, x, y, p / total[row]
