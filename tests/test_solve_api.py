"""Solving libraries: K models together are K models alone, what is finished is not done again, and what a solution
answers."""

import importlib
from dataclasses import replace

import jax
import numpy as np
import pytest

from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.mdp import TIE
from jatpo.solve import (
    AnytimeSettings,
    ExactSettings,
    PerseusSettings,
    anytime,
    default_directory,
    driver,
    paper_settings,
    small,
    solve,
    solve_library,
    tour,
)
from jatpo.solve.backup import jit_backup
from oracles import mdp, pomdp_exact
from oracles import policy as oracle
from random_models import build, example, plain, rows
from small_pomdps import revealing, tiger
from solution_checks import assert_same

perseus = importlib.import_module("jatpo.solve.perseus")
PERSEUS = PerseusSettings(beliefs=100, stages=8, steps=30, batch=16)
ANYTIME = AnytimeSettings(seconds=0, gap=0, stages=3, walkers=16, steps=20, keep=128)
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
    settings = replace(SOLVERS[solver], stages=3)
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
def test_a_library_compiles_for_its_first_model_only(solver, monkeypatch):
    monkeypatch.setattr(small, "LARGEST", 0)
    kernels = [
        jit_backup,
        perseus.jit_stage,
        *(part for name, part in {**vars(anytime), **vars(tour)}.items() if name.startswith("jit_")),
    ]
    compiled = {}

    def note(label, stage, **_):
        if stage == 2:
            compiled[label] = [kernel._cache_size() for kernel in kernels]

    for kernel in kernels:
        kernel.clear_cache()
    solve(four_models(STORAGE[solver]), SOLVERS[solver], jax.random.key(0), note)
    assert sum(compiled["0"]) > 0
    assert compiled["0"] == compiled["1"] == compiled["2"] == compiled["3"]


def test_libraries_must_agree():
    with pytest.raises(JatpoError, match="model 1 has 2 actions and model 0 has 3"):
        solve([build(example("plain")), build(revealing(0))], PERSEUS, jax.random.key(0))


# Kept results


def test_what_is_finished_is_loaded(tmp_path, monkeypatch):
    models = four_models("blocked")[:2]
    first = solve_library(models, PERSEUS, 3, tmp_path)
    with_key = solve(models, PERSEUS, jax.random.key(3))
    monkeypatch.setattr(driver, "_solve_one", None)  # nothing is solved from here on
    notes = []
    for found, wanted, in_memory in zip(
        solve_library(models, PERSEUS, 3, tmp_path, note=notes.append), first, with_key, strict=True
    ):
        assert_same(found, wanted)
        assert found.seconds == wanted.seconds
        assert_same(found, in_memory)
    assert_same(solve_library(models[1:], PERSEUS, 3, tmp_path)[0], first[1])
    assert not notes
    for other in (
        {"seed": 4},
        {"settings": replace(PERSEUS, stages=9)},
        {"models": four_models("blocked")[2:]},
    ):
        with pytest.raises(TypeError, match="not callable"):
            solve_library(
                **{"models": models, "settings": PERSEUS, "seed": 3, "directory": tmp_path, **other}
            )


def test_only_what_is_missing_is_solved(tmp_path):
    models, told = four_models("blocked"), []
    solve_library(models[1:3], PERSEUS, 0, tmp_path)
    labels = ["zero", "one", "two", "three"]
    found = solve_library(models, PERSEUS, 0, tmp_path, lambda label, **_: told.append(label), labels)
    assert list(dict.fromkeys(told)) == ["zero", "three"]
    for model, each in zip(models, found, strict=True):
        assert_same(each, solve_library([model], PERSEUS)[0])


def test_equal_models_are_solved_once():
    told = []
    twins = [build(tiger()), build(tiger(), states=["left", "right"]), build(tiger(0.8))]
    found = solve_library(twins, PERSEUS, progress=lambda label, **_: told.append(label))
    assert set(told) == {"0", "2"}
    assert found[0] is found[1] and found[0].lower != found[2].lower


def test_settings_for_each_model(tmp_path):
    models = four_models("blocked")[:3]
    settings = [PERSEUS, replace(PERSEUS, stages=2), ExactSettings()]
    found = solve_library(models, settings, 1, tmp_path)
    assert [each.settings["solver"] for each in found] == [type(each).__name__ for each in settings]
    for each, again in zip(found, solve_library(models, settings, 1, tmp_path), strict=True):
        assert_same(each, again)


def test_where_solutions_are_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("JATPO_CACHE", raising=False)
    assert default_directory().as_posix() == ".jatpo/solutions"
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path))
    assert default_directory() == tmp_path


# What a solution answers


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
    found = solve([model], replace(PERSEUS, stages=30, tolerance=0), jax.random.key(0))[0]
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


@pytest.mark.parametrize("method", ["qmdp", "value-iteration"])
def test_solvers_that_see_the_state(method):
    model = build(example("hard zeros"))
    dense = model.to_dense()
    q, v = mdp.optimal(dense.transition, dense.reward, dense.discount)
    found = solve([model], ExactSettings(method), jax.random.key(0))[0]
    np.testing.assert_allclose(found.policy.vectors, q.T, atol=2e-3)
    np.testing.assert_array_equal(found.policy.actions, [0, 1, 2])
    above = np.max(dense.initial @ q) if method == "qmdp" else dense.initial @ v
    assert above <= found.upper <= above + 4e-3
    low, _ = pomdp_exact.interval(*dense[:3], dense.discount, dense.initial, 0)
    assert found.lower == pytest.approx(low, abs=0.02) and found.lower <= low + 1e-4
    assert found.settings == {"solver": "ExactSettings", "method": method, "tolerance": 1e-4}


def test_unknown_methods():
    with pytest.raises(JatpoError, match="no method is called 'qmpd'; did you mean 'qmdp'"):
        ExactSettings("qmpd")


def test_paper_settings():
    for name in ("gridworld", "ntu"):
        domain, settings = domains.get(name), paper_settings(name)
        assert (settings.beliefs, settings.stages) == (domain.beliefs, domain.horizon)
        assert settings.tolerance == 0.01
    with pytest.raises(JatpoError, match="no domain is called"):
        paper_settings("nowhere")


def test_solutions_print():
    found = solve([build(tiger())], PERSEUS, jax.random.key(0))[0]
    assert repr(found).startswith(f"Solution({found.lower:.4g} ≤ v* ≤ {found.upper:.4g}, ")
    assert repr(found).endswith("8 stages, " + f"{found.seconds:.1f} s, all stages done)")
