"""Gradients of expected returns: exact ones against enumeration by loops, sampled ones against exact ones."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import random_models
from agent_tasks import Ready
from jatpo.errors import JatpoError
from jatpo.evaluate import returns, rollout
from jatpo.evaluate.agents import ATPO, SoftATPO
from jatpo.evaluate.scenario import Scenario
from jatpo.library import Library
from jatpo.mdp import TIE
from jatpo.solve.policy import Policy, stack
from oracles import returns as oracle

HORIZON = 3
NUMBERS = {"temperature": 1.5, "temper": 0.7, "floor": 1e-3, "tilt": 0.5}
PRIOR = np.array([0.65, 0.35])


def examples(zeros=0.0):
    """Two models with 3 and 2 states: in model k action k pays, and observation k is the likelier one."""
    random = np.random.default_rng(11)
    models = [random_models.plain(random, size, 2, 2, zeros=zeros) for size in (3, 2)]
    for k, model in enumerate(models):
        model.reward[:] = 0.3 * model.reward - 2 + 4 * (np.arange(2) == k)
        if zeros == 0:
            model.observation[:] = 0.3 * model.observation + 0.7 * np.where(np.arange(2) == k, 0.8, 0.2)
    return models


def policies_of(models):
    """Two vectors for each action, of which its own model's is the better one."""
    random = np.random.default_rng(12)
    return [
        (
            random.normal(size=(4, len(m.initial))) + 3 * (np.array([[0], [1], [0], [1]]) == k),
            np.array([0, 1, 0, 1]),
        )
        for k, m in enumerate(models)
    ]


def task_of(models, storage="dense"):
    library = Library.from_models([random_models.build(model, storage) for model in models], PRIOR)
    dtype = library.prior.dtype
    policies = [Policy(np.asarray(v, dtype), np.asarray(a, np.int32)) for v, a in policies_of(models)]
    return Ready(Scenario(library), {"policies": stack(policies, library.num_states)})


def agent_of(dtype, **changes):
    return SoftATPO(**{name: jnp.asarray(value, dtype) for name, value in (NUMBERS | changes).items()})


def numbers_of(agent):
    return [getattr(agent, name) for name in ("temperature", "temper", "floor", "tilt")]


def slow_agent(models):
    return oracle.SoftATPO(models, policies_of(models), TIE)


def exact(task, agent, prior):
    return returns.exact_return(agent, HORIZON, *task.replace(prior=prior))


exact_slopes = jax.jit(jax.value_and_grad(exact, argnums=(1, 2)))


# ---------------------------------------------------------------- exact


@pytest.mark.parametrize(("storage", "zeros"), [("dense", 0.0), ("dense", 0.4), ("blocked", 0.4)])
def test_the_exact_return_and_its_gradient_by_loops(storage, zeros, x64):
    """In every parameter and in the prior; with hard zeros some histories are impossible."""
    models = examples(zeros)
    task, slow = task_of(models, storage), slow_agent(models)
    numbers = {**NUMBERS, "prior": PRIOR}
    value, (found, prior) = exact_slopes(task, agent_of(jnp.float64), jnp.asarray(PRIOR))
    assert float(value) == pytest.approx(slow.mean_return(numbers, HORIZON), abs=1e-10)
    slopes = slow.slopes(numbers, HORIZON)
    for name in NUMBERS:
        slope = getattr(found, name)
        assert float(slope) == pytest.approx(float(slopes[name]), rel=1e-6, abs=1e-7), name
    # The oracle's prior is normalised after the tilt, ours before: the same function.
    np.testing.assert_allclose(prior, slopes["prior"], rtol=1e-6, atol=1e-7)
    assert zeros > 0 or min(abs(float(getattr(found, name))) for name in NUMBERS) > 1e-3


def test_too_many_histories_are_refused():
    with pytest.raises(JatpoError, match=r"12 steps have 4194304 histories, .*shorten the horizon"):
        returns.exact_return(SoftATPO(), 12, *task_of(examples()))


# ---------------------------------------------------------------- sampled


@partial(jax.jit, static_argnames=("critic", "trials"))
def estimates(key, numbers, task, agent, prior, critic, trials):
    """Estimates of the gradient in parameters and prior, each from `trials` trials: one for each number."""

    def value(agent, prior, key):
        noise = returns.draw_noise(key, task.scenario, HORIZON, jnp.arange(trials))
        given = task.replace(prior=prior)
        return returns.surrogate(agent, HORIZON, noise, *given, critic)

    gradient = jax.value_and_grad(value, argnums=(0, 1))
    return jax.vmap(lambda n: gradient(agent, prior, jax.random.fold_in(key, n)))(numbers)


