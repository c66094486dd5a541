"""The belief filter, every path against the enumeration of state paths."""

import dataclasses
import math
from contextlib import nullcontext
from functools import cache

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import filter
from jatpo.library import Library
from jatpo.storage import DenseObservation
from oracles import belief as oracle
from random_models import CASES, Example, build, example, plain

STORAGES = ("dense", "blocked")
STEPS = 3
# Sums of products of positive numbers lose no digits, so errors are relative and zeros are exact.
RELATIVE = {"float32": 5e-6, "float64": 1e-13}

update = jax.jit(filter.update)
update_batch = jax.jit(filter.update_batch)
update_columns = jax.jit(filter.update_columns)
update_models = jax.jit(filter.update_models)


@jax.jit
def update_each_way(model, first, rows, columns, actions, observations):
    """The three paths for one model, in one program: compiling is what these tests spend their time on."""
    return (
        filter.update(model, first, actions[0], observations[0]),
        filter.update_batch(model, rows, actions, observations),
        filter.update_columns(model, columns, actions, observations),
    )


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    with jax.enable_x64(True) if request.param == "float64" else nullcontext():
        yield request.param


@cache
def histories(case: str) -> tuple[np.ndarray, np.ndarray]:
    """Actions and observations [6, STEPS]: three histories that occur in the model, then three in which the
    least likely observation is made at some step."""
    model = example(case)
    random = np.random.default_rng(len(case))
    num_actions, num_states, num_observations = model.sizes
    actions = random.integers(num_actions, size=(6, STEPS))
    observations = random.integers(num_observations, size=(6, STEPS))
    for i in range(3):
        x = random.choice(num_states, p=model.initial)
        for t in range(STEPS):
            x = random.choice(num_states, p=model.transition[actions[i, t], x])
            observations[i, t] = random.choice(num_observations, p=model.observation[actions[i, t], x])
    for t in range(STEPS):
        beliefs, _ = oracle.history(*model[:2], model.initial, actions[3 + t, :t], observations[3 + t, :t])
        before = beliefs[-1] if t else model.initial
        chances = oracle.evidence(*model[:2], before, actions[3 + t, t])
        observations[3 + t, t] = np.argmin(chances)
    return actions.astype(np.int32), observations.astype(np.int32)


@cache
def expected(case: str) -> tuple[np.ndarray, np.ndarray]:
    """Beliefs [6, STEPS, X] and log evidences [6, STEPS] of the oracle."""
    model = example(case)
    answers = [
        oracle.history(model.transition, model.observation, model.initial, a, z)
        for a, z in zip(*histories(case), strict=True)
    ]
    return np.array([beliefs for beliefs, _ in answers]), np.array([logs for _, logs in answers])


def agree(found, log_evidence, wanted, wanted_log, precision: str) -> None:
    assert found.dtype == log_evidence.dtype == precision
    relative = RELATIVE[precision]
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=relative, atol=0)
    np.testing.assert_allclose(np.asarray(log_evidence), wanted_log, rtol=relative, atol=relative)


def test_histories_hold_possible_and_impossible_observations():
    logs = np.concatenate([expected(case)[1] for case in CASES])
    assert np.isfinite(logs).sum() > 100
    assert all(np.isneginf(logs[:, t]).sum() >= 5 for t in range(STEPS))
    assert any(np.isneginf(log[0]) and np.isfinite(log[1]) for log in logs)


AS_THEY_ARE = ("hard zeros", "hub", "all hubs", "deterministic", "alone")  # with lists of their own length


