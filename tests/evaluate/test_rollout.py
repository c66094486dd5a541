"""Rollouts against plain loops on the same keys, exact returns, common random numbers, chunks and devices."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import random_models
from agent_tasks import Ready
from jatpo import environment
from jatpo.errors import JatpoError
from jatpo.evaluate import loops, rollout, world
from jatpo.evaluate.agents import ATPO, BOPA, Informed, Random, RandomPicker, ValueIteration, catalogue
from jatpo.evaluate.noise import STREAMS, make_noise
from jatpo.evaluate.scenario import Scenario, draw
from jatpo.evaluate.trials import compare
from jatpo.library import Library
from jatpo.mdp import TIE, value_iteration_library
from jatpo.solve.policy import Policy, stack
from oracles import atpo as oracle

HORIZON = 6


def examples(count: int = 3, seed: int = 0, sizes=(5, 3, 4), zeros: float = 0.3):
    random = np.random.default_rng(seed)
    return [random_models.plain(random, sizes[k % len(sizes)], 3, 4, zeros=zeros) for k in range(count)]


def policies_of(models, seed: int = 0):
    random = np.random.default_rng([seed, 1])
    return [(random.normal(scale=5, size=(6, len(m.initial))), random.integers(3, size=6)) for m in models]


def ready(models, storage: str = "blocked", **options):
    library = Library.from_models([random_models.build(model, storage) for model in models])
    dtype = library.prior.dtype
    stacked = [Policy(np.asarray(v, dtype), np.asarray(a, np.int32)) for v, a in policies_of(models)]
    q = value_iteration_library(library.models, 1e-5, 10_000).q
    return Ready(Scenario(library, **options), {"policies": stack(stacked, library.num_states), "q": q})


# ---------------------------------------------------------------- a plain loop on the same keys


class ByHand:
    """One trial's random numbers, from the seed, the trial and the step alone."""

    def __init__(self, seed: int, trial: int) -> None:
        key = jax.random.fold_in(jax.random.key(seed), trial)
        self.stream = {name: jax.random.fold_in(key, at) for at, name in enumerate(STREAMS)}

    def truth(self, count: int) -> int:
        return oracle.pick(float(jax.random.uniform(self.stream["draw"], (64,))[0]), [1 / count] * count)

    def start(self, initial) -> int:
        return oracle.pick(float(jax.random.uniform(self.stream["start"])), initial)

    def world(self, t: int) -> tuple[float, float]:
        return tuple(map(float, jax.random.uniform(jax.random.fold_in(self.stream["world"], t), (2,))))

    def choice(self, t: int) -> float:
        _, choose = jax.random.split(jax.random.fold_in(self.stream["agent"], t + 1))
        return float(jax.random.uniform(choose))


def trial_by_hand(models, seed: int, trial: int, choose):
    """One trial by plain loops; `choose(k, x, actions, seen)` gives the probabilities of the actions."""
    chance = ByHand(seed, trial)
    k = chance.truth(len(models))
    model = models[k]
    path, actions, seen, rewards = [chance.start(model.initial)], [], [], []
    for t in range(HORIZON):
        a = oracle.pick(chance.choice(t), choose(k, path[-1], actions, seen))
        to, sign = chance.world(t)
        rewards.append(model.reward[path[-1], a])
        path.append(oracle.pick(to, model.transition[a, path[-1]]))
        seen.append(oracle.pick(sign, model.observation[a, path[-1]]))
        actions.append(a)
    return k, path, actions, seen, rewards


def hand_policies(models, q):
    """Each agent's probabilities by the oracles."""
    uniform = np.full(len(models), 1 / len(models))
    policies = policies_of(models)

    def by_beliefs(weights_of):
        def choose(k, x, actions, seen):
            posterior, beliefs, _ = oracle.joint_history(models, uniform, actions, seen)
            weights = weights_of(k, posterior)
            return oracle.mixture(policies, weights, beliefs, 3, TIE)

        return choose

    def greedy(k, x, actions, seen):
        return oracle.greedy_actions(q[k, x], range(3), 3, TIE)

    return {
        "atpo": by_beliefs(lambda k, posterior: posterior),
        "perseus": by_beliefs(lambda k, posterior: np.eye(len(models))[k]),
        "random_picker": by_beliefs(lambda k, posterior: uniform),
        "value_iteration": greedy,
        "random": lambda *_: np.full(3, 1 / 3),
    }


