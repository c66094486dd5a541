"""One contract of gradients over all storages: reverse mode, in batches and twice, against finite differences.

P is perturbed by building its storage anew from changed coordinates, which shares nothing with what is differentiated.
"""

import dataclasses
from functools import cache, partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import filter, storage
from jatpo.evaluate import returns, world
from jatpo.evaluate.agents.soft_atpo import SoftATPO
from jatpo.evaluate.losses import history_losses
from jatpo.evaluate.scenario import Scenario
from jatpo.learn import Histories, log_likelihoods, with_probabilities
from jatpo.library import Library
from jatpo.mdp import value_iteration_library
from jatpo.solve import policy as policies
from random_models import build, example, plain
from storages import STORAGES

STEP = 1e-6
ACTIONS, SEEN = np.array([0, 2, 1, 0], np.int32), np.array([1, 0, 3, 2], np.int32)
HISTORIES = Histories(
    np.array([[0, 2, 1], [1, 1, 0]], np.int32),
    np.array([[1, 0, 3], [2, 2, 0]], np.int32),
    np.ones((2, 3), bool),
)


def update(model):
    belief, log_evidence = filter.update(model, model.initial, jnp.int32(1), jnp.int32(2))
    return log_evidence + jnp.sum(belief**2)


def columns(model):
    beliefs = jnp.broadcast_to(model.initial[:, None], (model.num_states, 4))
    beliefs, _ = filter.update_columns(model, beliefs, ACTIONS, SEEN)
    beliefs, log_evidence = filter.update_columns(model, beliefs, ACTIONS[::-1], SEEN)
    return jnp.sum(log_evidence) + jnp.sum(beliefs**3)


def likelihoods(model):
    return jnp.sum(log_likelihoods(model, HISTORIES))


def value(model):
    vectors = jnp.asarray(np.random.default_rng(3).normal(size=(4, model.num_states)), model.dtype)
    policy = policies.Policy(vectors, jnp.arange(4, dtype=jnp.int32) % 3)
    return jnp.sum(
        policies.q(model, policy, filter.update(model, model.initial, jnp.int32(0), jnp.int32(1))[0])
    )


ONE_MODEL = {"update": update, "update_columns": columns, "log_likelihoods": likelihoods, "q": value}


def models(name):
    random = np.random.default_rng(5)
    return [build(plain(random, zeros=0.3), name), build(plain(random, states=4), name)]


def scenario_of(library):
    q = value_iteration_library(library.models, 1e-4, 100).q
    actions = jnp.tile(jnp.arange(3, dtype=jnp.int32), (2, 1))
    solved = {"policies": policies.Policy(jnp.swapaxes(q, 1, 2), actions)}
    return Scenario(library), jax.lax.stop_gradient(solved)


@cache
def fixed(name):
    library = Library.from_models(models(name))
    scenario, solved = scenario_of(library)
    return scenario, solved, returns.draw_noise(jax.random.key(0), scenario, 3, np.arange(6))


def library_update(library, name):
    beliefs, log_prior = filter.initial(library, 4), jnp.log(jnp.full((2, 4), 0.5))
    floor, temper = jnp.asarray(1e-3, beliefs.dtype), jnp.asarray(0.7, beliefs.dtype)
    beliefs, found = filter.update_library(library, beliefs, ACTIONS, SEEN, floor)
    logs, total = filter.posterior(log_prior, found, jnp.ones((2, 4), bool), floor, temper)
    return jnp.sum(jnp.exp(logs) ** 2) + jnp.sum(total) + jnp.sum(beliefs**2)


def exact_return(library, name):
    scenario, solved, _ = fixed(name)
    return returns.exact_return(SoftATPO(), 2, scenario.replace(library=library), solved)


def exact_return_in_the_world(library, name):
    scenario, solved, _ = fixed(name)
    changed = scenario.replace(world=world.joined(library.models))
    return returns.exact_return(SoftATPO(), 2, changed, solved)


def losses(library, name):
    scenario, solved, _ = fixed(name)
    given = (scenario.replace(library=library), solved, jnp.int32(0), ACTIONS[:3], SEEN[:3])
    return jnp.sum(history_losses(SoftATPO(), *given).mixture)


def score(library, name):
    """log pi of the actions of some trials, whose gradient is what `returns.surrogate` is made of."""
    scenario, solved, noise = fixed(name)
    _, steps = returns.play(SoftATPO(), 3, noise, scenario.replace(library=library), solved)
    return jnp.sum(steps.log_probability)


def quick(storages):
    """Blocked storage in the default tests, whose gradients have rules of their own; the others in `make contracts`."""
    slow = pytest.mark.slow
    return [name if name == "blocked" else pytest.param(name, marks=slow) for name in storages]


LIBRARY = {
    "update_library, posterior": library_update,
    "exact_return": exact_return,
    "exact_return, worlds": exact_return_in_the_world,
    "history_losses": losses,
    "play": score,
}


def direction(entries, seed=0):
    """A random direction in the entries that are possible."""
    own = np.random.default_rng(seed).normal(size=entries.shape)
    return np.where(np.asarray(entries) > 0, own, 0)


def rebuilt(model, entries):
    """`model` with P built anew from these entries."""
    a, x, y, _ = model.transition.coordinates()
    p = np.asarray(entries)[np.asarray(model.transition.probability) > 0]
    sizes = (model.num_actions, model.num_states, model.num_observations)
    return model.replace(transition=type(model.transition).build((a, x, y, p), sizes, np.dtype(np.float64)))


