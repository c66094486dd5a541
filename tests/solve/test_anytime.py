"""The anytime solver: bounds that hold and close, reasons to stop, and policies that earn what is claimed."""

import jax
import numpy as np
import pytest

import random_models
from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.mdp import TIE
from jatpo.solve import Anytime, Status, rounds, stage
from jatpo.solve import anytime as module
from jatpo.solve.backup import TILE, fill, jit_backup
from jatpo.solve.first_bounds import first_bounds, rounding_of
from jatpo.solve.problem import prepare
from oracles import mdp, pomdp_exact
from random_models import build, example
from small_pomdps import corridor, revealing, ring, tiger, tiny
from solution_checks import assert_earns_its_value, assert_near_the_optimum, earnings, parts_of
from solving import changed, chosen, in_class, solve

slow = pytest.mark.slow
SMALL = chosen(Anytime, gap=1e-4, stages=30, walkers=16, steps=20, keep=128)


def solved(truth, settings=SMALL, seed: int = 0, storage: str = "auto", reports: list | None = None):
    """The solution of one model; `reports` collects the progress."""
    return solve([build(truth, storage)], settings, jax.random.key(seed), reports)[0]


# Against the optimum


@pytest.mark.parametrize("seed", range(3))
def test_tiger(seed):
    found = solved(tiger(), seed=seed)
    assert 19.3711 <= found.lower <= 19.3721
    exact = pomdp_exact.closed(*tiger()[:3], 0.95, tiger().initial)
    assert found.lower == pytest.approx(exact, abs=2e-4)
    assert exact <= found.upper <= exact + 0.01  # tiger has few beliefs, so the bounds meet


@pytest.mark.parametrize(
    ("seed", "storage"), [(0, "dense"), (1, "dense"), (2, "dense"), pytest.param(3, "blocked", marks=slow)]
)
def test_random_models(seed, storage):
    model = build(tiny(seed), storage)
    assert_near_the_optimum(model, solve([model], SMALL, jax.random.key(seed))[0], seed)


@pytest.mark.parametrize("seed", range(2))
def test_the_policy_attains_its_value(seed):
    model = build(tiny(seed, discount=0.5))
    assert_earns_its_value(model, solve([model], SMALL, jax.random.key(1))[0])


def test_a_reward_at_the_far_end_only():
    """Nothing but zeros until a walk has come to the end; then one round brings the value back to the start."""
    truth = corridor(8)
    found = solved(truth, changed(SMALL, stages=3))
    exact = pomdp_exact.closed(*truth[:3], truth.discount, truth.initial)
    assert exact - 2e-3 <= found.lower <= exact + 1e-5 and found.upper >= exact


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("seed", range(2))
def test_observations_that_reveal_the_state(seed, discount):
    """lower ≤ optimum ≤ upper without an allowance for rounding, and both are near."""
    truth = revealing(seed, discount)
    found = solve([build(truth)], SMALL, jax.random.key(0))[0]
    exact = np.max(truth.initial @ mdp.optimal(truth.transition, truth.reward, truth.discount)[0])
    assert found.lower <= exact <= found.upper
    assert found.gap <= 3e-4 / (1 - discount) + 2e-6 * abs(exact) / (1 - discount)


def test_a_discount_near_one():
    truth = tiger(discount=0.99)
    found = solved(truth, changed(SMALL, stages=80))
    exact = pomdp_exact.closed(*truth[:3], truth.discount, truth.initial)
    assert exact - 0.5 <= found.lower <= exact + 0.01 and exact <= found.upper


@pytest.mark.parametrize("case", ["one state", pytest.param("one action", marks=slow)])
def test_models_of_one_thing(case):
    model = build(example(case)._replace(discount=0.5))
    found = solve([model], SMALL, jax.random.key(0))[0]
    low, high = pomdp_exact.interval(*parts_of(model), np.asarray(model.initial, float), 4)
    assert low - 1e-4 <= found.lower <= high + 2e-5 and low <= found.upper


