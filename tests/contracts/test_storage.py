"""One contract over every storage, also one that lives outside the package: products, draws and constructions.

Wanted numbers come from nested loops and enumeration, not from another storage.
"""

import os
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import filter
from jatpo.evaluate import world
from jatpo.library import Library
from jatpo.solve import bounds
from oracles import belief as filtering
from oracles import mdp as planning
from random_models import build, coordinates, example
from storages import OUTSIDE, STORAGES

BATCH = 4


@jax.jit
def products(model, values, beliefs, actions, observations, numbers):
    return {
        "expect": model.transition.expect(values[:, 0]),
        "expect_columns": model.transition.expect_columns(values, actions),
        "predict": model.transition.predict(beliefs[:, 0], actions[0]),
        "predict_all": model.transition.predict_all(beliefs),
        "predict_columns": model.transition.predict_columns(beliefs, actions),
        "evidence": model.observation.evidence(beliefs[:, 0], actions[0]),
        "table": model.observation.table(model.num_actions),
        "rows": model.observation.rows(actions[0]),
        "expected": model.observation.expected(numbers, actions[0]),
        "rows_at": model.observation.rows_at(jnp.array([1, 0, 1]), actions[0]),
        "mixed": model.observation.mixed(values.T, jnp.arange(model.num_observations) % BATCH, actions[1]),
        "likelihood": model.observation.likelihood(actions[0], observations[0]),
        "likelihood_columns": model.observation.likelihood_columns(actions, observations),
    }


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "hub", "all hubs", "same observation", "one action"])
def test_products(case, storage):
    truth = example(case)
    num_actions, num_states, num_observations = truth.sizes
    random = np.random.default_rng(9)
    values = random.normal(size=(num_states, BATCH)).astype(np.float32)
    beliefs = random.random((num_states, BATCH)).astype(np.float32)
    actions = random.integers(num_actions, size=BATCH).astype(np.int32)
    observations = random.integers(num_observations, size=BATCH).astype(np.int32)
    numbers = random.normal(size=num_observations).astype(np.float32)
    found = products(build(truth, storage), values, beliefs, actions, observations, numbers)

    def pulled(b):
        return planning.one_step(truth.transition, np.zeros((num_states, num_actions)), 1.0, values[:, b])

    def pushed(a, b):
        return filtering.path_weights(*truth[:2], beliefs[:, b].astype(float), [a], [None])

    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(found["expect"], pulled(0), **close)
    np.testing.assert_allclose(found["predict"], pushed(actions[0], 0), **close)
    np.testing.assert_allclose(found["rows"], truth.observation[actions[0]], rtol=2e-7)
    means = [
        sum(row[z] * numbers[z] for z in range(num_observations)) for row in truth.observation[actions[0]]
    ]
    np.testing.assert_allclose(found["expected"], means, **close)
    np.testing.assert_allclose(found["rows_at"], truth.observation[actions[0], [1, 0, 1]], rtol=2e-7)
    mixed = sum(truth.observation[actions[1], :, z] * values[:, z % BATCH] for z in range(num_observations))
    np.testing.assert_allclose(found["mixed"], mixed, **close)
    np.testing.assert_allclose(
        found["likelihood"], truth.observation[actions[0], :, observations[0]], rtol=2e-7
    )
    wanted = [float(beliefs[:, 0] @ truth.observation[actions[0], :, z]) for z in range(num_observations)]
    np.testing.assert_allclose(found["evidence"], wanted, **close)
    groups = len(found["table"])
    np.testing.assert_allclose(found["table"], truth.observation[:groups], rtol=2e-7)
    assert groups == num_actions or (truth.observation == truth.observation[:1]).all()
    for b, (a, z) in enumerate(zip(actions, observations, strict=True)):
        np.testing.assert_allclose(found["expect_columns"][:, b], pulled(b)[:, a], **close)
        np.testing.assert_allclose(found["likelihood_columns"][:, b], truth.observation[a, :, z], rtol=2e-7)
        np.testing.assert_allclose(found["predict_columns"][:, b], pushed(a, b), **close)
        for every in range(num_actions):
            np.testing.assert_allclose(found["predict_all"][every, :, b], pushed(every, b), **close)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "hub", "same observation", "one state"])