def rebuilt_library(parts, library, entries):
    """`library` of the models `parts` with P built anew from stacked entries."""
    own = [
        rebuilt(part, np.asarray(entries)[(k, *map(slice, part.transition.probability.shape))])
        for k, part in enumerate(parts)
    ]
    transition = Library.from_models(own).models.transition
    return library.replace(models=library.models.replace(transition=transition))


def check(function, replaced, anew, entries):
    """Reverse mode, vmap of it, and reverse over reverse of `function` in entries of P, along random directions."""
    along, other = direction(entries, 1), direction(entries, 2)
    gradient = jax.jit(jax.grad(lambda p: function(replaced(p))))
    ahead, behind = (function(anew(np.asarray(entries) + s * STEP * along)) for s in (1, -1))
    slope = float((ahead - behind) / (2 * STEP))
    assert abs(slope) > 1e-6
    np.testing.assert_allclose(np.sum(gradient(entries) * along), slope, rtol=1e-5, atol=1e-8)
    both = jax.vmap(gradient)(jnp.stack([entries, entries + STEP * other]))
    chex.assert_trees_all_close(both[0], gradient(entries), rtol=1e-10, atol=1e-12)
    twice = jax.jit(jax.grad(lambda p: jnp.sum(gradient(p) * other)))(entries)
    ahead, behind = (jnp.sum(gradient(entries + s * STEP * along) * other) for s in (1, -1))
    np.testing.assert_allclose(np.sum(twice * along), (ahead - behind) / (2 * STEP), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", pytest.param("same observation", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ONE_MODEL)
def test_a_function_of_one_model(name, case, storage, x64):
    model = build(example(case, 2), storage)
    replaced = partial(with_probabilities, model)
    check(ONE_MODEL[name], replaced, partial(rebuilt, model), model.transition.probability)


@pytest.mark.parametrize("storage", quick(STORAGES))
@pytest.mark.parametrize("name", LIBRARY)
def test_a_function_of_a_library(name, storage, x64):
    parts, library = models(storage), Library.from_models(models(storage))

    def replaced(p):
        return library.replace(models=with_probabilities(library.models, p))

    function = partial(LIBRARY[name], name=storage)
    check(function, replaced, partial(rebuilt_library, parts, library), library.models.transition.probability)
    fixed.cache_clear()


@pytest.mark.parametrize("name", STORAGES)
def test_the_gradient_of_a_whole_model_arrives_in_its_probabilities(name, x64):
    """As what `with_probabilities` gives, and a step along it is a step of the model."""
    model = build(example("hub", 2), name)
    sensor = model.observation.probability
    whole = jax.grad(columns_of_two, allow_int=True)(model)
    own = jax.grad(lambda p, o: columns_of_two(with_probabilities(model, p, o)), (0, 1))
    by_move, by_sign = own(model.transition.probability, sensor)
    chex.assert_trees_all_close(
        jnp.where(model.transition.probability > 0, whole.transition.probability, 0), by_move
    )
    chex.assert_trees_all_close(jnp.where(sensor > 0, whole.observation.probability, 0), by_sign)
    moved = dataclasses.replace(model.transition, probability=model.transition.probability + STEP * by_move)
    rise = columns_of_two(model.replace(transition=moved)) - columns_of_two(model)
    np.testing.assert_allclose(rise, STEP * np.sum(by_move**2), rtol=1e-3)


def columns_of_two(model):
    histories = Histories(HISTORIES.actions % 2, HISTORIES.observations % 2, HISTORIES.mask)
    found = log_likelihoods(model, histories)
    return jnp.sum(jnp.where(jnp.isfinite(found), found, 0))


@pytest.mark.parametrize("name", STORAGES)
def test_the_gradient_by_observations(name, x64):
    model = build(example("same observation", 2), name)
    entries = model.observation.probability
    along = direction(entries, 1)

    def function(o):
        return likelihoods(with_probabilities(model, observation=o))

    slope = float((function(entries + STEP * along) - function(entries - STEP * along)) / (2 * STEP))
    np.testing.assert_allclose(np.sum(jax.grad(function)(entries) * along), slope, rtol=1e-5)
    gradient = jax.grad(function)
    twice = jax.grad(lambda o: jnp.sum(gradient(o) * along))(entries)
    curve = np.sum((gradient(entries + STEP * along) - gradient(entries - STEP * along)) * along) / (2 * STEP)
    np.testing.assert_allclose(np.sum(twice * along), curve, rtol=1e-4)


@pytest.mark.parametrize("name", STORAGES)
@pytest.mark.parametrize("mode", [jax.jacfwd, lambda f: lambda x: jax.jvp(f, (x,), (x,))])
def test_forward_mode_is_refused(name, mode):
    model = build(example("hard zeros"), name)
    with pytest.raises(TypeError, match="filter"):
        mode(lambda p: likelihoods(with_probabilities(model, p)))(model.transition.probability)


@pytest.mark.parametrize("name", STORAGES)
def test_an_impossible_observation_has_no_gradient_and_leaves_no_nan(name):
    model = build(example("never seen"), name)

    def function(p):
        beliefs = jnp.broadcast_to(model.initial[:, None], (model.num_states, 3))
        seen = jnp.array([1, 0, 1], jnp.int32)  # the first and the last are impossible
        after, log_evidence = filter.update_columns(with_probabilities(model, p), beliefs, seen, seen)
        return jnp.sum(after**2) + log_evidence[1], log_evidence

    gradient, log_evidence = jax.grad(function, has_aux=True)(model.transition.probability)
    np.testing.assert_array_equal(np.isinf(log_evidence), [True, False, True])
    assert np.isfinite(gradient).all()


def test_all_storages_are_in_the_contract():
    assert {"dense", "blocked", "lists"} <= set(storage.names())