def padded(case: str):
    """The blocked model with lists as long as those of its siblings, so that they share a program."""
    siblings = [other for other in CASES if example(other).sizes == example(case).sizes]
    models = Library.from_models([build(example(other), "blocked") for other in siblings]).models
    return jax.tree.map(lambda leaf: np.asarray(leaf)[siblings.index(case)], models)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_single_batch_and_columns(case, storage, precision):
    """Every history in turn is the single one; the batches hold all of them, in the same order of turns."""
    share = storage == "blocked" and (precision == "float64" or case not in AS_THEY_ARE)
    model = padded(case) if share else build(example(case), storage)
    actions, observations = histories(case)
    wanted, logs = expected(case)
    for turn in range(len(actions)):
        order = np.roll(np.arange(len(actions)), -turn)
        single = np.asarray(model.initial)
        rows = np.tile(single, (len(actions), 1))
        columns = rows.T
        for t in range(STEPS):
            seen = actions[order, t], observations[order, t]
            found = update_each_way(model, single, rows, columns, *seen)
            (single, single_log), (rows, row_logs), (columns, column_logs) = found
            agree(single, single_log, wanted[turn, t], logs[turn, t], precision)
            agree(rows, row_logs, wanted[order, t], logs[order, t], precision)
            agree(columns, column_logs, wanted[order, t].T, logs[order, t], precision)


@pytest.mark.parametrize("storage", STORAGES)
def test_batch_of_one(storage):
    model = build(example("hard zeros"), storage)
    actions, observations = histories("hard zeros")
    wanted, wanted_logs = expected("hard zeros")
    first = (actions[:1, 0], observations[:1, 0])
    rows, logs = update_batch(model, model.initial[None], *first)
    agree(rows, logs, wanted[:1, 0], wanted_logs[:1, 0], "float32")
    columns, logs = update_columns(model, model.initial[:, None], *first)
    agree(columns, logs, wanted[:1, 0].T, wanted_logs[:1, 0], "float32")


COMMON = [
    case for case in CASES if example(case).sizes[::2] == (3, 4)
]  # with the same actions and observations


@pytest.mark.parametrize("storage", [*STORAGES, "mixed"])
def test_library(storage, precision):
    """K models with different state spaces, each against its own oracle, after the same actions."""
    models = {case: example(case) for case in COMMON}
    models["larger"] = plain(np.random.default_rng(8), states=7, zeros=0.7)
    kinds = STORAGES if storage == "mixed" else (storage,)
    library = Library.from_models([build(m, kinds[k % len(kinds)]) for k, m in enumerate(models.values())])
    assert len({m.sizes for m in models.values()}) == 3
    for actions, observations in zip(*histories("hard zeros"), strict=True):
        wanted = [
            oracle.history(m.transition, m.observation, m.initial, actions, observations)
            for m in models.values()
        ]
        now = library.models.initial
        for t in range(STEPS):
            now, logs = map(np.asarray, update_models(library.models, now, actions[t], observations[t]))
            assert not now[~np.asarray(library.state_mask)].any()
            for k, (model, (beliefs, wanted_logs)) in enumerate(zip(models.values(), wanted, strict=True)):
                agree(now[k, : len(model.initial)], logs[k], beliefs[t], wanted_logs[t], precision)


def test_library_with_hubs():
    """Padded hub lists add nothing to the state they point at."""
    models = [example("hub"), example("all hubs"), plain(np.random.default_rng(3), 9, 2, 3, zeros=0.8)]
    library = Library.from_models([build(model, "blocked") for model in models])
    assert [build(model, "blocked").transition.hub.shape[0] for model in models][:2] == [2, 2]
    actions, observations = (part[0, :2] for part in histories("hub"))
    for k, model in enumerate(models):
        wanted, wanted_logs = oracle.history(*model[:2], model.initial, actions, observations)
        now = library.models.initial
        for t in range(2):
            now, logs = map(np.asarray, update_models(library.models, now, actions[t], observations[t]))
            agree(now[k, : len(model.initial)], logs[k], wanted[t], wanted_logs[t], "float32")


@jax.jit
def parts(model, now, action, observation):
    predicted = model.transition.predict(now, action)
    return predicted, model.observation.likelihood(action, observation), filter.evidence(model, now, action)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "hub", "same observation"])
