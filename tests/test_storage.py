"""The products with P and O that the solvers use, in both storages, against nested loops."""

import jax
import numpy as np
import pytest

from oracles import belief as filtering
from oracles import mdp as planning
from random_models import build, example

STORAGES = ("dense", "blocked")
BATCH = 4


@jax.jit
def products(model, values, beliefs, actions, observations, numbers):
    return {
        "pull": model.transition.pull(values[:, 0]),
        "pull_columns": model.transition.pull_columns(values, actions),
        "push": model.transition.push(beliefs[:, 0], actions[0]),
        "push_all": model.transition.push_all(beliefs),
        "rows": model.observation.rows(actions[0]),
        "expected": model.observation.expected(numbers, actions[0]),
        "likelihood": model.observation.likelihood(actions[0], observations[0]),
        "likelihood_all": model.observation.likelihood_all(actions, observations),
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
    np.testing.assert_allclose(found["pull"], pulled(0), **close)
    np.testing.assert_allclose(found["push"], pushed(actions[0], 0), **close)
    np.testing.assert_allclose(found["rows"], truth.observation[actions[0]], rtol=2e-7)
    means = [
        sum(row[z] * numbers[z] for z in range(num_observations)) for row in truth.observation[actions[0]]
    ]
    np.testing.assert_allclose(found["expected"], means, **close)
    np.testing.assert_allclose(
        found["likelihood"], truth.observation[actions[0], :, observations[0]], rtol=2e-7
    )
    for b, (a, z) in enumerate(zip(actions, observations, strict=True)):
        np.testing.assert_allclose(found["pull_columns"][:, b], pulled(b)[:, a], **close)
        np.testing.assert_allclose(found["likelihood_all"][:, b], truth.observation[a, :, z], rtol=2e-7)
        for every in range(num_actions):
            np.testing.assert_allclose(found["push_all"][every, :, b], pushed(every, b), **close)
