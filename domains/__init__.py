"""The eleven domains of the paper under two rule sets, and a registry for others.

make("gridworld", model=2)                     a POMDP
library("ntu", rules="as_written", pool=True)  a Library of all of a domain's models
get("mit").structure(0).mmdp                   the two-agent process behind a model

Descriptions are NumPy only; the names of `pomdps`, which import jax, are loaded on first use.
"""

import importlib
from typing import TYPE_CHECKING

from jatpo.domains.domain import DOMAINS, Domain, describe, get, known, load, names, register  # isort: skip
from jatpo.domains import gridworld, pursuit, power_plant, mazes, overcooked, rocksample  # noqa: F401  # isort: skip
from jatpo.domains.description import Description, every_action
from jatpo.domains.mmdp import MMDP
from jatpo.domains.parameters import parse
from jatpo.domains.picture import draw, render
from jatpo.domains.places import Place, Stage
from jatpo.domains.scene import Scene, scene, scene_of
from jatpo.domains.structure import World
from jatpo.domains.text import render_text

if TYPE_CHECKING:
    from jatpo.domains.pomdps import library, make, to_pomdp, with_overrides

DOMAINS.protect()
_WITH_JAX = ("library", "make", "to_pomdp", "with_overrides")

__all__ = [
    "DOMAINS",
    "MMDP",
    "Description",
    "Domain",
    "Place",
    "Scene",
    "Stage",
    "World",
    "describe",
    "draw",
    "every_action",
    "get",
    "known",
    "library",
    "load",
    "make",
    "names",
    "parse",
    "register",
    "render",
    "render_text",
    "scene",
    "scene_of",
    "to_pomdp",
    "with_overrides",
]


def __getattr__(name: str) -> object:
    if name not in _WITH_JAX:
        raise AttributeError(f"module 'jatpo.domains' has no attribute '{name}'")
    return getattr(importlib.import_module("jatpo.domains.pomdps"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WITH_JAX})
