"""The POMDP as a value: two storages, round trips, names, hashes, and what jit makes of it."""

import dataclasses
import tracemalloc

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.storage.named import SMALL
from random_models import CASES, build, coordinates, example, plain

STORAGES = ("dense", "blocked")
NAMES = {"states": list("abcde"), "actions": ["left", "right", "stay"], "observations": list("wxyz")}


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_numbers_come_back(case, storage):
    """Rounded to float32 and nothing else."""
    truth, model = example(case), build(example(case), storage)
    assert (model.num_actions, model.num_states, model.num_observations) == truth.sizes
    dense = model.to_dense()
    for found, wanted in zip(dense, truth, strict=True):
        assert np.asarray(found).dtype == np.float64
        np.testing.assert_array_equal(found, np.float32(wanted))
    sparse = model.to_sparse()
    for found, wanted in ((sparse.transition, dense.transition), (sparse.observation, dense.observation)):
        for part, other in zip(found, coordinates(wanted), strict=True):
            np.testing.assert_array_equal(part, other)
            assert part.dtype == other.dtype
    assert isinstance(dense.discount, float)


@pytest.mark.parametrize("storage", STORAGES)
def test_numbers_come_back_in_double_precision(storage, x64):
    truth = example("hard zeros")
    for found, wanted in zip(build(truth, storage).to_dense(), truth, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["hard zeros", "hub", "rare"])
def test_a_round_trip_changes_no_bit(case, storage):
    """Rows of float32 numbers do not sum to 1 exactly; they are not renormalised again and again."""
    model = build(example(case), storage)
    digest = model.content_hash()
    assert POMDP.from_dense(*model.to_dense()).content_hash() == digest
    sparse = model.to_sparse()
    again = POMDP.from_sparse(*sparse, num_observations=model.num_observations, storage=storage)
    assert again.content_hash() == digest
    assert jax.tree.all(jax.tree.map(np.array_equal, again, model))


@pytest.mark.parametrize("case", CASES)
def test_storages_change_into_each_other(case):
    dense, blocked = (build(example(case), storage) for storage in STORAGES)
    assert (dense.storage, blocked.storage) == STORAGES
    for model, other in ((dense, blocked), (blocked, dense)):
        turned = model.with_storage(other.storage)
        assert turned.storage == other.storage
        assert jax.tree.structure(turned) == jax.tree.structure(other)
        assert jax.tree.all(jax.tree.map(np.array_equal, turned, other))
    assert dense.with_storage("dense") is dense


def test_with_storage_keeps_names_and_refuses_other_words():
    model = build(example("plain"), "dense", **NAMES)
    assert model.with_storage("blocked").actions == ("left", "right", "stay")
    with pytest.raises(JatpoError, match="no storage is called 'blocket'; did you mean 'blocked'"):
        model.with_storage("blocket")
    with pytest.raises(JatpoError, match="no storage is called 'auto'; choose from dense, blocked"):
        model.with_storage("auto")


@hypothesis.settings(max_examples=30)
@hypothesis.given(st.randoms(use_true_random=False), st.sampled_from(STORAGES))
def test_order_duplicates_and_zeros_of_coordinates_do_not_matter(random, storage):
    """Entries in any order, some split in halves, some zeros listed: the same model."""
    truth = example("hard zeros")

    def shuffled(array):
        entries = [(*map(int, at), float(p)) for *at, p in zip(*coordinates(array), strict=True)]
        for entry in random.sample(entries, 5):
            entries.remove(entry)
            entries += [(*entry[:3], entry[3] / 2)] * 2
        entries += [(*map(int, at), 0.0) for at in np.argwhere(array == 0)[:3]]
        random.shuffle(entries)
        *index, p = zip(*entries, strict=True)
        return (*(np.array(part) for part in index), np.array(p))

    parts = (shuffled(truth.transition), shuffled(truth.observation))
    found = POMDP.from_sparse(*parts, *truth[2:], num_observations=4, storage=storage)
    wanted = build(truth, storage)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-7, atol=0), found, wanted))


def test_sizes_come_from_reward_names_and_observations():
    truth = example("never seen")
    seen = coordinates(truth.observation[:, :, :3])
    full = truth.observation[:, :, :3].sum(axis=2)[seen[0], seen[1]]
    parts = coordinates(truth.transition), (*seen[:3], seen[3] / full), *truth[2:]
    assert POMDP.from_sparse(*parts).num_observations == 3
    assert POMDP.from_sparse(*parts, num_observations=9).num_observations == 9
    assert POMDP.from_sparse(*parts, observations="uvwxyz").num_observations == 6


