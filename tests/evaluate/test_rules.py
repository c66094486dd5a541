"""Other rules than ATPO's, against plain loops, by hand, and in rollouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import random_models
from agent_tasks import (
    Ready,
    call,
    compiled,
    context,
    examples,
    filtered,
    keys,
    possible_history,
    random_policies,
    same_size,
)
from agent_tasks import ready as made_ready
from jatpo.errors import JatpoError
from jatpo.evaluate import action_values, rollout
from jatpo.evaluate.agents import ATPO, Commit, Lookahead, MostLikely, Q, Random, Vote, lookahead, selecting
from jatpo.evaluate.scenario import Scenario
from jatpo.library import Library
from jatpo.mdp import TIE
from oracles import atpo as atpo_oracle
from oracles import rules as oracle

STORAGES = ("dense", "blocked")


def ready(models, storage="dense", prior=None, policies=None):
    """A library with policies and what every action is worth."""
    return made_ready(models, storage, prior, policies, needs=("action_values",))


def revealing(count: int = 2, seed: int = 0) -> list[random_models.Example]:
    """Models whose observation reveals the state."""
    random = np.random.default_rng(seed)
    found = [random_models.plain(random, 4, 3, 4, zeros=0.3) for _ in range(count)]
    return [model._replace(observation=np.broadcast_to(np.eye(4), (3, 4, 4)).copy()) for model in found]


def joint_table(models, prior, actions, seen) -> list[list[float]]:
    """p(k) b_k(x) after a history."""
    posterior, beliefs, _ = atpo_oracle.joint_history(models, prior, actions, seen)
    pairs = zip(models, posterior, beliefs, strict=True)
    return [[0.0] * len(model.initial) if b is None else list(p * b) for model, p, b in pairs]


def columns_of(tables, num_states: int) -> jax.Array:
    """Joint tables as an array [K, X, B]."""
    padded = [[np.pad(own, (0, num_states - len(own))) for own in table] for table in tables]
    return jnp.asarray(np.moveaxis(np.array(padded), 0, 2))


several = jax.jit(lookahead.several_steps, static_argnums=(4, 5))


def every(columns: int, actions: int = 3) -> jax.Array:
    """All actions for each column [A, B]."""
    return jnp.broadcast_to(jnp.arange(actions, dtype=jnp.int32)[:, None], (actions, columns))


# ---------------------------------------------------------------- map and vote


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("agent", [MostLikely(), Vote()], ids=lambda agent: agent.name)
def test_map_and_vote_are_those_of_the_oracle(storage, agent, x64):
    models = examples(seed=1)
    prior = np.array([0.5, 0.2, 0.3])
    task = ready(models, storage, prior)
    histories = [possible_history(models, prior, 4, seed) for seed in range(8)]
    memory, known = filtered(task, agent, histories)
    chances = call(agent, "act", keys(8), known, memory)
    different = 0
    for n, (actions, seen) in enumerate(histories):
        posterior, beliefs, _ = atpo_oracle.joint_history(models, prior, actions, seen)
        beliefs = [np.zeros(len(m.initial)) if b is None else b for m, b in zip(models, beliefs, strict=True)]
        each = np.eye(3)
        policies = [atpo_oracle.mixture(random_policies(models), one, beliefs, 3, TIE) for one in each]
        mixed = posterior @ np.array(policies)
        expected = oracle.likeliest_model(posterior, policies, selecting.TIE)
        if agent.vote:
            expected = oracle.largest(mixed, selecting.TIE)
        np.testing.assert_allclose(chances[:, n], expected, atol=1e-12)
        different += not np.allclose(expected, mixed)
    assert different >= 4  # the rules are not ATPO in disguise


def test_models_that_are_equally_likely_share_and_so_do_actions():
    """Models 0 and 1 have 0.4 each and want actions 0 and 1, model 2 wants action 1: map is even, vote takes 1."""
    models = same_size(3)
    policies = [(np.ones((1, 5)), np.array([a])) for a in (0, 1, 1)]
    task = ready(models, prior=[0.4, 0.4, 0.2], policies=policies)
    for agent, expected in ((MostLikely(), [0.5, 0.5, 0]), (Vote(), [0, 1, 0])):
        known = context(task, agent, 2)
        chances = call(agent, "act", keys(2), known, call(agent, "init", keys(2), known, None))
        np.testing.assert_allclose(chances.T, [expected] * 2, atol=1e-6)


@pytest.mark.parametrize("loyalty", [0.0, 0.2, 0.9, 1.1])
def test_commit_follows_a_model_until_it_falls_behind(loyalty, x64):
    models, prior = examples(seed=11), np.array([0.5, 0.2, 0.3])
    task = made_ready(models, "blocked", prior, needs=("policies", "q"))
    values = [
        own[: len(model.initial)] for model, own in zip(models, task.solved["q"].max(axis=2), strict=True)
    ]
    agent = Commit(loyalty=loyalty)
    histories = [possible_history(models, prior, 6, seed) for seed in range(8)]
    memory, known = filtered(task, agent, histories)
    told = call(agent, "report", known, memory)
    chances = call(agent, "act", keys(8), known, memory)
    policies = call(ATPO(), "model_policies", known, memory.mixture)
    for n, (actions, seen) in enumerate(histories):
        expected = oracle.followed(models, prior, values, actions, seen, loyalty, atpo_oracle.joint_history)
        assert told["followed"][n] == expected
        np.testing.assert_array_equal(chances[:, n], policies[expected, :, n])
    posterior = np.asarray(told["posterior"])
    own = posterior[np.asarray(told["followed"]), np.arange(8)]
    assert (own > 0).all()
    behind = (own < posterior.max(axis=0) - 1e-9).any()
    assert behind or loyalty > 0  # who is always loyal also follows models that are not the likeliest


# ---------------------------------------------------------------- what every action is worth


@pytest.mark.parametrize("seed", range(3))
def test_the_backup_of_one_action_is_that_of_the_oracle(seed, x64):
    model = random_models.plain(np.random.default_rng(seed), 5, 3, 4, zeros=0.4)
    vectors = np.random.default_rng([seed, 1]).normal(size=(6, 5))
    host = action_values.dynamics(random_models.build(model, "blocked"))
    belief = random_models.rows(np.random.default_rng([seed, 2]), 5, zeros=0.5)
    for action in range(3):
        found = action_values.backup(host, vectors, belief, action)
        np.testing.assert_allclose(found, oracle.backup(model, vectors, belief, action), atol=1e-12)


@pytest.mark.parametrize("models", [examples(seed=4), revealing(3)], ids=["plain", "revealing"])
def test_action_values_are_look_ahead_where_they_were_made_and_never_above_it(models, x64):
    task = ready(models, "blocked")
    library, policies = task.library, random_policies(models)
    made = action_values.action_values(library, task.solved["policies"], points=5)
    hosts = [action_values.dynamics(library.model(k)) for k in range(3)]
    vectors = [np.asarray(own) for own in task.solved["policies"].vectors]
    points = action_values.visit(
        hosts,
        vectors,
        np.asarray(task.solved["policies"].actions),
        np.full(3, 1 / 3),
        5,
        np.random.default_rng(0),
    )
    random = np.random.default_rng(9)
    for k, (model, (own, _)) in enumerate(zip(models, policies, strict=True)):
        size = len(model.initial)
        for point in points[:, k, :size]:
            q = np.max(np.asarray(made.vectors)[k, :, :, :size] @ point, axis=1)
            np.testing.assert_allclose(q, atpo_oracle.look_ahead(model, own, point), atol=1e-10)
        for _ in range(20):
            belief = random_models.rows(random, size, zeros=0.3)
            q = np.max(np.asarray(made.vectors)[k, :, :, :size] @ belief, axis=1)
            assert (q <= atpo_oracle.look_ahead(model, own, belief) + 1e-10).all()


def test_points_are_distributions_and_the_same_for_the_same_seed():
    task = ready(examples(seed=2), "blocked")
    first, again, other = (
        action_values.action_values(task.library, task.solved["policies"], 6, seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.vectors, again.vectors)
    assert np.isfinite(first.vectors).all()
    assert (np.asarray(first.vectors) != np.asarray(other.vectors)).any()


def test_a_library_that_is_certain_at_once_still_gets_its_points():
    """One model: there is nothing to be unsure of, and the start belief has to do."""
    task = ready(same_size(1), "blocked")
    made = action_values.action_values(task.library, task.solved["policies"], points=3)
    assert made.vectors.shape == (1, 3, 3, 5)
    np.testing.assert_array_equal(made.vectors[:, :, 0], made.vectors[:, :, 2])


# ---------------------------------------------------------------- q and look-ahead


def values_of(task, models) -> list[list[np.ndarray]]:
    """The alpha vectors of every action as the oracle wants them: [k][a][p][x]."""
    found = np.asarray(task.solved["action_values"].vectors)
    return [[found[k, a, :, : len(model.initial)] for a in range(3)] for k, model in enumerate(models)]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ["plain", "revealing", "own discounts"])
def test_values_of_one_and_two_steps_are_those_of_the_oracle(storage, kind, x64):
    models = revealing(3, seed=3) if kind == "revealing" else examples(seed=3)
    if kind == "own discounts":
        models = [model._replace(discount=own) for model, own in zip(models, (0.9, 0.5, 0.99), strict=True)]
    prior = np.array([0.3, 0.3, 0.4])
    task = ready(models, storage, prior)
    kind_of_table = action_values.RevealedStates if kind == "revealing" else action_values.ObservationTable
    assert isinstance(task.solved["action_values"].likelihoods, kind_of_table)
    histories = [possible_history(models, prior, 2, seed) for seed in range(4)]
    tables = [joint_table(models, prior, *history) for history in histories]
    joint = columns_of(tables, task.library.num_states)
    known, values = context(task, Q(), 4), values_of(task, models)
    shift = np.array([0.05, 0.35, 0.6, 0.95])
    one = compiled(lookahead.one_step)(known, joint)
    two = several(known, joint, every(4), jnp.asarray(shift[None]), 2, 3)
    for n, table in enumerate(tables):
        np.testing.assert_allclose(one[:, n], oracle.one_step(values, table), atol=1e-10)
        expected = oracle.two_steps_sampled(models, values, table, float(shift[n]), 3)
        np.testing.assert_allclose(two[:, n], expected, atol=1e-10)


def test_many_samples_sum_over_the_observations(x64):
    """Evenly spaced quantiles miss an observation's chance by at most 1/samples."""
    models, prior, samples = examples(seed=5), np.full(3, 1 / 3), 4000
    task = ready(models, "blocked", prior)
    table = joint_table(models, prior, [0], [1])
    values = values_of(task, models)
    known = context(task, Q(), 1)
    joint = columns_of([table], task.library.num_states)
    found = several(known, joint, every(1), jnp.full((1, 1), 0.5), 2, samples)[:, 0]
    spread = 0.9 * 4 / samples * 2 * max(np.abs(own).max() for of in values for own in of)
    np.testing.assert_allclose(found, oracle.two_steps(models, values, table), atol=spread)


