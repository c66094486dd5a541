"""Start states that are drawn with the first observation in view, against all start states one by one."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.simulators import Particles, build
from jatpo.simulators.foraging import Field
from jatpo.simulators.torus_pursuit import Hunt

DRAWS = 20_000


def cells(size, count):
    return np.array(list(product(range(size), repeat=2 * count)), np.int32).reshape(-1, count, 2)


def hunts(model):
    places = cells(model.size, 2)
    states = Hunt(places[:, :1], places[:, 1], np.zeros(len(places), bool))
    won = np.asarray(jax.vmap(model.captured)(states))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[~won]), states)


def fields(model):
    places = cells(model.size, 2)
    states = Field(places[:, 0], places[:, 1:], np.zeros((len(places), model.pieces), bool))
    return jax.tree.map(jnp.asarray, states)


CASES = {
    "window": ("torus-pursuit:size=4,agents=2,reach=1,noise=0.1,teammates=greedy", hunts),
    "cells": ("torus-pursuit:size=4,agents=2,sensor=cells,noise=0.1,teammates=greedy", hunts),
    "foraging": ("foraging:size=4,food=2,sight=1,teammates=greedy", fields),
}


def evidence_of(model, states, weights, action, seen):
    """sum_x w(x) O(z | y, a), over the successors y of start states x that are given."""
    following, probability = jax.vmap(model.successors, in_axes=(0, None))(states, action)
    logs = jax.vmap(jax.vmap(model.log_observation, (0, None, None)), (0, None, None))(
        following, action, seen
    )
    ends = jax.vmap(jax.vmap(model.final))(following)
    found = jnp.where(ends, 0, jnp.exp(logs)) * probability
    return weights * jnp.sum(found, axis=1)


@pytest.mark.parametrize("case", CASES)
def test_guided_starts_keep_the_evidence_and_are_likely(case):
    """Their weighted mean is the exact evidence, and they waste less than draws from the start do."""
    source, listed = CASES[case]
    model = build(source).entry(0)
    states, action = listed(model), jnp.int32(1)
    even = jnp.full(len(jax.tree.leaves(states)[0]), 1 / len(jax.tree.leaves(states)[0]), jnp.float32)

    @jax.jit
    def compared(key):
        first, move, see, draw, plain = jax.random.split(key, 5)
        arrived = model.step(move, model.initial(first), action)[0]
        seen = model.observe(see, arrived, action)
        exact = jnp.sum(evidence_of(model, states, even, action, seen))
        guided = jax.vmap(model.guided_start, (0, None, None))
        drawn, logs = guided(jax.random.split(draw, DRAWS), action, seen)
        others = jax.vmap(model.initial)(jax.random.split(plain, DRAWS))
        found = evidence_of(model, drawn, jnp.exp(logs), action, seen)
        return exact, found, evidence_of(model, others, jnp.ones(DRAWS), action, seen), jnp.exp(logs)

    wasted = []
    for seed in range(4):
        exact, found, plain, weights = (np.asarray(part, float) for part in compared(jax.random.key(seed)))
        assert abs(found.mean() - exact) < 5 * found.std() / np.sqrt(DRAWS) + 1e-5 * exact
        assert found.std() / exact < 3
        wasted.append(found.std() < plain.std())
        if case != "foraging":  # there the agent's own place cannot be any
            assert abs(weights.mean() - 1) < 5 * weights.std() / np.sqrt(DRAWS)
    assert all(wasted)


def test_the_first_observation_is_answered_by_many_candidates():
    """Foraging on 6 x 6 cells: a hundred particles keep every model that the exact filter keeps."""
    library = build("foraging:teammates=greedy+nearest")
    filters = [Particles(100, opening=0), Particles(100, opening=16), Particles(2000, "merged")]

    @jax.jit
    def first(key):
        begin, move, see, own = jax.random.split(key, 4)
        model, action = library.entry(1), jnp.int32(0)
        arrived = model.step(move, model.initial(begin), action)[0]
        seen = model.observe(see, arrived, action)

        def of(representation):
            belief = representation.start(own, model)
            belief, log_evidence, found = representation.update(own, model, belief, action, seen)
            return log_evidence, found.dropped, belief.unseen

        return [of(each) for each in filters]

    keys = jax.random.split(jax.random.key(0), 40)
    (few, few_died, _), (many, many_died, unseen), (exact, _, _) = jax.vmap(first)(keys)
    assert np.abs(many - exact).mean() < 0.3 * np.abs(few - exact).mean()
    assert few_died.mean() > 0.05 and not many_died.any() and not unseen.any()
