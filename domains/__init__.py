"""The eleven domains of the paper under two rule sets, and a registry for others. NumPy only until `make`.

make("gridworld", model=2)                     a POMDP
library("ntu", rules="as_written", pool=True)  all of a domain's POMDPs
get("mit").structure(0).mmdp                   the two-agent process behind a model
"""

from jatpo.domains.registry import Domain, get, load, names, register  # isort: skip
from jatpo.domains import gridworld, pursuit, power_plant, mazes, overcooked  # noqa: F401  # isort: skip
from jatpo.domains.build import describe, library, make
from jatpo.domains.description import Description, every_action
from jatpo.domains.mmdp import MMDP
from jatpo.domains.picture import draw, render
from jatpo.domains.scene import Scene, scene
from jatpo.domains.stage import Place, Stage
from jatpo.domains.text import render_text
from jatpo.domains.world import World

__all__ = [
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
    "library",
    "load",
    "make",
    "names",
    "register",
    "render",
    "render_text",
    "scene",
]
