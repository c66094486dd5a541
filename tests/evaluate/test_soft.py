"""Soft policies and soft ATPO: the hard limit, loops by hand, gradients against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import random_models
from agent_tasks import Ready
from jatpo.evaluate import losses, rollout
from jatpo.evaluate.agents import ATPO, SoftATPO, catalogue
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.agents.soft_atpo import start_scores
from jatpo.evaluate.scenario import Scenario, context_of
from jatpo.library import Library
from jatpo.mdp import TIE
from jatpo.solve import policy as hard
from jatpo.solve import soft_policy as softly
from jatpo.solve.policy import Policy, stack
from oracles import policy as policy_oracle
from oracles import returns as oracle

NUM_ACTIONS = 3


def random_policy(seed, vectors=7, states=5, dtype=np.float64):
    random = np.random.default_rng([seed, 5])
    return Policy(
        jnp.asarray(random.normal(0, 5, size=(vectors, states)).astype(dtype)),
        jnp.asarray(random.integers(NUM_ACTIONS, size=vectors).astype(np.int32)),
    )


def beliefs(seed, count=9, states=5):
    return random_models.rows(np.random.default_rng([seed, 6]), count, states, zeros=0.4)


def examples(seed=0, sizes=(5, 3, 4), zeros=0.3):
    random = np.random.default_rng(seed)
    return [random_models.plain(random, size, NUM_ACTIONS, 4, zeros=zeros) for size in sizes]


def task_of(models, prior=None, seed=0, storage="dense"):
    library = Library.from_models([random_models.build(model, storage) for model in models], prior)
    policies = [random_policy(seed + k, states=len(model.initial)) for k, model in enumerate(models)]
    dtype = library.prior.dtype
    policies = [Policy(np.asarray(p.vectors, dtype), p.actions) for p in policies]
    return Ready(Scenario(library), {"policies": stack(policies, library.num_states)})


# ---------------------------------------------------------------- policies


def test_the_softmax_is_over_actions_and_each_has_its_best_vector(x64):
    """Against loops; a copy of a vector changes nothing, however many there are."""
    policy = random_policy(0)
    copies = Policy(
        jnp.concatenate([policy.vectors] + [policy.vectors[:1]] * 4),
        jnp.concatenate([policy.actions] + [policy.actions[:1]] * 4),
    )
    for belief in beliefs(1):
        wanted = oracle.soft_policy(policy.vectors, policy.actions, belief, NUM_ACTIONS, 1.5, TIE)
        for found in (policy, copies):
            chances = softly.action_probabilities(found, jnp.asarray(belief), NUM_ACTIONS, 1.5)
            np.testing.assert_allclose(chances, wanted, atol=1e-12)


@pytest.mark.parametrize("temperature", [0.0, 1e-12, 1e-4])
def test_the_limit_of_low_temperature_is_the_hard_policy(temperature, x64):
    """With ties, near ties within the tolerance, padding, and an action without a vector."""
    policy = random_policy(2)
    tied = Policy(
        jnp.concatenate([policy.vectors, policy.vectors - TIE / 2, jnp.full((2, 5), hard.NEVER)]),
        jnp.concatenate([policy.actions, (policy.actions + 1) % NUM_ACTIONS, jnp.zeros(2, jnp.int32)]),
    )
    columns = jnp.asarray(beliefs(3).T)
    for found in (policy, tied):
        wanted = hard.action_probabilities_columns(found, columns, 4)
        chances = softly.action_probabilities_columns(found, columns, 4, temperature)
        assert not np.asarray(chances[3]).any()  # no vector has action 3
        np.testing.assert_allclose(chances, wanted, atol=1e-9)
    assert (np.asarray(wanted) == 0.5).any() and (np.asarray(wanted) == 1).sum() < wanted.shape[1]
    for n, belief in enumerate(beliefs(3)):
        slow = policy_oracle.action_probabilities(np.asarray(tied.vectors), tied.actions, belief, 4, TIE)
        np.testing.assert_allclose(wanted[:, n], slow, atol=1e-12)


def test_the_limit_of_high_temperature_is_uniform_over_the_actions_that_have_vectors(x64):
    chances = softly.action_probabilities(random_policy(4), jnp.asarray(beliefs(5)[0]), 4, 1e9)
    np.testing.assert_allclose(chances, [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-7)


def test_gradients_of_a_soft_policy(x64):
    """Against finite differences in vectors, belief and temperature; the best vectors alone have one."""
    policy, weights = random_policy(6), jnp.array([1.0, -2.0, 0.5])
    belief = jnp.asarray(beliefs(7)[3])

    def objective(vectors, belief, temperature):
        return weights @ softly.action_probabilities(
            policy._replace(vectors=vectors), belief, NUM_ACTIONS, temperature
        )

    point = (policy.vectors, belief, jnp.asarray(2.0))
    found = jax.grad(objective, argnums=(0, 1, 2))(*point)
    for place in range(3):
        slow = differences(
            lambda part, at=place: objective(*point[:at], part, *point[at + 1 :]), point[place]
        )
        np.testing.assert_allclose(found[place], slow, atol=1e-7)
    assert sum(np.abs(found[0]).sum(axis=1) > 0) == NUM_ACTIONS


@pytest.mark.parametrize("temperature", [0.0, 1e-9, 1e-6, 1.0, 1e6])
def test_no_gradient_of_a_soft_policy_is_nan(temperature):
    policy = random_policy(8, dtype=np.float32)
    padded = Policy(
        jnp.concatenate([policy.vectors, jnp.full((2, 5), hard.NEVER, jnp.float32)]),
        jnp.concatenate([policy.actions, jnp.array([3, 3], jnp.int32)]),
    )

    def objective(vectors, belief, temperature):
        chances = softly.action_probabilities(Policy(vectors, padded.actions), belief, 5, temperature)
        return jnp.arange(5.0) @ chances

    point = (padded.vectors, jnp.array([1.0, 0, 0, 0, 0]), jnp.float32(temperature))
    assert all(np.isfinite(part).all() for part in jax.grad(objective, argnums=(0, 1, 2))(*point))


def differences(function, point, step=1e-6):
    """Central differences of a scalar function at `point`, entry by entry."""
    point = np.asarray(point, np.float64)
    slopes = np.zeros(point.shape)
    for place in np.ndindex(point.shape):
        up, down = point.copy(), point.copy()
        up[place], down[place] = up[place] + step, down[place] - step
        slopes[place] = (float(function(jnp.asarray(up))) - float(function(jnp.asarray(down)))) / (2 * step)
    return slopes


# ---------------------------------------------------------------- the agent


def filtered(agent, task, actions, seen):
    """Context and memory after a history, one trial."""
    known = context_of(*task, task.prior[:, None])
    keys = jax.random.split(jax.random.key(0), 1)
    memory = agent.init(keys, known, None)
    for action, sign in zip(actions, seen, strict=True):
        memory = update(agent, keys, known, memory, *np.array([[action], [sign]], np.int32))
    return known, memory


update = jax.jit(lambda agent, *arguments: agent.update(*arguments))


def test_soft_atpo_is_registered_and_takes_the_presets_floor():
    assert catalogue.get("soft-atpo").name == SoftATPO().name
    (agent,) = choose_agents(["soft_atpo"], "as_run")
    assert agent.floor == 1e-8


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_cold_and_untilted_it_is_atpo_to_the_last_action(floor):
    task = task_of(examples(1), storage="blocked")
    cold = SoftATPO(temperature=0.0, floor=floor)
    record = ("actions", "posterior", "log_evidence", "impossible")
    ours, theirs = (
        rollout.rollout(jax.random.key(3), agent, *task, 12, trials=64, record=record)
        for agent in (cold, ATPO(floor=floor))
    )
    np.testing.assert_array_equal(ours.records["actions"], theirs.records["actions"])
    np.testing.assert_allclose(ours.records["posterior"], theirs.records["posterior"], atol=1e-5)
    np.testing.assert_array_equal(ours.records["impossible"], theirs.records["impossible"])
    np.testing.assert_array_equal(ours.returns, theirs.returns)
    assert (theirs.records["posterior"][:, -1].min(axis=1) == 0).any() == (floor == 0)  # some are ruled out


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_soft_atpo_against_loops(floor, x64):
    """Temperature, tempering, tilt, floor and prior all at once."""
    models, prior = examples(2), np.array([0.5, 0.2, 0.3])
    task = task_of(models, prior)
    agent = SoftATPO(temperature=1.3, temper=0.6, floor=floor, tilt=-0.7)
    policies = [random_policy(k, states=len(model.initial)) for k, model in enumerate(models)]
    slow = oracle.SoftATPO(models, [(np.asarray(p.vectors), np.asarray(p.actions)) for p in policies], TIE)
    numbers = {"temperature": 1.3, "temper": 0.6, "floor": floor, "tilt": -0.7, "prior": prior}
    for actions, seen in (([], []), ([0, 2], [1, 3]), ([1, 1, 0, 2], [0, 2, 1, 0])):
        known, memory = filtered(agent, task, actions, seen)
        wanted = slow.history(numbers, actions, seen)
        np.testing.assert_allclose(jnp.exp(memory.log_posterior[:, 0]), wanted.posterior, atol=1e-12)
        chances = agent.act(jax.random.split(jax.random.key(0), 1), known, memory)[:, 0]
        np.testing.assert_allclose(chances, slow.act(numbers, wanted), atol=1e-12)


def test_the_tilt_favours_models_of_high_value_among_a_trials_own():
    task = task_of(examples(3))
    values = [
        float(jnp.max(vectors @ start))
        for vectors, start in zip(task.solved["policies"].vectors, task.library.models.initial, strict=True)
    ]
    known, memory = filtered(SoftATPO(tilt=2.0), task, [], [])
    assert np.argmax(memory.log_posterior[:, 0]) == np.argmax(values)
    scores = start_scores(known)[:, 0]
    assert float(scores.mean()) == pytest.approx(0, abs=1e-6)
    assert float(scores.std()) == pytest.approx(1, abs=1e-6)
    left = task.replace(prior=task.prior.at[int(np.argmax(values))].set(0))
    _, memory = filtered(SoftATPO(tilt=2.0), left, [], [])
    assert memory.log_posterior[int(np.argmax(values)), 0] == -np.inf
    assert float(jnp.exp(memory.log_posterior).sum()) == pytest.approx(1, abs=1e-6)
    same = task._replace(solved={"policies": jax.tree.map(lambda leaf: leaf[:1], task.solved["policies"])})
    same = same.replace(library=Library.from_models([random_models.build(examples(3)[0])]), prior=jnp.ones(1))
    assert not np.asarray(start_scores(context_of(*same, same.prior[:, None]))).any()


# ---------------------------------------------------------------- gradients through the filter


def everything_of(task, theta):
    """Task and parameters as functions of one pytree: parameters, prior, models and vectors."""
    models = theta["models"]
    library = Library.from_arrays(models, task.library.state_mask, task.library.prior)
    policies = task.solved["policies"]._replace(vectors=theta["vectors"])
    return Ready(task.scenario.replace(library=library, prior=theta["prior"]), {"policies": policies})


def objective(task, theta, actions, seen):
    """Some function of what the agent would do after a history."""
    known, memory = filtered(theta["agent"], everything_of(task, theta), actions, seen)
    chances = theta["agent"].act(jax.random.split(jax.random.key(0), 1), known, memory)[:, 0]
    return jnp.array([1.0, -3.0, 0.5], chances.dtype) @ chances + 0.01 * memory.log_evidence[0]


def whole(task, **settings):
    given = {"temperature": 1.3, "temper": 0.7, "floor": 0.0, "tilt": 0.4, **settings}
    numbers = {"temperature": 1.0, "temper": 1.0, "floor": 0.0, "tilt": 0.0} | given
    agent = SoftATPO(**{name: jnp.asarray(value, task.prior.dtype) for name, value in numbers.items()})
    vectors = task.solved["policies"].vectors
    return {"agent": agent, "prior": task.prior, "models": task.library.models, "vectors": vectors}


@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_gradients_through_the_filter(floor, x64):
    """Parameters, prior, P, O, start beliefs and vectors, by finite differences; one model is ruled out."""
    models = examples(4, zeros=0.0)
    models[1].observation[:, :, 2] = 0
    models[1].observation[:] /= models[1].observation.sum(axis=2, keepdims=True)
    task = task_of(models, np.array([0.3, 0.3, 0.4]))
    theta, history = whole(task, floor=floor), ([0, 2, 1], [1, 2, 0])
    found = slopes_of(task, theta, *map(tuple, history))
    paths = jax.tree_util.tree_flatten_with_path(theta)[0]
    checked = 0
    for (path, leaf), slope in zip(paths, jax.tree.leaves(found), strict=True):
        given = not any(name in str(path) for name in ("reward", "discount", "floor" if floor == 0 else "-"))
        if leaf.dtype == np.float64 and given:  # the floor has no slope at 0
            slow = some_differences(task, theta, path, leaf, history)
            for place, wanted in slow.items():
                assert float(slope[place]) == pytest.approx(wanted, abs=2e-7), (path, place)
                checked += abs(wanted) > 1e-5
    assert checked >= 30


def some_differences(task, theta, path, leaf, history, step=1e-6):
    """Central differences at some entries of one leaf: at most eight, none of them padding."""
    places = [place for place in np.ndindex(leaf.shape) if leaf.shape == () or 1e-3 < abs(leaf[place]) < 1e3]
    places = places if leaf.shape else [()]
    chosen = places[:: max(len(places) // 8, 1)]
    leaves, tree = jax.tree_util.tree_flatten_with_path(theta)
    at = [other for other, _ in leaves].index(path)

    def value(changed):
        parts = [changed if n == at else part for n, (_, part) in enumerate(leaves)]
        return float(fast_objective(task, jax.tree.unflatten(tree, parts), *history))

    slopes = {}
    for place in chosen:
        up, down = (value(jnp.asarray(leaf).at[place].add(sign * step)) for sign in (1, -1))
        slopes[place] = (up - down) / (2 * step)
    return slopes


def fast_objective(task, theta, actions, seen):
    return _jitted(task, theta, tuple(actions), tuple(seen))


_jitted = jax.jit(objective, static_argnums=(2, 3))
slopes_of = jax.jit(jax.grad(objective, argnums=1, allow_int=True), static_argnums=(2, 3))


@jax.jit
def finite_part(task, theta, actions, seen):
    """The probability of action 0 after a history [T], and how often nothing explained it."""
    given = everything_of(task, theta)
    agent, known, keys = theta["agent"], context_of(*given, given.prior[:, None]), jax.random.key(0)[None]
    memory = agent.init(keys, known, None)
    step = lambda memory, taken: (agent.update(keys, known, memory, *taken), None)  # noqa: E731
    memory, _ = jax.lax.scan(step, memory, (actions[:, None], seen[:, None]))
    return agent.act(keys, known, memory)[0, 0], memory.impossible[0]


finite_slopes = jax.jit(jax.grad(finite_part, argnums=1, has_aux=True, allow_int=True))


@pytest.mark.parametrize(("temper", "floor"), [(1.0, 0.0), (0.0, 0.0), (0.5, 1e-8)])
def test_no_gradient_is_nan_where_models_are_ruled_out(temper, floor):
    """One after the other, in the end all of them; a model that was never in the trial's library, too."""
    models = [random_models.example("deterministic", seed) for seed in range(3)]
    task = task_of(models, np.array([0.5, 0.5, 0.0]))
    theta = whole(task, temper=temper, floor=floor)
    for history in (([0, 1, 2, 0], [0, 1, 2, 3]), ([0, 0, 0, 0], [3, 3, 3, 3])):
        slopes, impossible = finite_slopes(task, theta, *np.array(history, np.int32))
        assert impossible > 0
        for leaf in jax.tree.leaves(slopes):
            assert leaf.dtype == jax.dtypes.float0 or np.isfinite(leaf).all()


