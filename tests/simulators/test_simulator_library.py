"""Simulators against the tables they are made of, and libraries of several kinds."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jatpo
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.library import Library
from jatpo.simulators import Simulator, SimulatorLibrary, fixed, simulator_class
from random_models import build, example

DRAWS = 4000


@pytest.fixture(scope="module")
def truths():
    return [example("hard zeros", seed) for seed in range(3)]


@pytest.fixture(scope="module")
def tables(truths):
    return SimulatorLibrary.from_tables(Library.from_models([build(truth, "blocked") for truth in truths]))


@simulator_class
class Walk(Simulator):
    """A walk on a ring of `size` cells that the agent sees with an offset."""

    offset: int | jax.Array
    size: int = fixed(default=4)
    actions = ("left", "stay", "right")

    def initial(self, key):
        return jax.random.randint(key, (), 0, self.size)

    def step(self, key, state, action):
        return (state + action - 1) % self.size, (state == 0).astype(jnp.float32), state == 0

    def observe(self, key, state, action):
        return (state + self.offset) % self.size

    def log_observation(self, state, action, observation):
        return jnp.where(self.observe(None, state, action) == observation, 0.0, -jnp.inf)


def test_a_table_and_its_simulator_agree(truths, tables):
    """Successors and likelihoods by enumeration, draws by their frequencies within five standard errors."""
    step = jax.jit(jax.vmap(lambda model, key, x, a: model.step(key, x, a), in_axes=(None, 0, None, None)))
    see = jax.jit(jax.vmap(lambda model, key, x, a: model.observe(key, x, a), in_axes=(None, 0, None, None)))
    keys = jax.random.split(jax.random.key(0), DRAWS)
    for k, truth in enumerate(truths):
        model = tables.entry(k)
        for x in range(5):
            for a in range(3):
                states, probability = model.successors(jnp.int32(x), jnp.int32(a))
                listed = np.bincount(states, probability, minlength=5)
                np.testing.assert_allclose(listed, truth.transition[a, x], atol=1e-6)
                logs = [model.log_observation(jnp.int32(x), jnp.int32(a), jnp.int32(z)) for z in range(4)]
                np.testing.assert_allclose(np.exp(logs), truth.observation[a, x], atol=1e-6)
        x, a = np.int32(k), np.int32(1)
        arrived, reward, done = step(model, keys, x, a)
        assert not done.any() and np.allclose(reward, truth.reward[x, a])
        for found, wanted in (
            (arrived, truth.transition[a, x]),
            (see(model, keys, x, a), truth.observation[a, x]),
        ):
            share = np.bincount(found, minlength=len(wanted)) / DRAWS
            assert (np.abs(share - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / DRAWS) + 1e-9).all()


def test_entries_of_several_sizes_run_in_groups():
    """Two sizes make two groups; what is found is in the order of the labels."""
    library = SimulatorLibrary.from_simulators(
        [Walk(0), Walk(1, 6), Walk(2)], labels=["a", "b", "c"], horizon=5
    )
    assert library.members == ((0, 2), (1,)) and len(library) == 3
    seen = library.ordered(library.each(lambda model: model.observe(None, jnp.int32(3), jnp.int32(0))))
    assert seen.tolist() == [3, 4, 1]

    @jax.jit
    def play(truth):
        states = library.start(jax.random.key(0), truth)
        return library.advance(jax.random.key(1), truth, tuple(0 * state for state in states), jnp.int32(2))

    for k, wanted in enumerate((1, 2, 3)):
        states, observation, reward, done = play(jnp.int32(k))
        assert (int(observation), float(reward), bool(done)) == (wanted, 1.0, True)
        assert int(states[library.members.index((1,)) if k == 1 else 0]) == 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(JatpoError, match="has no simulators"):
        SimulatorLibrary.from_simulators([])
    with pytest.raises(JatpoError, match="2 simulators and 1 labels"):
        SimulatorLibrary.from_simulators([Walk(0), Walk(1)], labels=["a"])

    @simulator_class
    class Other(Walk):
        actions = ("left", "right")

    @simulator_class
    class Grows(Walk):
        def step(self, key, state, action):
            return jnp.stack([state, state]), 0.0, False

        def observe(self, key, state, action):
            assert state.shape == ()  # as a simulator that reads its state: the mistake is in `step`
            return state

    with pytest.raises(JatpoError, match="'1' has 2 actions and '0' 3"):
        SimulatorLibrary.from_simulators([Walk(0), Other(0)])
    with pytest.raises(JatpoError, match="'0' begins with a state int32\\[\\] and goes to int32\\[2\\]"):
        SimulatorLibrary.from_simulators([Grows(0)])


@pytest.mark.parametrize(
    "command", ("solve", "certify", "plan", "compare", "info", "check", "convert", "learn")
)
def test_what_needs_tables_refuses_simulators(command, capsys, tmp_path):
    out = {"convert": "x.POMDP", "learn": "h.jsonl"}
    more = [str(tmp_path / out[command])] if command in out else []
    more = ["--simulate", "10", "--out", *more] if command == "learn" else more
    assert run([command, "torus-pursuit:size=5,agents=2", *more]) == 2
    assert "is a library of simulators, and this needs tables" in capsys.readouterr().err


def test_a_library_of_simulators_is_shown(capsys):
    assert run(["domains", "foraging:size=5"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("foraging:size=5: food of unknown weight") and "teammates" in shown
    assert run(["domains", "foraging", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["name"] == "foraging" and facts["parameters"]["size"] == 6 and len(facts["models"]) == 12


def test_simulators_have_no_solutions():
    solved = jatpo.evaluate.Solved(jatpo.load("foraging:size=4,food=1"))
    for name in ("solutions", "joint"):
        with pytest.raises(JatpoError, match="is a library of simulators"):
            getattr(solved, name)
