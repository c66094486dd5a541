"""jatpo: ad hoc teamwork under partial observability, in JAX.

The names below are loaded on first use, so that `import jatpo` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from jatpo.errors import JatpoError
from jatpo.version import __version__

if TYPE_CHECKING:
    from jatpo.library import Library
    from jatpo.model import POMDP

_HOME = {"POMDP": "jatpo.model", "Library": "jatpo.library"}

__all__ = ["POMDP", "JatpoError", "Library", "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
