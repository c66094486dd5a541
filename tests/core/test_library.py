"""K models side by side: stacking, padding, and the check that they fit together."""

import dataclasses

import jax
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.library import Library
from random_models import build, example, plain

STORAGES = ("dense", "blocked")


def models(storage: str = "auto", **options):
    """Three models with 5, 1 and 7 states."""
    truths = example("hard zeros"), example("one state"), plain(np.random.default_rng(1), states=7, zeros=0.7)
    return [build(truth, storage, **options) for truth in truths]


@pytest.mark.parametrize("storage", STORAGES)
def test_padding(storage):
    """Every model is found again in its own corner; the rest is 0 and masked."""
    alone = models(storage)
    library = Library.from_models(alone)
    assert (library.num_models, library.num_states) == (3, 7)
    assert (library.num_actions, library.num_observations) == (3, 4)
    assert library.state_mask.sum(axis=1).tolist() == [5, 1, 7]
    assert library.models.storage == storage
    for k, model in enumerate(alone):
        padded, own, size = library.model(k).to_dense(), model.to_dense(), model.num_states
        np.testing.assert_array_equal(padded.transition[:, :size, :size], own.transition)
        np.testing.assert_array_equal(padded.observation[:, :size], own.observation)
        np.testing.assert_array_equal(padded.reward[:size], own.reward)
        np.testing.assert_array_equal(padded.initial[:size], own.initial)
        assert padded.discount == own.discount
        assert not padded.transition[:, size:].any()
        assert not padded.transition[:, :, size:].any()
        assert not padded.reward[size:].any()
        assert not padded.initial[size:].any()
        assert np.asarray(library.state_mask)[k, :size].all()


def test_mixed_storages_become_blocked():
    dense, blocked = (models(storage) for storage in STORAGES)
    mixed = Library.from_models([dense[0], blocked[1], dense[2]])
    wanted = Library.from_models(blocked)
    assert jax.tree.all(jax.tree.map(np.array_equal, mixed, wanted))


def test_observation_classes_of_some_actions_only():
    """One model whose O depends on the action, one whose O does not."""
    same, other = (build(example(case), "blocked") for case in ("same observation", "hard zeros"))
    assert (same.observation.kind.shape[0], other.observation.kind.shape[0]) == (1, 3)
    for order in ((same, other), (other, same)):
        library = Library.from_models(order)
        for k, model in enumerate(order):
            np.testing.assert_array_equal(
                library.model(k).to_dense().observation, model.to_dense().observation
            )
    assert Library.from_models([same, same]).models.observation.kind.shape == (2, 1, 5)


def test_a_library_of_one():
    library = Library.from_models(models("dense")[:1])
    assert library.num_models == 1
    assert library.prior.tolist() == [1.0]


def test_prior():
    np.testing.assert_allclose(Library.from_models(models()).prior, [1 / 3] * 3, rtol=1e-7)
    given = Library.from_models(models(), prior=[0.5, 0.0, 0.5])
    assert given.prior.tolist() == [0.5, 0.0, 0.5]
    assert given.prior.dtype == given.models.dtype


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.5], r"shape \(2,\), expected \(3,\)$"),
        ([0.5, 0.5, 0.5], "1.5, expected 1$"),
        ([1.5, -0.5, 0.0], r"\[1\] is -0.5"),
        ([1.0, np.nan, 0.0], r"\[1\] is nan"),
    ],
)
def test_bad_priors(prior, message):
    with pytest.raises(JatpoError, match=message):
        Library.from_models(models(), prior)


def test_no_models():
    with pytest.raises(JatpoError, match="'empty'"):
        Library.from_models([], name="empty")