def test_storage_follows_size_and_sparsity():
    small, sparse, full = (
        plain(np.random.default_rng(0), *sizes) for sizes in [(5, 3, 4), (200, 2, 3), (190, 2, 3)]
    )
    sparse = sparse._replace(transition=np.stack([np.eye(200)] * 2))
    assert sparse.transition.size > SMALL < full.transition.size
    assert build(small).storage == "dense"
    assert build(sparse).storage == "blocked"
    assert build(full).storage == "dense"


def test_a_wide_observation_table_is_not_made_dense():
    """5 states, but two million possible observations."""
    states, readings = 5, 2_000_000
    eye = (np.zeros(states, int), np.arange(states), np.arange(states), np.ones(states))
    far = (
        np.zeros(states, int),
        np.arange(states),
        np.arange(states) * (readings // states),
        np.ones(states),
    )
    model = POMDP.from_sparse(
        eye, far, np.zeros((states, 1)), np.ones(states) / 5, 0.9, num_observations=readings
    )
    assert (model.storage, model.num_observations) == ("blocked", readings)
    assert model.nbytes < 1000


def test_large_sparse_models_stay_sparse():
    """20,000 states in a ring: dense arrays would take 3 GB, the lists take well under 50 MB on the way."""
    size = 20_000
    here = np.arange(size)
    nothing, one = np.zeros(size, int), np.ones(size)
    tracemalloc.start()
    try:
        model = POMDP.from_sparse(
            (nothing, here, (here + 1) % size, one), (nothing, here, here % 3, one),
            np.zeros((size, 1)), one / size, 0.9,
        )  # fmt: skip
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50e6
    assert model.storage == "blocked"
    assert model.nbytes < 2e6
    assert model.transition.hub.shape == (0,)
    np.testing.assert_array_equal(np.asarray(model.transition.successor)[0, :, 0], (here + 1) % size)


def test_a_hub_does_not_widen_all_lists():
    """400 states that fall back to state 0, with two neighbours otherwise."""
    size = 400
    here = np.arange(size)
    x, y = (
        np.concatenate([here, here, here]),
        np.concatenate([(here + 1) % size, (here + 2) % size, 0 * here]),
    )
    transition = (0 * x, x, y, np.full(len(x), 1 / 3))
    observation = (0 * here, here, 0 * here, np.ones(size))
    model = POMDP.from_sparse(
        transition, observation, np.zeros((size, 1)), np.ones(size) / size, 0.9, storage="blocked"
    )
    assert model.transition.hub.tolist() == [0]
    assert model.transition.predecessor.shape == (1, size, 2)
    assert model.nbytes < 30_000


# names


def test_names():
    model = build(example("plain"), **NAMES)
    assert model.states == tuple("abcde")
    assert model.actions == ("left", "right", "stay")
    assert model.observations == tuple("wxyz")
    nameless = build(example("plain"))
    assert (nameless.states, nameless.actions) == (("0", "1", "2", "3", "4"), ("0", "1", "2"))
    assert nameless.observations == ("0", "1", "2", "3")


def test_jit_drops_names_and_replace_keeps_them():
    model = build(example("plain"), **NAMES)
    assert jax.jit(lambda model: model)(model).actions == ("0", "1", "2")
    assert model.replace(discount=jnp.float32(0.5)).actions == ("left", "right", "stay")
    assert float(model.replace(discount=jnp.float32(0.5)).discount) == 0.5
    assert float(model.discount) == pytest.approx(0.9)


# content hash


def test_the_hash_is_of_the_numbers_alone():
    digests = {
        build(example("hard zeros"), storage, **names).content_hash()
        for storage in (*STORAGES, "auto")
        for names in ({}, NAMES)
    }
    assert len(digests) == 1
    assert len(digests.pop()) == 64


@pytest.mark.parametrize("storage", STORAGES)
def test_every_number_counts_for_the_hash(storage):
    """The smallest change of any one number, at the first and last place of each array."""
    model = build(example("plain"), storage)
    digests, changes = [model.content_hash()], 1
    leaves, structure = jax.tree.flatten_with_path(model)
    used = ("reward", "initial", "discount", "probability")  # predecessor lists repeat the successor lists
    for i, (path, leaf) in enumerate(leaves):
        if not any(word in jax.tree_util.keystr(path[-1:]) for word in used):
            continue
        values = np.asarray(leaf)
        for at in {0: [()]}.get(values.ndim, [np.argwhere(values)[0], np.argwhere(values)[-1]]):
            other = values.copy()
            other[tuple(at)] = np.nextafter(other[tuple(at)], np.float32(0))
            swapped = [jnp.asarray(other) if j == i else old for j, (_, old) in enumerate(leaves)]
            digests.append(jax.tree.unflatten(structure, swapped).content_hash())
            changes += 1
    assert len(set(digests)) == changes == 10


def test_sizes_count_for_the_hash():
    """An observation that never occurs, and a successor that moves, are other models."""
    truth = example("never seen")
    wider = truth._replace(observation=np.concatenate([truth.observation, np.zeros((3, 5, 1))], axis=2))
    moved = truth._replace(transition=truth.transition[:, :, [0, 1, 3, 2, 4]])
    assert len({build(model).content_hash() for model in (truth, wider, moved)}) == 3


def test_the_hash_does_not_change_between_versions():
    """Policies on disk are found by it; a change here means that all of them are lost."""
    parts = (
        np.array([[[0.25, 0.75], [1.0, 0.0]]]),
        np.ones((1, 2, 1)),
        np.array([[1.0], [-2.0]]),
        np.array([1.0, 0.0]),
    )
    digest = POMDP.from_dense(*parts, 0.5).content_hash()
    assert digest == "c2d6a7ad63c3477920d21ffe55700f77cc3cd3a13a381c3a7872363e3a070d65"


# the value


def test_models_are_frozen():
    model = build(example("plain"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.discount = 0.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.transition.probability = None


@pytest.mark.parametrize("storage", STORAGES)
def test_models_do_not_follow_the_arrays_they_came_from(storage, x64):
    parts = [np.array(part) for part in example("plain")]
    model = build(type(example("plain"))(*parts), storage)
    digest = model.content_hash()
    for part in parts[:4]:
        part[:] = 0
    assert model.content_hash() == digest


@pytest.mark.parametrize("storage", STORAGES)
def test_pytree_round_trip(storage):
    model = build(example("hub"), storage, dtype=np.float32)
    leaves, structure = jax.tree.flatten(model)
    again = jax.tree.unflatten(structure, leaves)
    assert again.content_hash() == model.content_hash()
    assert again.storage == storage
    assert again.num_observations == model.num_observations
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(model)]
    assert paths[0].startswith(".transition") and paths[-3:] == [".reward", ".initial", ".discount"]
    assert jax.tree.structure(jax.jit(lambda model: model)(model)) == structure
    assert jax.vmap(lambda model: model.discount)(jax.tree.map(lambda leaf: leaf[None], model)).shape == (1,)


@pytest.mark.parametrize(("storage", "size", "words"), [("dense", 624, "624 B"), ("blocked", 1824, "1.8 kB")])
def test_repr_and_nbytes(storage, size, words):
    """Dense: 75 + 60 + 21 numbers. Blocked: twice 75 numbers and indices for P (no hubs), 15 classes of 4
    numbers and indices for O, 15 kinds, and the rest."""
    model = build(example("plain"), storage)
    assert model.nbytes == size
    assert repr(model) == f"POMDP(5 states, 3 actions, 4 observations, {storage}, float32, {words})"
    stacked = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), model)
    assert repr(stacked).startswith("POMDP(2 x 5 states, 3 actions")
    assert (stacked.num_states, stacked.num_actions, stacked.num_observations) == (5, 3, 4)
    assert stacked.nbytes == 2 * size


