"""Storages of P and O behind one protocol, by name: "dense", "blocked" and those that users register."""

from jatpo.storage.blocked import BlockedObservation, BlockedTransition, SuccessorLists
from jatpo.storage.dense import DenseObservation, DenseTransition
from jatpo.storage.kernel_protocol import Observation, Transition, pick, select
from jatpo.storage.named import choose, get, name_of, names, register

__all__ = [
    "BlockedObservation",
    "BlockedTransition",
    "DenseObservation",
    "DenseTransition",
    "Observation",
    "SuccessorLists",
    "Transition",
    "choose",
    "get",
    "name_of",
    "names",
    "pick",
    "register",
    "select",
]