def variant(**sizes):
    return build(plain(np.random.default_rng(0), **sizes))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"actions": 2}, "'1' has 2 actions .*'0' has 3"),
        ({"observations": 6}, "'1' has 6 observations .*'0' has 4"),
    ],
)
def test_numbers_that_disagree(sizes, message):
    with pytest.raises(JatpoError, match=message):
        Library.from_models([variant(), variant(**sizes), variant(actions=9)])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"actions": ["left", "stay", "right"]},
            "action 1 is 'stay' in model '2' and 'right' in model '0'",
        ),
        (
            {"observations": list("wxz?")},
            "model '2' has no observation 'y'",
        ),
    ],
)
def test_names_that_disagree(names, message):
    """Model 1 has no names, which agrees with any."""
    given = {"actions": ["left", "right", "stay"], "observations": list("wxyz")}
    truth = example("plain")
    parts = [build(truth, **given), build(truth), build(truth, **{**given, **names})]
    Library.from_models(parts[:2])
    with pytest.raises(JatpoError, match=message):
        Library.from_models(parts)


def test_state_names_may_differ():
    parts = [build(example("plain"), states=list(letters)) for letters in ("abcde", "vwxyz")]
    library = Library.from_models(parts)
    assert [names.states for names in library.names] == [tuple("abcde"), tuple("vwxyz")]


@pytest.mark.parametrize("storage", STORAGES)
def test_the_value(storage):
    """Frozen, a pytree, readable; names are for the host."""
    library = Library.from_models(models(storage, actions=["left", "right", "stay"]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        library.prior = None
    assert repr(library).startswith(
        "Library 'library': 3 models, 3 actions, 4 observations, horizon 50\n  0: 0, 5"
    )
    leaves, structure = jax.tree.flatten(library)
    again = jax.tree.unflatten(structure, leaves)
    assert (again.num_models, again.names) == (3, ())
    assert repr(again).startswith(f"Library(POMDP(3 x 7 states, 3 actions, 4 observations, {storage}")
    assert jax.tree.structure(jax.jit(lambda library: library)(library)) == structure
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(library)]
    assert paths[0].startswith(".models.transition")
    assert paths[-2:] == [".state_mask", ".prior"]
    assert library.state_mask.dtype == bool


def test_double_precision(x64):
    library = Library.from_models(models("blocked"))
    assert library.prior.dtype == library.models.reward.dtype == np.float64


def test_stacking_waits_and_keeps_no_tracer():
    """What the host asks for needs no stacked arrays; first used within a transformation, they are arrays."""
    library = Library.from_models(models())
    assert (library.num_states, library.num_actions, len(library)) == (7, 3, 3)
    assert "models" not in library.__dict__ and repr(library)
    assert "models" not in library.__dict__
    jax.jit(lambda: (library.models.reward.sum(), library.prior, library.state_mask))()
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(library))
    assert not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(library))


def test_select_and_more_members():
    parts = models()
    library = Library.from_models(parts, [0.5, 0.2, 0.3], labels=list("abc"), name="three")
    two = library.select([2, 0])
    assert two.labels == ("c", "a") and two.members == (parts[2], parts[0]) and two.name == "three"
    np.testing.assert_allclose(two.host_prior, [0.375, 0.625])
    grown = two.with_member(parts[1], "b")
    assert grown.labels == ("c", "a", "b") and grown.member(2) is parts[1]
    np.testing.assert_allclose(grown.prior, [1 / 3] * 3, rtol=1e-6)
    changed = grown.with_model(0, parts[0], "other")
    assert changed.labels == ("other", "a", "b") and changed.member(0) is parts[0]
    with pytest.raises(JatpoError, match="'three' has no model 3"):
        library.select([3])
    with pytest.raises(JatpoError, match="'three' have prior 0"):
        library.with_prior([0, 0.5, 0.5]).select([0])


def test_another_prior_keeps_what_is_stacked():
    library = Library.from_models(models())
    stacked = library.models
    other = library.with_prior([0.5, 0.25, 0.25])
    assert other.models is stacked and other.prior.tolist() == [0.5, 0.25, 0.25]
    assert library.prior.tolist() != other.prior.tolist()
    traced = jax.jit(lambda p: library.replace(prior=p).prior)(other.prior)
    assert traced.tolist() == other.prior.tolist()


def test_a_long_library_has_a_short_repr():
    library = Library.from_models(models()[:1] * 40)
    assert len(repr(library).splitlines()) <= 10
    assert "34 more" in repr(library)
