"""Nothing is compiled a second time for other numbers of the same shapes: keys, discounts, models, names."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import environment, filter, mdp
from jatpo.library import Library
from jatpo.solve import policy
from random_models import build, example

STORAGES = ("dense", "blocked")
ZERO, ONE = np.int32(0), np.int32(1)


def counted(function, **options):
    """`function` under jit, and a list that grows by one whenever it is traced."""
    traces = []

    def body(*arguments):
        traces.append(1)
        return function(*arguments)

    return jax.jit(body, **options), traces


def same_shapes(storage: str):
    """A model, another of the same shapes, and the same with another discount and with names."""
    truth = example("hard zeros")
    other = truth._replace(
        transition=truth.transition[:, :, ::-1][:, ::-1],
        observation=truth.observation[:, ::-1, ::-1],  # else it sees the same with its states renamed
        reward=truth.reward[::-1] + 1,
        initial=truth.initial[::-1],
        discount=0.5,
    )
    names = {"states": list("abcde"), "actions": ["left", "right", "stay"], "observations": list("wxyz")}
    models = [
        build(truth, storage),
        build(other, storage),
        build(truth._replace(discount=0.1), storage),
        build(truth, storage, **names),
    ]
    assert len({str(jax.tree.map(jnp.shape, model)) for model in models}) == 1
    assert len({model.content_hash() for model in models}) == 3
    return models


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (filter.update, lambda m: (m, m.initial, ONE, ZERO)),
        (filter.update_batch, lambda m: (m, m.initial[None], ONE[None], ZERO[None])),
        (filter.update_columns, lambda m: (m, m.initial[:, None], ONE[None], ZERO[None])),
        (filter.evidence, lambda m: (m, m.initial, ONE)),
        (mdp.value_iteration, lambda m: (m, 1e-3, 50)),
        (policy.q, lambda m: (m, policy.Policy(m.reward.T, np.arange(3, dtype=np.int32)), m.initial)),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_models_of_one_shape_share_a_program(function, arguments, storage):
    compiled, traces = counted(function)
    answers = [jax.tree.leaves(compiled(*arguments(model)))[0] for model in same_shapes(storage)]
    assert len(traces) == 1
    assert not np.array_equal(answers[0], answers[1])  # the numbers are no constants of the program
    np.testing.assert_array_equal(answers[0], answers[3])


@pytest.mark.parametrize("storage", STORAGES)
def test_actions_observations_and_keys_are_traced(storage):
    model = build(example("hard zeros"), storage)
    update, traces = counted(filter.update)
    for a, z in np.ndindex(3, 4):
        update(model, model.initial, np.int32(a), np.int32(z))
    assert len(traces) == 1
    step, traces = counted(environment.step)
    reset, reset_traces = counted(environment.reset)
    for seed, other in enumerate(same_shapes(storage)):
        key = jax.random.key(seed)
        state, _, _ = step(key, other, reset(key, other), np.int32(seed % 3))
        step(key, other, state, ZERO)
    assert len(traces) == len(reset_traces) == 1


def test_tolerances_and_sweeps_are_traced():
    solve, traces = counted(mdp.value_iteration)
    model = build(example("plain"))
    sweeps = [
        int(solve(model, tolerance, most).sweeps) for tolerance, most in [(1e-1, 99), (1e-4, 99), (1e-4, 7)]
    ]
    assert len(traces) == 1
    assert sweeps[2] == 7 < sweeps[0] < sweeps[1]


def test_libraries_of_one_shape_share_a_program():
    update, traces = counted(filter.update_models)
    for discount, prior in ((0.9, None), (0.5, [0.25, 0.75])):
        models = [build(example(case)._replace(discount=discount)) for case in ("plain", "one state")]
        library = Library.from_models(models, prior)
        update(library.models, library.models.initial, ZERO, ONE)
    assert len(traces) == 1


def test_a_shape_that_differs_is_traced_again():
    """Or the counts above would mean nothing."""
    update, traces = counted(partial(filter.update, action=ZERO, observation=ZERO))
    for case in ("plain", "hub"):
        model = build(example(case))
        update(model, model.initial)
    assert len(traces) == 2


def test_building_a_model_compiles_nothing(caplog):
    """A library of 70 models would wait for its conversions."""
    truth = example("hub")
    with jax.log_compiles():
        models = [build(truth, storage) for storage in STORAGES]
        Library.from_models(models).models.initial.block_until_ready()
        assert "Compiling" not in caplog.text
        jnp.arange(12345.0).block_until_ready()
        assert "Compiling" in caplog.text
