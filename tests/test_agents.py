"""Agents against a joint table over (model, state), enumeration and hand; one contract for all of them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import random_models
from jatpo.errors import JatpoError
from jatpo.evaluate import mixture, registry, states
from jatpo.evaluate.action_values import action_values
from jatpo.evaluate.agent import Agent, Knowledge, permit, sight
from jatpo.evaluate.task import knowledge_of, make_task
from jatpo.library import Library
from jatpo.mdp import TIE, value_iteration_library
from jatpo.solve.policy import Policy, stack
from oracles import atpo as oracle

STORAGES = ("dense", "blocked")
TRIALS = 6  # the same in most tests, so that they share programs


def examples(
    count: int = 3, seed: int = 0, sizes=(5, 3, 4), zeros: float = 0.3
) -> list[random_models.Example]:
    """Models with different numbers of states, actions and observations in common."""
    random = np.random.default_rng(seed)
    return [random_models.plain(random, sizes[k % len(sizes)], 3, 4, zeros=zeros) for k in range(count)]


def same_size(count: int = 3, seed: int = 0, zeros: float = 0.3) -> list[random_models.Example]:
    return examples(count, seed, sizes=(5,), zeros=zeros)


def random_policies(models, seed: int = 0, vectors: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng([seed, 1])
    sizes = [(len(model.initial), model.reward.shape[1]) for model in models]
    return [(random.normal(scale=5, size=(vectors, x)), random.integers(a, size=vectors)) for x, a in sizes]


def stacked(policies, library: Library) -> Policy:
    dtype = library.prior.dtype
    return stack(
        [Policy(np.asarray(v, dtype), np.asarray(a, np.int32)) for v, a in policies], library.num_states
    )


def ready(models, storage="dense", prior=None, policies=None, needs=("policies",)):
    """Everything to know about a library, with what agents `needs` solved or made up."""
    library = Library.from_models([random_models.build(model, storage) for model in models], prior)
    solved = {"policies": stacked(random_policies(models) if policies is None else policies, library)}
    if "q" in needs:
        solved["q"] = value_iteration_library(library.models, 1e-5, 10_000).q
    if "joint" in needs:
        solved["joint"] = random_joint(library)
    if "action_values" in needs:
        solved["action_values"] = action_values(library, solved["policies"], points=4)
    return make_task(library, solved)


def random_joint(library: Library, seed: int = 0, vectors: int = 6) -> Policy:
    """Vectors [V, K, X] for all models at once."""
    random = np.random.default_rng([seed, 2])
    alpha = random.normal(scale=5, size=(vectors, *library.state_mask.shape)).astype(library.prior.dtype)
    return Policy(
        jnp.asarray(alpha), jnp.asarray(random.integers(library.num_actions, size=vectors), jnp.int32)
    )


def knowledge(task, agent: Agent, num_trials: int, truth=None) -> Knowledge:
    truth = jnp.zeros(num_trials, jnp.int32) if truth is None else truth
    prior = jnp.broadcast_to(task.prior[:, None], (task.prior.shape[0], num_trials))
    parameters = jax.tree.map(jnp.asarray, agent.parameters)
    everything = knowledge_of(task, parameters, prior)
    return permit(agent.functions, everything, jnp.asarray(agent.informed), truth)


@cache
def compiled(function):
    """One program of a function for all tests."""
    return jax.jit(function)


def told_by(known: Knowledge, memory) -> dict:
    """What ATPO and the like report."""
    return jax.tree.map(np.asarray, compiled(mixture.report)(known, memory))


def chances_of(known: Knowledge, memory):
    """The probabilities [A, N] with which ATPO and the like act."""
    return np.asarray(compiled(mixture.policy)(keys(memory.log_evidence.shape[-1]), known, memory))


def keys(count: int, seed: int = 0) -> Array:
    return jax.random.split(jax.random.key(seed), count)


def possible_history(models, prior, length: int, seed: int, true_model: int | None = None):
    """Actions and observations that at least one model of positive prior can produce."""
    random = np.random.default_rng(seed)
    k = int(random.choice(len(models), p=prior)) if true_model is None else true_model
    model = models[k]
    x = random.choice(len(model.initial), p=model.initial)
    actions, observations = [], []
    for _ in range(length):
        a = int(random.integers(model.reward.shape[1]))
        x = random.choice(len(model.initial), p=model.transition[a, x])
        actions.append(a)
        observations.append(int(random.choice(model.observation.shape[2], p=model.observation[a, x])))
    return actions, observations


def filtered(
    task, agent: Agent, histories, num_trials: int | None = None
) -> tuple[mixture.Mixture, Knowledge]:
    """The memory after histories [(actions, observations), ...] of equal length, one for each trial."""
    count = len(histories)
    known = knowledge(task, agent, count)
    memory = compiled(agent.init)(keys(count), known, None)
    observe = compiled(agent.observe)
    for t in range(len(histories[0][0])):
        actions = jnp.array([history[0][t] for history in histories], jnp.int32)
        seen = jnp.array([history[1][t] for history in histories], jnp.int32)
        memory = observe(known, memory, actions, seen)
    return memory, known


# ---------------------------------------------------------------- ATPO against the oracles


@pytest.mark.parametrize(("storage", "trials"), [("dense", 1), ("dense", TRIALS), ("blocked", TRIALS)])
def test_atpo_is_the_joint_table(storage, trials, x64):
    models = examples(seed=1)
    prior = np.array([0.5, 0.2, 0.3])
    task = ready(models, storage, prior)
    histories = [possible_history(models, prior, 7, seed) for seed in range(trials)]
    for length in (0, 1, 4, 7):
        cut = [(actions[:length], seen[:length]) for actions, seen in histories]
        memory, known = filtered(task, mixture.ATPO, cut) if length else _fresh(task, trials)
        told = told_by(known, memory)
        chances = chances_of(known, memory)
        for n, (actions, seen) in enumerate(cut):
            posterior, beliefs, evidence = oracle.joint_history(models, prior, actions, seen)
            np.testing.assert_allclose(told["posterior"][:, n], posterior, atol=1e-12)
            assert length == 0 or told["log_evidence"][n] == pytest.approx(evidence, abs=1e-10)
            for k, belief in enumerate(beliefs):
                if belief is not None:
                    np.testing.assert_allclose(told["beliefs"][k, : len(belief), n], belief, atol=1e-12)
                    assert not told["beliefs"][k, len(belief) :, n].any()
            expected = oracle.mixture(random_policies(models), posterior, beliefs, 3, TIE)
            np.testing.assert_allclose(chances[:, n], expected, atol=1e-12)


def _fresh(task, trials: int):
    known = knowledge(task, mixture.ATPO, trials)
    return compiled(mixture.ATPO.init)(keys(trials), known, None), known


@pytest.mark.parametrize("seed", range(3))
def test_posterior_and_beliefs_by_enumeration_of_all_paths(seed, x64):
    models = examples(2, seed, sizes=(4, 3), zeros=0.2)
    prior = np.array([0.3, 0.7])
    actions, seen = possible_history(models, prior, 5, seed)
    posterior, beliefs = oracle.enumerated(models, prior, actions, seen)
    memory, known = filtered(ready(models, "blocked", prior), mixture.ATPO, [(actions, seen)] * 2)
    told = told_by(known, memory)
    np.testing.assert_allclose(told["posterior"][:, 1], posterior, atol=1e-12)
    for k, belief in enumerate(beliefs):
        if belief is not None:
            np.testing.assert_allclose(told["beliefs"][k, : len(belief), 1], belief, atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_float32_stays_close_over_a_long_history(storage):
    models = same_size(3, seed=3, zeros=0.0)
    prior = np.full(3, 1 / 3)
    histories = [possible_history(models, prior, 100, seed) for seed in range(TRIALS)]
    memory, known = filtered(ready(models, storage), mixture.ATPO, histories)
    told = told_by(known, memory)
    for n, (actions, seen) in enumerate(histories):
        posterior, beliefs, _ = oracle.joint_history(models, prior, actions, seen)
        np.testing.assert_allclose(told["posterior"][:, n], posterior, atol=1e-4)
        np.testing.assert_allclose(told["beliefs"][0, :, n], beliefs[0], atol=1e-5)


# ---------------------------------------------------------------- by hand


def two_doors() -> list[random_models.Example]:
    """Two models with two states that never change. In model 0 the observation tells the state with 3/4, in
    model 1 observation 0 always comes."""
    stay = np.eye(2)[None]
    reward = np.zeros((2, 1))
    half = np.array([0.5, 0.5])
    tells = np.array([[[0.75, 0.25], [0.25, 0.75]]])
    always = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    return [random_models.Example(stay, sign, reward, half, 0.9) for sign in (tells, always)]


def test_two_models_by_hand(x64):
    """Seeing 0 twice: evidence of model 0 is 1/2, then 3/4·3/4 + 1/4·1/4 = 5/8; of model 1 it is 1 and 1.

    Posterior of model 0: 1/3 after one step, (1/2·5/8) / (1/2·5/8 + 1) = 5/21 after two. Its belief in
    state 0 is 3/4, then (9/16) / (10/16) = 9/10. Then 1 is seen: model 1 is ruled out, the evidence of
    model 0 is 9/10·1/4 + 1/10·3/4 = 0.3.
    """
    task = ready(two_doors(), policies=[(np.zeros((1, 2)), np.zeros(1, int))] * 2)
    posteriors, beliefs = [], []
    for length in (1, 2, 3):
        memory, known = filtered(task, mixture.ATPO, [([0] * length, [0, 0, 1][:length])])
        told = told_by(known, memory)
        posteriors.append(told["posterior"][:, 0])
        beliefs.append(told["beliefs"][0, :, 0])
    np.testing.assert_allclose(posteriors, [[1 / 3, 2 / 3], [5 / 21, 16 / 21], [1, 0]], atol=1e-12)
    np.testing.assert_allclose(beliefs, [[3 / 4, 1 / 4], [9 / 10, 1 / 10], [3 / 4, 1 / 4]], atol=1e-12)
    assert told["log_evidence"][0] == pytest.approx(np.log(5 / 21 * 0.3), abs=1e-12)
    assert told["beliefs"][1, :, 0].tolist() == [0.5, 0.5]  # the predicted belief of the model ruled out
    assert told["entropy"][0] == 0
    assert not told["impossible"].any()


def test_one_model_is_certain_from_the_start():
    models = same_size(1)
    histories = [possible_history(models, [1.0], 6, seed) for seed in range(2)]
    memory, known = filtered(ready(models), mixture.ATPO, histories)
    told = told_by(known, memory)
    assert told["posterior"].tolist() == [[1.0, 1.0]]
    assert told["entropy"].tolist() == [0.0, 0.0]


def test_identical_models_keep_the_prior_and_their_beliefs_agree(x64):
    models = same_size(1) * 3
    prior = np.array([0.5, 0.125, 0.375])
    memory, known = filtered(
        ready(models, prior=prior), mixture.ATPO, [possible_history(models, prior, 9, 4)] * TRIALS
    )
    told = told_by(known, memory)
    np.testing.assert_allclose(told["posterior"][:, 0], prior, atol=1e-12)
    np.testing.assert_array_equal(told["beliefs"][0], told["beliefs"][2])


def test_a_model_ruled_out_stays_out_with_a_finite_belief():
    task = ready(two_doors(), policies=[(np.ones((1, 2)), np.zeros(1, int))] * 2)
    memory, known = filtered(task, mixture.ATPO, [([0] * 4, [1, 0, 0, 0])] * TRIALS)
    told = told_by(known, memory)
    assert told["posterior"][1].tolist() == [0.0] * TRIALS
    np.testing.assert_allclose(told["beliefs"].sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(chances_of(known, memory), 1, atol=1e-6)


def impossible_everywhere() -> list[random_models.Example]:
    """Different models in which observation 1 never comes."""
    models = [random_models.example("never seen", seed) for seed in range(3)]
    assert not any(model.observation[:, :, 1].any() for model in models)
    return models


def test_all_models_ruled_out_is_reported_and_leaves_the_posterior():
    models = impossible_everywhere()
    task = ready(models)
    before, known = filtered(task, mixture.ATPO, [([0, 1], [0, 2])] * TRIALS)
    after, _ = filtered(task, mixture.ATPO, [([0, 1, 2], [0, 2, 1])] * TRIALS)
    assert after.impossible.tolist() == [1] * TRIALS
    assert (np.asarray(after.log_evidence) == -np.inf).all()
    np.testing.assert_array_equal(after.log_posterior, before.log_posterior)
    for k, model in enumerate(models):
        predicted = np.asarray(before.beliefs)[k, :, 0] @ model.transition[2]
        np.testing.assert_allclose(np.asarray(after.beliefs)[k, :, 0], predicted, atol=1e-6)
    chances = chances_of(known, after)
    assert np.isfinite(chances).all()


def test_the_floor_of_the_published_program(x64):
    models = [*examples(2, seed=5), random_models.example("never seen")]
    prior = np.array([0.25, 0.25, 0.5])
    agent = mixture.ATPO.with_parameters(floor=1e-8)
    task = ready(models, prior=prior)
    actions, seen = [0, 1, 2, 0], [0, 1, 2, 1]
    memory, known = filtered(task, agent, [(actions, seen)] * TRIALS)
    posterior, beliefs = prior, [model.initial for model in models]
    for a, z in zip(actions, seen, strict=True):
        posterior, beliefs = oracle.floored_step(models, posterior, beliefs, a, z, 1e-8)
    told = told_by(known, memory)
    np.testing.assert_allclose(told["posterior"][:, 0], posterior, rtol=1e-9)
    for k, belief in enumerate(beliefs):
        np.testing.assert_allclose(told["beliefs"][k, : len(belief), 0], belief, rtol=1e-9)
    assert (posterior > 0).all()  # model 2 was ruled out and came back
    exact, _ = filtered(task, mixture.ATPO, [(actions, seen)] * TRIALS)
    assert np.asarray(exact.log_posterior)[2, 0] == -np.inf


def test_a_model_outside_the_trials_library_stays_out_even_with_a_floor():
    models = same_size(3)
    agent = mixture.ATPO.with_parameters(floor=1e-2)
    task = ready(models)._replace(prior=jnp.array([0.5, 0.0, 0.5], jnp.float32))
    memory, known = filtered(task, agent, [possible_history(models, [0.5, 0, 0.5], 5, 1)] * TRIALS)
    told = told_by(known, memory)
    assert told["posterior"][1, 0] == 0
    assert told["posterior"][:, 0].sum() == pytest.approx(1, abs=1e-6)


# ---------------------------------------------------------------- the rivals


def test_perseus_acts_by_the_true_models_policy_and_the_picker_by_all_alike():
    models = same_size(3, seed=2)
    task = ready(models, "blocked")
    truth = jnp.array([2, 0], jnp.int32)
    histories = [possible_history(models, None, 4, 7 + int(k), true_model=int(k)) for k in truth]
    uniform = np.full(3, 1 / 3)
    for agent in (mixture.PERSEUS, mixture.RANDOM_PICKER):
        known = knowledge(task, agent, 2, truth)
        memory = compiled(agent.init)(keys(2), known, None)
        for t in range(4):
            columns = [jnp.array([history[part][t] for history in histories], jnp.int32) for part in (0, 1)]
            memory = compiled(agent.observe)(known, memory, *columns)
        chances = compiled(agent.policy)(keys(2), known, memory)
        for n, (actions, seen) in enumerate(histories):
            _, beliefs, _ = oracle.joint_history(models, uniform, actions, seen)
            beliefs = [np.zeros(5) if belief is None else belief for belief in beliefs]
            weights = np.eye(3)[int(truth[n])] if agent.informed else uniform
            ruled_out = [k for k in range(3) if not beliefs[k].any()]
            if agent.informed or not ruled_out:
                expected = oracle.mixture(random_policies(models), weights, beliefs, 3, TIE)
                np.testing.assert_allclose(chances[:, n], expected, atol=1e-5)


@pytest.mark.parametrize("storage", STORAGES)
def test_bopa_weighs_models_by_the_transitions_it_sees(storage, x64):
    models = same_size(3, seed=6)
    prior = np.array([0.2, 0.5, 0.3])
    task = ready(models, storage, prior, needs=("q",))
    known = knowledge(task, states.BOPA, 1)
    path, actions = [0, 1, 4, 2], [0, 2, 1]
    memory = compiled(states.BOPA.init)(keys(1), known, jnp.array(path[:1], jnp.int32))
    weights = prior.copy()
    for x, a, y in zip(path[:-1], actions, path[1:], strict=True):
        memory = compiled(states.BOPA.observe)(
            known, memory, jnp.array([a], jnp.int32), jnp.array([y], jnp.int32)
        )
        likely = np.array([model.transition[a, x, y] for model in models])
        weights = weights * likely / (weights @ likely) if weights @ likely > 0 else weights
    told = states.report(known, memory)
    np.testing.assert_allclose(told["posterior"][:, 0], weights, atol=1e-10)
    q = np.asarray(task.solved["q"])[:, path[-1]]
    expected = sum(w * oracle.greedy_actions(q[k], range(3), 3, TIE) for k, w in enumerate(weights))
    np.testing.assert_allclose(
        compiled(states.BOPA.policy)(keys(1), known, memory)[:, 0], expected, atol=1e-10
    )


def test_bopa_reports_a_transition_that_no_model_allows():
    models = [random_models.example("deterministic", seed) for seed in range(2)]
    nowhere = next(y for y in range(5) if all(model.transition[0, 0, y] == 0 for model in models))
    known = knowledge(ready(models, needs=("q",)), states.BOPA, 1)
    memory = compiled(states.BOPA.init)(keys(1), known, jnp.zeros(1, jnp.int32))
    after = compiled(states.BOPA.observe)(
        known, memory, jnp.zeros(1, jnp.int32), jnp.full(1, nowhere, jnp.int32)
    )
    assert after.impossible.tolist() == [1]
    np.testing.assert_array_equal(after.log_posterior, memory.log_posterior)


def test_bopa_needs_one_state_space():
    models = [random_models.build(model) for model in examples(2)]
    assert "5, 3 states" in (states.BOPA.refuses(Library.from_models(models)) or "")
    models = [
        random_models.build(m, states=[f"{k}{x}" for x in range(5)]) for k, m in enumerate(same_size(2))
    ]
    assert "names" in (states.BOPA.refuses(Library.from_models(models)) or "")
    assert states.BOPA.refuses(Library.from_models(models[:1] * 2)) is None


def test_value_iteration_is_greedy_in_the_true_models_values():
    models = same_size(2, seed=9)
    task = ready(models, needs=("q",))
    truth = jnp.array([1, 0, 1], jnp.int32)
    at = jnp.array([0, 3, 4], jnp.int32)
    known = knowledge(task, states.VALUE_ITERATION, 3, truth)
    agent = states.VALUE_ITERATION
    chances = compiled(agent.policy)(keys(3), known, compiled(agent.init)(keys(3), known, at))
    for n in range(3):
        q = np.asarray(task.solved["q"])[truth[n], at[n]]
        np.testing.assert_allclose(chances[:, n], oracle.greedy_actions(q, range(3), 3, TIE), atol=1e-6)


# ---------------------------------------------------------------- one contract for every registered agent


@registry.register("first-action", sees="nothing", knows="nothing")
class FirstAction:
    def init(key, knowledge, seen):
        return ()

    def policy(key, knowledge, memory):
        return (knowledge.actions == 0).astype(jnp.float32)

    def observe(knowledge, memory, action, seen):
        return memory


@registry.register("moody", sees="observation", knows="library", needs=("policies",))
class Moody:
    """Draws a mood for each trial and counts what it sees: a user's agent with keys and memory of its own."""

    def init(key, knowledge, seen):
        return {"mood": jax.random.uniform(key), "seen": jnp.int32(0)}

    def policy(key, knowledge, memory):
        uneven = (
            jax.random.uniform(key, knowledge.actions.shape)
            + memory["mood"]
            + memory["seen"].astype("float32")
        )
        return uneven / uneven.sum()

    def observe(knowledge, memory, action, seen):
        return memory | {"seen": memory["seen"] + seen}

    def report(knowledge, memory):
        return {"mood": memory["mood"]}


