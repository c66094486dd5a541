"""Every kernel of size lowers for accelerators that need not be here, and calls nothing on the host.

`jax.export` lowers a program for platforms without having one, so a shape, a dtype or an operation that an accelerator
has no rule for is found here. What it does not find is how fast the program runs there.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from jatpo import beliefs, filter
from jatpo.evaluate import loops
from jatpo.evaluate.agents.atpo import ATPO
from jatpo.evaluate.noise import make_noise
from jatpo.evaluate.scenario import Scenario
from jatpo.library import Library
from jatpo.mdp import value_iteration
from jatpo.solve import device_rounds, points, policy, rounds, stage
from jatpo.solve.backup import backup, fill
from jatpo.solve.policy import Policy
from jatpo.solve.problem import prepare
from jatpo.storage import MoversTransition
from random_models import build, coordinates, example, rows

PLATFORMS = ("cuda", "rocm", "tpu")
TRIALS, VECTORS = 8, 6


def movers_model():
    """A model of two movers on two cells: five states, like the others."""
    truth = example("hard zeros")
    random = np.random.default_rng(0)
    num_actions = truth.transition.shape[0]
    lists = (coordinates(rows(random, num_actions, 2, 2)), coordinates(rows(random, 1, 2, 2)))
    transition = MoversTransition.of_lists(*lists, np.eye(2) > 0, num_actions, np.dtype(np.float32))
    return dataclasses.replace(build(truth, "blocked"), transition=transition)


MODELS = {
    "dense": lambda: build(example("hard zeros"), "dense"),
    "blocked": lambda: build(example("hard zeros"), "blocked"),
    "successors": lambda: build(example("hard zeros"), "successors"),
    "movers": movers_model,
}


def lowered(function, *arguments):
    """Export for all platforms; fails where something has no lowering, and for anything that calls the host."""
    made = export.export(jax.jit(function), platforms=PLATFORMS)(*arguments)
    assert made.platforms == PLATFORMS
    text = made.mlir_module()
    calls = {name for name in re.findall(r"custom_call @(\w+)", text) if "callback" in name.lower()}
    assert not calls
    assert "f64" not in text  # accelerators without double precision run it, too
    return made


@pytest.mark.parametrize("name", MODELS)
def test_filter(name):
    model = MODELS[name]()
    held = jnp.full((model.num_states, TRIALS), 1 / model.num_states, jnp.float32)
    what = jnp.zeros(TRIALS, jnp.int32)
    lowered(filter.update_columns, model, held, what, what)


@pytest.mark.parametrize("representation", [beliefs.Support(4), beliefs.Compacting(4), beliefs.Scaled()])
@pytest.mark.parametrize("name", ["blocked", "movers"])
def test_listed_beliefs(name, representation):
    library = Library.from_models([MODELS[name]()])
    what = jnp.zeros(TRIALS, jnp.int32)

    def step(library):
        held = beliefs.start_library(representation, None, library, TRIALS)
        return beliefs.update_library(representation, None, library, held, what, what)

    lowered(step, library)


@pytest.mark.parametrize("name", ["dense", "blocked"])
def test_backup_and_stage(name):
    (problem,) = prepare([MODELS[name]()])
    model, plan = problem.model, problem.plan
    vectors = fill(np.zeros((1, 1), model.dtype), np.zeros(1), model.num_states)
    held = jnp.full((model.num_states, TRIALS), 1 / model.num_states, jnp.float32)
    lowered(backup, model, plan, held, vectors)
    known = stage.evaluate(vectors, held)
    turn, thorough = jnp.zeros(TRIALS, jnp.float32), jnp.asarray(False)
    lowered(lambda *arguments: stage.stage(*arguments, batch=4), turn, model, plan, known, vectors, thorough)
    lowered(points.random_walk, jnp.zeros((3, 3, TRIALS), jnp.float32), model)


@pytest.mark.parametrize("name", ["dense", "blocked"])
def test_backups_of_a_round(name):
    (problem,) = prepare([MODELS[name]()])
    model, plan = problem.model, problem.plan
    vectors = fill(np.zeros((1, 1), model.dtype), np.zeros(1), model.num_states)
    held = jnp.full((model.num_states, TRIALS), 1 / model.num_states, jnp.float32)
    loop = stage.loop_from(vectors, stage.evaluate(vectors, held))
    columns, numbers = rounds.table_of([], 3, TRIALS), [jnp.int32(0)] * 3
    lowered(rounds.back_up, loop, model, plan, held, columns, *numbers)
    lowered(rounds.thin, loop)


@pytest.mark.parametrize("belief", [beliefs.Dense(), beliefs.Support(3)])
@pytest.mark.parametrize("name", ["blocked", "movers"])
def test_round(name, belief):
    model = MODELS[name]()
    bank = device_rounds.empty_bank(jnp.zeros((model.num_actions, 5), jnp.float32), VECTORS)
    q = jnp.zeros((5, model.num_actions), jnp.float32)

    def play(key, model, q, bank, number):
        return device_rounds.play_round(key, model, q, bank, number, steps=3, capacity=4, belief=belief)

    lowered(play, jax.random.key(0), model, q, bank, jnp.int32(0))


@pytest.mark.parametrize("name", MODELS)
def test_value_iteration(name):
    lowered(value_iteration, MODELS[name]())


def test_policy_of_a_batch():
    some = Policy(jnp.zeros((VECTORS, 5), jnp.float32), jnp.zeros(VECTORS, jnp.int32))
    held = jnp.full((5, TRIALS), 0.2, jnp.float32)
    lowered(lambda own, held: policy.action_probabilities_columns(own, held, 3), some, held)


@pytest.mark.parametrize("name", ["blocked", "movers"])
def test_chunk_of_trials(name):
    scenario = Scenario([MODELS[name]()] * 2)
    policies = Policy(jnp.zeros((2, VECTORS, 5), jnp.float32), jnp.zeros((2, VECTORS), jnp.int32))
    agent = jax.tree.map(jnp.asarray, ATPO())
    setup = loops.Setup(agent, jnp.asarray(False), scenario, {"policies": policies})
    noise = make_noise(jax.random.key(0), np.arange(2 * TRIALS), 2, 4, np.dtype(np.float32))
    lowered(lambda setup, noise: loops.play(setup, 4, TRIALS, noise, jnp.int32(9)), setup, noise)
    lowered(lambda setup, noise: loops.record(setup, 4, ("posterior",), noise), setup, noise)
