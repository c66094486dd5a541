"""A belief with exponents keeps what the mathematics keeps: against whole numbers of any size over 10,000 steps."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import POMDP, beliefs
from jatpo.library import Library

STEPS = 10_000
SHIFT = 20  # all numbers of the model are multiples of 1 / SHIFT
TRANSITION = np.array([[[18, 2, 0, 0], [5, 15, 0, 0], [0, 0, 20, 0], [1, 0, 0, 19]]])  # 2 is static, 3 leaks
OBSERVATION = np.array([[[17, 3], [14, 6], [3, 17], [2, 18]]])
INITIAL = np.array([5, 5, 5, 5])


def model() -> POMDP:
    return POMDP.from_dense(TRANSITION / SHIFT, OBSERVATION / SHIFT, np.zeros((4, 1)), INITIAL / SHIFT, 0.9)


def seen() -> np.ndarray:
    """70 equal hints and back, long runs of both, then noise."""
    noise = np.random.default_rng(0).integers(0, 2, STEPS)
    noise[:6000] = np.repeat([0, 1, 0, 1], [70, 140, 3000, 2790])
    return noise


def log_of(number: int) -> float:
    extra = max(number.bit_length() - 60, 0)
    return np.log(number >> extra) + extra * np.log(2) if number else -np.inf


@cache
def exact() -> np.ndarray:
    """The log of the posterior odds of every state against the most probable, by whole numbers [T, X]."""
    weights, rows = [int(part) for part in INITIAL], []
    for z in seen():
        weights = [
            sum(weights[x] * int(TRANSITION[0, x, y]) for x in range(4)) * int(OBSERVATION[0, y, z])
            for y in range(4)
        ]
        logs = np.array([log_of(weight) for weight in weights])
        rows.append(logs - logs.max())
    return np.array(rows)


def filtered(representation, observations) -> jax.Array:
    """The logarithms of the beliefs [T, X]."""
    made = model()

    def step(belief, z):
        belief, _, _ = representation.update(None, made, belief, jnp.int32(0), z)
        return belief, representation.log(belief)

    start = representation.start(None, made)
    return jax.jit(lambda z: jax.lax.scan(step, start, z)[1])(jnp.asarray(observations, jnp.int32))


def compared(dtype_tolerance: float) -> None:
    wanted = exact()
    logs = np.asarray(filtered(beliefs.Scaled(), seen()), np.float64)
    assert np.isfinite(logs).all()
    assert wanted.min() < -1000  # far beyond any floating-point number
    off = np.abs((logs - logs.max(axis=1, keepdims=True)) - wanted)
    assert (off <= dtype_tolerance * (1 + np.abs(wanted))).all()


def test_nothing_is_lost_in_ten_thousand_steps():
    compared(1e-4)  # 10,000 steps of some roundings of 6e-8


def test_nothing_is_lost_in_double_precision(x64):
    compared(1e-11)


def test_trials_side_by_side_are_each_alone():
    """Columns whose states lie on different levels."""
    library, scaled = Library.from_models([model()]), beliefs.Scaled()
    hints = np.stack([np.repeat([0, 1, 0], 150), np.repeat([1, 0, 1], 150), seen()[5800:6250]], axis=1)

    def step(held, z):
        held, evidence, _ = beliefs.update_library(scaled, None, library, held, jnp.zeros(3, jnp.int32), z)
        return held, (jax.vmap(scaled.log, -1, -1)(jax.tree.map(lambda leaf: leaf[0], held)), evidence[0])

    start = beliefs.start_library(scaled, None, library, 3)
    logs, evidence = jax.jit(lambda z: jax.lax.scan(step, start, z)[1])(jnp.asarray(hints, jnp.int32))
    assert np.isfinite(evidence).all()
    for n in range(3):
        np.testing.assert_allclose(logs[:, :, n], filtered(scaled, hints[:, n]), rtol=1e-5, atol=1e-4)


def test_an_observation_that_only_the_least_probable_states_explain():
    """Certain that it is not state 1 by 300 hints, then what only state 1 shows: its evidence is far below 1e-38."""
    sensor = np.array([[[0.9, 0.1, 0.0], [0.1, 0.8, 0.1]]])
    made = POMDP.from_dense(np.eye(2)[None], sensor, np.zeros((2, 1)), [0.5, 0.5], 0.9)
    scaled = beliefs.Scaled()
    step = jax.jit(lambda belief, z: scaled.update(None, made, belief, jnp.int32(0), z)[:2])
    belief = scaled.start(None, made)
    for _ in range(300):
        belief, _ = step(belief, jnp.int32(0))
    belief, evidence = step(belief, jnp.int32(2))
    assert float(evidence) == pytest.approx(300 * np.log(1 / 9) + np.log(0.1), abs=1e-2)
    np.testing.assert_array_equal(scaled.dense(belief, 2), [0, 1])


@pytest.mark.parametrize("transform", [jax.grad, jax.jacfwd])
def test_gradients_are_refused_with_a_sentence(transform):
    made, scaled = model(), beliefs.Scaled()

    def evidence(initial):
        start = scaled.start(None, dataclasses.replace(made, initial=initial))
        return scaled.update(None, made, start, jnp.int32(0), jnp.int32(1))[1]

    with pytest.raises(TypeError, match=r"Scaled: differentiate with Dense\(\)"):
        transform(evidence)(made.initial)
    aside = jax.grad(lambda number: number * evidence(made.initial))(jnp.float32(2))
    assert float(aside) == pytest.approx(float(evidence(made.initial)))


def test_evidence_brings_a_static_state_back():
    """After 100 hints against it and 200 for it, it is the most probable one; as a plain number it stays at 0."""
    made, hints = model(), np.repeat([0, 1], [100, 200])
    logs = np.asarray(filtered(beliefs.Scaled(), hints))
    assert logs[99].argmax() != 2 and logs[99, 2] < -100
    assert logs[-1].argmax() == 2
    plain = beliefs.Dense()
    step = jax.jit(lambda belief, z: plain.update(None, made, belief, jnp.int32(0), z)[0])
    dense = made.initial
    for z in hints:
        dense = step(dense, jnp.int32(z))
    assert dense[2] == 0