def test_predict_likelihood_and_evidence(case, storage):
    model, truth = build(example(case), storage), example(case)
    num_actions, _, num_observations = truth.sizes
    for a, z in np.ndindex(num_actions, num_observations):
        predicted, likelihood, evidence = parts(model, model.initial, np.int32(a), np.int32(z))
        ahead = oracle.path_weights(truth.transition, truth.observation, truth.initial, [a], [None])
        np.testing.assert_allclose(predicted, ahead, rtol=5e-6)
        np.testing.assert_allclose(likelihood, truth.observation[a, :, z], rtol=2e-7)
        wanted = oracle.evidence(truth.transition, truth.observation, truth.initial, a)
        np.testing.assert_allclose(evidence, wanted, rtol=5e-6)


@pytest.mark.parametrize("storage", STORAGES)
def test_impossible_observation_leaves_the_predicted_belief(storage, precision):
    truth = example("never seen")
    model = build(truth, storage)
    for a in range(3):
        after, log_evidence = update(model, model.initial, np.int32(a), np.int32(1))
        ahead = oracle.path_weights(truth.transition, truth.observation, truth.initial, [a], [None])
        agree(after, log_evidence, ahead / ahead.sum(), -np.inf, precision)
        assert np.asarray(after).sum() == pytest.approx(1, abs=RELATIVE[precision])


@pytest.mark.parametrize("xp", [np, jnp])
def test_the_beliefs_of_walks(xp):
    """`normalised` is `condition` up to rounding, in NumPy and JAX, along either axis, for impossible columns too."""
    random = np.random.default_rng(0)
    predicted, weights = random.random((2, 5, 4)).astype(np.float32)
    predicted /= predicted.sum(axis=0)
    weights[:, 1], weights[:, 2] = 0, 1e-42  # impossible; below the smallest normal number
    wanted, log_evidence, *_ = filter.condition(jnp.asarray(predicted), jnp.asarray(weights))
    joint, predicted = xp.asarray(predicted * weights), xp.asarray(predicted)
    for axis, turn in ((0, np.asarray), (1, np.transpose)):
        found, evidence = filter.normalised(xp.asarray(turn(joint)), xp.asarray(turn(predicted)), axis, xp)
        np.testing.assert_allclose(turn(found), wanted, rtol=1e-6)
        np.testing.assert_allclose(turn(evidence)[0], np.exp(log_evidence), rtol=1e-6)
    np.testing.assert_array_equal(wanted[:, 1:3], predicted[:, 1:3])


# gradients


def floats(model):
    """The float leaves of a model, and the way back from them to a model."""
    leaves, structure = jax.tree.flatten(model)
    chosen = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    def rebuild(values):
        merged = list(leaves)
        for i, value in zip(chosen, values, strict=True):
            merged[i] = value
        return jax.tree.unflatten(structure, merged)

    return [leaves[i] for i in chosen], rebuild


def gradient(model, function):
    """The gradient of a function of a model, in the form of a model."""
    values, rebuild = floats(model)
    return rebuild(jax.jit(jax.grad(lambda values: function(rebuild(values))))(values))


def run(model, actions, observations):
    """The log evidence of a history, and the last belief."""
    now, total = model.initial, jnp.zeros((), model.dtype)
    for action, observation in zip(actions, observations, strict=True):
        now, log_evidence = filter.update(model, now, action, observation)
        total = total + log_evidence
    return total, now


def by_transition(found, model):
    """The gradient by P [A, X, X]; NaN where the blocked storage has no entry."""
    if model.storage == "dense":
        return np.asarray(found.transition.probability)
    by_entry = np.full((model.num_actions, model.num_states, model.num_states), np.nan)
    a, x, s = np.nonzero(model.transition.probability)
    by_entry[a, x, np.asarray(model.transition.successor)[a, x, s]] = found.transition.probability[a, x, s]
    return by_entry


def classes(model, by_entry):
    """The gradient by O [A, X, Z] summed over the entries that share a stored number [C, L]."""
    kind = np.broadcast_to(model.observation.kind, by_entry.shape[:2])
    symbol, stored = np.asarray(model.observation.symbol), np.asarray(model.observation.probability) > 0
    summed = np.full(stored.shape, np.nan)
    for row, entry in zip(*np.nonzero(stored), strict=True):
        summed[row, entry] = by_entry[..., symbol[row, entry]][kind == row].sum()
    return summed


