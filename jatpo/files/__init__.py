"""Models, policies and libraries in files: Cassandra's .POMDP and .alpha, APPL's .policy, TOML libraries.

    read_pomdp("tiger.POMDP")                  a POMDP
    read_policy("tiger.alpha", model)          a Policy
    load("mylib")                              a Library: a directory, a file, a domain or a model of it
    save(library, "mylib")                     a directory that `load` reads

The names below are loaded on first use, so that importing this package stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jatpo.files.directories import save
    from jatpo.files.policies import read_policy, write_policy
    from jatpo.files.pomdp_file import read_pomdp
    from jatpo.files.sources import load, load_tables
    from jatpo.files.writer import write_pomdp

_HOME = {
    "read_pomdp": "pomdp_file",
    "write_pomdp": "writer",
    "read_policy": "policies",
    "write_policy": "policies",
    "load": "sources",
    "load_tables": "sources",
    "save": "directories",
}

__all__ = ["load", "load_tables", "read_policy", "read_pomdp", "save", "write_policy", "write_pomdp"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.files' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.files.{_HOME[name]}"), name)