@pytest.fixture(scope="module")
def contract_task():
    return ready(
        same_size(3, seed=8), "blocked", needs=[name for agent in ALL_AGENTS.values() for name in agent.needs]
    )


ALL_AGENTS = {name: registry.get(name) for name in registry.names()}
for _name in ("first-action", "moody"):  # part of the contract below, not of other tests
    registry.remove(_name)


def program(agent: Agent, part: str, jit: bool):
    """One of an agent's functions, compiled or as it is."""
    function = getattr(agent, part)
    return _acting(agent.name) if jit and part == "act" else compiled(function) if jit else function


@cache
def _acting(name: str):
    return jax.jit(ALL_AGENTS[name].act)


@jax.jit
def fold_in_all(keys: Array, number) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)


def played(task, agent: Agent, seed: int, trials: int, steps: int = 4, jit: bool = True):
    """Actions and probabilities of some steps against fixed sights; trial n's key depends on n alone."""
    own = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), jnp.arange(trials))
    truth = jnp.arange(trials, dtype=jnp.int32) % 3
    known = knowledge(task, agent, trials, truth)
    init, act, observe = (program(agent, part, jit) for part in ("init", "act", "observe"))
    at = np.arange(trials, dtype=np.int32) % 5
    memory = init(own, known, sight(agent.functions, jnp.asarray(at), None))
    decisions = []
    for t in range(steps):
        decision = jax.tree.map(np.asarray, act(fold_in_all(own, t + 1), known, memory))
        at = (at + decision.actions + 1) % 5
        seen = sight(agent.functions, jnp.asarray(at), jnp.asarray(at % 4))
        memory = observe(known, memory, jnp.asarray(decision.actions), seen)
        decisions.append(decision)
    return jax.tree.map(lambda *parts: np.stack(parts), *decisions)


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_contract(name, contract_task):
    """Probabilities, determinism in the key, alone as in a batch."""
    agent = ALL_AGENTS[name]
    batch = played(contract_task, agent, seed=0, trials=6)
    assert batch.actions.dtype == np.int32
    assert batch.probabilities.shape == (4, 3, 6)
    assert (batch.probabilities >= 0).all()
    np.testing.assert_allclose(batch.probabilities.sum(axis=1), 1, atol=1e-5)
    assert (np.take_along_axis(batch.probabilities, batch.actions[:, None], axis=1) > 0).all()

    again = played(contract_task, agent, seed=0, trials=6)
    jax.tree.map(np.testing.assert_array_equal, again, batch)
    alone = played(contract_task, agent, seed=0, trials=1)
    np.testing.assert_array_equal(alone.actions[:, 0], batch.actions[:, 0])
    np.testing.assert_allclose(alone.probabilities[..., 0], batch.probabilities[..., 0], atol=1e-5)