def test_one_step_in_the_joint_problem_is_the_sum_over_models(x64):
    """The posterior cancels, so Q_1 says nothing about what an observation tells of the model."""
    models, prior = examples(seed=6), np.array([0.2, 0.5, 0.3])
    table = joint_table(models, prior, [1], [2])
    policies = random_policies(models)
    expected = np.zeros(3)
    for model, (vectors, _), own in zip(models, policies, table, strict=True):
        expected += atpo_oracle.look_ahead(model, vectors, own)
    found = oracle.one_step_of_the_joint_problem(models, policies, table)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2])
def test_agents_take_the_best_action_where_models_differ_and_atpos_policy_elsewhere(depth, x64):
    models, prior = examples(seed=7), np.full(3, 1 / 3)
    task = ready(models, "blocked", prior)
    histories = [possible_history(models, prior, 3, seed) for seed in range(40)]
    agent = Lookahead(depth=depth, samples=2, most=None)
    memory, known = filtered(task, agent, histories)
    chances = np.asarray(call(agent, "act", keys(40), known, memory))
    policies = np.asarray(call(ATPO(), "model_policies", known, memory))
    posterior = np.exp(np.asarray(memory.log_posterior))
    mixed = np.asarray(call(ATPO(), "act", keys(40), known, memory))
    uniform = [float(jax.random.uniform(key, (1,))[0]) for key in keys(40)]
    values, same = values_of(task, models), 0
    for n, history in enumerate(histories):
        likely = [policies[k, :, n] for k in range(3) if posterior[k, n] >= 1e-3]
        table = joint_table(models, prior, *history)
        expected = oracle.largest(oracle.one_step(values, table), TIE)
        if depth == 2:
            expected = oracle.largest(oracle.two_steps_sampled(models, values, table, uniform[n], 2), TIE)
        if all(np.array_equal(one, likely[0]) for one in likely):
            expected, same = mixed[:, n], same + 1
        np.testing.assert_allclose(chances[:, n], expected, atol=1e-9)
    assert 2 <= same <= 38  # both cases are there


