"""Likelihoods of histories and their gradients, against the enumeration of all paths and finite differences."""

import dataclasses
from functools import lru_cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.learn import likelihood
from jatpo.learn.histories import Histories, History
from jatpo.learn.likelihood import (
    log_evidence,
    log_evidences,
    log_likelihood,
    log_likelihoods,
    piece_length,
    posterior,
)
from jatpo.learn.support import with_probabilities
from jatpo.library import Library
from oracles import learning as oracle
from random_models import CASES, build, example, plain

STORAGES = ("dense", "blocked")
batched = jax.jit(log_likelihoods, static_argnames="piece")


def draw(model, steps, seed, count=None):
    """Histories that can happen: the world and the agent drawn at random."""
    random = np.random.default_rng([seed, 5])
    found = []
    for _ in range(count or 1):
        x, actions, observations = random.choice(len(model.initial), p=model.initial), [], []
        for _ in range(steps):
            a = random.integers(model.sizes[0])
            x = random.choice(model.sizes[1], p=model.transition[a, x])
            actions.append(a)
            observations.append(random.choice(model.sizes[2], p=model.observation[a, x]))
        found.append(History(np.array(actions), np.array(observations)))
    return found if count else found[0]


def parts(model):
    return model.transition, model.observation, model.initial


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", CASES)
def test_the_likelihood_is_the_sum_over_all_paths(name, storage, x64):
    model = example(name, 3)
    histories = draw(model, 4, 1, count=5)
    found = batched(build(model, storage), Histories.from_list(histories))
    wanted = [np.log(oracle.likelihood(*parts(model), *history)) for history in histories]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-14)


def test_one_history_alone(x64):
    model = example("hard zeros", 1)
    history = draw(model, 5, 2)
    wanted = np.log(oracle.likelihood(*parts(model), *history))
    assert float(log_likelihood(build(model), history)) == pytest.approx(wanted, rel=1e-10)


def dense_gradient(model, gradient):
    """The gradient of a model in either storage as P[a, x, y] and O[a, y, z], zero outside the support."""
    if model.storage == "dense":
        return np.asarray(gradient.transition.probability), np.asarray(gradient.observation.probability)
    moves = np.zeros((model.num_actions, model.num_states, model.num_states))
    a, x, s = np.nonzero(np.asarray(model.transition.probability))
    moves[a, x, np.asarray(model.transition.successor)[a, x, s]] = gradient.transition.probability[a, x, s]
    kind = np.broadcast_to(model.observation.kind, (model.num_actions, model.num_states))
    return moves, kind, np.asarray(gradient.observation.probability)


@lru_cache
def by_differences(name):
    """The gradient of the enumerated log-likelihood by P, O and the initial belief."""
    model = example(name, 2)
    history = draw(model, 3, 4)

    def of_part(at):
        def function(array):
            changed = list(parts(model))
            changed[at] = array
            return np.log(oracle.likelihood(*changed, *history))

        return oracle.differences(function, parts(model)[at], 1e-7)

    return [of_part(at) for at in range(3)]


