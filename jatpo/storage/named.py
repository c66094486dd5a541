"""Storages by name."""

from __future__ import annotations

import os

from jatpo.registry import Registry
from jatpo.storage.blocked import BlockedObservation, BlockedTransition, SuccessorLists
from jatpo.storage.dense import DenseObservation, DenseTransition
from jatpo.storage.kernel_protocol import Observation, Sizes, Transition

SMALL = 1 << 16  # a dense P of this many entries is kept dense whatever its sparsity
LISTED = 1 << 17  # states from which on predecessor lists would take more room than they save time
VARIABLE = "JATPO_STORAGE"

Storage = tuple[type[Transition], type[Observation]]

_storages: Registry[Storage] = Registry("storage")


def register(name: str, transition: type[Transition], observation: type[Observation]) -> None:
    """Make a storage available by `name`, in `POMDP.from_sparse(storage=name)` and to JATPO_STORAGE.

    In a file that JATPO_EXTENSIONS names, it is there in every command.
    """
    _storages.add(name, (transition, observation))


register("dense", DenseTransition, DenseObservation)
register("blocked", BlockedTransition, BlockedObservation)
register("successors", SuccessorLists, BlockedObservation)
_storages.protect()


def names() -> tuple[str, ...]:
    """The names of all storages, those of users' files included."""
    return _storages.names()


def get(name: str) -> Storage:
    """The storage of that name."""
    return _storages.get(name)


def name_of(transition: Transition) -> str:
    """The name of the storage that `transition` belongs to."""
    found = [name for name in names() if get(name)[0] is type(transition)]
    return found[0] if found else type(transition).__name__


def choose(name: str, nonzeros: int, sizes: Sizes) -> str:
    """The storage to use for (A, X, Z) and the `nonzeros` of P: `name`, or for "auto" what JATPO_STORAGE names,
    and otherwise dense, blocked or successors by size and sparsity."""
    if name == "auto":
        name = os.environ.get(VARIABLE) or "auto"
    if name != "auto":
        get(name)
        return name
    num_actions, num_states, num_observations = sizes
    entries = num_actions * num_states * num_states
    full = entries <= SMALL or 4 * nonzeros > entries
    wide = num_actions * num_states * num_observations > max(16 * SMALL, 4 * entries)
    if num_states >= LISTED:
        return "successors"
    return "dense" if full and not wide else "blocked"
