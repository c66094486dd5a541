"""Models that no history distinguishes, against the probabilities of all histories."""

from itertools import product

import numpy as np
import pytest

from jatpo.domains import compare, equivalence
from jatpo.domains.description import Description


def described(transition, observation, initial, states=None):
    X, Z = observation.shape[1:]
    names = {"states": states or [f"x{k}" for k in range(X)], "observations": [f"z{k}" for k in range(Z)]}
    actions = [f"a{k}" for k in range(len(transition))]
    return Description.from_dense(
        transition, observation, np.zeros((X, len(actions))), initial, 0.9, actions=actions, **names
    )


def random_model(seed, X=3, A=2, Z=2):
    random = np.random.default_rng(seed)
    rows = [random.dirichlet(np.ones(last), size) for last, size in ((X, (A, X)), (Z, (A, X)))]
    return (*rows, random.dirichlet(np.ones(X)))


def renumbered(model, seed):
    order = np.roll(np.arange(len(model[2])), 1 + seed % 2)
    return model[0][:, order][:, :, order], model[1][:, order], model[2][order]


def doubled(model, seed):
    """State 0 twice, entered by either copy with a random share that depends on where it is entered from."""
    transition, observation, initial = model
    X = len(initial)
    origin = np.array([0, *range(X)])
    share = np.random.default_rng(seed).random((len(transition), X + 1))
    wide = transition[:, origin][:, :, origin].copy()
    wide[:, :, 0] *= share
    wide[:, :, 1] *= 1 - share
    begin = initial[origin].copy()
    begin[:2] *= 0.25, 0.75
    return wide, observation[:, origin], begin


def largest_difference(one, other, steps):
    """Over all histories of `steps` steps, of their probabilities."""
    largest = 0.0
    pairs = list(product(range(len(one[0])), range(one[1].shape[2])))
    for history in product(pairs, repeat=steps):
        chances = []
        for transition, observation, initial in (one, other):
            weight = initial
            for action, reading in history:
                weight = weight @ transition[action] * observation[action][:, reading]
            chances.append(weight.sum())
        largest = max(largest, abs(chances[0] - chances[1]))
    return largest


def found(one, other):
    return compare.compare(described(*one), described(*other)).distinguishable


@pytest.mark.parametrize("seed", range(8))
def test_a_renumbering_of_states_is_never_seen(seed):
    model = random_model(seed)
    other = renumbered(model, seed)
    assert found(model, other) is False
    assert largest_difference(model, other, 3) < 1e-12
    pair = compare.compare(described(*model), described(*other))
    assert not pair.coincide


@pytest.mark.parametrize("seed", range(8))
def test_a_state_that_is_there_twice_is_never_seen(seed):
    model = random_model(seed)
    assert found(model, doubled(model, seed)) is False  # another number of states
    assert found(doubled(model, seed), renumbered(doubled(model, seed + 1), seed)) is False


@pytest.mark.parametrize("seed", range(8))
def test_a_small_change_is_seen(seed):
    model, other = random_model(seed), renumbered(random_model(seed), seed)
    other[1][1, 2] += np.array([1e-4, -1e-4])
    assert found(model, other) is True
    assert largest_difference(model, other, 3) > 1e-7


def forked(early):
    """Is it decided in the first step (`early`) or the second one what is seen from the third step on?"""
    if early:
        transition = np.zeros((5, 5))
        transition[0, [1, 2]], transition[1, 3], transition[2, 4] = 0.5, 1, 1
        seen = [0, 0, 0, 0, 1]
    else:
        transition = np.zeros((4, 4))
        transition[0, 1], transition[1, [2, 3]] = 1, 0.5
        seen = [0, 0, 0, 1]
    transition[-2, -2] = transition[-1, -1] = 1
    return transition[None], np.eye(2)[seen][None], np.eye(len(seen))[0]


def test_states_that_cannot_be_merged_may_still_look_alike():
    one, other = forked(True), forked(False)
    assert largest_difference(one, other, 6) == 0
    assert found(one, other) is False
    changed = forked(False)
    changed[0][0, 1, 2:] = 0.5001, 0.4999
    assert found(one, changed) is True


def test_a_difference_that_only_a_long_history_shows():
    """A corridor that is walked by the first action only; its end differs. No random history reaches it."""
    length = 25
    transition = np.zeros((3, length, length))
    transition[0, np.arange(length), np.minimum(np.arange(length) + 1, length - 1)] = 1
    transition[1:, :, 0] = 1
    observation = np.zeros((3, length, 2))
    observation[:, :, 0] = 1
    initial = np.eye(length)[0]
    other = observation.copy()
    other[:, -1] = 0.5
    one, two = (transition, observation, initial), (transition, other, initial)
    joined = equivalence._side_by_side(described(*one), described(*two), (np.ones(length, bool),) * 2)
    assert not equivalence._differs_at_random(joined, np.r_[initial, -initial])
    assert found(one, two) is True
    hidden = other.copy()
    assert found(two, renumbered((transition, hidden, initial), 1)) is False


def test_too_many_states_to_decide(monkeypatch):
    monkeypatch.setattr(equivalence, "LIMIT", 10.0)
    monkeypatch.setattr(equivalence, "HISTORIES", 0)
    assert found(forked(True), forked(False)) is None


def test_other_names_of_observations_are_seen():
    one = described(*random_model(0))
    pair = compare.compare(one, Description(**{**vars_of(one), "observations": ("y0", "y1")}))
    assert not pair.comparable and pair.distinguishable


def vars_of(model):
    names = (
        "states",
        "actions",
        "observations",
        "transition",
        "observation",
        "reward",
        "initial",
        "discount",
    )
    return {name: getattr(model, name) for name in names}