@pytest.mark.parametrize(
    ("case", "storage"),
    [("hard zeros", "dense"), ("hard zeros", "blocked"), ("hub", "blocked"), ("same observation", "blocked")],
)
def test_gradient_of_log_evidence(case, storage, x64):
    """Against differences of the enumeration, for every stored entry of P, O and the initial belief."""
    truth, model = example(case), build(example(case), storage)
    actions, observations = (part[0, :2] for part in histories(case))
    transition, observation, initial = oracle.log_weight_gradient(
        *truth[:2], truth.initial, actions, observations
    )
    found = gradient(model, lambda model: run(model, actions, observations)[0])
    close = {"rtol": 1e-7, "atol": 1e-7}
    np.testing.assert_allclose(found.initial, initial, **close)
    entries = by_transition(found, model)
    stored = np.isfinite(entries)
    assert stored[truth.transition > 0].all()
    np.testing.assert_allclose(entries[stored], transition[stored], **close)
    if storage == "blocked":
        observation = classes(model, observation)
    stored = np.isfinite(observation)
    by_entry = np.asarray(found.observation.probability)
    np.testing.assert_allclose(by_entry[stored], observation[stored], **close)


@pytest.mark.parametrize("storage", STORAGES)
def test_gradients_are_finite_at_impossible_observations(storage):
    model = build(example("never seen"), storage)
    history = np.array([0, 2], np.int32), np.array([1, 0], np.int32)

    def both(model):
        log_evidence, last = run(model, *history)
        return jnp.stack([log_evidence, last[3]])

    values, rebuild = floats(model)
    jacobian = jax.jit(jax.jacrev(lambda values: both(rebuild(values))))(values)
    assert update(model, model.initial, history[0][0], history[1][0])[1] == -jnp.inf
    assert all(np.isfinite(part).all() for part in jacobian)
    assert any(np.asarray(part[1]).any() for part in jacobian)  # the belief does depend on the model


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e-30])
def test_small_evidence_has_sound_beliefs_and_gradients(scale):
    """An observation of probability 1e-30 in float32 moves the belief as a common one of the same ratios."""
    predicted, weight = np.array([0.5, 0.3, 0.2, 0.0], np.float32), np.array([0.3, 0.1, 0.0, 0.7], np.float32)
    scaled = weight * np.float32(scale)
    found, log_evidence = condition(predicted, scaled)
    wanted = np.array([0.15, 0.03, 0, 0]) / 0.18
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert log_evidence == pytest.approx(np.log(0.18 * scale), rel=1e-6)
    jacobian = condition_jacobian(predicted, scaled)
    np.testing.assert_allclose(
        jacobian, (np.diag(weight) - np.outer(wanted, weight)) / 0.18, rtol=1e-5, atol=1e-6
    )


@jax.jit
def condition(predicted, weight):
    """`filter.weigh` of one belief, with an observation of that likelihood."""
    sensor, none = DenseObservation(weight[None, :, None]), jnp.zeros(1, jnp.int32)
    found, log_evidence = filter.weigh(sensor, predicted[:, None], none, none)
    return found[:, 0], log_evidence[0]


condition_jacobian = jax.jit(jax.jacrev(lambda predicted, weight: condition(predicted, weight)[0]))
weights = arrays.arrays(
    np.float32, 5, elements=st.one_of(st.just(0.0), st.floats(2.0**-30, 1.0, width=32)), fill=st.nothing()
)


@hypothesis.given(predicted=weights.filter(lambda w: w.any()), weight=weights)
def test_condition_gives_a_distribution(predicted, weight):
    """Whatever is seen, the belief is one; it is the predicted one if what was seen is impossible."""
    predicted = predicted / predicted.sum()
    found, log_evidence = condition(predicted, weight)
    joint = predicted.astype(float) * weight
    assert np.asarray(found).sum() == pytest.approx(1, abs=1e-6)
    if joint.sum() > 0:
        np.testing.assert_allclose(found, joint / joint.sum(), rtol=1e-5)
        assert log_evidence == pytest.approx(np.log(joint.sum()), rel=1e-5, abs=1e-5)
    else:
        np.testing.assert_allclose(found, predicted, rtol=1e-6)
        assert log_evidence == -np.inf


