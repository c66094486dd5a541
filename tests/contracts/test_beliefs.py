"""One contract over every representation of beliefs, in every storage.

Wanted beliefs and evidence come from enumerating state paths. A representation that has room for all states gives
them; one that has not says how far off it may be, and is held to it.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import beliefs
from jatpo.library import Library
from oracles import belief as filtering
from random_models import build, example
from storages import STORAGES

CASES = [
    "hard zeros",
    "one state",
    "hub",
    "never seen",
    "deterministic",
    "rare",
    "same observation",
    "absorbing",
]
EXACT = {
    "dense": beliefs.Dense(),
    "scaled": beliefs.Scaled(),
    "support": beliefs.Support(8),
    "roomy support": beliefs.Support(40),
    "compacting": beliefs.Compacting(8, 0.0),
    "compacting now and then": beliefs.Compacting(3, 0.0),
}
LOSSY = {
    "support": beliefs.Support(2),
    "support of one": beliefs.Support(1),
    "compacting": beliefs.Compacting(3, 0.2),
}
STEPS = 4


def histories(truth, count=3, seed=0):
    """Random actions and observations; some are impossible."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.integers(truth.sizes[0], size=STEPS), random.integers(truth.sizes[2], size=STEPS)


@partial(jax.jit, static_argnums=0)
def start(representation, model):
    return representation.start(None, model)


@partial(jax.jit, static_argnums=0)
def update(representation, model, belief, action, observation):
    return representation.update(None, model, belief, action, observation)


def walk(representation, model, actions, observations):
    """Beliefs, log evidences and diagnostics after every step."""
    belief, found = start(representation, model), []
    for a, z in zip(actions, observations, strict=True):
        belief, log_evidence, diagnostics = update(representation, model, belief, np.int32(a), np.int32(z))
        found.append((belief, float(log_evidence), diagnostics))
    return found


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("case", CASES)
def test_with_room_for_all_states_beliefs_are_exact(case, name, storage):
    truth, representation = example(case), EXACT[name]
    model, values = build(truth, storage), np.random.default_rng(1).normal(size=(2, truth.sizes[1]))
    for actions, observations in histories(truth):
        wanted, evidences = filtering.history(*truth[:2], truth.initial, actions, observations)
        for t, (belief, log_evidence, diagnostics) in enumerate(
            walk(representation, model, actions, observations)
        ):
            found = np.asarray(representation.dense(belief, truth.sizes[1]))
            np.testing.assert_allclose(found, wanted[t], rtol=2e-4, atol=1e-6)
            np.testing.assert_allclose(log_evidence, evidences[t], rtol=1e-4, atol=2e-6)
            means = representation.expectation(belief, values.astype(np.float32))
            np.testing.assert_allclose(means, values @ wanted[t], rtol=2e-4, atol=1e-5)
            assert wanted[t][int(representation.mode(belief))] >= wanted[t].max() - 1e-6
            assert (float(diagnostics.dropped), float(diagnostics.missing)) == (0, 0)
            assert float(diagnostics.size) == (found > 0).sum()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("case", ["plain", "hard zeros", "hub", "rare", "absorbing"])
def test_what_is_dropped_bounds_the_error(case, name, storage):
    representation, dropped_some = LOSSY[name], False
    for seed in range(3):
        truth = example(case, seed)
        model = build(truth, storage)
        for actions, observations in histories(truth, seed=seed):
            wanted, evidences = filtering.history(*truth[:2], truth.initial, actions, observations)
            if not np.isfinite(evidences).all():
                continue
            first = np.asarray(representation.dense(start(representation, model), truth.sizes[1]), np.float64)
            total, exact = np.log(truth.initial[first > 0].sum()), 0.0
            for t, (belief, log_evidence, diagnostics) in enumerate(
                walk(representation, model, actions, observations)
            ):
                total, exact = total + log_evidence, exact + evidences[t]
                found = np.asarray(representation.dense(belief, truth.sizes[1]), np.float64)
                missing = float(diagnostics.missing)
                dropped_some |= missing > 0
                assert np.abs(found - wanted[t]).sum() / 2 <= float(beliefs.error_bound(missing)) + 1e-5
                assert found.sum() == pytest.approx(1, abs=1e-5)
                if log_evidence == -np.inf:  # what was dropped explains it: no bound holds any more
                    assert missing > 1e6
                    break
                assert exact - np.log1p(missing) - 1e-4 <= total <= exact + 1e-4
    assert dropped_some


@pytest.mark.parametrize("capacity", [1, 2, 3, 8])
def test_a_list_is_sorted_within_its_capacity_and_holds_the_heaviest(capacity):
    truth = example("plain", 3)
    model, representation = build(truth, "blocked"), beliefs.Support(capacity)
    begun = start(representation, model)
    heaviest = np.sort(np.sort(truth.initial)[::-1][:capacity])
    np.testing.assert_allclose(
        np.sort(begun.weights[begun.weights > 0]), heaviest / heaviest.sum(), rtol=1e-5
    )
    assert float(begun.missing) == pytest.approx(1 / heaviest.sum() - 1, abs=1e-6)
    for belief, _, diagnostics in walk(representation, model, [0, 1, 2], [1, 1, 0]):
        count = int(belief.count)
        assert belief.states.shape == (capacity,) and count == min(capacity, 5) == float(diagnostics.size)
        assert (np.diff(belief.states[:count]) > 0).all() and (np.asarray(belief.states[count:]) == 5).all()
        assert not np.asarray(belief.weights[count:]).any()


