"""What every solver's solutions are held to."""

import numpy as np

from oracles import pomdp_exact
from random_models import rows


def parts_of(model):
    """P, O, R and the discount as the model has stored them, in float64."""
    dense = model.to_dense()
    return dense.transition, dense.observation, dense.reward, dense.discount


def assert_same(first, second) -> None:
    """Two solutions are the same to the last bit, but for the time they took."""
    np.testing.assert_array_equal(first.policy.vectors, second.policy.vectors)
    np.testing.assert_array_equal(first.policy.actions, second.policy.actions)
    rest = [{**vars(each), "policy": None, "seconds": None, "evidence": None} for each in (first, second)]
    assert rest[0] == rest[1]


def assert_near_the_optimum(model, found, seed: int) -> None:
    """lower ≤ optimum ≤ upper, with the lower bound nearly there, and no vector above the optimum at some beliefs."""
    parts, initial = parts_of(model), np.asarray(model.initial, float)
    low, high = pomdp_exact.interval(*parts, initial, 7)
    assert low - 1e-3 <= found.lower <= high + 1e-4 and low <= found.upper
    vectors = np.asarray(found.policy.vectors, float)
    for belief in rows(np.random.default_rng(seed), 5, model.num_states, zeros=0.3):
        _, high = pomdp_exact.interval(*parts, belief, 5)
        assert np.max(vectors @ belief) <= high + 1e-4


def earnings(model, policy, depth: int = 11) -> tuple[float, float]:
    """What the policy earns from the start, followed through the tree of beliefs: an interval."""
    vectors, actions = np.asarray(policy.vectors, float), np.asarray(policy.actions)
    choices = np.eye(model.num_actions)[actions]
    initial = np.asarray(model.initial, float)
    return pomdp_exact.policy_interval(
        *parts_of(model), lambda belief: choices[np.argmax(vectors @ belief)], initial, depth
    )


def assert_earns_its_value(model, found) -> None:
    """Followed through the tree of beliefs, the policy earns at least the lower bound."""
    low, high = earnings(model, found.policy)
    assert high - low < 0.02
    assert high >= found.lower - 1e-5
