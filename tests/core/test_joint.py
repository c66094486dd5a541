"""A library as one model with the states (k, x): its arrays, its belief, and its optimum by enumeration."""

import jax
import numpy as np
import pytest

import random_models
from jatpo import filter
from jatpo.errors import JatpoError
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve import Anytime
from oracles import atpo, joint
from random_models import Example, build, example, plain
from small_pomdps import tiger
from solving import changed, chosen, solve

STORAGES = ("dense", "blocked")
SMALL = chosen(Anytime, gap=1e-4, stages=20, walkers=16, steps=8, keep=128)


def truths(seed: int = 0) -> list[Example]:
    """Three models with 5, 1 and 7 states."""
    random = np.random.default_rng(seed)
    return [example("hard zeros", seed), example("one state", seed), plain(random, states=7, zeros=0.6)]


def library(models, storage: str = "auto", prior=None) -> Library:
    return Library.from_models([build(model, storage) for model in models], prior)


# ---------------------------------------------------------------- the model


@pytest.mark.parametrize("storage", STORAGES)
def test_blocks_on_the_diagonal(storage):
    models, prior = truths(), [0.5, 0.2, 0.3]
    found = library(models, storage, prior).joint()
    dense = found.to_dense()
    assert (found.num_states, found.num_actions, found.num_observations) == (13, 3, 4)
    assert found.storage == storage
    rest = dense.transition.copy()
    for k, start in enumerate((0, 5, 6)):
        own = slice(start, start + len(models[k].initial))
        np.testing.assert_allclose(dense.transition[:, own, own], models[k].transition, atol=1e-7)
        np.testing.assert_allclose(dense.observation[:, own], models[k].observation, atol=1e-7)
        np.testing.assert_allclose(dense.reward[own], models[k].reward, rtol=1e-6)
        np.testing.assert_allclose(dense.initial[own], prior[k] * models[k].initial, atol=1e-7)
        rest[:, own, own] = 0
    assert not rest.any()  # nothing leads from one model to another
    assert dense.discount == pytest.approx(0.9)


def test_as_many_numbers_as_its_parts():
    """The same non-zeros, and one set of observation classes for models with the same sensor."""
    random = np.random.default_rng(0)
    sensor = random_models.rows(random, 6, 4, zeros=0.4)
    models = [
        plain(random, 6, 3, 4, zeros=0.5)._replace(observation=np.repeat(sensor[None], 3, axis=0))
        for _ in range(3)
    ]
    parts = [build(model, "blocked") for model in models]
    found = Library.from_models(parts).joint()
    count = sum(len(part.to_sparse().transition[3]) for part in parts)
    assert len(found.to_sparse().transition[3]) == count
    assert found.observation.symbol.shape == parts[0].observation.symbol.shape
    assert found.observation.kind.shape == (1, 18)


def test_prior_and_names():
    models = truths()
    named = [
        build(model, states=[f"s{x}" for x in range(len(model.initial))], actions=["n", "e", "s"])
        for model in models
    ]
    stacked = Library.from_models(named)
    found = stacked.joint([0, 0.25, 0.75])
    assert found.states[:2] == ("0: s0", "0: s1") and found.states[5:7] == ("1: s0", "2: s0")
    assert found.actions == ("n", "e", "s")
    assert not np.asarray(found.initial[:5]).any()
    np.testing.assert_allclose(found.initial[5:], stacked.join([0, 0.25, 0.75], stacked.models.initial)[5:])
    assert library(models).joint().names.states is None
    with pytest.raises(JatpoError, match="prior"):
        stacked.joint([0.5, 0.2, 0.2])


def test_models_with_different_discounts_are_refused():
    models = [build(tiger(discount=0.9)), build(tiger(discount=0.8))]
    with pytest.raises(JatpoError, match=r"discounts 0\.9, 0\.8: a joint model needs one discount"):
        Library.from_models(models).joint()


