"""What must work where jatpo has been installed from a wheel or an sdist: a library, a solver, ATPO, its data files."""

import jax

import jatpo
from jatpo.evaluate import published
from jatpo.report import replay

library = jatpo.load("abandoned-power-plant")
solved = jatpo.solve_library(library, key=jax.random.key(0), stop=jatpo.Stop(stages=1))
player = jatpo.agent("atpo", solved)
player.observe(player.act(), "0")
assert abs(float(player.posterior.sum()) - 1) < 1e-5
assert published.result("ntu", "atpo") is not None and all(replay.assets())
print(f"ATPO acts with jatpo {jatpo.__version__}")