@functools.cache
def sampled(critic, batches=4000, trials=8):
    """Mean and standard error of every slope, the errors of a single batch, and the exact slopes; float64."""
    task = task_of(examples())
    agent, prior = agent_of(jnp.float64), jnp.asarray(PRIOR)
    found = estimates(jax.random.key(5), jnp.arange(batches), task, agent, prior, critic, trials)
    value, slopes = found
    wanted = exact_slopes(task, agent, prior)
    flat = np.concatenate([np.stack(numbers_of(slopes[0]), axis=1), slopes[1]], axis=1)
    exactly = np.concatenate([np.stack(numbers_of(wanted[1][0])), wanted[1][1]])
    error = flat.std(axis=0, ddof=1) / np.sqrt(batches)
    returned = (value.mean() - wanted[0]) / (value.std(ddof=1) / np.sqrt(batches))
    return flat.mean(axis=0), error, exactly, float(returned)


@pytest.mark.parametrize("critic", [None, returns.true_values])
def test_the_score_function_is_unbiased(critic, x64):
    """Within four standard errors of the exact slope, each of which it could tell from 0 and from half of it."""
    mean, error, wanted, returned = sampled(critic)
    assert (np.abs(mean - wanted) < 4 * error).all()
    telling = np.abs(wanted) > 10 * error
    assert telling[[0, 1, 3, 4, 5]].all()  # all but the floor; tempering works through the filter alone
    assert abs(returned) < 4


def test_a_critic_makes_the_estimate_less_noisy(x64):
    plain, guided = sampled(None)[1], sampled(returns.true_values)[1]
    assert (guided < plain).all()


def test_the_baseline_is_the_mean_of_the_other_trials_with_the_same_truth():
    steps = returns.Steps(
        jnp.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]), *[jnp.zeros((2, 4))] * 3
    )
    found = returns.advantages(jnp.array([0, 1, 0, 0], jnp.int32), steps)
    # To go: [11, 22, 33, 44] and [10, 20, 30, 40]; trial 1 is alone.
    wanted = [[11 - 38.5, 22, 33 - 27.5, 44 - 22], [10 - 35, 20, 30 - 25, 40 - 20]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_trials_are_those_of_the_rollouts_and_the_value_is_their_mean_return():
    task, agent = task_of(examples(), "blocked"), SoftATPO()
    run = rollout.rollout(jax.random.key(2), agent, *task, 7, trials=128)
    noise = returns.draw_noise(jax.random.key(2), task.scenario, 7, np.arange(128))
    value, _ = returns.return_and_gradient(jax.tree.map(jnp.asarray, agent), 7, noise, *task)
    assert float(value) == pytest.approx(float(run.returns.mean()), rel=1e-5)


@pytest.mark.slow
def test_a_checkpointed_gradient_in_the_library_is_the_same(x64):
    task = task_of(examples(0.3))
    noise = returns.draw_noise(jax.random.key(1), task.scenario, 6, np.arange(16))

    def value(vectors, transition, checkpoint):
        library = task.library
        models = library.models.replace(transition=transition)
        changed = Library.from_arrays(models, library.state_mask, library.prior)
        solved = {"policies": task.solved["policies"]._replace(vectors=vectors)}
        scenario = task.scenario.replace(library=changed)
        return returns.surrogate(agent_of(jnp.float64), 6, noise, scenario, solved, None, checkpoint)

    gradient = jax.jit(jax.grad(value, argnums=(0, 1)), static_argnums=2)
    point = (task.solved["policies"].vectors, task.library.models.transition)
    plain, saving = gradient(*point, False), gradient(*point, True)
    for ours, theirs in zip(jax.tree.leaves(saving), jax.tree.leaves(plain), strict=True):
        assert np.isfinite(ours).all() and np.abs(ours).max() > 1e-4
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_a_new_key_and_other_parameters_compile_nothing():
    task = task_of(examples(), "blocked")
    noise = returns.draw_noise(jax.random.key(0), task.scenario, 7, np.arange(128))
    returns.return_and_gradient(agent_of(jnp.float32), 7, noise, *task)
    before = returns.return_and_gradient._cache_size()
    other = returns.draw_noise(jax.random.key(1), task.scenario, 7, np.arange(128))
    returns.return_and_gradient(agent_of(jnp.float32, tilt=-1.0), 7, other, *task)
    assert returns.return_and_gradient._cache_size() == before


def test_the_hard_mixture_has_no_gradient_in_its_policy():
    """What the page on extending says: an argmax passes nothing, only the posterior does."""
    task = task_of(examples())
    noise = returns.draw_noise(jax.random.key(0), task.scenario, 5, np.arange(64))

    def value(vectors, temper):
        solved = {"policies": task.solved["policies"]._replace(vectors=vectors)}
        return returns.surrogate(ATPO(temper=temper), 5, noise, task.scenario, solved)

    gradient = jax.jit(jax.grad(value, argnums=(0, 1)))
    vectors, temper = gradient(task.solved["policies"].vectors, jnp.float32(1))
    assert not np.asarray(vectors).any()
    assert abs(float(temper)) > 1e-4
