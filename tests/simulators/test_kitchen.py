"""The kitchen with two rows against the table of Overcooked, state by state, and what its cooks and helpers do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo import domains
from jatpo.domains.overcooked import SHAPE, kitchen
from jatpo.errors import JatpoError
from jatpo.simulators import build
from jatpo.simulators.kitchen import ACTIONS, COOKS, Service


def services():
    """The states of the table in its order, without the last two, which are delivered and over."""
    helper, cook, hand, other, top, bottom, pan = np.array(np.unravel_index(np.arange(np.prod(SHAPE)), SHAPE))
    number = np.array([3, 0, 1, 2])  # soup, nothing, onion, plate
    cooked = np.where(pan == 0, 3, pan - 1)
    no = np.zeros(len(pan), bool)
    parts = helper, cook, hand, number[other], np.stack([top, bottom], 1), cooked
    return Service(*(jnp.asarray(part, jnp.int32) for part in parts), jnp.asarray(no), jnp.asarray(no))


def test_two_rows_are_the_table_of_overcooked():
    """Every joint action in all 1,728 states, and what the helper sees there."""
    model, states, table = build("kitchen:rows=2").entry(0), services(), kitchen(0.95)
    codes = np.asarray(jax.vmap(model.code)(states))
    assert len(set(codes.tolist())) == len(codes)
    numbers = {int(code): x for x, code in enumerate(codes)}
    moved = jax.jit(jax.vmap(model.moved, (0, None, None)))
    for helper in range(4):
        for cook in range(4):
            arrived, rewards, done = moved(states, jnp.int32(helper), jnp.int32(cook))
            wanted = np.asarray(table.successors)[helper, cook, : len(codes), 0]
            found = np.array([numbers.get(int(code), -1) for code in jax.vmap(model.code)(arrived)])
            delivered = np.asarray(arrived.delivered)
            np.testing.assert_array_equal(delivered, wanted == len(codes))
            np.testing.assert_array_equal(found[~delivered], wanted[~delivered])
            assert (np.asarray(rewards) == -1).all() and not np.asarray(done).any()
    seen = np.asarray(jax.vmap(lambda state: model.observe(None, state, None))(states))
    described = domains.describe("overcooked", 0, "as_written", view="row")
    _, x, z, _ = described.observation
    of_table = np.zeros(len(codes) + 2, int)
    of_table[x] = z
    pairs = set(zip(map(tuple, seen.tolist()), of_table[: len(codes)].tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_a_delivered_soup_earns_100_and_ends_the_episode():
    model = build("kitchen:rows=3").entry(0)
    state = model._empty(jnp.int32(0), jnp.int32(2))._replace(cook_hand=jnp.int32(3))
    state, reward, done = model.moved(state, jnp.int32(2), jnp.int32(3))
    assert bool(state.delivered) and float(reward) == -1 and not bool(done)
    assert model.draw_state(state) == "the soup is delivered"
    state, reward, done = model.moved(state, jnp.int32(2), jnp.int32(3))
    assert bool(state.over) and float(reward) == 100 and bool(done) and bool(model.final(state))
    assert float(model.moved(state, jnp.int32(0), jnp.int32(0))[1]) == 0


@pytest.mark.parametrize("number", range(3))
def test_preferences_deliver_the_soup(number):
    """In most trials of sixty steps, with every cook that has a habit; with four rows."""
    model = build("kitchen:rows=4").entry(number)

    def step(state, key):
        state, reward, _ = model.step(key, state, jnp.argmax(model.preferences(state)).astype(jnp.int32))
        return state, reward

    @jax.jit
    @jax.vmap
    def play(key):
        keys = jax.random.split(key, 61)
        state, rewards = jax.lax.scan(step, model.initial(keys[0]), keys[1:])
        return state.over, jnp.sum(rewards)

    over, total = play(jax.random.split(jax.random.key(0), 64))
    assert over.mean() > 0.8 and (total[over] > 35).all()


def test_successors_have_the_probabilities_of_steps():
    model = build("kitchen:rows=3").entry(1)
    state = model._empty(jnp.int32(1), jnp.int32(2))._replace(counter=jnp.array([1, 0, 2], jnp.int32))
    listed, probability = model.successors(state, jnp.int32(3))
    assert float(jnp.sum(probability)) == pytest.approx(1) and probability.shape == (len(ACTIONS),)
    keys = jax.random.split(jax.random.key(1), 4000)
    drawn = jax.jit(jax.vmap(lambda key: model.code(model.step(key, state, jnp.int32(3))[0])))(keys)
    for code in set(np.asarray(jax.vmap(model.code)(listed)).tolist()):
        share = float(jnp.sum(jnp.where(jax.vmap(model.code)(listed) == code, probability, 0)))
        assert float((drawn == code).mean()) == pytest.approx(share, abs=5 * np.sqrt(0.25 / 4000))


def test_parameters_are_checked():
    assert len(build("kitchen")) == len(COOKS)
    for text, sentence in (
        ("kitchen:rows=12", "rows of kitchen must be from 2 to 11, got 12"),
        ("kitchen:cooks=quik", "did you mean 'quick'"),
        ("kitchen:noise=0", "noise must be in \\(0, 1\\), got 0.0"),
    ):
        with pytest.raises(JatpoError, match=sentence):
            build(text)