@slow
def test_double_precision(x64):
    found = solved(tiger(), changed(SMALL, stages=60))
    assert found.policy.vectors.dtype == np.float64
    exact = pomdp_exact.closed(*tiger()[:3], 0.95, tiger().initial)
    assert exact - 1e-4 < found.lower <= exact + 1e-10


# Rounds


def test_the_bounds_only_close_in():
    reports: list[dict] = []
    found = solved(ring(), changed(SMALL, stages=8), reports=reports)
    lowers = [now["lower"] for now in reports]
    assert [now["stage"] for now in reports] == list(range(1, 9)) and lowers[-1] == found.lower
    assert np.all(np.diff(lowers) >= -1e-5) and lowers[-1] > lowers[0]
    uppers = [now["upper"] for now in reports]
    assert np.all(np.diff(uppers) <= 0) and uppers[-1] < uppers[0] and found.upper > found.lower
    assert [now["backups"] for now in reports] == sorted(now["backups"] for now in reports)
    assert {now["label"] for now in reports} == {"0"}


def test_what_a_solution_says_of_itself():
    """The vectors give the values, less what float32 may have added; the settings are those asked for."""
    model = build(ring())
    found = solve([model], changed(SMALL, stages=3), jax.random.key(4))[0]
    vectors = np.asarray(found.policy.vectors, float)
    best = np.max(vectors @ np.asarray(model.initial, float))
    added = rounding_of(model, first_bounds(model).magnitude, at_once=True)
    assert found.lower <= best <= found.lower + added + 1e-5
    assert float(found.value(model.initial)) == pytest.approx(best, abs=1e-5)
    assert (found.stages, found.seed, found.model_hash) == (3, 4, model.content_hash())
    assert (found.solver, found.settings) == ("anytime", vars(SMALL.solver))
    assert found.stop == changed(SMALL, stages=3).stop
    assert found.num_vectors == len(vectors) == len(found.policy.actions)
    assert set(np.asarray(found.policy.actions).tolist()) <= {0, 1, 2}
    assert found.gap == found.upper - found.lower and found.seconds > 0


def test_reasons_to_stop():
    assert solved(revealing(0), changed(SMALL, gap=0.1)).status is Status.GAP_REACHED
    assert solved(tiger(), changed(SMALL, stages=2, gap=0)).status is Status.STAGES_DONE
    found = solved(tiger(), changed(SMALL, stages=0, gap=0, seconds=1e-3))
    assert (found.status, found.stages) == (Status.TIME_UP, 1)


def test_room_and_capacity():
    """Room is made when it runs out and changes little; at the capacity the status reports it, and what was found
    before is kept."""
    settings, reports = changed(SMALL, stages=4, gap=0, walkers=64), []
    ample, tight = (in_class(settings, room=room) for room in (2 * TILE, TILE))
    wanted = solved(ring(), ample)
    found = solved(ring(), tight, reports=reports)
    assert found.stages == 4 and found.lower == pytest.approx(wanted.lower, abs=1e-2)
    short = solved(ring(), changed(tight, capacity=TILE))
    assert short.status is Status.CAPACITY_REACHED
    assert short.num_vectors <= TILE and short.stages < 4  # so the other two had to make room
    now = reports[short.stages - 1]
    assert short.backups == now["backups"]
    assert short.lower == pytest.approx(now["lower"], abs=1e-2)  # it drops vectors where the others make room


@pytest.mark.parametrize(
    "change",
    [
        {"off_policy": 1.0},
        {"walkers": 1, "steps": 1},
        pytest.param({"off_policy": 0.0}, marks=slow),
        pytest.param({"walkers": 1}, marks=slow),
        pytest.param({"steps": 1}, marks=slow),
    ],
    ids=str,
)
def test_extreme_settings(change):
    """Every walker guided, none, a single one, one step: the bounds hold all the same."""
    found = solved(tiger(), changed(SMALL, stages=3, **change))
    assert -20.02 <= found.lower <= 19.3721 and found.upper >= 19.3711


