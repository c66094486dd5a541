"""Foraging against a transcription in NumPy loops, state by state."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.simulators import build
from jatpo.simulators.foraging import KINDS, Field

STEPS = [(0, -1), (0, 1), (-1, 0), (1, 0)]
SIZE, FOOD = 4, [(1, 1), (2, 2)]


def by_hand(kind, heavy, own, mate, gathered, action, idle):
    """The next (own, mate, gathered) and the reward of one teammate's field."""
    distance = lambda here, there: abs(here[0] - there[0]) + abs(here[1] - there[1])  # noqa: E731
    left = [f for f in range(2) if not gathered[f]]
    if not left:
        return None
    cost = {"sequential": lambda f: f, "nearest": lambda f: distance(own, FOOD[f])}.get(
        kind, lambda f: distance(mate, FOOD[f])
    )
    goal = FOOD[min(left, key=cost)]
    reply = None
    if not idle:
        across, along = goal[0] - mate[0], goal[1] - mate[1]
        if distance(mate, goal) <= 1:
            reply = 4
        elif across:
            reply = 3 if across > 0 else 2
        else:
            reply = 1 if along > 0 else 0
    level = [2 if f == heavy else 1 for f in range(2)]
    now = []
    for f in left:
        loaders = (action == 4 and distance(own, FOOD[f]) <= 1) + (
            reply == 4 and distance(mate, FOOD[f]) <= 1
        )
        if loaders >= level[f]:
            now.append(f)

    def walk(cell, act):
        if act is None or act == 4:
            return cell
        return tuple(min(max(cell[i] + STEPS[act][i], 0), SIZE - 1) for i in range(2))

    after = tuple(bool(gathered[f]) or f in now for f in range(2))
    return walk(own, action), walk(mate, reply), after, 10 * sum(level[f] for f in now) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_that_of_the_rules(kind):
    """All 16 x 16 x 3 states that are not final, all actions, with and without an idle teammate."""
    model = build(f"foraging:size={SIZE},food=2,teammates={kind}").entry(1)
    cells = list(product(range(SIZE), repeat=2))
    cases = list(product(cells, cells, [(0, 0), (1, 0), (0, 1)], range(5), [False, True]))
    own, mate, gone, action, idle = (np.array(part) for part in zip(*cases, strict=True))
    states = Field(own.astype(np.int32), mate[:, None].astype(np.int32), gone.astype(bool))
    moved = jax.jit(jax.vmap(model.moved))
    found, rewards, done = jax.tree.map(np.asarray, moved(states, action.astype(np.int32), idle[:, None]))
    for i, (o, m, g, a, still) in enumerate(cases):
        wanted = by_hand(kind, 1, o, m, g, a, still)
        assert (tuple(found.own[i].tolist()), tuple(found.mates[i, 0].tolist())) == wanted[:2]
        assert tuple(found.gathered[i].tolist()) == wanted[2] and float(rewards[i]) == wanted[3]
        assert bool(done[i]) == all(wanted[2])
    codes = np.asarray(jax.jit(jax.vmap(model.code))(states))
    assert len(set(codes.tolist())) == len(cases) // 10


def test_steps_are_drawn_from_the_successors_and_likelihoods_sum_to_one():
    model = build(f"foraging:size={SIZE},food=2,sight=1,teammates=lazy").entry(0)
    state = Field(jnp.array([1, 2], jnp.int32), jnp.array([[3, 3]], jnp.int32), jnp.array([False, True]))
    listed, probability = model.successors(state, jnp.int32(0))
    keys = jax.random.split(jax.random.key(0), 2000)
    drawn = jax.jit(jax.vmap(lambda key: model.code(model.step(key, state, jnp.int32(0))[0])))(keys)
    for code, share in zip(jax.vmap(model.code)(listed), probability, strict=True):
        assert float((drawn == code).mean()) == pytest.approx(float(share), abs=5 * np.sqrt(0.25 / 2000))
    near = state._replace(mates=jnp.array([[2, 2]], jnp.int32))
    for here in (state, near):
        signs = np.array(list(product(range(10), range(3), range(3))), np.int32)
        seen = {"own": np.tile(here.own, (90, 1)), "mates": signs[:, :1], "food": signs[:, 1:]}
        logs = jax.vmap(model.log_observation, (None, None, 0))(here, jnp.int32(0), seen)
        assert float(jnp.sum(jnp.exp(logs))) == pytest.approx(1, abs=1e-5)
        of_draws = jax.vmap(
            lambda key, here=here: model.log_observation(here, 0, model.observe(key, here, 0))
        )
        assert np.isfinite(of_draws(keys[:50])).all()


@pytest.mark.slow
def test_preferences_gather_all_food():
    model = build("foraging:agents=3,food=4").entry(1)

    def step(carry, key):
        state, total = carry
        action = jnp.argmax(model.preferences(state)).astype(jnp.int32)
        state, reward, _ = model.step(key, state, action)
        return (state, total + reward), None

    @jax.jit
    @jax.vmap
    def play(key):
        keys = jax.random.split(key, 51)
        return jax.lax.scan(step, (model.initial(keys[0]), jnp.float32(0)), keys[1:])[0]

    states, total = play(jax.random.split(jax.random.key(0), 60))
    assert states.gathered.all() and (total > 20).all()


def test_what_is_not_possible_is_refused():
    for text, sentence in (
        ("foraging:agents=9", "agents of foraging must be from 2 to 4, got 9"),
        ("foraging:size=30,agents=4", "over 2\\^31 states"),
        ("foraging:teammates=lasy", "did you mean 'lazy'"),
    ):
        with pytest.raises(JatpoError, match=sentence):
            build(text)