@pytest.mark.parametrize("storage", STORAGES)
def test_permuting_states_permutes_beliefs(storage):
    truth = example("hard zeros")
    order = np.array([3, 0, 4, 1, 2])
    turned = Example(
        truth.transition[:, order][:, :, order], truth.observation[:, order], truth.reward[order],
        truth.initial[order], truth.discount,
    )  # fmt: skip
    actions, observations = histories("hard zeros")
    model = build(turned, storage)
    found, log_evidence = update(model, model.initial, actions[0, 0], observations[0, 0])
    wanted, logs = expected("hard zeros")
    agree(found, log_evidence, wanted[0, 0][order], logs[0, 0], "float32")


def test_long_histories_stay_normalised():
    """A thousand steps of float32 neither drift from a sum of 1 nor wake a state that is ruled out."""
    truth = example("absorbing")
    model = build(truth._replace(observation=np.full_like(truth.observation, 0.25)), "blocked")
    model = dataclasses.replace(model, initial=jnp.eye(5, dtype=jnp.float32)[-1])

    def advance(now, t):
        now, log_evidence = filter.update(model, now, t % 3, t % 4)
        return now, log_evidence

    now, logs = jax.lax.scan(advance, model.initial, jnp.arange(1000, dtype=jnp.int32))
    np.testing.assert_array_equal(now, np.eye(5)[-1])
    np.testing.assert_allclose(logs, np.log(0.25), rtol=1e-5)


UNEVEN = np.array(
    [[17, 2, 1], [11, 3, 6]]
)  # twentieths: the probabilities of three hints in two static models
LONG = {
    "70 and back": np.repeat([0, 2], [70, 17]),
    "one way, then the other": np.repeat([0, 2], [8100, 1900]),
    "noise": np.random.default_rng(0).choice(3, size=10_000, p=[0.7, 0.12, 0.18]),
}


@pytest.mark.parametrize("name", LONG)
def test_the_posterior_over_static_models_in_ten_thousand_steps(name):
    """Against whole numbers of any size: what rounding takes from each step is carried, so that it does not add up."""
    hints = LONG[name]
    logs = jnp.log(jnp.asarray(UNEVEN / 20, jnp.float32))
    members, one, none = jnp.ones((2, 1), bool), jnp.float32(1), jnp.float32(0)

    def step(carry, hint):
        (plain, held, rest), evidence = carry, logs[:, hint][:, None]
        plain, _ = filter.posterior(plain, evidence, members, none, one)
        held, _, rest = filter.posterior_carried(held, rest, evidence, members, one)
        return (plain, held, rest), (plain[0, 0] - plain[1, 0], held[0, 0] - held[1, 0])

    even = jnp.log(jnp.full((2, 1), 0.5, jnp.float32))
    run = jax.jit(lambda seen: jax.lax.scan(step, (even, even, jnp.zeros((2, 1))), seen)[1])
    plain, carried = (np.asarray(odds, np.float64) for odds in run(jnp.asarray(hints)))
    at = np.linspace(0, len(hints) - 1, 100).astype(int)
    wanted = np.array([log_odds(hints[: t + 1]) for t in at])
    largest = np.abs(wanted).max()
    assert (np.abs(carried[at] - wanted) <= 2e-7 * (1 + largest)).all()
    assert (np.abs(plain[at] - wanted) <= len(hints) * largest * 2**-24).all()  # the stated bound


def log_odds(hints):
    """Of the first model against the second, from whole numbers."""
    counts = [int(count) for count in np.bincount(hints, minlength=3)]
    first, second = (math.prod(int(p) ** n for p, n in zip(row, counts, strict=True)) for row in UNEVEN)
    return math.log(first) - math.log(second)
