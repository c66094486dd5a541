"""Perseus: invariants of a stage at its points, and solutions against the optimum of small POMDPs."""

import jax
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.solve import Perseus, Status, perseus, points, small
from jatpo.solve.backup import TILE, fill
from jatpo.solve.policy import NEVER
from jatpo.solve.problem import generator, key_words, prepare
from jatpo.solve.scoring import make_plan
from jatpo.solve.stage import evaluate, join, loop_from, prune, rounding, stage
from oracles import point_based as oracle
from oracles import pomdp_exact
from random_models import build, example, rows
from small_pomdps import corridor, permuted, revealing, ring, tiger, tiny
from solution_checks import assert_earns_its_value, assert_near_the_optimum, parts_of
from solving import changed, chosen, in_class, solve

slow = pytest.mark.slow
jit_stage = jax.jit(stage, static_argnames="batch")
SMALL = chosen(Perseus, beliefs=100, stages=60, tolerance=1e-5, steps=30, batch=16)
LONG = changed(SMALL, stages=3000)


def small_stage(turn, model, plan, points, vectors, thorough, batch: int):
    """The stage of small models, called like the compiled one."""
    own = small.shrink(model, model.num_states)
    assert own is not None
    return small.stage(turn, own, points, vectors, bool(thorough), batch, capacity=1000)


@pytest.fixture(params=[jit_stage, small_stage], ids=["compiled", "small"])
def run_stage(request):
    """A stage, compiled or in NumPy."""
    return request.param


@pytest.fixture(params=[True, False], ids=["compiled", "small"])
def compiled(request) -> bool:
    """Whether small models are compiled too."""
    return request.param


@pytest.fixture
def own(compiled):
    """A choice of solver with either kind of kernels."""
    return lambda choice: in_class(choice, compiled=compiled)


def started(truth, storage: str = "dense", beliefs: int = 40, seed: int = 0):
    """A model with its plan, points at random beliefs and some vectors that are lower bounds."""
    model = build(truth, storage)
    columns = rows(np.random.default_rng([seed, 5]), beliefs, model.num_states, zeros=0.4).T
    low = float(np.min(truth.reward)) / (1 - truth.discount)
    alpha = np.concatenate(
        [pomdp_exact.blind(*parts_of(model)[::2], truth.discount), [[low] * model.num_states]]
    )
    action = np.append(np.arange(model.num_actions), 0)
    vectors = fill(alpha.astype(model.dtype), action, model.num_states, 2 * TILE)
    return model, make_plan(model), evaluate(vectors, columns.astype(model.dtype)), vectors


