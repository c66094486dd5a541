"""Solving libraries: K models together are K models alone, what is finished is not done again, and what a solution
returns."""

import sys
from dataclasses import replace

import jax
import numpy as np
import pytest

from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.library import Published
from jatpo.mdp import TIE
from jatpo.solve import (
    QMDP,
    Anytime,
    GraphSearch,
    Perseus,
    Request,
    Solution,
    Status,
    Stop,
    ValueIteration,
    anytime,
    choose,
    default_directory,
    graph,
    notes,
    perseus,
    rounds,
    solve_models,
)
from jatpo.solve.backup import jit_backup
from oracles import mdp, pomdp_exact
from oracles import policy as oracle
from random_models import build, example, plain, rows
from small_pomdps import revealing, tiger
from solution_checks import assert_same
from solving import changed, chosen, in_class, solve

PERSEUS = chosen(Perseus, beliefs=100, stages=8, steps=30, batch=16)
ANYTIME = chosen(Anytime, stages=3, walkers=16, steps=20, keep=128)
SOLVERS = {"perseus": PERSEUS, "anytime": ANYTIME}
STORAGE = {"perseus": "blocked", "anytime": "dense"}
slow = pytest.mark.slow


def four_models(storage: str):
    """Four tasks with one set of moves and one sensor."""
    truth = example("same observation")
    random = np.random.default_rng(1)
    rewards = [truth.reward, truth.reward[::-1], -truth.reward, random.normal(size=truth.reward.shape)]
    return [build(truth._replace(reward=reward), storage) for reward in rewards]


# Libraries


@pytest.mark.bits
@pytest.mark.parametrize("solver", SOLVERS)
def test_four_models_at_once_and_alone(solver):
    models, key = four_models(STORAGE[solver]), jax.random.key(5)
    together = solve(models, SOLVERS[solver], key)
    for model, found in zip(models, together, strict=True):
        assert_same(found, solve([model], SOLVERS[solver], key)[0])
        assert found.model_hash == model.content_hash()
    assert len({found.lower for found in together}) == 4


@pytest.mark.parametrize("solver", ["perseus", pytest.param("anytime", marks=slow)])
def test_models_of_several_sizes(solver, x64):
    """Padding, and sensors that differ, change a solution by rounding only, also where all rewards are large."""
    truths = [example("hard zeros"), plain(np.random.default_rng(6), states=3, zeros=0.3)]
    models = [build(truth._replace(reward=truth.reward + 30)) for truth in truths]
    settings = changed(SOLVERS[solver], stages=3)
    for model, found in zip(models, solve(models, settings, jax.random.key(0)), strict=True):
        alone = solve([model], settings, jax.random.key(0))[0]
        assert found.policy.vectors.shape[1] == model.num_states
        assert (found.lower, found.upper) == pytest.approx((alone.lower, alone.upper), rel=1e-12)
        beliefs = rows(np.random.default_rng(8), 20, model.num_states)
        values = [np.max(np.asarray(each.policy.vectors) @ beliefs.T, axis=0) for each in (found, alone)]
        np.testing.assert_allclose(*values, rtol=1e-10)


