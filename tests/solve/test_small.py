"""Perseus in NumPy, for small models: each part against nested loops, and when it is used."""

import jax
import numpy as np
import pytest

from jatpo import domains
from jatpo.solve import Perseus, perseus, points, small
from jatpo.solve.backup import jit_backup
from jatpo.solve.problem import prepare
from oracles import point_based as oracle
from oracles import pomdp_exact
from random_models import build, example, plain, rows
from small_pomdps import corridor, tiger, tiny
from solution_checks import assert_same, parts_of
from solving import chosen, solve

CASES = ("plain", "hard zeros", "same observation", "never seen", "one state", "one observation")
SETTINGS = chosen(Perseus, beliefs=60, stages=6, steps=20, batch=16)


def shrunk(model) -> small.Small:
    found = small.shrink(model, model.num_states)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES)
def test_backup(case, x64):
    """Value, action and vector are those of nested loops, wherever these are not a matter of rounding."""
    model = build(example(case))
    random = np.random.default_rng(4)
    vectors = random.normal(size=(7, model.num_states))
    beliefs = rows(random, 12, model.num_states, zeros=0.4)
    own = shrunk(model)
    after = small.ahead(own.step, vectors)
    q = small.look_ahead(own, after, beliefs)
    alpha, action = small.backup(own, vectors, after, beliefs, np.ones(q.shape, bool))
    compared = 0
    for number, belief in enumerate(beliefs):
        wanted = oracle.backup(*parts_of(model), vectors, belief)
        np.testing.assert_allclose(q[:, number], wanted.q, atol=1e-12)
        best = int(wanted.q.argmax())
        assert alpha[number] @ belief == pytest.approx(wanted.q[best], abs=1e-12)
        second = np.sort(wanted.q)[-2] if len(wanted.q) > 1 else -np.inf
        if wanted.q[best] - second > 1e-9 and wanted.margin[best] > 1e-9 and None not in wanted.choice[best]:
            compared += 1
            assert action[number] == best
            vector = oracle.assemble(*parts_of(model), vectors, best, wanted.choice[best])
            np.testing.assert_allclose(alpha[number], vector, atol=1e-12)
    assert compared >= 3 or case in ("same observation", "never seen")  # where some observation never follows


def test_only_possible_actions_are_tried(x64):
    model = build(plain(np.random.default_rng(6), 5, 3, 4))
    random = np.random.default_rng(7)
    vectors, beliefs, own = random.normal(size=(7, 5)), rows(random, 30, 5, zeros=0.4), shrunk(model)
    after = small.ahead(own.step, vectors)
    q = small.look_ahead(own, after, beliefs)
    possible = random.random(q.shape) < 0.5
    possible[0] |= ~possible.any(axis=0)
    alpha, action = small.backup(own, vectors, after, beliefs, possible)
    np.testing.assert_array_equal(action, np.where(possible, q, -np.inf).argmax(axis=0))
    np.testing.assert_allclose((alpha * beliefs).sum(axis=1), q[action, np.arange(30)], atol=1e-12)
    assert np.any(action != q.argmax(axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_actions_that_cannot_be_best_are_left_out(seed):
    """Stages that try every action find the same vectors."""
    [problem] = prepare([build(tiny(seed, discount=0.8))])
    own, state = shrunk(problem.model), SETTINGS.solver.init(problem, jax.random.key(1))
    unbounded = own._replace(upper=np.full_like(own.upper, 1e30))
    random, (vectors, points, *_), shares = np.random.default_rng(1), state, []
    for _ in range(30):
        turn = random.random(points.value.shape, np.float32)
        shares.append(
            small.possible_actions(own, np.asarray(points.beliefs), np.asarray(points.value)).mean()
        )
        found, every = (
            small.stage(turn, each, points, vectors, False, 16, 1000) for each in (own, unbounded)
        )
        jax.tree.map(np.testing.assert_array_equal, found, every)
        vectors, points, _ = found
    assert shares[0] == 1 and min(shares) < 0.9


@pytest.mark.parametrize("case", CASES)
def test_bounds(case):
    """The vectors are the fast informed bound from above."""
    model = build(example(case))
    parts, own = parts_of(model), shrunk(model)
    upper, exact = own.upper, oracle.informed(*parts)
    over = upper - exact
    assert over.min() >= 0 and over.max() <= 1e-3 / (1 - parts[3]) + 1e-3


@pytest.mark.parametrize("case", ["hard zeros", "same observation", "one state"])
def test_walks(case, x64):
    """Each belief follows the one before by the action drawn and something that can be seen, as often as it is seen."""
    model = build(example(case))
    uniform = np.random.default_rng(5).random((6, 3, 400))
    visited = small.random_walk(uniform, shrunk(model))
    transition, observation = parts_of(model)[:2]
    assert visited.shape == (6, model.num_states, 400)
    np.testing.assert_array_equal(visited[0], np.repeat(np.asarray(model.initial)[:, None], 400, axis=1))
    for step in range(5):
        for walker in range(0, 400, 40):
            action = int(uniform[step, 0, walker] * model.num_actions)
            after = pomdp_exact.branches(transition, observation, visited[step, :, walker], action)
            far = [np.abs(belief - visited[step + 1, :, walker]).max() for _, belief in after]
            assert min(far) < 1e-12
    action = (uniform[0, 0] * model.num_actions).astype(int)
    for a in range(model.num_actions):
        mean = visited[1][:, action == a].mean(
            axis=1
        )  # what is seen leaves the mean of beliefs as it was predicted
        np.testing.assert_allclose(mean, np.asarray(model.initial) @ transition[a], atol=0.15)


def test_the_largest_draw():
    """The largest number below 1 gives a possible observation, whatever the sum of the probabilities rounds to."""
    visited = small.random_walk(
        np.full((20, 3, 50), np.float32(1 - 2**-24)), shrunk(build(example("never seen")))
    )
    np.testing.assert_allclose(visited.sum(axis=1), 1, rtol=1e-5)


def test_only_small_models_and_whatever_is_around_them():
    """The size that counts is that of the states a model itself can reach."""
    plant = domains.library("abandoned-power-plant")
    assert all(problem.small is not None for problem in prepare(plant))
    assert prepare(domains.library("ntu"))[0].small is None
    alone, among = prepare([build(corridor(6))])[0], prepare([build(corridor(6)), build(corridor(300))])
    assert alone.small is not None and among[0].small is not None and among[1].small is None
    assert prepare([build(plain(np.random.default_rng(0), 2, 3, 43))])[0].small is None  # 129 pairs
    for part, other in zip(alone.small.small, among[0].small.small, strict=True):
        np.testing.assert_array_equal(part, other)


def test_nothing_is_compiled():
    kernels = (perseus.jit_stage, points.jit_random_walk, jit_backup)
    for kernel in kernels:
        kernel.clear_cache()
    found = solve([build(tiger())], SETTINGS, jax.random.key(0))[0]
    assert found.lower <= found.upper and found.stages == 6
    assert [kernel._cache_size() for kernel in kernels] == [0, 0, 0]


def test_flags_of_the_processor_are_ignored():
    """An invalid operation inside is no warning; outside it is one again."""

    def flagged():
        return np.full(1, np.inf) - np.inf

    assert np.isnan(small.finite(flagged)())
    with pytest.warns(RuntimeWarning):
        flagged()


def test_alone_and_among_others():
    models = [build(tiny(seed, discount=0.8)) for seed in range(3)]
    for single, one in zip(solve(models, SETTINGS, jax.random.key(2)), models, strict=True):
        assert_same(single, solve([one], SETTINGS, jax.random.key(2))[0])