def test_few_candidates_are_those_that_atpo_would_most_probably_take(x64):
    models, prior = examples(seed=7), np.array([0.5, 0.3, 0.2])
    policies = [
        (np.ones((1, len(model.initial))), np.array([a])) for model, a in zip(models, (2, 0, 1), strict=True)
    ]
    task = ready(models, "blocked", prior, policies)
    agent = Lookahead(depth=1, samples=1)  # of ATPO's 0.3, 0.2, 0.5: actions 2 and 0
    known = context(task, agent, 1)
    memory = call(agent, "init", keys(1), known, None)
    values = oracle.one_step(values_of(task, models), joint_table(models, prior, [], []))
    expected = np.eye(3)[2 if values[2] > values[0] else 0]
    np.testing.assert_array_equal(call(agent, "act", keys(1), known, memory)[:, 0], expected)
    alone = Lookahead(depth=1, samples=1, most=1)
    assert call(alone, "act", keys(1), known, memory)[:, 0].tolist() == [0, 0, 1]


def test_who_always_looks_ahead_does_not_ask_the_policies():
    models = examples(seed=7)
    task = ready(models, "blocked")
    always = Q(doubt=-1.0)
    histories = [possible_history(models, np.full(3, 1 / 3), 3, seed) for seed in range(6)]
    memory, known = filtered(task, always, histories)
    joint = jnp.exp(memory.log_posterior)[:, None, :] * memory.beliefs
    expected = selecting.shared(compiled(lookahead.one_step)(known, joint), TIE)
    np.testing.assert_array_equal(call(always, "act", keys(6), known, memory), expected)