@slow
def test_a_model_that_reveals_its_state_among_others(x64):
    """It is solved as well as alone."""
    plainly = plain(np.random.default_rng(9), states=6, actions=2, observations=8)
    models = [build(revealing(0)), build(plainly)]
    together = solve(models, ANYTIME, jax.random.key(0))[0]
    alone = solve(models[:1], ANYTIME, jax.random.key(0))[0]
    assert together.lower == pytest.approx(alone.lower, rel=1e-10)
    assert together.upper == pytest.approx(alone.upper, abs=2e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_library_compiles_for_its_first_model_only(solver):
    kernels = [
        jit_backup,
        perseus.jit_stage,
        *(part for name, part in {**vars(anytime), **vars(rounds)}.items() if name.startswith("jit_")),
    ]
    compiled = {}

    def note(event):
        if event.figures["stage"] == 2:
            compiled[event.title] = [kernel._cache_size() for kernel in kernels]

    for kernel in kernels:
        kernel.clear_cache()
    choice = in_class(SOLVERS[solver], compiled=True)
    solve(four_models(STORAGE[solver]), choice, jax.random.key(0), on_event=note)
    assert sum(compiled["0"]) > 0
    assert compiled["0"] == compiled["1"] == compiled["2"] == compiled["3"]


def test_libraries_must_agree():
    with pytest.raises(JatpoError, match=r"1.*2 actions.*0.*3"):
        solve([build(example("plain")), build(revealing(0))], PERSEUS, jax.random.key(0))


# Kept results


class SolvedAgain(Exception):
    pass


class Forbidden(Perseus):
    """A solver that must not be asked to solve anything."""

    def init(self, problem, key):
        raise SolvedAgain


def test_what_is_finished_is_loaded(tmp_path):
    models, key = four_models("blocked")[:2], jax.random.key(3)
    first = solve(models, PERSEUS, key, cache=tmp_path)
    in_memory = solve(models, PERSEUS, key)
    loading, events = PERSEUS._replace(solver=Forbidden(**vars(PERSEUS.solver))), []
    again = solve(models, loading, key, cache=tmp_path, on_event=events.append)
    for found, wanted, alone in zip(again, first, in_memory, strict=True):
        assert_same(found, wanted)
        assert found.seconds == wanted.seconds
        assert_same(found, alone)
    assert_same(solve(models[1:], loading, key, cache=tmp_path)[0], first[1])
    assert not events
    for other in (
        {"key": jax.random.key(4)},
        {"choice": changed(loading, stages=9)},
        {"choice": changed(loading, batch=17)},
        {"models": four_models("blocked")[2:]},
    ):
        with pytest.raises(SolvedAgain):
            solve(**{"models": models, "choice": loading, "key": key, "cache": tmp_path, **other})


def test_only_what_is_missing_is_solved(tmp_path):
    models, reports, key = four_models("blocked"), [], jax.random.key(0)
    solve(models[1:3], PERSEUS, key, cache=tmp_path)
    labels = ["zero", "one", "two", "three"]
    found = solve(models, PERSEUS, key, reports, cache=tmp_path, labels=labels)
    assert list(dict.fromkeys(now["label"] for now in reports)) == ["zero", "three"]
    for model, each in zip(models, found, strict=True):
        assert_same(each, solve([model], PERSEUS, key)[0])


def test_equal_models_are_solved_once():
    reports = []
    twins = [build(tiger()), build(tiger(), states=["left", "right"]), build(tiger(0.8))]
    found = solve(twins, PERSEUS, jax.random.key(0), reports)
    assert {now["label"] for now in reports} == {"0", "2"}
    assert found[0] is found[1] and found[0].lower != found[2].lower


def test_a_solver_for_each_model(tmp_path):
    models, key = four_models("blocked")[:3], jax.random.key(1)
    solvers = [PERSEUS.solver, changed(PERSEUS, beliefs=50).solver, QMDP()]
    stops = [PERSEUS.stop, Stop(stages=2), Stop()]
    found = solve_models(models, solvers, stops, key=key, cache=tmp_path)
    assert [each.solver for each in found] == ["perseus", "perseus", "qmdp"]
    again = solve_models(models, solvers, stops, key=key, cache=tmp_path)
    for each, loaded in zip(found, again, strict=True):
        assert_same(each, loaded)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_that_wants_every_state_changes_nothing_for_the_others(solver):
    """States that cannot be reached are left out for some solvers, and kept for others beside them."""
    truth = example("unreachable")
    models = [build(truth), build(truth._replace(reward=truth.reward + 1))]
    wanted = solve(models[:1], SOLVERS[solver], jax.random.key(0))[0]
    chosen_solvers = [SOLVERS[solver].solver, ValueIteration()]
    found = solve_models(models, chosen_solvers, [SOLVERS[solver].stop, Stop()], key=jax.random.key(0))
    assert_same(found[0], wanted)
    assert np.all(np.asarray(found[1].policy.vectors)[:, 2] != np.asarray(wanted.policy.vectors)[0, 2])


def test_where_solutions_are_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("JATPO_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    places = {"linux": "cache/jatpo", "darwin": "home/Library/Caches/jatpo", "win32": "local/jatpo/Cache"}
    for platform, place in places.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert default_directory() == tmp_path / place / "solutions"
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path))
    assert default_directory() == tmp_path


