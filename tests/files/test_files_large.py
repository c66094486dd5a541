"""A file of a hundred megabytes: seconds, and memory that goes with its non-zeros."""

import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import resource, sys, time
import jax.numpy as jnp
from jatpo.files import read_pomdp
jnp.zeros(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
model = read_pomdp(sys.argv[1])
seconds = time.process_time() - start
print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, model.num_states)
"""
STATES, ACTIONS, SUCCESSORS = 55_000, 6, 8


@pytest.mark.slow
def test_a_large_file(tmp_path):
    path = tmp_path / "large.POMDP"
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write(f"discount: 0.95\nvalues: reward\nstates: {STATES}\nactions: {ACTIONS}\nobservations: 9\n")
        for a in range(ACTIONS):
            ends = (
                np.arange(STATES)[:, None] + np.cumsum(rng.integers(1, 60, (STATES, SUCCESSORS)), axis=1)
            ) % STATES
            p = rng.dirichlet(np.ones(SUCCESSORS), STATES)
            for x, (row, weights) in enumerate(zip(ends.tolist(), p.tolist(), strict=True)):
                file.writelines(f"T: {a} : {x} : {y} {w:.9f}\n" for y, w in zip(row, weights, strict=True))
            file.writelines(f"O: {a} : {x} : {x % 9} 1\n" for x in range(STATES))
        file.write("R: * : * : * : * -1\n")
    megabytes = path.stat().st_size / 1e6
    assert megabytes > 80
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=True
    )
    seconds, grown, states = map(float, result.stdout.split())
    assert states == STATES
    assert seconds < 30
    entries = STATES * ACTIONS * (SUCCESSORS + 1)
    assert grown < 400 * entries