def turns(count: int, dtype="float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 6]).random(count, dtype)


# One stage


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize(
    ("case", "storage"),
    [("hard zeros", "dense"), ("same observation", "blocked"), ("revealing", "dense")],
)
def test_a_stage_improves_every_point(case, storage, thorough, run_stage):
    """Values never fall, the vectors attain them, and none is kept that is not needed."""
    truth = revealing(0, states=5, actions=3) if case == "revealing" else example(case)
    model, plan, points, vectors = started(truth, storage)
    total = 0
    for number in range(4):
        old = points
        turn = turns(40, seed=number)
        vectors, points, info = run_stage(turn, model, plan, points, vectors, np.array(thorough), batch=16)
        rises = np.asarray(points.value) - np.asarray(old.value)
        assert not info.full
        assert rises.min() >= -float(rounding(old.value))
        assert float(info.change) == rises.max()
        count, total = int(vectors.count), total + int(info.backups)
        alpha = np.asarray(vectors.alpha)
        assert (alpha[count:] == np.float32(NEVER)).all() and (alpha[:count] > -1e6).all()
        assert set(np.asarray(points.vector).tolist()) == set(range(count))
        scores = alpha[:count].astype(float) @ np.asarray(points.beliefs, float)
        tolerance = 1e-6 * np.abs(scores).max()
        np.testing.assert_allclose(scores.max(axis=0), points.value, atol=tolerance)
        np.testing.assert_allclose(scores[points.vector, range(40)], points.value, atol=tolerance)
    assert rises.max() > 0
    assert total == 4 * 40 if thorough else total < 4 * 40


def test_a_thorough_stage_is_a_backup_of_every_point(x64, run_stage):
    """No point ends below its own backup by nested loops, and some end just there."""
    model, plan, points, vectors = started(example("same observation"), "blocked")
    alpha = np.asarray(vectors.alpha)[: int(vectors.count)]
    wanted = [
        max(oracle.backup(*parts_of(model), alpha, belief).q.max(), value)
        for belief, value in zip(points.beliefs.T, points.value, strict=True)
    ]
    turn = turns(40, "float64")
    _, after, info = run_stage(turn, model, plan, points, vectors, np.array(True), batch=16)
    over = np.asarray(after.value) - wanted
    assert over.min() > -1e-12
    assert np.sum(over < 1e-12) >= 5
    assert float(info.change) >= np.max(wanted - np.asarray(points.value)) - 1e-12


def test_a_point_that_cannot_rise_keeps_its_vector(x64, run_stage):
    """A vector above every value, such as no policy has, stays the best and is passed on."""
    model, plan, points, _ = started(example("same observation"), "blocked")
    vectors = fill(np.concatenate([np.full((1, 5), 1e4), np.zeros((1, 5))]), np.array([2, 0]), 5, 2 * TILE)
    points = evaluate(vectors, points.beliefs)
    new, after, info = run_stage(turns(40, "float64"), model, plan, points, vectors, np.array(True), batch=16)
    assert int(new.count) == 1 and int(new.action[0]) == 2 and float(info.change) <= 1e-9
    np.testing.assert_array_equal(new.alpha[0], 1e4)
    np.testing.assert_allclose(after.value, 1e4)


@pytest.mark.parametrize("batch", [pytest.param(7, marks=slow), 64])
def test_a_batch_of_any_size(batch, x64, run_stage):
    """Also one that does not divide the number of points, or is larger."""
    model, plan, points, vectors = started(example("same observation"), "blocked")
    _, after, info = run_stage(
        turns(40, "float64"), model, plan, points, vectors, np.array(True), batch=batch
    )
    assert int(info.backups) == 40
    assert (np.asarray(after.value) >= np.asarray(points.value) - 1e-9).all()


def test_permuting_states_permutes_the_vectors(x64, run_stage):
    truth = example("same observation")
    order = np.random.default_rng(8).permutation(5)
    model, plan, points, vectors = started(truth, "blocked")
    other = build(permuted(truth, order), "blocked")
    turned = fill(np.asarray(vectors.alpha)[:4][:, order], np.asarray(vectors.action)[:4], 5, 2 * TILE)
    arguments = [
        (model, plan, points, vectors),
        (other, make_plan(other), points._replace(beliefs=points.beliefs[order]), turned),
    ]
    turn = turns(40, "float64")
    found = [run_stage(turn, *each, np.array(False), batch=16) for each in arguments]
    np.testing.assert_allclose(found[0][1].value, found[1][1].value, rtol=1e-12)
    first, second = (  # as sets: rounding may leave two copies of a vector
        np.c_[np.asarray(new.alpha), np.asarray(new.action)][: int(new.count)] for new, _, _ in found
    )
    far = np.abs(first[:, None, [*order, 5]] - second[None]).max(axis=2)
    assert (far.min(axis=0) < 1e-12).all() and (far.min(axis=1) < 1e-12).all() and len(first) > 1


def test_pruning_keeps_what_is_named():
    alpha = np.arange(12, dtype=np.float32).reshape(6, 2)
    vectors = fill(alpha, np.arange(6), 2, TILE)
    new, index = jax.jit(prune)(vectors, np.array([4, 1, 4, 3], np.int32))
    assert int(new.count) == 3
    np.testing.assert_array_equal(new.alpha[:3], alpha[[1, 3, 4]])
    np.testing.assert_array_equal(new.action[:3], [1, 3, 4])
    np.testing.assert_array_equal(index, [2, 0, 2, 1])
    assert np.asarray(new.alpha[3:] == np.float32(NEVER)).all()


def test_a_full_buffer_stays_full():
    """What did not fit is not forgotten when the next vectors add nothing."""
    corners = np.eye(3, dtype=np.float32)
    vectors = fill(np.full((TILE - 1, 3), -5, np.float32), np.zeros(TILE - 1), 3, TILE)
    add = jax.jit(join)
    loop = add(loop_from(vectors, evaluate(vectors, corners)), corners, np.int32([0, 1, 2]), corners)
    assert bool(loop.full) and int(loop.vectors.count) == TILE
    np.testing.assert_array_equal(loop.value, [1, -5, -5])  # only what has a place counts
    loop = add(loop, corners - 9, np.int32([0, 1, 2]), corners)
    assert bool(loop.full)


def test_nothing_is_compiled_for_another_model_of_the_shape():
    solver = in_class(SMALL, compiled=True).solver
    problems = [prepare([build(truth)])[0] for truth in (tiny(0), tiny(1, discount=0.8))]
    for problem in problems:
        run = solver.init(problem, jax.random.key(0))
        for _ in range(3):  # also a thorough stage
            run, _ = solver.step(problem, jax.random.key(0), run._replace(change=0.0))
        if problem is problems[0]:
            compiled = perseus.jit_stage._cache_size()
    assert perseus.jit_stage._cache_size() == compiled


# Whole solutions


@pytest.mark.parametrize("seed", range(2))
def test_tiger(seed, own):
    found = solve([build(tiger())], own(LONG), jax.random.key(seed))[0]
    exact = pomdp_exact.closed(*tiger()[:3], 0.95, tiger().initial)
    assert found.status is Status.CONVERGED and exact - 0.03 <= found.lower <= exact <= found.upper
    attained = float(np.max(np.asarray(found.policy.vectors) @ tiger().initial))
    assert attained == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize(
    ("seed", "storage"), [(0, "dense"), (1, "dense"), (2, "dense"), pytest.param(3, "blocked", marks=slow)]
)
def test_random_models(seed, storage, own):
    model = build(tiny(seed), storage)
    assert_near_the_optimum(model, solve([model], own(SMALL), jax.random.key(seed))[0], seed)


@pytest.mark.parametrize("seed", range(3))
def test_the_policy_attains_its_value(seed, own):
    model = build(tiny(seed, discount=0.5))
    assert_earns_its_value(model, solve([model], own(SMALL), jax.random.key(1))[0])


@pytest.mark.parametrize("seed", range(3))
def test_a_reward_at_the_far_end_only(seed, own):
    """All values start equal and one useless backup keeps them up: that is no reason to stop."""
    truth = corridor(8)
    settings = chosen(Perseus, beliefs=40, stages=200, tolerance=1e-4, steps=80, batch=1)
    found = solve([build(truth)], own(settings), jax.random.key(seed))[0]
    exact = pomdp_exact.closed(*truth[:3], truth.discount, truth.initial)
    assert exact == pytest.approx(0.9**7 / (1 - 0.9))
    assert found.lower == pytest.approx(exact, abs=2e-3) and found.lower <= exact + 1e-5
    assert found.status is Status.CONVERGED and found.stages > 10


def test_points_where_random_walks_meet_no_reward(x64, compiled, own):
    """Walks that the upper bound guides do; whether they are needed is asked of the model alone, not of its padding."""
    models = [build(truth._replace(reward=truth.reward + 30)) for truth in (corridor(16), corridor(20))]
    settings, key = own(changed(SMALL, steps=20)), jax.random.key(0)
    found, among_others = (
        np.asarray(perseus.explore(prepare(part)[0], settings.solver, key_words(key)))[:16]
        for part in (models[:1], models)
    )
    count = settings.solver.beliefs
    assert found.shape == (16, 2 * count)
    guided, roaming = found[:, count : count + count // 2], found[:, count + count // 2 :]
    assert set(guided.argmax(axis=0)) == set(range(16))
    np.testing.assert_allclose(found, among_others, atol=1e-12)
    np.testing.assert_array_equal(found[:, 0], corridor(16).initial)
    alone = points_of_random_walks(models[0], settings, key)
    compare = np.testing.assert_array_equal if compiled else np.testing.assert_allclose
    compare(found[:, :count], alone[:16])
    assert max(alone.argmax(axis=0)) < max(roaming.argmax(axis=0)) and max(alone.argmax(axis=0)) < 15


def points_of_random_walks(model, settings, key) -> np.ndarray:
    """What `explore` would find without a guide."""
    return np.asarray(
        points.explore(generator(key_words(key), 0), model, settings.solver.beliefs, settings.solver.steps)
    )


def test_nothing_to_gain(own):
    """All rewards equal: the first stage has the optimum, and two more see that nothing rises."""
    truth = tiger()._replace(reward=np.full((2, 3), 2.0))
    found = solve([build(truth)], own(SMALL), jax.random.key(0))[0]
    assert 39.99 <= found.lower <= 40 <= found.upper
    assert found.stages <= 3 and found.num_vectors == 1 and found.status is Status.CONVERGED


@slow
def test_a_discount_near_one(own):
    """The optimum of a door that is worth opening once it is found; values near 100 and a long way up."""
    truth = tiger(discount=0.99)
    found = solve([build(truth)], own(changed(LONG, tolerance=1e-3)), jax.random.key(0))[0]
    exact = pomdp_exact.closed(*truth[:3], truth.discount, truth.initial)
    assert exact > 100
    assert exact - 0.9 <= found.lower <= exact < found.upper
    assert found.status is Status.CONVERGED and found.stages > 300


@pytest.mark.parametrize("case", ["one observation", pytest.param("alone", marks=slow)])
def test_models_of_one_thing(case, own):
    truth = example(case)._replace(discount=0.5)
    model = build(truth)
    found = solve([model], own(changed(SMALL, tolerance=1e-6)), jax.random.key(0))[0]
    low, high = pomdp_exact.interval(*parts_of(model), np.asarray(model.initial, float), 4)
    assert low - 1e-3 <= found.lower <= high + 2e-5
    assert found.lower <= found.upper and low <= found.upper + 2e-5


def test_the_paper_way_of_stopping(own):
    """After as many stages as asked for, wherever that is."""
    settings = own(changed(SMALL, stages=3))
    model = build(tiger())
    found = solve([model], settings, jax.random.key(3))[0]
    assert (found.stages, found.status, found.seed) == (3, Status.STAGES_DONE, 3)
    assert (found.solver, found.settings, found.stop) == ("perseus", vars(settings.solver), settings.stop)
    assert found.model_hash == model.content_hash()
    run = settings.solver.init(prepare([model])[0], jax.random.key(3))
    assert run.points.beliefs.shape == (2, 100) and run.points.value[0] == pytest.approx(-2000, rel=1e-6)
    np.testing.assert_allclose(
        np.asarray(run.points.beliefs)[:, 0], [0.5, 0.5]
    )  # the initial belief comes first


def test_room_and_capacity(compiled):
    """Room is made when it runs out and changes nothing; at the capacity the status reports it, and what was found
    before is kept."""
    model, key, reports = build(ring(discount=0.8)), jax.random.key(0), []
    settings = chosen(Perseus, beliefs=1000, stages=5, steps=60, batch=512)
    ample, tight = (in_class(settings, compiled=compiled, room=room) for room in (2 * TILE, TILE))
    wanted = solve([model], ample, key, reports)[0]
    assert TILE < wanted.num_vectors <= 2 * TILE
    found = solve([model], tight, key)[0]
    assert (found.backups, found.stages, found.num_vectors) == (wanted.backups, 5, wanted.num_vectors)
    np.testing.assert_allclose(found.policy.vectors, wanted.policy.vectors, rtol=1e-4)
    short = solve([model], changed(tight, capacity=TILE), key)[0]
    assert short.status is Status.CAPACITY_REACHED
    assert 1 < short.num_vectors <= TILE and 1 < short.stages < 5
    now = reports[short.stages - 1]
    assert (short.backups, short.num_vectors) == (now["backups"], now["vectors"])
    assert short.lower == pytest.approx(now["lower"], rel=1e-6)


@pytest.mark.bits
def test_seeds(own):
    """The same one gives the same, bit for bit; another one other vectors."""
    model, settings = build(tiger()), changed(SMALL, stages=40)
    first, again, other = (solve([model], own(settings), jax.random.key(seed))[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.policy.vectors, again.policy.vectors)
    np.testing.assert_array_equal(first.policy.actions, again.policy.actions)
    assert (first.lower, first.mean_value, first.backups) == (again.lower, again.mean_value, again.backups)
    assert first.mean_value != other.mean_value
    assert first.lower == pytest.approx(other.lower, rel=0.2)


def test_double_precision(x64, own):
    found = solve([build(tiger())], own(changed(LONG, tolerance=1e-9)), jax.random.key(0))[0]
    assert found.policy.vectors.dtype == np.float64
    exact = pomdp_exact.closed(*tiger()[:3], 0.95, tiger().initial)
    assert exact - 1e-6 < found.lower <= exact + 1e-10


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"beliefs": 0}, "beliefs .*0"),
        ({"steps": -1}, "steps .*-1"),
        ({"batch": 0}, "batch .*0"),
        ({"capacity": 0}, "capacity .*0"),
        ({"tolerance": -0.5}, r"tolerance .*-0\.5"),
        ({"tolerance": float("nan")}, "tolerance .*nan"),
    ],
)
def test_bad_settings(change, text):
    with pytest.raises(JatpoError, match=text):
        Perseus(**change)


def test_a_discount_of_one_is_refused():
    with pytest.raises(JatpoError, match=r"model 1 .*discount 1"):
        solve([build(tiger()), build(tiger(discount=1.0))], SMALL, jax.random.key(0))