@pytest.mark.parametrize("name", ["random", "moody"])
def test_agents_run_without_jit(name, contract_task):
    agent = ALL_AGENTS[name]
    wanted, plain = (played(contract_task, agent, seed=0, trials=6, jit=jit) for jit in (True, False))
    np.testing.assert_array_equal(plain.actions, wanted.actions)
    np.testing.assert_allclose(plain.probabilities, wanted.probabilities, atol=1e-5)


@pytest.mark.parametrize("name", ["atpo", "random", "moody"])
def test_other_keys_give_other_actions(name, contract_task):
    first, second = (played(contract_task, ALL_AGENTS[name], seed, trials=6, steps=8) for seed in (0, 1))
    assert (first.actions != second.actions).any()


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_agents_run_under_vmap_over_priors(name, contract_task):
    """A sweep over priors as one vmap."""
    agent = ALL_AGENTS[name]
    priors = jnp.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], jnp.float32)

    def chances(prior):
        known = knowledge(contract_task._replace(prior=prior), agent, 2)
        memory = agent.init(keys(2), known, sight(agent.functions, jnp.zeros(2, jnp.int32), None))
        return agent.policy(keys(2), known, memory)

    swept, alone = jax.jit(jax.vmap(chances))(priors), jax.jit(chances)
    for n in range(2):
        np.testing.assert_allclose(swept[n], alone(priors[n]), atol=1e-6)


