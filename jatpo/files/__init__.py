"""Models, policies and libraries in files: Cassandra's .POMDP and .alpha, APPL's .policy, TOML libraries.

    read_pomdp("tiger.POMDP")                  a POMDP
    read_policy("tiger.alpha", model)          a Policy
    load_library("mylib")                      the models of a directory or TOML file
    resolve("gridworld:0")                     any of these, or a domain, by name

The names below are loaded on first use, so that importing this package stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jatpo.files.policies import read_policy, write_policy
    from jatpo.files.reader import read_pomdp
    from jatpo.files.sources import UserLibrary, load_library, resolve
    from jatpo.files.writer import write_pomdp

_HOME = {
    "read_pomdp": "reader",
    "write_pomdp": "writer",
    "read_policy": "policies",
    "write_policy": "policies",
    "UserLibrary": "sources",
    "load_library": "sources",
    "resolve": "sources",
}

__all__ = [
    "UserLibrary",
    "load_library",
    "read_policy",
    "read_pomdp",
    "resolve",
    "write_policy",
    "write_pomdp",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.files' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.files.{_HOME[name]}"), name)