@pytest.mark.parametrize("name", ["atpo", "perseus", "random_picker", "value_iteration", "random"])
def test_trials_are_a_plain_loop_on_the_same_keys(name, x64):
    models = examples(zeros=0.0)
    task = ready(models)
    trials = [0, 1, 5, 131]
    record = ["rewards", "actions", "states", "observations", "probabilities"]
    agent = catalogue.get(name)
    ours = rollout.rollout(jax.random.key(3), agent, *task, HORIZON, trials=trials, record=record)
    choose = hand_policies(models, np.asarray(task.solved["q"]))[name]
    for n, trial in enumerate(trials):
        k, path, actions, seen, rewards = trial_by_hand(models, 3, trial, choose)
        assert ours.trial[n] == trial
        assert ours.truth[n] == k
        assert ours.records["states"][n].tolist() == path
        assert ours.records["actions"][n].tolist() == actions
        assert ours.records["observations"][n].tolist() == seen
        np.testing.assert_allclose(ours.records["rewards"][n], rewards, rtol=1e-12)
        assert ours.returns[n] == pytest.approx(sum(rewards), rel=1e-12)
        discounted = sum(reward * 0.9**t for t, reward in enumerate(rewards))
        assert ours.discounted[n] == pytest.approx(discounted, rel=1e-9)
        np.testing.assert_allclose(
            ours.records["probabilities"][n][0], choose(k, path[0], [], []), atol=1e-12
        )


def test_recorded_beliefs_and_posterior_are_those_of_the_history(x64):
    models = examples(zeros=0.2)
    task = ready(models)
    record = ["actions", "observations", "posterior", "entropy", "log_evidence", "beliefs", "impossible"]
    ours = rollout.rollout(jax.random.key(0), ATPO(), *task, HORIZON, trials=3, record=record)
    assert ours.records["posterior"].shape == (3, HORIZON + 1, 3)
    assert ours.records["beliefs"].shape == (3, HORIZON + 1, 3, 5)
    for n in range(3):
        history = [ours.records[name][n].tolist() for name in ("actions", "observations")]
        for t in (0, 3, HORIZON):
            posterior, beliefs, evidence = oracle.joint_history(
                models, np.full(3, 1 / 3), *(h[:t] for h in history)
            )
            np.testing.assert_allclose(ours.records["posterior"][n, t], posterior, atol=1e-12)
            k = int(ours.truth[n])
            np.testing.assert_allclose(
                ours.records["beliefs"][n, t, k, : len(beliefs[k])], beliefs[k], atol=1e-12
            )
            positive = posterior[posterior > 0]
            entropy = -(positive * np.log(positive)).sum() / np.log(3)
            assert ours.records["entropy"][n, t] == pytest.approx(entropy, abs=1e-12)
            assert t == 0 or ours.records["log_evidence"][n, t] == pytest.approx(evidence, abs=1e-10)
    assert not ours.records["impossible"].any()


def test_the_joined_world_steps_as_each_model_does(x64):
    models = examples(seed=4)
    for storage in ("dense", "blocked"):
        task = ready(models, storage)
        noise = make_noise(jax.random.key(1), np.arange(8), 3, 32, np.dtype(float))
        truth = jnp.arange(8, dtype=jnp.int32) % 3
        at = jax.jit(world.start)(task.scenario.world, noise.start, truth)
        plain, step = jax.jit(environment.step), jax.jit(world.step)
        for t in range(2):
            actions = (at + t) % 3
            arrived, seen, rewards = step(task.scenario.world, noise.world[t], at, truth * 3 + actions)
            for n in range(8):
                model = task.library.model(int(truth[n]))
                key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(jax.random.key(1), n), 2), t)
                expected = plain(key, model, at[n], actions[n])
                assert (int(arrived[n]), int(seen[n])) == (int(expected[0]), int(expected[1]))
                assert float(rewards[n]) == float(expected[2])
            at = arrived


# ---------------------------------------------------------------- exact returns