one_gradient = jax.jit(jax.grad(log_likelihood, allow_int=True))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    "name", ["plain", "hard zeros", "absorbing", "hub", "all hubs", "same observation", "rare"]
)
def test_the_gradient_is_that_of_finite_differences(name, storage, x64):
    model = example(name, 2)
    history = draw(model, 3, 4)
    built = build(model, storage)
    gradient = one_gradient(built, history)
    by_move, by_sign, by_start = by_differences(name)
    np.testing.assert_allclose(gradient.initial, by_start, rtol=1e-4, atol=1e-5)
    if storage == "dense":
        moves, signs = dense_gradient(built, gradient)
        np.testing.assert_allclose(moves, by_move, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(signs, by_sign, rtol=1e-4, atol=1e-5)
        return
    moves, kind, signs = dense_gradient(built, gradient)
    np.testing.assert_allclose(moves, np.where(model.transition > 0, by_move, 0), rtol=1e-4, atol=1e-5)
    classes = np.zeros(signs.shape)  # the states of a class share an entry: their derivatives add up
    for a, y in np.ndindex(kind.shape):
        classes[kind[a, y]] += by_sign[a, y, np.asarray(built.observation.symbol)[kind[a, y]]]
    listed = np.asarray(built.observation.probability) > 0
    np.testing.assert_allclose(np.where(listed, signs, 0), np.where(listed, classes, 0), rtol=1e-4, atol=1e-5)


def logits_loss(template, history):
    """log L as a function of logits of P, O and the initial belief; hard zeros are logits of -inf."""

    def loss(moves, signs, start):
        model = with_probabilities(template, jax.nn.softmax(moves), jax.nn.softmax(signs))
        return log_likelihood(model.replace(initial=jax.nn.softmax(start)), history)

    return loss


@pytest.mark.parametrize("storage", STORAGES)
def test_logits_with_hard_zeros_have_finite_gradients(storage, x64):
    model = example("hard zeros", 5)
    template = build(model, storage)
    history = draw(model, 6, 7)
    numbers = (template.transition.probability, template.observation.probability, template.initial)
    logits = [jnp.log(part) for part in numbers]
    assert any(bool(jnp.isneginf(part).any()) for part in logits)
    gradients = jax.jit(jax.grad(logits_loss(template, history), argnums=(0, 1, 2)))(*logits)
    for logit, gradient in zip(logits, gradients, strict=True):
        assert bool(jnp.isfinite(gradient).all())
        np.testing.assert_array_equal(np.asarray(gradient)[np.isneginf(logit)], 0)
        np.testing.assert_allclose(np.asarray(gradient).sum(axis=-1), 0, atol=1e-12)
    assert max(float(jnp.abs(part).max()) for part in gradients) > 0.01


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", STORAGES)
def test_impossible_observations_are_minus_infinity_and_no_gradient_is_nan(storage, dtype, x64):
    model = example("never seen", 0)
    history = draw(model, 6, 1)
    wrong = History(history.actions, np.where(np.arange(6) == 3, 1, history.observations))
    both = Histories.from_list([history, wrong])
    value, gradient = jax.jit(
        jax.value_and_grad(lambda model: log_likelihoods(model, both)[1], allow_int=True)
    )(build(model, storage, dtype=dtype))
    assert value == -np.inf
    floats = [leaf for leaf in jax.tree.leaves(gradient) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in floats)
    assert any(bool((leaf != 0).any()) for leaf in floats)  # that of the steps that could happen


def test_very_improbable_observations_keep_the_gradient_finite_in_single_precision():
    model = plain(np.random.default_rng(0), 4, 2, 3)
    observation = model.observation.copy()
    observation[:, :, 2] = 1e-25
    observation[:, :, :2] /= observation[:, :, :2].sum(axis=2, keepdims=True)
    built = build(model._replace(observation=observation), "blocked")
    history = History(np.array([0, 1, 0, 1]), np.array([2, 2, 0, 2]))
    value, gradient = jax.jit(jax.value_and_grad(log_likelihood, allow_int=True))(built, history)
    assert float(value) == pytest.approx(3 * np.log(1e-25), abs=3)
    assert bool(jnp.isfinite(gradient.transition.probability).all())
    assert bool(jnp.isfinite(gradient.initial).all())


def test_long_histories_lose_nothing():
    model = plain(np.random.default_rng(3), 6, 3, 4, zeros=0.4)
    history = draw(model, 1500, 3)
    wanted = oracle.filtered_log_likelihood(*parts(model), *history)
    assert wanted < -1000
    function = jax.jit(jax.value_and_grad(log_likelihood, allow_int=True))
    for storage in STORAGES:
        found, gradient = function(build(model, storage), history)
        assert float(found) == pytest.approx(wanted, rel=1e-5)  # 1500 roundings of 6e-8 each, relative
        assert bool(jnp.isfinite(gradient.transition.probability).all())


def test_padding_does_not_matter(x64):
    model = example("absorbing", 2)
    built = build(model, "blocked")
    short, long = draw(model, 3, 1), draw(model, 7, 2)
    together = Histories.from_list([short, long])
    assert together.mask.sum(axis=1).tolist() == [3, 7]
    found = batched(built, together)
    alone = [batched(built, Histories.from_list([one]))[0] for one in (short, long)]
    np.testing.assert_allclose(found, np.array(alone), rtol=1e-12)
    other = dataclasses.replace(together, observations=np.where(together.mask, together.observations, 3))
    assert (np.asarray(other.observations) != together.observations).any()
    np.testing.assert_array_equal(batched(built, other), found)

    def gradient(histories):
        loss = lambda p: jnp.sum(log_likelihoods(with_probabilities(built, p), histories))  # noqa: E731
        return jax.jit(jax.grad(loss))(built.transition.probability)

    np.testing.assert_array_equal(gradient(together), gradient(other))


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 20])
def test_pieces_change_memory_and_nothing_else(piece, x64):
    model = example("hub", 1)
    built = build(model, "blocked")
    histories = Histories.from_list(draw(model, 7, 1, count=3))

    def loss(model, piece):
        return jnp.sum(log_likelihoods(model, histories, piece=piece))

    function = jax.jit(jax.value_and_grad(loss, allow_int=True), static_argnums=1)
    (value, gradient), (whole, reference) = function(built, piece), function(built, 7)
    assert float(value) == pytest.approx(float(whole), rel=1e-12)
    np.testing.assert_allclose(
        gradient.transition.probability, reference.transition.probability, rtol=1e-9, atol=1e-12
    )


