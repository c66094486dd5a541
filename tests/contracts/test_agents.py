"""What every agent must do, ours, a user's two and one from outside the package; and which are refused."""

import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import tiny_domain
from agent_tasks import call, context, keys, ready, same_size
from jatpo import beliefs
from jatpo.cli.main import run as command
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import ATPO, Random, agent_class, catalogue
from jatpo.evaluate.agents.protocol import Agent, choose, sight
from jatpo.evaluate.player import Player
from jatpo.evaluate.rollout import rollout


class FirstAction:
    name, sees, knows = "first-action", "nothing", "nothing"

    def init(self, key, context, seen):
        return ()

    def act(self, key, context, memory):
        return (context.actions == 0).astype(jnp.float32)

    def update(self, key, context, memory, action, seen):
        return memory


class Moody:
    """Draws a mood for each trial and step, and counts what it sees: a user's agent with keys and a memory."""

    name, sees, knows, needs = "moody", "observation", "library", ("policies",)

    def init(self, key, context, seen):
        return {"mood": jax.random.uniform(key), "seen": jnp.int32(0)}

    def act(self, key, context, memory):
        uneven = jax.random.uniform(key, context.actions.shape)
        uneven = uneven + memory["mood"] + memory["seen"].astype("float32")
        return uneven / uneven.sum()

    def update(self, key, context, memory, action, seen):
        return {"mood": jax.random.uniform(key), "seen": memory["seen"] + seen}

    def report(self, context, memory):
        return {"mood": memory["mood"]}


OUTSIDE = Path(__file__).parent / "outside" / "thompson_agent.py"
with catalogue.AGENTS.restored():  # part of the contract below, not of other tests
    catalogue.register(FirstAction)
    catalogue.register(Moody)
    catalogue.load(OUTSIDE)
    ALL_AGENTS = {name: catalogue.get(name) for name in catalogue.names()}


@pytest.fixture(scope="module")
def contract_task():
    return ready(
        same_size(3, seed=8), "blocked", needs=[name for agent in ALL_AGENTS.values() for name in agent.needs]
    )


class Decision(NamedTuple):
    actions: np.ndarray  # [N]
    probabilities: np.ndarray  # [A, N]


@jax.jit
def drawn(keys: Array, probabilities: Array) -> Array:
    return choose(jax.vmap(jax.random.uniform)(keys), probabilities)


@jax.jit
def fold_in_all(keys: Array, number) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)


def played(task, agent: Agent, seed: int, trials: int, steps: int = 4, jit: bool = True):
    """Actions and probabilities of some steps against fixed sights; trial n's key depends on n alone."""
    own = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(seed), jnp.arange(trials))
    truth = jnp.arange(trials, dtype=jnp.int32) % 3
    known = context(task, agent, trials, truth)

    def run(part: str, *arguments):
        return call(agent, part, *arguments) if jit else getattr(agent, part)(*arguments)

    at = np.arange(trials, dtype=np.int32) % 5
    memory = run("init", own, known, sight(agent, jnp.asarray(at), None))
    decisions = []
    for t in range(steps):
        step = fold_in_all(own, t + 1)
        probabilities = run("act", fold_in_all(step, 0), known, memory)
        actions = drawn(fold_in_all(step, 1), probabilities)
        decisions.append(Decision(np.asarray(actions), np.asarray(probabilities)))
        at = (at + decisions[-1].actions + 1) % 5
        seen = sight(agent, jnp.asarray(at), jnp.asarray(at % 4))
        memory = run("update", fold_in_all(step, 2), known, memory, actions, seen)
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


REPRESENTATIONS = {
    "scaled": beliefs.Scaled(),
    "support": beliefs.Support(5),
    "compacting": beliefs.Compacting(3, 0.0),
}


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("name", [name for name, agent in ALL_AGENTS.items() if hasattr(agent, "belief")])
def test_with_room_for_all_states_the_representation_of_beliefs_changes_nothing(
    name, representation, contract_task
):
    """The same actions, and the same probabilities up to rounding."""
    agent = ALL_AGENTS[name]
    held = dataclasses.replace(agent, belief=REPRESENTATIONS[representation])
    plain, other = (played(contract_task, own, seed=0, trials=6) for own in (agent, held))
    np.testing.assert_array_equal(other.actions, plain.actions)
    np.testing.assert_allclose(other.probabilities, plain.probabilities, atol=1e-4)


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
        known = context(contract_task.replace(prior=prior), agent, 2)
        memory = agent.init(keys(2), known, sight(agent, jnp.zeros(2, jnp.int32), None))
        return agent.act(keys(2), known, memory)

    swept, alone = jax.jit(jax.vmap(chances))(priors), jax.jit(chances)
    for n in range(2):
        np.testing.assert_allclose(swept[n], alone(priors[n]), atol=1e-6)


# ---------------------------------------------------------------- what an agent is given, and the registry


def test_an_agent_is_given_what_it_declared_and_no_more(contract_task):
    truth = jnp.array([2, 1], jnp.int32)
    seen, observations = jnp.array([3, 4], jnp.int32), jnp.array([0, 1], jnp.int32)
    given = {name: context(contract_task, agent, 2, truth) for name, agent in ALL_AGENTS.items()}
    assert given["random"].library is None
    assert given["random"].prior is None
    assert not given["random"].solved
    np.testing.assert_allclose(given["atpo"].prior, 1 / 3, atol=1e-6)  # nothing about the true model
    assert given["perseus"].prior.T.tolist() == [[0, 0, 1], [0, 1, 0]]
    sights = {name: sight(agent, seen, observations) for name, agent in ALL_AGENTS.items()}
    assert sights["atpo"] is observations
    assert sights["bopa"] is seen
    assert sights["random"] is None
    assert sight(catalogue.get("atpo"), seen, None) is None  # nothing before the first action