def test_coordinates_are_what_was_given(case, storage):
    truth = example(case)
    sparse = build(truth, storage).to_sparse()
    for found, array in ((sparse.transition, truth.transition), (sparse.observation, truth.observation)):
        *places, p = coordinates(array)
        for axis, place in enumerate(places):
            np.testing.assert_array_equal(found[axis], place)
        np.testing.assert_allclose(found[3], p, rtol=2e-7)


@pytest.mark.parametrize("storage", STORAGES)
def test_single_probabilities_and_draws(storage):
    truth = example("hard zeros")
    model = build(truth, storage)
    uniform = np.linspace(0, 0.999, 7, dtype=np.float32)
    of = jax.jit(model.transition.probability_of)
    draw = jax.jit(jax.vmap(model.transition.sample, (0, None, None)))
    see = jax.jit(jax.vmap(model.observation.sample, (0, None, None)))
    for a, x in np.ndindex(*truth.transition.shape[:2]):
        place = np.int32(x), np.int32(a)
        found = [of(*place, np.int32(y)) for y in range(truth.sizes[1])]
        np.testing.assert_allclose(found, truth.transition[a, x], rtol=2e-7)
        for kernel, sample in ((truth.transition, draw), (truth.observation, see)):
            wanted = np.searchsorted(kernel[a, x].cumsum(), uniform, side="right")
            np.testing.assert_array_equal(sample(uniform, *place), wanted)


@pytest.mark.parametrize("storage", STORAGES)
def test_stacked_and_joined_models_are_each_alone(storage):
    """Models of different sizes, one of them with observations that depend on the action."""
    truths = [example("same observation"), example("one state"), example("hard zeros", 3)]
    library = Library.from_models([build(truth, storage) for truth in truths])
    assert library.models.storage == storage
    joined = jax.jit(world.joined)(library.models)
    assert joined.num_actions == 9
    predict, likelihood = jax.jit(joined.transition.predict), jax.jit(joined.observation.likelihood)
    beliefs = jax.jit(jax.vmap(lambda t, b: t.predict_all(b)))(
        library.models.transition, filter.initial(library, 2)
    )
    for k, truth in enumerate(truths):
        own = truth.sizes[1]
        start = library.models.initial[k]
        for a in range(3):
            wanted = truth.initial @ truth.transition[a]
            np.testing.assert_allclose(beliefs[k, a, :own, 1], wanted, rtol=1e-5)
            np.testing.assert_allclose(predict(start, np.int32(3 * k + a))[:own], wanted, rtol=1e-5)
            assert not np.asarray(beliefs[k, a, own:]).any()
            found = likelihood(np.int32(3 * k + a), np.int32(2))[:own]
            np.testing.assert_allclose(found, truth.observation[a, :, 2], rtol=2e-7)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_sums_of_the_fast_informed_bound(storage):
    truth = example("hard zeros")
    model, vectors = build(truth, storage), np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    rows = model.observation.rows(jnp.int32(1))
    found = jax.jit(model.transition.informed_sums)(rows, np.int32(1), vectors)
    joint = truth.transition[1][:, :, None] * truth.observation[1][None]  # [X, Y, Z]
    wanted = np.einsum("xyz,vy->xzv", joint, vectors).max(axis=2).sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert (bounds.qmdp(model) >= bounds.informed(model, bounds.qmdp(model)) - 1e-3).all()


@pytest.mark.parametrize("storage", STORAGES)
def test_the_filter_is_traced_once(storage):
    chex.clear_trace_counter()
    update = jax.jit(chex.assert_max_traces(filter.update_columns, n=1))
    for seed in (0, 0):
        model = build(example("plain", seed), storage)
        beliefs = jnp.broadcast_to(model.initial[:, None], (5, BATCH))
        for action in (0, 1):
            actions = jnp.full(BATCH, action, jnp.int32)
            update(model, beliefs, actions, actions)


def test_a_built_in_name_is_protected():
    from jatpo.errors import JatpoError
    from jatpo.storage import get, register

    with pytest.raises(JatpoError, match="dense"):
        register("dense", *get("blocked"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["solve"], ["evaluate", "--agents", "atpo,bopa,random", "--trials", "8"]]
)
def test_commands_run_in_a_storage_outside_the_package(command, tmp_path):
    extra = {"JATPO_EXTENSIONS": str(OUTSIDE), "JATPO_STORAGE": "lists"}
    words = [sys.executable, "-m", "jatpo", command[0], "abandoned-power-plant", *command[1:]]
    done = subprocess.run(words, env=os.environ | extra, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