def test_a_list_that_overflows_is_written_out_and_compacted_again():
    """A sensor that reveals the state now and then: one state, all of them, one state."""
    truth = example("plain")
    observation = np.full((3, 5, 4), 0.25)
    observation[0] = np.eye(5)[:, :4]
    observation[0, 4] = 0.25
    truth = truth._replace(observation=observation)
    representation = beliefs.Compacting(2, 1e-6)
    found = walk(representation, build(truth, "blocked"), [0, 1, 1, 0], [2, 0, 0, 1])
    assert [bool(belief.listed) for belief, _, _ in found] == [True, False, False, True]
    wanted, _ = filtering.history(*truth[:2], truth.initial, [0, 1, 1, 0], [2, 0, 0, 1])
    for (belief, _, _), want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(representation.dense(belief, 5), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_draws_follow_the_belief(name):
    truth, representation = example("hard zeros"), EXACT[name]
    belief = walk(representation, build(truth, "blocked"), [0], [1])[-1][0]
    wanted = np.asarray(representation.dense(belief, 5))
    keys = jax.random.split(jax.random.key(3), 2000)
    drawn = np.bincount(jax.jit(jax.vmap(representation.sample, (0, None)))(keys, belief), minlength=5) / 2000
    assert (np.abs(drawn - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / 2000)).all()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_library_in_many_trials_is_each_alone(name, keyed):
    truths, representation = [example("hard zeros"), example("one state"), example("plain", 2)], EXACT[name]
    library = Library.from_models([build(truth, "blocked") for truth in truths])
    actions, observations = np.array([0, 2], np.int32), np.array([1, 3], np.int32)
    keys = jax.random.split(jax.random.key(0), 2) if keyed else None
    begun = beliefs.start_library(representation, keys, library, 2)
    after, log_evidence, diagnostics = jax.jit(lambda *given: beliefs.update_library(representation, *given))(
        keys, library, begun, actions, observations
    )
    assert log_evidence.shape == diagnostics.missing.shape == (3, 2)
    assert jax.tree.map(jnp.shape, begun) == jax.tree.map(jnp.shape, after)
    values = np.random.default_rng(1).normal(size=(2, library.num_states)).astype(np.float32)
    for k, truth in enumerate(truths):
        for n, (a, z) in enumerate(zip(actions, observations, strict=True)):
            (wanted,), (evidence,) = filtering.history(*truth[:2], truth.initial, [a], [z])
            own = jax.tree.map(lambda leaf, k=k, n=n: leaf[k, ..., n], after)
            found = representation.dense(own, library.num_states)
            np.testing.assert_allclose(found[: truth.sizes[1]], wanted, rtol=1e-4, atol=1e-6)
            columns = jax.tree.map(lambda leaf, k=k: leaf[k], after)
            written = representation.dense_columns(columns, library.num_states)
            np.testing.assert_array_equal(written[:, n], found)
            means = representation.expectation_columns(columns, values)
            np.testing.assert_allclose(means[:, n], values @ found, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(log_evidence[k, n], evidence, rtol=1e-4, atol=1e-6)


def shapes(jaxpr):
    """The shapes of all values that a program makes, those of inner programs included."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.shape for variable in equation.outvars)
        for part in equation.params.values():
            for inner in part if isinstance(part, tuple | list) else (part,):
                closed = getattr(inner, "jaxpr", inner)
                if hasattr(closed, "eqns"):
                    yield from shapes(closed)


def test_a_list_makes_nothing_of_the_size_of_the_state_space():
    states, places = 20_000, np.arange(20_000)
    moves = (np.zeros_like(places), places, (places + 1) % states, np.ones(states))
    sensor = (np.zeros_like(places), places, places % 7, np.ones(states))
    from jatpo.model import POMDP

    model = POMDP.from_sparse(
        moves, sensor, np.zeros((states, 1)), np.eye(1, states, 5)[0], 0.9, storage="blocked"
    )
    representation = beliefs.Support(16)
    belief = representation.start(None, model)
    program = jax.make_jaxpr(representation.update)(None, model, belief, jnp.int32(0), jnp.int32(6))
    made = list(shapes(program.jaxpr))
    assert len(made) > 20 and max(np.prod(shape) for shape in made) < states
    values = jnp.zeros((3, states))
    program = jax.make_jaxpr(representation.expectation)(belief, values)
    assert max(np.prod(shape) for shape in shapes(program.jaxpr)) < states


@pytest.mark.parametrize("name", EXACT)
def test_a_list_stands_for_the_belief(name):
    """All states where they fit; else every state as often as its probability asks for, rounded up or down."""
    truth, representation = example("hub"), EXACT[name]
    model, size = build(truth, "blocked"), truth.sizes[1]
    visited = [
        belief
        for actions, observations in histories(truth, 4)
        for belief, *_ in walk(representation, model, actions, observations)
    ]
    belief = max(visited, key=lambda each: int((np.asarray(representation.dense(each, size)) > 0).sum()))
    wanted = np.asarray(representation.dense(belief, size))

    def listed(uniform, count):
        states, weights = representation.listed(jnp.float32(uniform), belief, size, count)
        assert len(states) <= count
        return np.bincount(states, weights, minlength=size)

    np.testing.assert_allclose(listed(0.3, 50), wanted, atol=1e-6)
    assert (wanted > 0).sum() > 2
    few = [listed(uniform, 2) for uniform in (np.arange(100) + 0.5) / 100]
    assert all((np.abs(found - wanted) < 0.5 + 1e-5).all() for found in few)
    np.testing.assert_allclose(np.mean(few, axis=0), wanted, atol=0.011)