def test_repr_of_shapes_and_other_trees():
    """As they occur in messages of JAX and while debugging."""
    model = build(example("plain"), "blocked")
    assert repr(jax.eval_shape(lambda model: model, model)) == repr(model)
    assert "(5, 3)" in repr(jax.tree.map(jnp.shape, model))
    assert "None" in repr(jax.tree.map(lambda leaf: None, model))


@pytest.mark.parametrize("storage", STORAGES)
def test_precision(storage):
    with jax.enable_x64(True):
        double = build(example("plain"), storage)
        single = build(example("plain"), storage, dtype=np.float32)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    for model in (double, single):
        floats = [leaf for leaf in jax.tree.leaves(model) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        integers = [leaf for leaf in jax.tree.leaves(model) if jnp.issubdtype(leaf.dtype, jnp.integer)]
        assert {leaf.dtype for leaf in floats} == {model.dtype}
        assert {leaf.dtype for leaf in integers} <= {np.dtype(np.int32)}


def test_observation_classes():
    """One row of classes where O is the same for all actions, and as many classes as rows that differ."""
    model = build(example("same observation"), "blocked")
    assert model.observation.kind.tolist() == [[0, 1, 0, 0, 1]]
    assert model.observation.symbol.shape[0] == 2
    assert build(example("hard zeros"), "blocked").observation.kind.shape == (3, 5)