# ---------------------------------------------------------------- its belief


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("seed", range(3))
def test_the_joint_belief_is_posterior_and_beliefs(seed, storage, x64):
    """After any history that can happen, against tables over (model, state)."""
    models, prior = truths(seed), np.array([0.5, 0.2, 0.3])
    stacked = library(models, storage, prior)
    whole = stacked.joint()
    random = np.random.default_rng(seed)
    update = jax.jit(filter.update)
    now, table, actions, seen = whole.initial, atpo.joint_start(models, prior), [], []
    for _ in range(6):
        a = int(random.integers(3))
        after = [atpo.joint_step(models, table, a, z) for z in range(4)]
        chances = np.array([sum(map(sum, each)) for each in after])
        z = int(random.choice(4, p=chances / chances.sum()))
        now, evidence = update(whole, now, np.int32(a), np.int32(z))
        assert evidence == pytest.approx(np.log(chances[z] / chances.sum()), abs=1e-9)
        table, actions, seen = after[z], [*actions, a], [*seen, z]
        posterior, beliefs, _ = atpo.joint_history(models, prior, actions, seen)
        found_posterior, found = stacked.split(now)
        np.testing.assert_allclose(found_posterior, posterior, atol=1e-10)
        for k, own in enumerate(beliefs):
            expected = np.zeros(7)
            expected[: len(models[k].initial)] = 0 if own is None else own
            np.testing.assert_allclose(found[k], expected, atol=1e-9)
        np.testing.assert_allclose(stacked.join(found_posterior, found), now, atol=1e-12)


# ---------------------------------------------------------------- its optimum


def tiny_library(seed: int, sizes=(2, 3)) -> list[Example]:
    random = np.random.default_rng(seed)
    return [plain(random, size, 2, 2, discount=0.9) for size in sizes]


@pytest.mark.parametrize(
    ("seed", "prior"), [(0, (0.5, 0.5)), (1, (0.3, 0.7)), (2, (0.9, 0.1)), (3, (0.0, 1.0))]
)
def test_the_optimum_by_enumeration(seed, prior):
    """All 128 policies of three steps, in models that end after three steps."""
    models = tiny_library(seed)
    exact = joint.best_value(models, prior, 3)
    staged = [Example(*joint.staged(model, 3)) for model in models]
    found = solve([library(staged, prior=prior).joint()], SMALL, jax.random.key(seed))[0]
    assert found.lower == pytest.approx(exact, abs=1e-3)
    assert found.upper >= exact - 1e-4


def test_knowing_the_model_is_worth_something():
    """The joint optimum is below the mean of the models' own optima."""
    models = tiny_library(5)
    prior = [0.5, 0.5]
    known = sum(0.5 * joint.best_value([model], [1.0], 3) for model in models)
    unknown = joint.best_value(models, prior, 3)
    assert unknown < known - 0.04
    staged = [Example(*joint.staged(model, 3)) for model in models]
    found = solve([library(staged).joint()], SMALL, jax.random.key(0))[0]
    assert found.lower == pytest.approx(unknown, abs=1e-3)


def test_one_model_is_itself():
    model = build(tiger())
    found = Library.from_models([model]).joint()
    assert found.content_hash() == model.content_hash()
    settings = changed(SMALL, stages=5)
    alone, whole = (solve([each], settings, jax.random.key(0))[0] for each in (model, found))
    np.testing.assert_array_equal(whole.policy.vectors, alone.policy.vectors)
    assert (whole.lower, whole.upper) == (alone.lower, alone.upper)


def test_a_model_with_a_copy_of_itself_is_worth_the_same():
    settings = changed(SMALL, stages=30, steps=20)
    model = build(tiger())
    whole = Library.from_models([model, model], [0.4, 0.6]).joint()
    found = solve([whole], settings, jax.random.key(0))[0]
    assert 19.3700 <= found.lower <= 19.3721 and 19.3713 <= found.upper <= 19.3821
    vectors = np.asarray(found.policy.vectors)  # what is best at the start is worth the same in both
    best = vectors[np.argmax(vectors @ np.asarray(whole.initial))]
    np.testing.assert_allclose(best[:2].sum(), best[2:].sum(), atol=1e-2)


def test_models_of_prior_zero_are_left_out_of_the_solve():
    """They are unreachable: the optimum is that of the others, and vectors have the floor there."""
    models = tiny_library(1)
    found = solve([library(models, prior=[1.0, 0.0]).joint()], changed(SMALL, stages=4), jax.random.key(0))[0]
    floor = min(model.reward.min() for model in models) / (1 - 0.9)
    np.testing.assert_allclose(found.policy.vectors[:, 2:], floor, rtol=1e-5)


def test_a_joint_problem_is_kept_like_any_other(tmp_path):
    whole = library(tiny_library(0)).joint()
    settings = changed(SMALL, stages=2)
    first = solve([whole], settings, jax.random.key(0), cache=tmp_path)[0]
    told: list[dict] = []
    again = solve([whole], settings, jax.random.key(0), told, cache=tmp_path)[0]
    np.testing.assert_array_equal(first.policy.vectors, again.policy.vectors)
    assert not told and isinstance(whole, POMDP)
