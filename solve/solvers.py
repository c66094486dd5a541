"""The solvers that commands know by name.

A solver of your own: a frozen dataclass that inherits from `jatpo.solve.Solver`, and `SOLVERS.add("mine", Mine)` in a
file that JATPO_EXTENSIONS names.
"""

from __future__ import annotations

from jatpo.registry import Registry
from jatpo.solve.anytime import Anytime
from jatpo.solve.base import Solver
from jatpo.solve.graph import GraphSearch
from jatpo.solve.perseus import Perseus
from jatpo.solve.qmdp import QMDP, ValueIteration
from jatpo.solve.sparse import Sparse

SOLVERS: Registry[type[Solver]] = Registry("solver")
for _solver in (Anytime, GraphSearch, Perseus, QMDP, Sparse, ValueIteration):
    SOLVERS.add(_solver.name, _solver)
SOLVERS.protect()
