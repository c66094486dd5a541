"""Agents against a joint table over (model, state), enumeration and hand; one contract for all of them."""

import jax.numpy as jnp
import numpy as np
import pytest

import random_models
from agent_tasks import (
    call,
    chances_of,
    context,
    examples,
    filtered,
    keys,
    possible_history,
    random_policies,
    ready,
    same_size,
    told_by,
)
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import ATPO, BOPA, Informed, RandomPicker, ValueIteration, catalogue
from jatpo.evaluate.agents.protocol import informed
from jatpo.library import Library
from jatpo.mdp import TIE
from oracles import atpo as oracle

STORAGES = ("dense", "blocked")
TRIALS = 6  # the same in most tests, so that they share programs


# ---------------------------------------------------------------- ATPO against the oracles


@pytest.mark.parametrize(("storage", "trials"), [("dense", 1), ("dense", TRIALS), ("blocked", TRIALS)])
def test_atpo_is_the_joint_table(storage, trials, x64):
    models = examples(seed=1)
    prior = np.array([0.5, 0.2, 0.3])
    task = ready(models, storage, prior)
    histories = [possible_history(models, prior, 7, seed) for seed in range(trials)]
    for length in (0, 1, 4, 7):
        cut = [(actions[:length], seen[:length]) for actions, seen in histories]
        memory, known = filtered(task, ATPO(), cut) if length else _fresh(task, trials)
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
    known = context(task, ATPO(), trials)
    return call(ATPO(), "init", keys(trials), known, None), known


@pytest.mark.parametrize("seed", range(3))
def test_posterior_and_beliefs_by_enumeration_of_all_paths(seed, x64):
    models = examples(2, seed, sizes=(4, 3), zeros=0.2)
    prior = np.array([0.3, 0.7])
    actions, seen = possible_history(models, prior, 5, seed)
    posterior, beliefs = oracle.enumerated(models, prior, actions, seen)
    memory, known = filtered(ready(models, "blocked", prior), ATPO(), [(actions, seen)] * 2)
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
    memory, known = filtered(ready(models, storage), ATPO(), histories)
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
        memory, known = filtered(task, ATPO(), [([0] * length, [0, 0, 1][:length])])
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
    memory, known = filtered(ready(models), ATPO(), histories)
    told = told_by(known, memory)
    assert told["posterior"].tolist() == [[1.0, 1.0]]
    assert told["entropy"].tolist() == [0.0, 0.0]


def test_identical_models_keep_the_prior_and_their_beliefs_agree(x64):
    models = same_size(1) * 3
    prior = np.array([0.5, 0.125, 0.375])
    memory, known = filtered(
        ready(models, prior=prior), ATPO(), [possible_history(models, prior, 9, 4)] * TRIALS
    )
    told = told_by(known, memory)
    np.testing.assert_allclose(told["posterior"][:, 0], prior, atol=1e-12)
    np.testing.assert_array_equal(told["beliefs"][0], told["beliefs"][2])


def test_a_model_ruled_out_stays_out_with_a_finite_belief():
    task = ready(two_doors(), policies=[(np.ones((1, 2)), np.zeros(1, int))] * 2)
    memory, known = filtered(task, ATPO(), [([0] * 4, [1, 0, 0, 0])] * TRIALS)
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
    before, known = filtered(task, ATPO(), [([0, 1], [0, 2])] * TRIALS)
    after, _ = filtered(task, ATPO(), [([0, 1, 2], [0, 2, 1])] * TRIALS)
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
    agent = ATPO(floor=1e-8)
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
    exact, _ = filtered(task, ATPO(), [(actions, seen)] * TRIALS)
    assert np.asarray(exact.log_posterior)[2, 0] == -np.inf


def test_a_model_outside_the_trials_library_stays_out_even_with_a_floor():
    models = same_size(3)
    agent = ATPO(floor=1e-2)
    task = ready(models).replace(prior=jnp.array([0.5, 0.0, 0.5], jnp.float32))
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
    for agent in (Informed(), RandomPicker()):
        known = context(task, agent, 2, truth)
        memory = call(agent, "init", keys(2), known, None)
        for t in range(4):
            columns = [jnp.array([history[part][t] for history in histories], jnp.int32) for part in (0, 1)]
            memory = call(agent, "update", keys(2), known, memory, *columns)
        chances = call(agent, "act", keys(2), known, memory)
        for n, (actions, seen) in enumerate(histories):
            _, beliefs, _ = oracle.joint_history(models, uniform, actions, seen)
            beliefs = [np.zeros(5) if belief is None else belief for belief in beliefs]
            weights = np.eye(3)[int(truth[n])] if informed(agent) else uniform
            ruled_out = [k for k in range(3) if not beliefs[k].any()]
            if informed(agent) or not ruled_out:
                expected = oracle.mixture(random_policies(models), weights, beliefs, 3, TIE)
                np.testing.assert_allclose(chances[:, n], expected, atol=1e-5)


