"""Overcooked with a limited view: what the helper sees, by the words of the names."""

import jax
import numpy as np

import jatpo


def test_the_view_of_one_row():
    """By the words of the names: what is in the other row, and the pan, make no difference."""
    seen = jatpo.load("overcooked:view=row").member(0)
    whole = jatpo.load("overcooked").member(0)
    assert seen.states == whole.states and seen.num_observations == 92
    probability = np.asarray(seen.to_dense().observation)
    np.testing.assert_array_equal(probability, np.broadcast_to(probability[:1], probability.shape))
    for number, name in enumerate(seen.states[:-2]):
        _, row, hand, _, cook_row, cook_hand, _, top, bottom, _, _ = name.split()
        cook = cook_hand if cook_row == row else "out of sight"
        expected = f"helper {row} {hand} cook {cook} balcony {top if row == 'top' else bottom}"
        assert seen.observations[int(probability[0, number].argmax())] == expected
    assert [seen.observations[int(each.argmax())] for each in probability[0, -2:]] == list(seen.states[-2:])
    for one, other in ((seen.transition, whole.transition), (seen.reward, whole.reward)):
        assert all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))