@pytest.mark.bits
def test_seeds():
    """The same one gives the same, bit for bit; another one other vectors."""
    settings = changed(SMALL, stages=3)
    first, again, other = (solved(ring(), settings, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.policy.vectors, again.policy.vectors)
    np.testing.assert_array_equal(first.policy.actions, again.policy.actions)
    assert (first.lower, first.mean_value, first.backups) == (again.lower, again.mean_value, again.backups)
    assert first.mean_value != other.mean_value


# NumPy's product may round otherwise, and the last place decides what is joined.
jit_scores = jax.jit(jax.numpy.matmul)


def swept(problem, beliefs, batches, alpha, action, value, vector, room, capacity):
    """A sweep on the host, batch by batch: joined, dropped and grown in NumPy; and how often each happened."""
    least, dropped, grown = len(alpha), 0, 0
    for columns in batches:
        chosen = beliefs[:, np.resize(columns, 16)]
        new, act, _ = jit_backup(problem.model, problem.plan, chosen, fill(alpha, action, len(beliefs), room))
        scores = np.asarray(jit_scores(new, beliefs))
        raised = np.flatnonzero(scores.max(axis=0) > value)
        useful, number = np.unique(scores.argmax(axis=0)[raised], return_inverse=True)
        value[raised], vector[raised] = scores.max(axis=0)[raised], len(alpha) + number
        alpha = np.concatenate([alpha, np.asarray(new)[useful]])
        action = np.concatenate([action, np.asarray(act)[useful]])
        if len(alpha) > least + 2 * TILE:
            used, vector = np.unique(vector, return_inverse=True)
            alpha, action, least, dropped = alpha[used], action[used], len(used), dropped + 1
        if len(alpha) + 16 > room:
            assert room < capacity
            room, grown = min(2 * room, capacity), grown + 1
    return alpha, action, value, vector, dropped, grown


def test_a_sweep_is_that_of_batches_one_by_one(x64):
    """The compiled one ends where vectors are dropped and where the buffer grows, and continues from there."""
    random = np.random.default_rng(3)
    (problem,) = prepare([build(random_models.plain(random, states=24), "dense")])
    beliefs = random.dirichlet(np.full(24, 0.3), 900).T
    alpha, action, room = np.full((1, 24), problem.floor), np.zeros(1, np.int32), 256
    start = np.full(900, problem.floor), np.zeros(900, np.int32)
    batches = [*np.arange(896).reshape(-1, 16), np.arange(896, 900)]
    vectors = fill(alpha, action, 24, room)
    loop = stage.loop_from(vectors, stage.Points(beliefs, *map(jax.numpy.asarray, start)))
    columns = rounds.table_of(batches, 30, 40)
    assert len(columns) > len(batches)
    loop, full = rounds.sweep(problem, beliefs, columns, len(batches), loop, 4096)
    wanted = swept(problem, beliefs, batches, alpha, action, *map(np.copy, start), room, 4096)
    assert not full and min(wanted[4:]) > 0
    count = int(loop.vectors.count)
    assert count == len(wanted[0])
    np.testing.assert_allclose(loop.vectors.alpha[:count], wanted[0], rtol=1e-11)
    np.testing.assert_array_equal(loop.vectors.action[:count], wanted[1])
    np.testing.assert_allclose(loop.value, wanted[2], rtol=1e-11)
    np.testing.assert_array_equal(loop.vector, wanted[3])


def test_nothing_is_compiled_for_another_model_of_the_shape():
    parts = {**vars(module), **vars(rounds)}
    kernels = [part for name, part in parts.items() if name.startswith("jit_")]
    assert len(kernels) > 6 and rounds.jit_back_up in kernels
    models = [build(tiger()), build(tiger(0.7, discount=0.8))]
    settings = changed(SMALL, stages=3)
    for kernel in kernels:
        kernel.clear_cache()
    first = solve(models[:1], settings, jax.random.key(0))[0]
    compiled = [kernel._cache_size() for kernel in kernels]
    second = solve(models[1:], settings, jax.random.key(1))[0]
    assert [kernel._cache_size() for kernel in kernels] == compiled
    assert first.lower != second.lower


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"walkers": 0}, "walkers .*0"),
        ({"steps": 0}, "steps .*0"),
        ({"keep": -3}, "keep .*-3"),
        ({"capacity": 0}, "capacity .*0"),
        ({"off_policy": 1.5}, r"off_policy .*1\.5"),
        ({"exploration": float("nan")}, "exploration .*nan"),
    ],
)
def test_bad_settings(change, text):
    with pytest.raises(JatpoError, match=text):
        Anytime(**change)