# ---------------------------------------------------------------- what an agent is given, and the registry


def test_an_agent_is_given_what_it_declared_and_no_more(contract_task):
    truth = jnp.array([2, 1], jnp.int32)
    seen, observations = jnp.array([3, 4], jnp.int32), jnp.array([0, 1], jnp.int32)
    given = {name: knowledge(contract_task, agent, 2, truth) for name, agent in ALL_AGENTS.items()}
    assert given["random"].library is None
    assert given["random"].prior is None
    assert not given["random"].solved
    np.testing.assert_allclose(given["atpo"].prior, 1 / 3, atol=1e-6)  # nothing about the true model
    assert given["perseus"].prior.T.tolist() == [[0, 0, 1], [0, 1, 0]]
    sights = {name: sight(agent.functions, seen, observations) for name, agent in ALL_AGENTS.items()}
    assert sights["atpo"] is observations
    assert sights["bopa"] is seen
    assert sights["random"] is None
    assert sight(registry.get("atpo").functions, seen, None) is None  # nothing before the first action


def test_the_papers_six_are_registered_first():
    assert registry.names()[:6] == ("value_iteration", "perseus", "atpo", "random_picker", "bopa", "random")
    assert registry.get("Value-Iteration") is registry.get("value_iteration")


def test_errors_name_the_remedy(tmp_path, monkeypatch):
    with pytest.raises(JatpoError, match="did you mean 'atpo'"):
        registry.get("atop")
    with pytest.raises(JatpoError, match="no function policy and no observe: write it in Half"):
        registry.register("half", sees="nothing", knows="nothing")(
            type("Half", (), {"init": lambda k, w, s: ()})
        )
    with pytest.raises(JatpoError, match=r"sees=.*observation"):
        registry.register("odd", sees="observations", knows="nothing")(three_functions())
    with pytest.raises(JatpoError, match="cannot be called 'a b'"):
        registry.register("a b", sees="nothing", knows="nothing")(three_functions())
    with pytest.raises(JatpoError, match="did you mean 'floor'"):
        mixture.ATPO.with_parameters(flor=1)
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(JatpoError, match=r"broken.py fails with ZeroDivisionError"):
        registry.load(broken)
    with pytest.raises(JatpoError, match="there is no agent file"):
        registry.load(tmp_path / "nowhere.py")


def three_functions() -> type:
    parts = {
        "init": lambda k, w, s: (),
        "policy": lambda k, w, m: w.actions * 0.2,
        "observe": lambda w, m, a, s: m,
    }
    return type("Parts", (), parts)


def test_a_file_in_the_environment_registers_agents(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "from jatpo.evaluate import register\n"
        "@register('mine', sees='nothing', knows='nothing')\n"
        "class Mine:\n"
        "    def init(key, knowledge, seen): return ()\n"
        "    def policy(key, knowledge, memory): return (knowledge.actions == 1) * 1.0\n"
        "    def observe(knowledge, memory, action, seen): return memory\n"
    )
    monkeypatch.setenv(registry.VARIABLE, str(file))
    try:
        assert "mine" in registry.names()
        assert registry.get("mine").knows == "nothing"
    finally:
        registry.remove("mine")