# ---------------------------------------------------------------- losses along a history


def test_the_losses_of_a_history_in_the_cold_limit_and_their_gradients(x64):
    task = task_of(examples(6, sizes=(5, 5, 5), zeros=0.0))
    truth, actions, seen = jnp.int32(1), jnp.array([0, 2, 1], jnp.int32), jnp.array([1, 3, 0], jnp.int32)
    wanted = losses.summed_losses(jax.tree.map(jnp.asarray, ATPO()), *task, truth, actions, seen)
    cold = losses.summed_losses(SoftATPO(temperature=jnp.asarray(0.0)), *task, truth, actions, seen)
    np.testing.assert_allclose(cold, wanted, rtol=1e-9)

    def bound(numbers):
        temperature, temper, tilt = numbers
        agent = SoftATPO(temperature=temperature, temper=temper, tilt=tilt)
        sums = losses.summed_losses(agent, *task, truth, actions, seen)
        right = losses.bound(sums.comparator, sums.divergence, 3, 5.0, 0.9, 1.0)
        return sums.mixture + 0.1 * right

    point = jnp.array([1.5, 0.8, 0.3])
    found = jax.grad(bound)(point)
    np.testing.assert_allclose(found, differences(bound, point), atol=1e-6)
    assert (np.abs(found) > 1e-3).all()
