"""The batched backup against nested loops, on every structure of P and O that its plans distinguish."""

from itertools import product

import jax
import numpy as np
import pytest

from jatpo.library import Library
from jatpo.solve.backup import TILE, BlockPlan, RevealingPlan, fill, grow, jit_backup
from jatpo.solve.policy import NEVER
from jatpo.solve.scoring import make_plan, make_plans
from oracles import point_based as oracle
from random_models import CASES, Example, build, example, one_hot, plain, rows
from small_pomdps import permuted, revealing

STORAGES = ("dense", "blocked")
QUICK = ("plain", "hard zeros", "same observation", "one state", "one action", "one observation")
BELIEFS, ROOM = 8, 3 * TILE  # the same everywhere, so that cases share compiled programs


def random_vectors(count: int, states: int, dtype="float32", seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Vectors with values around 50 [count, X], and their actions."""
    random = np.random.default_rng([seed, count, states])
    return random.normal(50, 5, (count, states)).astype(dtype), random.integers(3, size=count)


def random_beliefs(states: int, dtype="float32", count: int = BELIEFS, seed: int = 2) -> np.ndarray:
    """Columns [X, count] with some zeros; the first is certain of state 0."""
    beliefs = rows(np.random.default_rng([seed, count, states]), count, states, zeros=0.5)
    beliefs[0] = np.eye(states)[0]
    return beliefs.astype(dtype).T


def assert_backup(model, found, vectors: np.ndarray, beliefs: np.ndarray, rounding: float) -> list[int]:
    """Every column of `found` is the backup of nested loops; gives the vectors that these chose.

    An observation that cannot follow may take any vector. Where two vectors are equally good for an observation
    that can, only the value is compared.
    """
    dense, vectors = model.to_dense(), vectors.astype(float)
    parts = (dense.transition, dense.observation, dense.reward, dense.discount)
    alphas, actions, values = (np.asarray(part) for part in found)
    chosen, compared = [], 0
    for belief, alpha, action, value in zip(beliefs.astype(float).T, alphas, actions, values, strict=True):
        wanted = oracle.backup(*parts, vectors, belief)
        assert value == pytest.approx(wanted.q.max(), rel=rounding, abs=rounding)
        assert wanted.q[action] == pytest.approx(wanted.q.max(), rel=rounding, abs=rounding)
        assert alpha[: len(belief)] @ belief == pytest.approx(wanted.q.max(), rel=rounding, abs=rounding)
        if wanted.margin[action] > 50 * rounding:
            assert _is_choice(parts, vectors, belief, alpha, action, wanted.choice[action], 4 * rounding)
            chosen += [v for v in wanted.choice[action] if v is not None]
            compared += 1
    assert compared >= len(values) / 2
    return chosen


def _is_choice(parts, vectors, belief, alpha, action, choice, rounding) -> bool:
    """Whether `alpha` has the vectors `choice`, with some vector for each observation that cannot follow."""
    free = [z for z, v in enumerate(choice) if v is None]
    known = np.array([v or 0 for v in choice])
    if len(vectors) ** len(free) > 100:  # then only where it does not matter what they take
        wanted = oracle.assemble(*parts, vectors, action, known)
        return np.allclose(alpha[belief > 0], wanted[belief > 0], rtol=rounding, atol=rounding)
    for guess in product(range(len(vectors)), repeat=len(free)):
        known[free] = guess
        if np.allclose(alpha, oracle.assemble(*parts, vectors, action, known), rtol=rounding, atol=rounding):
            return True
    return False


def assert_case(truth: Example, storage: str, vectors: int, dtype="float32") -> list[int]:
    """The backup of one model at random beliefs on random vectors."""
    model = build(truth, storage)
    alpha, action = random_vectors(vectors, model.num_states, dtype)
    columns = random_beliefs(model.num_states, dtype)
    found = jit_backup(model, make_plan(model), columns, fill(alpha, action, model.num_states, ROOM))
    return assert_backup(model, found, alpha, columns, rounding=20 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize(
    ("case", "storage"),
    [(case, "blocked") for case in CASES]
    + [(case, "dense") for case in QUICK]
    + [pytest.param(case, "dense", marks=pytest.mark.slow) for case in CASES if case not in QUICK],
)
def test_against_nested_loops(case, storage, x64):
    assert_case(example(case), storage, vectors=6, dtype="float64")


@pytest.mark.parametrize(
    ("case", "storage"),
    [
        ("hard zeros", "dense"),
        ("hard zeros", "blocked"),
        ("rare", "blocked"),
        ("same observation", "blocked"),
    ],
)
def test_single_precision(case, storage):
    assert_case(example(case), storage, vectors=6)


@pytest.mark.parametrize("same", [True, False])
def test_states_that_look_like_few_things(same, x64):
    """Of 64 observations each state can give two; whole rows of them are then not added up."""
    random = np.random.default_rng(3)
    truth = plain(random, states=8, observations=64)
    sensor = np.zeros_like(truth.observation)
    for a, y in np.ndindex(sensor.shape[:2]):
        sensor[a, y, random.choice(16, 2, replace=False)] = [0.3, 0.7]
    truth = truth._replace(observation=np.repeat(sensor[:1], len(sensor), axis=0) if same else sensor)
    plan = make_plan(build(truth, "blocked"))
    assert isinstance(plan, BlockPlan) and plan.listed.shape[2] == 2
    assert_case(truth, "blocked", vectors=6, dtype="float64")


@pytest.mark.parametrize("case", ["hard zeros", "same observation", "never seen"])
def test_one_vector(case, x64):
    assert_case(example(case), "blocked", vectors=1, dtype="float64")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "same observation", "revealing"])
def test_more_vectors_than_a_tile(case, storage, x64):
    """Winners come from the first tile, from a middle one and from the last, which is not full."""
    truth = revealing(0) if case == "revealing" else example(case)
    chosen = assert_case(truth, storage, vectors=2 * TILE + 40, dtype="float64")
    assert {v // TILE for v in chosen} == {0, 1, 2}


@pytest.mark.parametrize("storage", STORAGES)
def test_observations_that_reveal_the_state(storage, x64):
    truth = revealing(3)
    assert isinstance(make_plan(build(truth, storage)), RevealingPlan)
    assert_case(truth, storage, vectors=6, dtype="float64")


def test_observations_that_reveal_some_states(x64):
    """Observation 3 comes from state 1 alone and observation 0 from nowhere; the others from several."""
    sensor = np.array([[0, 0.3, 0.7, 0], [0, 0.2, 0, 0.8], [0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0, 1, 0, 0]])
    truth = example("hard zeros")._replace(observation=np.repeat(sensor[None], 3, axis=0))
    assert isinstance(make_plan(build(truth, "blocked")), BlockPlan)
    assert_case(truth, "blocked", vectors=6, dtype="float64")


def few_kinds(random: np.random.Generator) -> Example:
    """24 states of three kinds, each of which can look like anything."""
    kinds = rows(random, 3, 6)[random.integers(3, size=24)]
    truth = plain(random, states=24, actions=2, observations=6, zeros=0.9)
    return truth._replace(observation=np.repeat(kinds[None], 2, axis=0))


def few_signs(random: np.random.Generator) -> Example:
    """16 states, all different, each with two signs out of 16 that its neighbours share."""
    near = rows(random, 16)[:, None] * np.eye(16)
    sensor = np.eye(16) * 0.5 + near
    sensor[np.arange(16), (np.arange(16) + 1) % 16] = 1 - sensor.sum(axis=1)
    truth = plain(random, states=16, actions=2, observations=16, zeros=0.9)
    return truth._replace(observation=np.repeat(sensor[None], 2, axis=0))


@pytest.mark.parametrize(("make", "spread"), [(few_kinds, 6), (few_signs, 0)])
def test_plans_by_class_and_direct(make, spread, x64):
    truth = make(np.random.default_rng(5))
    plan = make_plan(build(truth, "blocked"))
    assert plan.spread.shape[2] == spread  # so many observations are put together from several blocks
    assert_case(truth, "blocked", vectors=6, dtype="float64")


@pytest.mark.parametrize("storage", STORAGES)
def test_models_of_a_library(storage, x64):
    """Plans of one shape, for models of several sizes whose O depends on the action, or not, or reveals."""
    truths = [
        example("hard zeros"),
        example("same observation"),
        plain(np.random.default_rng(6), states=3, zeros=0.3),
        plain(np.random.default_rng(7), states=4)._replace(observation=np.repeat(np.eye(4)[None], 3, axis=0)),
    ]
    library = Library.from_models([build(truth, storage) for truth in truths])
    padded = [library.model(k) for k in range(4)]
    plans = make_plans(padded)
    assert len({str(jax.tree.map(np.shape, plan)) for plan in plans}) == 1
    for truth, model, plan in zip(truths, padded, plans, strict=True):
        states = len(truth.initial)
        alpha, action = random_vectors(6, 5, "float64")
        beliefs = np.zeros((5, BELIEFS))
        beliefs[:states] = random_beliefs(states, "float64")
        found = jit_backup(model, plan, beliefs, fill(alpha, action, 5, ROOM))
        part = (np.asarray(found[0])[:, :states], *found[1:])
        assert_backup(build(truth, storage), part, alpha[:, :states], beliefs[:states], 1e-14)


@pytest.mark.parametrize("case", ["hard zeros", "same observation", "revealing"])
def test_padding_never_wins(case):
    """Not against the lowest values, nor where an observation cannot follow."""
    truth = revealing(0) if case == "revealing" else example(case)
    model = build(truth, "blocked")
    alpha, action = random_vectors(6, model.num_states)
    alpha -= np.float32(1e8)
    beliefs = random_beliefs(model.num_states)
    vectors = fill(alpha, action, model.num_states, ROOM)
    alphas, _, values = jit_backup(model, make_plan(model), beliefs, vectors)
    np.testing.assert_allclose(alphas, -1e8 * truth.discount, rtol=1e-5)
    np.testing.assert_allclose(values, -1e8 * truth.discount, rtol=1e-5)


def test_a_buffer_keeps_its_vectors_when_it_grows():
    alpha, action = random_vectors(TILE + 3, 5)
    small = fill(alpha, action, 5, TILE)
    assert small.alpha.shape == (2 * TILE, 5)
    for most, room in ((10**6, 4 * TILE), (3 * TILE, 3 * TILE), (2 * TILE + 1, 3 * TILE)):
        large = grow(small, most)
        assert large.alpha.shape == (room, 5)
        assert int(large.count) == TILE + 3
        np.testing.assert_array_equal(large.alpha[: TILE + 3], alpha)
        np.testing.assert_array_equal(large.action[: TILE + 3], action)
        assert np.asarray(large.alpha[TILE + 3 :] == np.float32(NEVER)).all()


@pytest.mark.bits
@pytest.mark.parametrize("case", ["hard zeros", "same observation"])
def test_linear_in_the_size_of_the_belief(case):
    """Bounds back up beliefs that are not normalised, some of them nothing at all."""
    model = build(example(case), "blocked")
    plan, vectors = make_plan(model), fill(*random_vectors(6, 5), 5, ROOM)
    beliefs = random_beliefs(5)
    alpha, action, value = jit_backup(model, plan, beliefs, vectors)
    scale = np.float32([1, 0.5, 2**-20, 2**-60, 0, 0, 1, 1])
    alpha_scaled, action_scaled, value_scaled = jit_backup(model, plan, beliefs * scale, vectors)
    np.testing.assert_array_equal(value_scaled[:4], value[:4] * scale[:4])
    np.testing.assert_array_equal(action_scaled[:4], action[:4])
    np.testing.assert_array_equal(alpha_scaled[:4], alpha[:4])
    np.testing.assert_array_equal(value_scaled[4:6], 0)
    assert np.isfinite(np.asarray(alpha_scaled)).all()


def test_a_belief_alone_and_in_a_batch():
    model = build(example("hard zeros"), "blocked")
    plan, vectors = make_plan(model), fill(*random_vectors(6, 5), 5, ROOM)
    beliefs = random_beliefs(5)
    together = jit_backup(model, plan, beliefs, vectors)
    for b in range(BELIEFS):
        alone = jit_backup(model, plan, beliefs[:, b : b + 1], vectors)
        np.testing.assert_allclose(alone[0][0], together[0][b], rtol=1e-6)
        assert alone[1][0] == together[1][b]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "same observation", "revealing"])
def test_permuting_states_permutes_the_vectors(case, storage, x64):
    truth = revealing(1) if case == "revealing" else example(case)
    states = len(truth.initial)
    order = np.random.default_rng(8).permutation(states)
    alpha, action = random_vectors(6, states, "float64")
    beliefs = rows(np.random.default_rng(9), BELIEFS, states).T  # no zeros: every choice is determined
    found = []
    for model, a, b in ((truth, alpha, beliefs), (permuted(truth, order), alpha[:, order], beliefs[order])):
        built = build(model, storage)
        found.append(jit_backup(built, make_plan(built), b, fill(a, action, states, ROOM)))
    np.testing.assert_allclose(np.asarray(found[0][0])[:, order], found[1][0], rtol=1e-13)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-13)


@pytest.mark.parametrize("storage", STORAGES)
def test_nothing_is_compiled_twice(storage):
    """Not for another model of the same shapes, nor for another number of vectors."""
    truth = example("plain")
    models = [
        build(truth, storage),
        build(
            truth._replace(transition=truth.transition[:, ::-1], reward=-truth.reward, discount=0.5), storage
        ),
    ]
    beliefs = random_beliefs(5)
    jit_backup(models[0], make_plan(models[0]), beliefs, fill(*random_vectors(6, 5), 5, ROOM))
    compiled = jit_backup._cache_size()
    values = [
        jit_backup(model, make_plan(model), beliefs, fill(*random_vectors(count, 5), 5, ROOM))[2]
        for model in models
        for count in (1, 200, 300)
    ]
    assert jit_backup._cache_size() == compiled
    assert len({float(value[1]) for value in values}) == 6


def test_deterministic_observations_of_many_states(x64):
    """Two signs for 12 states, with an own meaning under each action: wide blocks, several groups."""
    random = np.random.default_rng(10)
    truth = plain(random, states=12, actions=3, observations=2, zeros=0.6)
    truth = truth._replace(observation=one_hot(random, 3, 12, 2))
    plan = make_plan(build(truth))
    assert plan.order.shape[0] == 3
    assert_case(truth, "auto", vectors=6, dtype="float64")
