"""Policies of one model behind one interface: values of states, functions of states and of beliefs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.evaluate.agents.simulator_policies import BeliefFunction, Preferences, StateValues
from jatpo.library import Library
from jatpo.simulators import Exact, ParticleBelief, Particles, SimulatorLibrary
from jatpo.simulators.simulator_catalogue import build as build_simulators
from random_models import build, example


def test_state_values_choose_what_is_best_on_average():
    """QMDP by hand: the action with the largest mean of q, for the exact belief and for particles."""
    tables = SimulatorLibrary.from_tables(Library.from_models([build(example("plain", 0), "blocked")]))
    model, q = tables.entry(0), np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    exact = Exact().start(None, model)
    wanted = np.argmax(np.asarray(model.start) @ q)
    found = StateValues().probabilities(Exact(), model, exact, jnp.asarray(q))
    np.testing.assert_allclose(found, np.eye(3)[wanted], atol=1e-6)
    certain = jnp.array([3, 3], jnp.int32), jnp.array([1.0, 0.0], jnp.float32)
    belief = ParticleBelief(*certain, jnp.int32(0), jnp.array(False))
    found = StateValues().probabilities(Particles(2), model, belief, jnp.asarray(q))
    np.testing.assert_allclose(found, np.eye(3)[np.argmax(q[3])], atol=1e-6)


def test_functions_of_states_and_of_beliefs():
    """A function of the state is averaged over the particles, one of the belief is what it gives."""
    model, filter = build_simulators("kitchen:rows=2").entry(0), Particles(64)
    belief = filter.start(jax.random.key(0), model)
    by_hand = np.mean([np.eye(4)[row] for row in np.asarray(belief.states.helper)], axis=0)
    own = Preferences(lambda _, state: jax.nn.one_hot(state.helper, 4))
    np.testing.assert_allclose(own.probabilities(filter, model, belief, ()), by_hand, atol=1e-6)
    likeliest = BeliefFunction(lambda simulator, held: simulator.preferences(filter.mode(held)))
    found = likeliest.probabilities(filter, model, belief, ())
    np.testing.assert_allclose(found, model.preferences(filter.mode(belief)), atol=1e-6)
    assert 0 < by_hand[0] < 1 and float(found.max()) == 1


def test_policies_refuse_libraries_that_lack_what_they_need():
    kitchen = build_simulators("kitchen:rows=2")
    assert "needs tables" in (StateValues().refuses(kitchen) or "")
    tables = Library.from_models([build(example("plain", 0), "blocked")])
    assert "needs simulators" in (Preferences().refuses(tables) or "")
    with pytest.raises(JatpoError, match="no parameter of kitchen"):
        build_simulators("kitchen:row=2")