# ---------------------------------------------------------------- rollouts and the player


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_in_rollouts_and_in_the_player(name, contract_task):
    """Recorded or not, the same returns; the player has the same report."""
    agent = ALL_AGENTS[name]
    played = rollout(jax.random.key(0), agent, *contract_task, 3, trials=4)
    recorded = rollout(
        jax.random.key(0), agent, *contract_task, 3, trials=4, record=["actions", "probabilities"]
    )
    np.testing.assert_array_equal(played.returns, recorded.returns)
    assert recorded.records["probabilities"].shape == (4, 3, 3)
    true_model = 0 if agent.knows == "true model" else None
    player = Player(agent, contract_task.library, contract_task.solved, true_model=true_model)
    player.reset(0)
    action = player.act()
    player.observe(action, 0)
    assert 0 <= action < 3 and abs(player.probabilities.sum() - 1) < 1e-4
    assert all(np.isfinite(part).all() for name, part in player.report().items() if name != "log_evidence")


def test_one_from_outside_works_in_every_command(monkeypatch, tmp_path, capsys, registries):
    tiny_domain.stand_in(monkeypatch)
    catalogue.load(OUTSIDE)
    monkeypatch.chdir(tmp_path)
    with tiny_domain.registered() as name:
        few = ("--trials", "8", "-q")
        assert command(["evaluate", name, "--agents", "thompson,random", *few, "--out", "r"]) == 0
        assert command(["experiment", "identification", name, "--agents", "thompson", *few]) == 0
        assert command(["watch", name, "--agent", "thompson", "--json", "-q"]) == 0
        simulate = ("--simulate", "3", "--agent", "thompson", "--out", "h.jsonl", "-q")
        assert command(["learn", name, *simulate]) == 0
    assert "thompson" in capsys.readouterr().out
    manifest = json.loads(Path("r/manifest.json").read_text())
    assert manifest["agents"][name]["thompson"]["solutions"]["policies"]


# ---------------------------------------------------------------- agents that are refused


def wrong(**methods) -> Agent:
    return agent_class(type("Wrong", (Random,), {"name": "wrong", **methods}))()


def constant(values, dtype="float32"):
    """`act` with these probabilities in every trial."""
    numbers = jnp.asarray(values, dtype)
    return {"act": lambda self, k, c, m: jnp.broadcast_to(numbers[:, None], (len(values), k.shape[0]))}


REFUSED = {
    "too few": constant([0.5, 0.5]),
    "too many": constant([0.25] * 4),
    "no trials": {"act": lambda self, k, c, m: jnp.ones(3) / 3},
    "whole numbers": constant([1, 0, 0], "int32"),
    "not finite": constant([float("nan"), 0.5, 0.5]),
    "infinite": constant([float("inf"), 0.0, 0.0]),
    "negative": constant([1.5, -0.5, 0.0]),
    "less than 1": constant([0.5, 0.2, 0.2]),
    "structure": {"update": lambda self, k, c, m, a, s: {"a": a}},
    "dtype": {
        "init": lambda self, k, c, s: jnp.zeros(k.shape[0], jnp.int32),
        "update": lambda self, k, c, m, a, s: m.astype("float32"),
    },
    "shape": {
        "init": lambda self, k, c, s: jnp.zeros((2, k.shape[0])),
        "update": lambda self, k, c, m, a, s: jnp.zeros((3, k.shape[0])),
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_agents_are_refused_by_name(what, contract_task):
    agent = wrong(**REFUSED[what])
    for record in ((), ("actions",)):
        with pytest.raises(JatpoError, match="'wrong'"):
            rollout(jax.random.key(0), agent, *contract_task, 3, trials=2, record=record)
    with pytest.raises(JatpoError, match="'wrong'"):
        Player(agent, contract_task.library).reset()


def test_the_first_fault_is_named_by_trial_and_step(contract_task):
    """An agent that fails in its third step, in trials whose true model is 2."""

    def act(self, keys, context, memory):
        chances = jnp.full((3, keys.shape[0]), 1 / 3)
        return jnp.where((memory.step == 2) & (memory.truth == 2), -chances, chances)

    class Memory(NamedTuple):
        step: Array
        truth: Array

    late = agent_class(
        type(
            "Late",
            (Random,),
            {
                "name": "late",
                "knows": "true model",
                "init": lambda self, k, c, s: Memory(jnp.zeros(k.shape[0], int), jnp.argmax(c.prior, axis=0)),
                "act": act,
                "update": lambda self, k, c, m, a, s: m._replace(step=m.step + 1),
            },
        )
    )()
    truth = rollout(jax.random.key(0), Random(), *contract_task, 4, trials=32).truth
    first = int(np.argmax(truth == 2))
    for record in ((), ("actions",)):
        with pytest.raises(JatpoError, match=rf"'late'.*step 2 of trial {first}\b"):
            rollout(jax.random.key(0), late, *contract_task, 4, trials=32, record=record)


@pytest.mark.parametrize("action", [0.5, True, None, np.float32(1), np.array([0, 1]), 4, -1, "nowhere"])
def test_the_player_takes_whole_numbers_and_names(action, contract_task):
    player = Player(ATPO(), contract_task.library, contract_task.solved)
    player.reset()
    with pytest.raises(JatpoError):
        player.observe(action, 0)
    with pytest.raises(JatpoError):
        player.observe(0, action)
    player.observe(np.int64(1), np.int32(0))
