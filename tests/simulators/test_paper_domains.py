"""Every domain of the paper as simulators against its tables: all moves, sights, rewards and starts, by enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jatpo
from jatpo.simulators import SimulatorLibrary

DOMAINS = jatpo.domains.names()
QUICK = ("abandoned-power-plant", "ntu")
DRAWS = 512


def summed(rows, columns, probability, width):
    """Sorted keys row * width + column, and the probability of each; what is 0 is left out."""
    keys, place = np.unique(rows * width + columns, return_inverse=True)
    total = np.bincount(place, probability, minlength=len(keys))
    return keys[total > 0], total[total > 0]


@jax.jit
def enumerated(model):
    """Successors [A, X, S] with probabilities, and O(z | y, a) [A, X, Z], by the methods for one state."""
    actions, states = jnp.arange(model.num_actions), jnp.arange(model.start.shape[0])
    symbols = jnp.arange(model.world.num_observations)

    def all_states(function, *more):
        places = (0, None, *(None for _ in more))
        return jax.vmap(lambda a: jax.vmap(function, in_axes=places)(states, a, *more))(actions)

    def seen(state, action):
        return jax.vmap(lambda z: model.log_observation(state, action, z))(symbols)

    return *all_states(model.successors), jnp.exp(all_states(seen))


@jax.jit
def drawn(model, keys):
    """Start states, and of random states and actions what a step gives and what is seen then."""

    def one(key):
        first, place, choose, move, see = jax.random.split(key, 5)
        state = jax.random.randint(place, (), 0, model.start.shape[0])
        action = jax.random.randint(choose, (), 0, model.num_actions)
        arrived, reward, done = model.step(move, state, action)
        return model.initial(first), state, action, arrived, reward, done, model.observe(see, arrived, action)

    return jax.vmap(one)(keys)


@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in DOMAINS]
)
def test_a_domain_is_the_same_in_both_forms(name):
    """The simulators share one table with all models' actions; each has to read its own part of it."""
    library = jatpo.load(name)
    simulators = SimulatorLibrary.from_tables(library)
    size, symbols = library.num_states, library.num_observations
    for k in range(library.num_models):
        table, model = library.member(k), simulators.entry(k)
        states, probability, sights = map(np.asarray, enumerated(model))
        a, x, y, p = table.transition.coordinates()
        rows = np.broadcast_to(
            np.arange(probability[..., 0].size).reshape(probability.shape[:2])[..., None], states.shape
        )
        ours = summed(rows.ravel(), states.ravel(), probability.ravel(), size)
        theirs = summed(a * states.shape[1] + x, y, p, size)
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-6)
        a, y, z, p = table.observation.coordinates(library.num_actions)
        wanted = np.zeros((library.num_actions, sights.shape[1], symbols))
        wanted[a, y, z] = p
        np.testing.assert_allclose(sights[:, : table.num_states], wanted[:, : table.num_states], atol=1e-6)
        found = map(np.asarray, drawn(model, jax.random.split(jax.random.key(k), DRAWS)))
        starts, x, a, y, rewards, done, z = found
        assert (np.asarray(table.initial)[starts] > 0).all() and not done.any()
        inside = x < table.num_states
        np.testing.assert_allclose(rewards[inside], np.asarray(table.reward)[x[inside], a[inside]], rtol=1e-6)
        assert np.isin((a * states.shape[1] + x) * size + y, theirs[0])[inside].all()
        assert (wanted[a, y, z] > 0)[inside].all()