def test_memory_grows_with_the_root_of_the_steps(monkeypatch):
    monkeypatch.setattr(likelihood, "BUDGET", 0)
    model = build(plain(np.random.default_rng(0), 40, 2, 3, zeros=0.5), "blocked")

    def temporary(steps):
        zeros = np.zeros((64, steps), np.int32)
        histories = Histories(zeros, zeros, np.ones(zeros.shape, bool))
        loss = lambda start: jnp.sum(log_likelihoods(model.replace(initial=start), histories))  # noqa: E731
        compiled = jax.jit(jax.grad(loss)).lower(model.initial).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = temporary(100), temporary(1600)
    all_beliefs = 1600 * 40 * 64 * 4
    assert many < all_beliefs / 4
    assert many < 6 * few  # sixteen times the steps: four times the beliefs, and more for actions and masks


def test_a_piece_is_everything_or_keeps_least():
    assert piece_length(75, 2, likelihood.BUDGET // 150) == 75
    for kept, steps in product((1, 2), (1, 2, 75, 1000)):
        memory = [kept * piece + steps / piece for piece in range(1, steps + 1)]
        piece = piece_length(steps, kept, 2 * likelihood.BUDGET)
        assert kept * piece + steps / piece <= min(memory) + 1


def three_models():
    models = [plain(np.random.default_rng(seed), 3, 2, 3, zeros=0.3) for seed in range(3)]
    return models, np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("storage", STORAGES)
def test_evidence_and_posterior_of_a_library(storage, x64):
    models, prior = three_models()
    library = Library.from_models([build(model, storage) for model in models], prior)
    histories = draw(models[0], 5, 1, count=3)
    batch = Histories.from_list(histories)
    found = jax.jit(lambda library: (log_evidence(library, batch), posterior(library, batch)))(library)
    for number, history in enumerate(histories):
        evidence, share = oracle.mixture([parts(model) for model in models], prior, *history)
        assert float(found[0][number]) == pytest.approx(evidence, rel=1e-9)
        np.testing.assert_allclose(found[1][number], share, rtol=1e-9, atol=1e-12)


def test_the_gradient_by_the_prior(x64):
    models, prior = three_models()
    library = Library.from_models([build(model) for model in models], prior)
    history = draw(models[1], 4, 6)
    batch = Histories.from_list([history])
    loss = lambda p: log_evidence(library.replace(prior=p), batch)[0]  # noqa: E731
    gradient = jax.jit(jax.grad(loss))(library.prior)

    def value(prior):
        return oracle.mixture([parts(model) for model in models], prior, *history)[0]

    np.testing.assert_allclose(gradient, oracle.differences(value, prior), rtol=1e-6)


def test_models_that_cannot_explain_a_history(x64):
    models, _ = three_models()
    blind = models[0]._replace(observation=np.broadcast_to(np.eye(3)[0], (2, 3, 3)))
    library = Library.from_models([build(models[0]), build(blind)], [0.4, 0.6])
    batch = Histories(np.zeros((2, 3), np.int32), np.array([[0, 0, 0], [0, 2, 0]]), np.ones((2, 3), bool))
    each = np.asarray(jax.jit(log_evidences)(library, batch))
    assert each[1, 1] == -np.inf and np.isfinite(each).sum() == 3
    np.testing.assert_array_equal(jax.jit(posterior)(library, batch)[1], [1, 0])
    gradient = jax.jit(jax.grad(lambda library: log_evidence(library, batch).sum(), allow_int=True))(library)
    floats = [leaf for leaf in jax.tree.leaves(gradient) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in floats)
    none = Library.from_models([build(blind)])
    assert float(jax.jit(log_evidence)(none, batch)[1]) == -np.inf
    np.testing.assert_array_equal(jax.jit(posterior)(none, batch)[1], [1])


def test_a_model_of_prior_zero_that_explains_everything_better():
    evidence = jnp.array([[-500.0, -3.0, -jnp.inf]])
    prior = jnp.array([1.0, 0.0, 0.0])
    value, gradient = jax.value_and_grad(lambda p: likelihood.marginal(p, evidence)[0])(prior)
    assert float(value) == -500
    assert bool(jnp.isfinite(gradient).all())
    np.testing.assert_array_equal(likelihood.responsibilities(prior, evidence)[0], [1, 0, 0])


@pytest.mark.parametrize("name", ["hard zeros", "hub", "all hubs", "absorbing"])
def test_new_probabilities_keep_both_lists_in_step(name, x64):
    model = example(name, 4)
    built = build(model, "blocked")
    random = np.random.default_rng(1)
    weights = random.random(built.transition.probability.shape) * np.asarray(built.transition.probability)
    changed = with_probabilities(built, jnp.asarray(weights / weights.sum(axis=2, keepdims=True)))
    moves = changed.to_dense().transition
    belief = random.dirichlet(np.ones(model.sizes[1]))
    for a in range(model.sizes[0]):
        np.testing.assert_allclose(
            changed.transition.predict(jnp.asarray(belief), a), belief @ moves[a], rtol=1e-12
        )
    assert not np.allclose(moves, model.transition)


def test_many_histories_at_once_are_each_alone(x64):
    """Also where sums over histories are cut into pieces that come out even, or do not."""
    model = example("hub", 3)
    built = build(model, "blocked")
    histories = draw(model, 4, 1, count=64)

    def gradient(histories):
        loss = lambda model: jnp.sum(log_likelihoods(model, histories))  # noqa: E731
        found = jax.jit(jax.grad(loss, allow_int=True))(built)
        return found.transition.probability, found.observation.probability

    whole = gradient(Histories.from_list(histories))
    halves = [gradient(Histories.from_list(part)) for part in (histories[:33], histories[33:])]
    for together, *apart in zip(whole, *halves, strict=True):
        np.testing.assert_allclose(together, sum(apart), rtol=1e-9, atol=1e-12)


def test_nothing_is_compiled_twice():
    model = build(example("hub", 1), "blocked")
    other = build(example("hub", 1)._replace(initial=np.eye(8)[0]), "blocked")
    function = jax.jit(lambda model, histories: log_likelihoods(model, histories))
    for one in (model, other):
        for seed in range(2):
            function(one, Histories.from_list(draw(example("hub", 1), 4, seed, count=2)))
    assert function._cache_size() == 1