def two_rooms() -> list[random_models.Example]:
    """The prize is behind door 0 or door 1, and opening the wrong one costs 10. Actions: the doors, ask, wait.

    Asking costs 0.5 and tells the model; waiting is free and tells nothing. States: before, over.
    """
    found = []
    for k in range(2):
        transition = np.zeros((4, 2, 2))
        transition[:2, :, 1] = 1
        transition[2:] = np.eye(2)
        observation = np.zeros((4, 2, 2))
        observation[:, :, 0] = 1
        observation[2, 0] = np.eye(2)[k]
        reward = np.array([[-10.0, -10.0, -0.5, 0.0], [0, 0, 0, 0]])
        reward[0, k] = 10
        found.append(random_models.Example(transition, observation, reward, np.array([1.0, 0.0]), 0.9))
    return found


def test_q_waits_for_ever_where_two_steps_ask(x64):
    """Each model is worth 10. By hand: Q_1(ask) = 0.9 · 10 - 0.5 = 8.5 and Q_1(wait) = 9, so q waits. One more step:
    Q_2(ask) = -0.5 + 0.9 · 10 = 8.5, for the door is known then, and Q_2(wait) = 0.9 max(0, 8.5, 9) = 8.1."""
    models = two_rooms()
    policies = [(np.array([[10.0, 0.0]]), np.array([k])) for k in range(2)]
    task = ready(models, "blocked", policies=policies)
    known = context(task, Q(), 1)
    joint = jnp.exp(jnp.log(known.prior))[:, None, :] * task.library.models.initial[:, :, None]
    one = compiled(lookahead.one_step)(known, joint)[:, 0]
    two = several(known, joint, every(1, 4), jnp.full((1, 1), 0.5), 2, 2)[:, 0]
    np.testing.assert_allclose(one, [0, 0, 8.5, 9], atol=1e-9)
    np.testing.assert_allclose(two[2:], [8.5, 8.1], atol=1e-9)
    asks = Lookahead(samples=2, most=None)
    for agent, action in ((Q(), 3), (asks, 2)):
        known = context(task, agent, 1)
        chances = call(agent, "act", keys(1), known, call(agent, "init", keys(1), known, None))
        assert chances[:, 0].tolist() == np.eye(4)[action].tolist()


# ---------------------------------------------------------------- rollouts


def test_steps_until_over_and_until_sure_are_those_of_the_recorded_trial():
    models = [random_models.example("absorbing", seed) for seed in range(3)]
    library = Library.from_models([random_models.build(model, "blocked") for model in models])
    task = Ready(Scenario(library), ready(models, "blocked").solved)
    key, horizon, trials = jax.random.key(3), 12, 150
    short = rollout.rollout(key, MostLikely(), *task, horizon, trials=trials, record=["steps", "steps_sure"])
    long = rollout.rollout(key, MostLikely(), *task, horizon, trials=trials, record=["posterior", "states"])
    np.testing.assert_array_equal(short.returns, long.returns)
    over = np.asarray(task.scenario.final)[long.truth[:, None], long.records["states"]]  # [N, T + 1]
    assert over.any()
    true = np.take_along_axis(long.records["posterior"], long.truth[:, None, None], axis=2)[..., 0]
    for n in range(trials):
        ends = np.flatnonzero(over[n, 1:])
        steps = int(ends[0]) + 1 if len(ends) else horizon
        sure = np.flatnonzero(true[n, : steps + 1] >= 0.9)
        assert short.records["steps"][n] == steps
        assert short.records["steps_sure"][n] == (sure[0] if len(sure) else -1)
    assert (short.records["steps_sure"] >= 0).any() and (short.records["steps_sure"] < 0).any()


def test_outcomes_of_trials_are_refused_where_they_cannot_be_told():
    task = ready(same_size(2), "blocked")
    with pytest.raises(JatpoError, match="ask for them alone"):
        rollout.rollout(jax.random.key(0), MostLikely(), *task, 3, trials=2, record=["steps", "posterior"])
    with pytest.raises(JatpoError, match="steps_sure"):
        rollout.rollout(jax.random.key(0), Random(), *task, 3, trials=2, record=["steps_sure"])
    assert rollout.rollout(jax.random.key(0), Random(), *task, 3, trials=2, record=["steps"]).records[
        "steps"
    ].shape == (2,)