@pytest.mark.parametrize("agent", [ValueIteration(), Random()], ids=lambda agent: agent.name)
def test_sampled_returns_agree_with_exact_ones(agent):
    models = examples(2, seed=7)
    task = ready(models)
    horizon, trials = 10, 8192
    ours = rollout.rollout(jax.random.key(11), agent, *task, horizon, trials=trials)
    q = np.asarray(task.solved["q"])
    for k, model in enumerate(models):
        size = len(model.initial)
        greedy = [oracle.greedy_actions(q[k, x], range(3), 3, TIE) for x in range(size)]
        policy = greedy if agent.knows == "true model" else np.full((size, 3), 1 / 3)
        exact = oracle.expected_return(model, policy, horizon)
        mine = ours.returns[ours.truth == k]
        error = mine.std() / np.sqrt(len(mine))
        assert abs(mine.mean() - exact) < 4 * error
        assert error < 0.1 * mine.std()
    assert abs((ours.truth == 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(trials)


# ---------------------------------------------------------------- common random numbers, chunks, tasks


def test_all_agents_meet_the_same_worlds():
    task = ready(examples(2, sizes=(5,)))
    found = {
        name: rollout.rollout(
            jax.random.key(0), catalogue.get(name), *task, HORIZON, trials=40, record=["states"]
        )
        for name in ("atpo", "bopa", "random")
    }
    for other in ("bopa", "random"):
        np.testing.assert_array_equal(found["atpo"].truth, found[other].truth)
        np.testing.assert_array_equal(
            found["atpo"].records["states"][:, 0], found[other].records["states"][:, 0]
        )
    assert len(set(found["atpo"].truth.tolist())) == 2


@pytest.mark.bits
def test_the_world_does_not_notice_the_agent_where_actions_do_not_matter():
    """With transitions that ignore the action, agents with different actions see the same states."""
    models = examples(2, sizes=(5,))
    models = [m._replace(transition=np.repeat(m.transition[:1], 3, axis=0)) for m in models]
    task = ready(models)
    one, other = (
        rollout.rollout(
            jax.random.key(5), catalogue.get(name), *task, HORIZON, trials=20, record=["states", "actions"]
        )
        for name in ("atpo", "value_iteration")
    )
    assert (one.records["actions"] != other.records["actions"]).any()
    np.testing.assert_array_equal(one.records["states"], other.records["states"])


@pytest.mark.bits
@pytest.mark.parametrize("name", ["atpo", "bopa", "random"])
def test_a_trial_is_the_same_alone_and_in_any_batch(name):
    task = ready(examples(2, sizes=(5,)))
    agent = catalogue.get(name)
    record = ["actions", "probabilities"] + (["posterior"] if name != "random" else [])
    whole = rollout.rollout(jax.random.key(2), agent, *task, HORIZON, trials=300, record=record)
    for wanted in ([7], [129, 7], list(range(250, 300))):
        part = rollout.rollout(jax.random.key(2), agent, *task, HORIZON, trials=wanted, record=record)
        jax.tree.map(np.testing.assert_array_equal, part, rollout.take(whole, np.array(wanted)))


def test_seeds_differ():
    task = ready(examples(2))
    one, other = (
        rollout.rollout(jax.random.key(seed), Random(), *task, HORIZON, trials=50) for seed in (0, 1)
    )
    assert (one.returns != other.returns).any()


def test_chunks_come_by_number_and_shrink_for_large_libraries(monkeypatch):
    task = ready(examples(2))
    wanted = rollout.run_chunks(jax.random.key(0), Random(), *task, HORIZON, [4, 1])
    numbers = [chunk for chunk, _ in wanted]
    assert numbers == [4, 1]
    assert rollout.chunk_size(task.library) == rollout.CHUNK
    monkeypatch.setattr(rollout, "CHUNK_BYTES", 20_000)
    assert 2 * 5 * 5 * 4 * rollout.chunk_size(task.library) <= 20_000
    assert rollout.chunk_size(task.library) == 64


def test_nested_libraries_hold_the_true_model():
    task = ready(examples(5, sizes=(3,)))
    uniform = jax.random.uniform(jax.random.key(0), (200, 64))
    drawn = jax.jit(jax.vmap(draw, in_axes=(0, None)))
    members = {}
    for size in (1, 2, 4, 5):
        sized = task.replace(size=jnp.int32(size))
        truth, prior = drawn(uniform, sized.scenario)
        members[size] = np.asarray(prior) > 0
        assert (members[size].sum(axis=1) == size).all()
        assert members[size][np.arange(200), truth].all()
        np.testing.assert_allclose(prior, members[size] / size, atol=1e-6)
    assert (members[2] <= members[4]).all()
    without = task.replace(leave_out=jnp.asarray(True))
    truth, prior = drawn(uniform, without.scenario)
    assert not np.asarray(prior)[np.arange(200), truth].any()
    np.testing.assert_allclose(np.asarray(prior).sum(axis=1), 1, atol=1e-6)
    counts = np.bincount(np.asarray(truth), minlength=5)
    assert (abs(counts - 40) < 4 * np.sqrt(200 * 0.2 * 0.8)).all()
    others = members[2].sum(axis=0) - counts  # who joins the true model is drawn evenly
    assert (abs(others - 40) < 4 * np.sqrt(200 * 0.2 * 0.8)).all()


def test_a_library_inside_a_pool_acts_as_that_library_alone(x64):
    """ATPO with prior 0 on the models that are not its trial's own is ATPO with a smaller library."""
    models = examples(4, sizes=(5,), seed=9)
    pool = ready(models).replace(size=jnp.int32(2))
    record = ["actions", "observations", "posterior"]
    ours = rollout.rollout(jax.random.key(1), ATPO(), *pool, HORIZON, trials=10, record=record)
    for n in range(10):
        members = np.flatnonzero(ours.records["posterior"][n, 0])
        own = [models[k] for k in members]
        history = [ours.records[name][n].tolist() for name in ("actions", "observations")]
        posterior, _, _ = oracle.joint_history(own, [0.5, 0.5], *history)
        np.testing.assert_allclose(ours.records["posterior"][n, -1, members], posterior, atol=1e-12)


def test_worlds_may_differ_from_the_library():
    models = examples(2, sizes=(5,))
    swapped = [random_models.build(model, "blocked") for model in models[::-1]]
    straight, crossed = ready(models), ready(models, truths=swapped)
    np.testing.assert_array_equal(straight.scenario.world.initial[::-1], crossed.scenario.world.initial)
    np.testing.assert_array_equal(straight.library.models.initial, crossed.library.models.initial)
    with pytest.raises(JatpoError, match="they must agree"):
        ready(models, truths=swapped[:1])


def test_weights_choose_the_true_models():
    task = ready(examples(3), weights=[0.0, 1.0, 0.0])
    assert set(rollout.rollout(jax.random.key(0), Random(), *task, HORIZON, trials=30).truth.tolist()) == {1}


def test_errors_name_the_remedy():
    task = ready(examples(2))
    with pytest.raises(JatpoError, match="did you mean 'actions'"):
        rollout.rollout(jax.random.key(0), ATPO(), *task, HORIZON, trials=1, record=["action"])
    with pytest.raises(JatpoError, match="'bopa' cannot run: the models have different state spaces"):
        rollout.rollout(jax.random.key(0), BOPA(), *task, HORIZON, trials=1)
    with pytest.raises(JatpoError, match="needs solved policies"):
        rollout.rollout(jax.random.key(0), ATPO(), task.scenario, {}, HORIZON, trials=1)
    with pytest.raises(JatpoError, match="5 of 2 models"):
        ready(examples(2), size=5)
    with pytest.raises(JatpoError, match="at least 2 models"):
        ready(examples(1), leave_out=True)
    play = partial(rollout.rollout, trials=1)
    with pytest.raises(JatpoError, match=r"as jax.random.key\(0\) makes it, got a value of type int"):
        play(0, Random(), task.scenario)
    with pytest.raises(JatpoError, match="got an array of \\(2,\\) keys"):
        play(jax.random.split(jax.random.key(0)), Random(), task.scenario)
    with pytest.raises(JatpoError, match=r"must be an instance .* got Random"):
        play(jax.random.key(0), Random, task.scenario)
    with pytest.raises(JatpoError, match=r"must be an instance .* got str"):
        play(jax.random.key(0), "random", task.scenario)
    with pytest.raises(JatpoError, match=r"must be jatpo.Scenario\(library\).* got Library"):
        play(jax.random.key(0), Random(), task.library)
    with pytest.raises(JatpoError, match="must be given by agent"):
        compare([])


def test_compiling_once_for_new_keys_parameters_priors_and_the_three_mixtures():
    task = ready(examples(2, sizes=(5,), zeros=0))
    rollout.rollout(jax.random.key(0), ATPO(), *task, HORIZON, trials=1)
    before = rollout._run._cache_size()
    rollout.rollout(jax.random.key(1), ATPO(floor=1e-8), *task, HORIZON, trials=200)
    rollout.rollout(jax.random.key(0), Informed(), *task, HORIZON, trials=1)
    rollout.rollout(jax.random.key(0), RandomPicker(), *task, HORIZON, trials=1)
    other = ready(examples(2, sizes=(5,), zeros=0, seed=4), prior=[0.1, 0.9])
    rollout.rollout(jax.random.key(0), ATPO(), *other, HORIZON, trials=1)
    assert rollout._run._cache_size() == before


# ---------------------------------------------------------------- devices


def device_digest() -> dict:
    """Numbers to compare between one device and several; also run in a process with eight."""
    task = ready(examples(2, sizes=(5,)))
    ours = rollout.rollout(
        jax.random.key(4), ATPO(), *task, HORIZON, trials=1200, record=["posterior", "actions"]
    )
    played = rollout.rollout(jax.random.key(4), ATPO(), *task, HORIZON, trials=1200)
    assert (played.returns == ours.returns).all()
    bits = ours.records["posterior"].view(np.uint32).astype(np.uint64)
    weights = np.arange(bits.size, dtype=np.uint64).reshape(bits.shape)
    return {
        "devices": jax.local_device_count(),
        "returns": ours.returns.astype(float).tolist(),
        "actions": int((ours.records["actions"].astype(np.uint64) * weights[..., :-1, 0]).sum()),
        "posterior": int((bits * (weights + 1)).sum()),
    }


@pytest.mark.bits
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 8])
def test_several_devices_give_the_numbers_of_one(count):
    code = "import json, test_rollout; print(json.dumps(test_rollout.device_digest()))"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}".strip()
    place = os.pathsep.join(path for path in (str(Path(__file__).parent), *sys.path) if path)
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": place}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    several = json.loads(result.stdout)
    assert several.pop("devices") == count
    here = device_digest()
    here.pop("devices")
    assert several == here


