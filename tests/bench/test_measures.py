"""What the benchmarks are made of: random models, the reference in NumPy, clocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.bench import core_updates, kernel_costs, solver_times, stopwatch
from jatpo.model import POMDP
from jatpo.solve.backup import fill, jit_backup
from jatpo.solve.scoring import make_plan


def test_the_random_model():
    parts = core_updates.random_model(200, 3, 7, seed=1)
    model = POMDP.from_sparse(*parts, num_observations=core_updates.OBSERVATIONS, storage="blocked")
    assert model.transition.successor.shape == (3, 200, 7)
    assert (np.asarray(model.transition.probability) > 0).all()  # seven different successors, none merged
    assert model.observation.kind.shape == (1, 200)
    other = core_updates.random_model(200, 3, 7, seed=2)
    assert not np.array_equal(parts[0][2], other[0][2])


def test_the_first_call_and_the_fastest_of_the_others():
    ticks = iter([0.0, 5.0, 10.0, 13.0, 20.0, 21.0])
    calls = []
    seconds = stopwatch.time_calls(lambda: calls.append(1), repeats=2, clock=lambda: next(ticks))
    assert seconds == (5.0, 1.0) and len(calls) == 3


def test_the_reference_computes_the_same_backups():
    model = solver_times.synthetic(60)
    random = np.random.default_rng(0)
    beliefs = random.dirichlet(np.ones(60), 4)
    vectors = random.normal(size=(5, 60))
    buffer = fill(vectors.astype(model.dtype), np.zeros(5), 60)
    ours = jit_backup(model, make_plan(model), jax.numpy.asarray(beliefs.T, model.dtype), buffer)
    wanted = solver_times.reference_backup(model, beliefs, vectors)
    np.testing.assert_allclose(np.asarray(jax.tree.leaves(ours)[0]), wanted, rtol=1e-4, atol=1e-4)


def test_a_loop_counts_as_often_as_it_runs():
    size, times = 64, 7

    def powers(start, length):
        return jax.lax.scan(lambda one, _: (one @ one, None), start, None, length=length)[0]

    def nested(start):
        return jax.jit(lambda one: jax.lax.map(lambda part: powers(part, times), one))(start)

    square = jnp.eye(size, dtype=jnp.float32)
    once = kernel_costs.cost_of(lambda start: start @ start, square)
    assert once == (2 * size**3, 2 * square.nbytes)  # read once, written once
    assert kernel_costs.cost_of(lambda start: powers(start, times), square).operations == pytest.approx(
        times * once.operations, rel=0.01
    )
    found = kernel_costs.cost_of(nested, jnp.stack([square] * 3)).operations
    assert found == pytest.approx(3 * times * once.operations, rel=0.01)


def test_a_kernel_is_bound_by_what_takes_longer():
    kernel = kernel_costs.Kernel("copy", lambda one: one * 1.5, (jnp.ones(1000),))
    peak = kernel_costs.Cost(operations=1e3, bytes=1e3)
    found = kernel_costs.row(kernel, peak, repeats=1)
    assert found["bound_by"] == "memory" and found["limit_s"] == found["bytes"] / 1e3
    assert found["share_of_bytes"] == found["bytes"] / found["seconds"] / 1e3
    shown = kernel_costs.tables({"kernels": [found], "operations_per_s": 1e3, "bytes_per_s": 1e3}, None)
    assert "predicted, not measured" in str(shown[1]) and "copy" in str(shown[0])
