"""Ten thousand models through an engine: the memory of the client does not grow with what is under way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
MODELS = 10_000
MOST = 1_000_000_000  # bytes of the client
SCRIPT = """
import json, resource, sys
import jax, numpy as np
from jatpo import cluster
from jatpo.solve import Perseus, Stop, solve_models
from random_models import build, plain

if __name__ == "__main__":
    random = np.random.default_rng(0)
    models = [build(plain(random, states=4, actions=2, observations=3)) for _ in range(int(sys.argv[1]))]
    with cluster.local_workers(2) as engine:
        found = solve_models(models, Perseus(beliefs=8), Stop(stages=5), key=jax.random.key(0), engine=engine)
        computed = engine.figures()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"solved": len({each.key for each in found}), "peak": peak, **computed}))
"""


def test_ten_thousand_models_are_solved_below_a_gigabyte(tmp_path):
    (tmp_path / "many.py").write_text(SCRIPT)
    helpers = str(Path(__file__).parent.parent / "helpers")
    command = [sys.executable, str(tmp_path / "many.py"), str(MODELS)]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": helpers}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["solved"] == MODELS
    assert "failures" not in found
    assert found["peak"] < MOST