# What a solution returns


@pytest.mark.parametrize("solver", SOLVERS)
def test_values_and_actions(solver):
    """value, q and action_probabilities are those of nested loops on the vectors."""
    model = four_models(STORAGE[solver])[3]
    found = solve([model], SOLVERS[solver], jax.random.key(0))[0]
    vectors, actions = np.asarray(found.policy.vectors), np.asarray(found.policy.actions)
    dense = model.to_dense()
    for belief in rows(np.random.default_rng(2), 4, 5, zeros=0.4).astype(np.float32):
        assert float(found.value(belief)) == pytest.approx(oracle.value(vectors, belief), rel=1e-5)
        wanted = oracle.q(*dense[:3], dense.discount, vectors.astype(float), belief.astype(float))
        np.testing.assert_allclose(found.q(model, belief), wanted, rtol=1e-5, atol=1e-5)
        wanted = oracle.action_probabilities(vectors, actions, belief, 3, TIE)
        np.testing.assert_allclose(found.action_probabilities(belief, 3), wanted)


def test_look_ahead_on_a_lower_bound(x64):
    """max_a q(b, a) is no less than the value at the start, and no more than the optimum."""
    model = build(tiger(discount=0.5))
    found = solve([model], changed(PERSEUS, stages=30, tolerance=0), jax.random.key(0))[0]
    best = float(np.max(found.q(model, model.initial)))
    exact = pomdp_exact.closed(*tiger()[:3], 0.5, tiger().initial)
    assert found.lower - 1e-12 <= best <= exact + 1e-12


def test_states_that_cannot_be_reached():
    """Vectors have an entry for every state, a true lower bound also there."""
    truth = example("unreachable")
    model = build(truth._replace(reward=truth.reward - 20))
    dense = model.to_dense()
    found = solve([model], PERSEUS, jax.random.key(0))[0]
    vectors = np.asarray(found.policy.vectors, float)
    assert vectors.shape[1] == 5
    best = pomdp_exact.interval(*dense[:3], dense.discount, np.eye(5)[2], 2)[1]
    assert vectors[:, 2].max() <= best + 1e-4


@pytest.mark.parametrize("kind", [QMDP, ValueIteration])
def test_solvers_that_observe_the_state(kind):
    model = build(example("hard zeros"))
    dense = model.to_dense()
    q, v = mdp.optimal(dense.transition, dense.reward, dense.discount)
    found = solve([model], chosen(kind), jax.random.key(0))[0]
    np.testing.assert_allclose(found.policy.vectors, q.T, atol=2e-3)
    np.testing.assert_array_equal(found.policy.actions, [0, 1, 2])
    above = np.max(dense.initial @ q) if kind is QMDP else dense.initial @ v
    assert above <= found.upper <= above + 4e-3
    low, _ = pomdp_exact.interval(*dense[:3], dense.discount, dense.initial, 0)
    assert found.lower == pytest.approx(low, abs=0.02) and found.lower <= low + 1e-4
    assert (found.solver, found.settings) == (kind.name, {"tolerance": 1e-4, "sweeps": 10_000})
    assert found.status is Status.CONVERGED