@pytest.mark.bits
def test_places_are_refilled_only_when_nothing_more_can_happen(monkeypatch):
    """Returns are those of all steps; a state that is left, or that earns, is not final."""
    models = [random_models.example("absorbing", seed) for seed in range(2)]
    models[1].reward[-1, 0] = 1.0  # here the last state still earns
    for storage in ("dense", "blocked"):
        task = ready(models, storage)
        assert np.asarray(task.scenario.final).tolist() == [[False] * 4 + [True], [False] * 5]
    for agent, trials in ((Random(), 130), (ATPO(), 1), (ATPO(), 130), (ATPO(), 1100)):
        played = rollout.rollout(jax.random.key(0), agent, *task, 20, trials=trials)
        whole = rollout.rollout(jax.random.key(0), agent, *task, 20, trials=trials, record=["states"])
        np.testing.assert_array_equal(played.truth, whole.truth)
        np.testing.assert_array_equal(played.returns, whole.returns)
        np.testing.assert_array_equal(played.discounted, whole.discounted)
    ended = whole.records["states"][:, -1] == 4
    assert (whole.truth[ended] == 0).any()
    assert (whole.truth[ended] == 1).any()


def test_refilling_saves_most_of_the_steps():
    """A world that ends after two steps: 64 trials in 8 places need some 16 rounds, not 8 times the horizon."""
    line = np.zeros((1, 3, 3))
    line[0, [0, 1, 2], [1, 2, 2]] = 1
    model = random_models.Example(line, np.ones((1, 3, 1)), np.array([[-1.0], [9], [0]]), np.eye(3)[0], 0.9)
    scenario = Scenario([random_models.build(model)])
    rounds = []

    class Counting(Random):
        def act(self, keys, context, memory):
            jax.debug.callback(lambda: rounds.append(1))
            return jnp.ones((1, keys.shape[0]))

    setup = loops.Setup(Counting(), jnp.asarray(False), scenario, {})
    noise = make_noise(jax.random.key(0), np.arange(64), 1, 100, np.dtype("float32"))
    play = jax.jit(lambda noise: loops.play(setup, 100, 8, noise, jnp.int32(60)))
    truth, returns, discounted = play(noise)[:3]
    jax.effects_barrier()
    assert returns.tolist() == [8.0] * 60 + [0.0] * 4
    np.testing.assert_allclose(discounted[:60], -1 + 0.9 * 9, rtol=1e-6)
    assert truth.tolist() == [0] * 64
    assert len(rounds) == 16


def test_chunks_are_shared_among_devices():
    assert list(rollout._shares([*range(5)], 1, 8)) == [[[0, 1, 2, 3, 4]]]
    assert list(rollout._shares([*range(5)], 2, 8)) == [[[0, 1, 2], [3, 4]]]
    assert list(rollout._shares([*range(5)], 4, 1)) == [[[0], [1], [2], [3]], [[4], [], [], []]]
    assert list(rollout._shares([*range(20)], 2, 8)) == [
        [[*range(8)], [*range(8, 16)]],
        [[16, 17], [18, 19]],
    ]
