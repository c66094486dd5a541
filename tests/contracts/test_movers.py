"""P of two movers against nested loops over its definition: products, draws, constructions, and the filter on top.

Wanted numbers come from a dense P that is written out loop by loop here, not from another storage.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import filter
from jatpo.model import POMDP
from jatpo.storage import MoversTransition, two_movers
from random_models import coordinates, rows

CELLS, ACTIONS, BATCH = 3, 2, 4
STATES = CELLS**2 + 1


def movers(seed, cells=CELLS):
    """(agent [A, N, N], teammate [1, N, N], solved [N, N]) and the storage of them."""
    random = np.random.default_rng(seed)
    agent = rows(random, ACTIONS, cells, cells, zeros=0.4)
    teammate = rows(random, 1, cells, cells, zeros=0.4)
    solved = random.random((cells, cells)) < 0.3
    lists = (coordinates(agent), coordinates(teammate))
    stored = MoversTransition.of_lists(*lists, solved, ACTIONS, np.dtype(np.float32))
    return agent, teammate[0], solved, stored


def written_out(agent, teammate, solved):
    """P[a, x, y] of the definition."""
    cells = len(solved)
    wanted = np.zeros((ACTIONS, cells**2 + 1, cells**2 + 1))
    wanted[:, -1, -1] = 1
    for a, c, m in np.ndindex(ACTIONS, cells, cells):
        if solved[c, m]:
            wanted[a, c * cells + m, -1] = 1
            continue
        for to, there in np.ndindex(cells, cells):
            wanted[a, c * cells + m, to * cells + there] = agent[a, c, to] * teammate[m, there]
    return wanted


@jax.jit
def products(stored, values, beliefs, actions):
    rows_of_o = jnp.abs(values) / jnp.sum(jnp.abs(values), axis=1, keepdims=True)
    return {
        "predict": stored.predict(beliefs[:, 0], actions[0]),
        "predict_all": stored.predict_all(beliefs),
        "predict_columns": filter.predict_columns(stored, beliefs, actions),
        "expect": stored.expect(values[:, 0]),
        "expect_columns": stored.expect_columns(values, actions),
        "informed_sums": stored.informed_sums(rows_of_o, actions[0], values.T),
    }


@pytest.mark.parametrize("seed", range(2))
def test_products(seed):
    *parts, stored = movers(seed)
    wanted = written_out(*parts)
    random = np.random.default_rng(seed)
    values = random.normal(size=(STATES, BATCH)).astype(np.float32)
    beliefs = random.random((STATES, BATCH)).astype(np.float32)
    actions = np.array([0, 1, 1, 0], np.int32)
    found = products(stored, values, beliefs, actions)
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(found["predict"], wanted[0].T @ beliefs[:, 0], **close)
    np.testing.assert_allclose(found["expect"], (wanted @ values[:, 0]).T, **close)
    for b, a in enumerate(actions):
        np.testing.assert_allclose(found["predict_columns"][:, b], wanted[a].T @ beliefs[:, b], **close)
        np.testing.assert_allclose(found["expect_columns"][:, b], wanted[a] @ values[:, b], **close)
        for every in range(ACTIONS):
            np.testing.assert_allclose(
                found["predict_all"][every, :, b], wanted[every].T @ beliefs[:, b], **close
            )
    shares = np.abs(values) / np.abs(values).sum(axis=1, keepdims=True)
    best = np.array([(values.T @ (wanted[0][x][:, None] * shares)).max(axis=0).sum() for x in range(STATES)])
    np.testing.assert_allclose(found["informed_sums"], best, **close)


@pytest.mark.parametrize("hubs", [False, True])
def test_a_few_cells_at_a_time_and_cells_that_many_lead_to(hubs, monkeypatch):
    cells, random = 7, np.random.default_rng(11)
    ring = np.roll(np.eye(cells), 1, axis=1)
    agent = np.stack([0.6 * ring + 0.4 * np.eye(cells), 0.3 * ring.T + 0.7 * np.eye(cells)])
    if hubs:
        agent[0] = 0.5 * np.eye(cells) + 0.5 * np.eye(cells)[[2] * cells]
    teammate, solved = 0.5 * ring + 0.5 * ring.T, random.random((cells, cells)) < 0.3
    lists = (coordinates(agent), coordinates(teammate[None]))
    stored = MoversTransition.of_lists(*lists, solved, ACTIONS, np.dtype(np.float32))
    assert (stored.agent.hub.shape[0] > 0) == hubs
    monkeypatch.setattr(two_movers, "TOGETHER", 3 * cells * BATCH)  # three cells, three, and the last
    beliefs = random.random((cells**2 + 1, BATCH)).astype(np.float32)
    actions = np.array([0, 1, 1, 0], np.int32)
    wanted = written_out(agent, teammate, solved)
    found = jax.jit(stored.predict_columns)(beliefs, actions)
    alone = jax.jit(stored.predict)(beliefs[:, 2], jnp.int32(1))
    for b, a in enumerate(actions):
        np.testing.assert_allclose(found[:, b], wanted[a].T @ beliefs[:, b], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(alone, wanted[1].T @ beliefs[:, 2], rtol=1e-5, atol=1e-6)


def test_a_joined_world_predicts_as_its_models_do():
    """Its lists have no predecessors."""
    models = [movers(seed) for seed in (2, 3)]
    joined = MoversTransition.stack([stored for *_, stored in models]).joined()
    belief = np.random.default_rng(5).random(STATES).astype(np.float32)
    predict = jax.jit(joined.predict)
    for k, (*parts, _) in enumerate(models):
        for a, wanted in enumerate(written_out(*parts)):
            found = predict(belief, jnp.int32(k * ACTIONS + a))
            np.testing.assert_allclose(found, wanted.T @ belief, rtol=1e-5, atol=1e-6)


def test_coordinates_are_those_of_the_definition():
    *parts, stored = movers(1)
    wanted = coordinates(written_out(*parts))
    for found in (stored.coordinates(), stored.blocked().coordinates()):
        for axis in range(3):
            np.testing.assert_array_equal(found[axis], wanted[axis])
        np.testing.assert_allclose(found[3], wanted[3], rtol=3e-7)


def test_single_probabilities_and_draws():
    *parts, stored = movers(2)
    wanted = written_out(*parts)
    uniform = np.linspace(0, 0.999, 7, dtype=np.float32)
    of, row = jax.jit(stored.probability_of), jax.jit(stored.row)
    draw = jax.jit(jax.vmap(stored.sample, (0, None, None)))
    for a, x in np.ndindex(ACTIONS, STATES):
        place = np.int32(x), np.int32(a)
        np.testing.assert_allclose(row(*place), wanted[a, x], rtol=3e-7)
        found = [of(*place, np.int32(y)) for y in range(STATES)]
        np.testing.assert_allclose(found, wanted[a, x], rtol=3e-7)
        np.testing.assert_array_equal(
            draw(uniform, *place), np.searchsorted(wanted[a, x].cumsum(), uniform, side="right")
        )


def test_stacked_and_joined_models_are_each_alone():
    cases = [movers(seed) for seed in (3, 4)]
    stacked = MoversTransition.stack([case[-1] for case in cases])
    belief = np.full(STATES, 1 / STATES, np.float32)
    found = jax.vmap(lambda own: own.predict(belief, jnp.int32(1)))(stacked)
    joined = stacked.joined()
    draw = jax.jit(jax.vmap(joined.sample, (0, None, None)))
    uniform = np.linspace(0, 0.999, 7, dtype=np.float32)
    for k, case in enumerate(cases):
        wanted = written_out(*case[:-1])
        np.testing.assert_allclose(found[k], wanted[1].T @ belief, rtol=1e-5)
        for a, x in np.ndindex(ACTIONS, STATES):
            drawn = draw(uniform, np.int32(x), np.int32(k * ACTIONS + a))
            np.testing.assert_array_equal(
                drawn, np.searchsorted(wanted[a, x].cumsum(), uniform, side="right")
            )


def test_movers_on_other_numbers_of_cells_are_stacked_as_lists():
    cases = [movers(0), movers(5, cells=2)]
    stacked = type(cases[0][-1]).stack([case[-1] for case in cases])
    belief = jnp.where(jnp.arange(STATES) < 5, jnp.float32(0.2), 0)
    found = jax.vmap(lambda own: own.predict(belief, jnp.int32(0)))(stacked)
    np.testing.assert_allclose(found[1][:5], written_out(*cases[1][:-1])[0].T @ np.full(5, 0.2), rtol=1e-5)


def test_a_model_of_movers_filters_as_its_dense_copy():
    *parts, stored = movers(6)
    random = np.random.default_rng(6)
    observation, reward = rows(random, ACTIONS, STATES, 4), random.normal(size=(STATES, ACTIONS))
    dense = POMDP.from_dense(written_out(*parts), observation, reward, rows(random, STATES), 0.9)
    ours = dataclasses.replace(dense, transition=stored)
    assert ours.storage == "MoversTransition"
    beliefs = np.repeat(np.asarray(dense.initial)[:, None], BATCH, axis=1)
    did, saw = np.array([0, 1, 1, 0], np.int32), np.array([3, 2, 1, 0], np.int32)
    for one, other in zip(
        filter.update_columns(ours, beliefs, did, saw),
        filter.update_columns(dense, beliefs, did, saw),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