def test_published_settings():
    for name in ("gridworld", "ntu"):
        own = domains.get(name)
        published = Published(own.beliefs, own.tolerance)
        solver, stop = choose(Request(), num_models=own.models, horizon=own.horizon, published=published)
        assert solver == Perseus(beliefs=own.beliefs, tolerance=0.01, steps=own.horizon)
        assert stop == Stop(stages=own.horizon)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (Request(), chosen(Anytime, seconds=10, gap=0.01, off_policy=0.5)),
        (Request(stages=4), chosen(Anytime, stages=4, gap=0.01, off_policy=0.5)),
        (Request(seconds=3, gap=0), chosen(Anytime, seconds=3, off_policy=0.5)),
        (Request("perseus"), chosen(Perseus, stages=30, steps=30, beliefs=1000)),
        (Request("perseus", stages=4), chosen(Perseus, stages=4, steps=30, beliefs=1000)),
        (Request("qmdp"), chosen(QMDP)),
        (
            Request("anytime", settings={"capacity": 99}),
            chosen(Anytime, seconds=10, gap=0.01, off_policy=0.5, capacity=99),
        ),
    ],
)
def test_defaults_of_a_library_without_published_settings(asked, wanted):
    assert choose(asked, num_models=2, horizon=30) == wanted


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Request("perseus", seconds=3), "perseus.*seconds.*3"),
        (Request("qmdp", stages=3), "qmdp.*stages.*3"),
        (Request("persus"), "persus.*perseus"),
        (Request("perseus", settings={"walkers": 3}), "walkers"),
        (Request(seconds=0, gap=0), "anytime"),
    ],
)
def test_impossible_requests_are_refused(asked, text):
    with pytest.raises(JatpoError, match=text):
        choose(asked, num_models=2, horizon=30)


@pytest.mark.parametrize("name", ["seconds", "gap", "stages"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_impossible_limits_are_refused(name, value):
    with pytest.raises(JatpoError, match=f"{name} .*{value}"):
        Stop(**{name: value})


def test_solutions_print():
    found = solve([build(tiger())], PERSEUS, jax.random.key(0))[0]
    assert repr(found).startswith(f"Solution({found.lower:.4g} ≤ v* ≤ {found.upper:.4g}, ")
    assert repr(found).endswith("8 stages, " + f"{found.seconds:.1f} s, {found.status.value})")


def test_notes_on_solutions_that_are_not_complete():
    full = changed(PERSEUS, capacity=1, batch=100)
    found = solve([build(tiger()), build(tiger(0.8))], full, jax.random.key(0))
    assert [each.status for each in found] == [Status.CAPACITY_REACHED] * 2
    [first, second] = notes(found, ["tiger", "other"])
    assert first.startswith("tiger: ") and "capacity" in first and second.startswith("other: ")
    assert notes(solve([build(tiger())], PERSEUS, jax.random.key(0)), ["tiger"]) == []


class WrongBounds(Perseus):
    """A solver whose lower bound is above its upper bound."""

    def solution(self, problem, state) -> Solution:
        return replace(super().solution(problem, state), lower=2.0, upper=1.0)


def test_a_lower_bound_above_the_upper_is_an_internal_error():
    choice = PERSEUS._replace(solver=WrongBounds(**vars(PERSEUS.solver)))
    with pytest.raises(RuntimeError, match=r"\b2 .*\b1$"):
        solve([build(tiger())], choice, jax.random.key(0))


def test_graph_search_ends_before_the_memory_does(monkeypatch):
    monkeypatch.setattr(graph, "WATCHED", 0)
    monkeypatch.setattr(graph, "NEEDED", 1 << 60)
    found = solve([build(tiger())], chosen(GraphSearch, stages=50), jax.random.key(0))
    assert found[0].status is Status.MEMORY_FULL and found[0].stages == 1
    assert found[0].lower <= found[0].upper
    [note] = notes(found, ["tiger"])
    assert note.startswith("tiger: ") and "memory limit reached" in note