@pytest.mark.parametrize("storage", STORAGES)
def test_bopa_weighs_models_by_the_transitions_it_sees(storage, x64):
    models = same_size(3, seed=6)
    prior = np.array([0.2, 0.5, 0.3])
    task = ready(models, storage, prior, needs=("q",))
    known = context(task, BOPA(), 1)
    path, actions = [0, 1, 4, 2], [0, 2, 1]
    memory = call(BOPA(), "init", keys(1), known, jnp.array(path[:1], jnp.int32))
    weights = prior.copy()
    for x, a, y in zip(path[:-1], actions, path[1:], strict=True):
        taken = (jnp.array([a], jnp.int32), jnp.array([y], jnp.int32))
        memory = call(BOPA(), "update", keys(1), known, memory, *taken)
        likely = np.array([model.transition[a, x, y] for model in models])
        weights = weights * likely / (weights @ likely) if weights @ likely > 0 else weights
    told = call(BOPA(), "report", known, memory)
    np.testing.assert_allclose(told["posterior"][:, 0], weights, atol=1e-10)
    q = np.asarray(task.solved["q"])[:, path[-1]]
    expected = sum(w * oracle.greedy_actions(q[k], range(3), 3, TIE) for k, w in enumerate(weights))
    np.testing.assert_allclose(call(BOPA(), "act", keys(1), known, memory)[:, 0], expected, atol=1e-10)


def test_bopa_reports_a_transition_that_no_model_allows():
    models = [random_models.example("deterministic", seed) for seed in range(2)]
    nowhere = next(y for y in range(5) if all(model.transition[0, 0, y] == 0 for model in models))
    known = context(ready(models, needs=("q",)), BOPA(), 1)
    memory = call(BOPA(), "init", keys(1), known, jnp.zeros(1, jnp.int32))
    taken = (jnp.zeros(1, jnp.int32), jnp.full(1, nowhere, jnp.int32))
    after = call(BOPA(), "update", keys(1), known, memory, *taken)
    assert after.impossible.tolist() == [1]
    np.testing.assert_array_equal(after.log_posterior, memory.log_posterior)


def test_bopa_needs_one_state_space():
    models = [random_models.build(model) for model in examples(2)]
    assert "5, 3 states" in (BOPA().refuses(Library.from_models(models)) or "")
    models = [
        random_models.build(m, states=[f"{k}{x}" for x in range(5)]) for k, m in enumerate(same_size(2))
    ]
    assert "names" in (BOPA().refuses(Library.from_models(models)) or "")
    assert BOPA().refuses(Library.from_models(models[:1] * 2)) is None


def test_value_iteration_is_greedy_in_the_true_models_values():
    models = same_size(2, seed=9)
    task = ready(models, needs=("q",))
    truth = jnp.array([1, 0, 1], jnp.int32)
    at = jnp.array([0, 3, 4], jnp.int32)
    known = context(task, ValueIteration(), 3, truth)
    agent = ValueIteration()
    chances = call(agent, "act", keys(3), known, call(agent, "init", keys(3), known, at))
    for n in range(3):
        q = np.asarray(task.solved["q"])[truth[n], at[n]]
        np.testing.assert_allclose(chances[:, n], oracle.greedy_actions(q, range(3), 3, TIE), atol=1e-6)


# ---------------------------------------------------------------- the registry


def test_the_papers_six_are_registered_first():
    assert catalogue.names()[:6] == ("value_iteration", "perseus", "atpo", "random_picker", "bopa", "random")
    assert catalogue.get("Value-Iteration") is catalogue.get("value_iteration")


def test_errors_name_the_remedy(tmp_path, monkeypatch):
    with pytest.raises(JatpoError, match="did you mean 'atpo'"):
        catalogue.get("atop")
    with pytest.raises(JatpoError, match=r"half.*act.*update.*Half"):
        catalogue.register(type("Half", (), {"name": "half", "init": lambda s, k, c, z: ()}))
    with pytest.raises(JatpoError, match=r"odd.*sees"):
        catalogue.register(methods(name="odd", sees="observations", knows="nothing"))
    with pytest.raises(JatpoError, match="a b"):
        catalogue.register(methods(name="a b", sees="nothing", knows="nothing"))
    with pytest.raises(JatpoError, match=r"unnamed.*knows"):
        catalogue.register(methods(name="unnamed", sees="nothing"))
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(JatpoError, match=r"broken.py fails with ZeroDivisionError"):
        catalogue.load(broken)
    with pytest.raises(JatpoError, match=r"nowhere\.py"):
        catalogue.load(tmp_path / "nowhere.py")


def methods(**declared) -> type:
    parts = {
        "init": lambda self, k, c, s: (),
        "act": lambda self, k, c, m: c.actions * 0.2,
        "update": lambda self, k, c, m, a, s: m,
    }
    return type("Parts", (), parts | declared)


def test_a_file_in_the_environment_registers_agents(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "from jatpo.evaluate import register\n"
        "@register\n"
        "class Mine:\n"
        "    name, sees, knows = 'mine', 'nothing', 'nothing'\n"
        "    def init(self, key, context, seen): return ()\n"
        "    def act(self, key, context, memory): return (context.actions == 1) * 1.0\n"
        "    def update(self, key, context, memory, action, seen): return memory\n"
    )
    monkeypatch.setenv("JATPO_AGENTS", str(file))
    try:
        assert "mine" in catalogue.names()
        assert catalogue.get("mine").knows == "nothing"
    finally:
        catalogue.remove("mine")