def test_something_must_stop_it():
    with pytest.raises(JatpoError, match="anytime"):
        solved(tiger(), chosen(Anytime))


# By simulation


def simulate(model, policy, trials: int, steps: int, seed: int) -> np.ndarray:
    """Discounted returns [trials] of a policy that acts on its own beliefs, ties uniform. NumPy only.

    Trials that have come to the same belief share it: `beliefs` [U, X] are different, `place` [trials] says which.
    """
    random = np.random.default_rng(seed)
    dense = model.to_dense()
    moves, signs = (np.cumsum(part, axis=2) for part in dense[:2])
    num_actions, _, num_observations = signs.shape
    vectors, acting = np.asarray(policy.vectors, float), np.eye(num_actions)[np.asarray(policy.actions)]
    projection = random.normal(size=len(dense.initial))
    states = random.choice(len(dense.initial), trials, p=dense.initial / dense.initial.sum())
    beliefs, place = dense.initial[None], np.zeros(trials, int)
    returns = np.zeros(trials)
    for t in range(steps):
        scores = beliefs @ vectors.T  # [U, V]
        best = (scores >= scores.max(axis=1, keepdims=True) - TIE) @ acting > 0
        actions = _drawn(random, np.cumsum(best, axis=1)[place])
        returns += dense.discount**t * dense.reward[states, actions]
        states = _drawn(random, moves[actions, states])
        seen = _drawn(random, signs[actions, states])
        _, first, place_of = np.unique(
            (place * num_actions + actions) * num_observations + seen, return_index=True, return_inverse=True
        )
        after = np.empty((len(first), len(dense.initial)))
        for a in np.unique(actions[first]):
            mine = actions[first] == a
            after[mine] = beliefs[place[first[mine]]] @ dense.transition[a]
            after[mine] *= dense.observation[a][:, seen[first[mine]]].T
        after /= after.sum(axis=1, keepdims=True)
        _, keep, merged = np.unique(np.round(after @ projection, 9), return_index=True, return_inverse=True)
        beliefs, place = after[keep], merged[place_of]
    return returns


def _drawn(random: np.random.Generator, cumulated: np.ndarray) -> np.ndarray:
    """The index at which each row passes a random number."""
    return (cumulated > random.random((len(cumulated), 1)) * cumulated[:, -1:]).argmax(axis=1)


@pytest.mark.parametrize(
    ("name", "number", "trials", "steps"),
    [("ntu", 0, 2000, 150), pytest.param("abandoned-power-plant", 1, 6000, 80, marks=slow)],
)
def test_the_lower_bound_is_earned(name, number, trials, steps):
    """By thousands of trials, up to four standard errors and what is cut off in the end."""
    model = domains.make(name, model=number)
    settings = chosen(Anytime, gap=0.5, stages=6, walkers=16)
    found = solve([model], settings, jax.random.key(0))[0]
    returns = simulate(model, found.policy, trials, steps, seed=1)
    reward, discount = np.asarray(model.reward, float), float(model.discount)
    error = returns.std() / np.sqrt(len(returns))
    rest = discount**steps * np.abs(reward).max() / (1 - discount)
    assert returns.mean() >= found.lower - 4 * error - rest
    assert returns.mean() <= found.upper + 4 * error + rest
    assert 4 * error + rest < 0.02 * found.lower  # a bound that were far off would be seen


def test_simulation_by_enumeration():
    """The simulator of this test earns what the tree of beliefs says."""
    model = build(tiny(0, discount=0.5))
    found = solve([model], SMALL, jax.random.key(1))[0]
    low, high = earnings(model, found.policy)
    returns = simulate(model, found.policy, 4000, 20, seed=2)
    error = 4 * returns.std() / np.sqrt(len(returns))
    assert low - error <= returns.mean() <= high + error
