"""Storages of P and O behind one protocol, by name: "dense", "blocked" and those that users register.

Worlds of two movers have a P of their own kind (`movers`), which is made of what each of them does.
"""

from jatpo.storage.blocked import BlockedObservation, BlockedTransition, SuccessorLists
from jatpo.storage.dense import DenseObservation, DenseTransition
from jatpo.storage.kernel_protocol import Observation, Transition, pick, select
from jatpo.storage.named import choose, get, name_of, names, register
from jatpo.storage.two_movers import MoversTransition

__all__ = [
    "BlockedObservation",
    "BlockedTransition",
    "DenseObservation",
    "DenseTransition",
    "MoversTransition",
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
