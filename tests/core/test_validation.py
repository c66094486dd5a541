"""Bad input dies on the host with a sentence that names the row and the number; every sentence is here."""

import re
import time
import warnings

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

from jatpo import errors, limits, memory, validate
from jatpo.errors import JatpoError, RenormalisedWarning
from jatpo.model import POMDP
from random_models import build, coordinates, example, plain

NAMES = {
    "states": ["hall", "kitchen", "attic", "cellar", "garden"],
    "actions": ["left", "right", "stay"],
    "observations": ["dark", "bright", "wet", "dry"],
}


def refused(message: str):
    """The whole message, word by word."""
    return pytest.raises(JatpoError, match=f"^{re.escape(message)}$")


def changed(part: str, at, value):
    """The plain example with one entry (or row) of one array set to `value`."""
    truth = example("plain")
    array = np.array(getattr(truth, part))
    array[at] = value
    return truth._replace(**{part: array})


def both_ways(truth, names=NAMES):
    """Constructors to try: dense and sparse, with `names`."""
    parts = coordinates(truth.transition), coordinates(truth.observation), *truth[2:]
    yield lambda: POMDP.from_dense(*truth, **names)
    yield lambda: POMDP.from_sparse(*parts, num_observations=truth.sizes[2], **(names or {}))


# rows


def test_a_row_that_does_not_sum_to_one():
    truth = changed("transition", (1, 2), [0.5, 0.1, 0.33, 0, 0])
    for make in both_ways(truth):
        with refused("transition[a=1 (right), x=2 (attic)] sums to 0.93, expected 1"):
            make()
    for make in both_ways(truth, {}):
        with refused("transition[a=1, x=2] sums to 0.93, expected 1"):
            make()


def test_an_observation_row_that_does_not_sum_to_one():
    for make in both_ways(changed("observation", (0, 4), [0.5, 0.5, 0.5, 0])):
        with refused("observation[a=0 (left), y=4 (garden)] sums to 1.5, expected 1"):
            make()


def test_an_empty_row():
    for make in both_ways(changed("transition", (2, 0), 0)):
        with refused("transition[a=2 (stay), x=0 (hall)] sums to 0, expected 1"):
            make()


@pytest.mark.parametrize(
    ("rows", "rest"), [([0, 3], " (and 1 more row is off)"), ([0, 1, 3], " (and 2 more rows are off)")]
)
def test_the_first_of_several_rows_is_named(rows, rest):
    with refused(f"transition[a=1 (right), x=0 (hall)] sums to 2, expected 1{rest}"):
        POMDP.from_dense(*changed("transition", (1, rows), [1.0, 1.0, 0, 0, 0]), **NAMES)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.25, -np.inf])
@pytest.mark.parametrize(
    ("part", "at", "where"),
    [
        ("transition", (2, 4, 1), "transition[a=2 (stay), x=4 (garden), y=1]"),
        ("observation", (0, 1, 3), "observation[a=0 (left), y=1 (kitchen), z=3]"),
    ],
)
def test_an_entry_that_is_no_probability(part, at, where, value):
    for make in both_ways(changed(part, at, value)):
        with refused(f"{where} is {value}, expected a probability"):
            make()


def test_a_negative_entry_is_not_made_good_by_a_second_one():
    """Coordinates add up, but each has to be a probability."""
    truth = example("one state")
    twice = (np.append(0, np.arange(3)), np.zeros(4, int), np.zeros(4, int), np.array([-1.0, 2.0, 1.0, 1.0]))
    with refused("transition[a=0, x=0, y=0] is -1.0, expected a probability"):
        POMDP.from_sparse(twice, coordinates(truth.observation), *truth[2:])


# float dust


@pytest.mark.parametrize("off", [9.9e-6, 1e-5, -1e-5, 1.2e-6])
def test_dust_is_renormalised_and_reported(off):
    """Down to the row [0.33333, 0.33333, 0.33333, 0, 0], which people do write."""
    truth = changed("transition", (1, 2), np.array([0.5, 0.25, 0.25, 0, 0]) * (1 + off))
    for make in both_ways(truth):
        with pytest.warns(
            RenormalisedWarning, match=r"^1 row of transition was off by up to \d\.\de-0[56] and renorm"
        ):
            model = make()
        np.testing.assert_allclose(model.to_dense().transition[1, 2], [0.5, 0.25, 0.25, 0, 0], rtol=1e-7)
    thirds = changed("transition", (1, 2), [0.33333, 0.33333, 0.33333, 0, 0])
    with pytest.warns(
        RenormalisedWarning, match=r"1 row of transition was off by up to 1\.0e-05 and renormalised"
    ):
        model = build(thirds)
    np.testing.assert_allclose(model.to_dense().transition[1, 2, :3], 1 / 3, rtol=1e-7)


def test_dust_is_reported_once_for_each_array():
    truth = example("plain")
    dusty = truth._replace(
        transition=truth.transition * (1 + 5e-6),
        observation=truth.observation * (1 + 3e-6),
        initial=truth.initial * (1 - 2e-6),
    )
    with pytest.warns(RenormalisedWarning) as reports:
        model = build(dusty)
    assert [str(report.message) for report in reports] == [
        "15 rows of transition were off by up to 5.0e-06 and renormalised",
        "15 rows of observation were off by up to 3.0e-06 and renormalised",
        "initial was off by up to 2.0e-06 and renormalised",
    ]
    assert {report.filename for report in reports} == {
        build.__code__.co_filename
    }  # where from_dense was called
    for found, wanted in zip(model.to_dense(), truth, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=3e-7)


def test_less_dust_is_renormalised_in_silence(x64):
    truth = example("plain")
    dusty = truth._replace(transition=truth.transition * (1 + 9e-7), initial=truth.initial * (1 - 9e-7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = build(dusty)
    np.testing.assert_allclose(model.to_dense().transition, truth.transition, rtol=1e-14)
    np.testing.assert_allclose(model.to_dense().initial, truth.initial, rtol=1e-14)


def test_only_rounding_is_left_as_it_is(x64):
    """1e-8 is too much for doubles, 5e-7 for numbers that are all float32 ones."""
    for row in (np.array([0.50000001, 0.3, 0.2]), np.float32([0.5, 0.25, 0.2500005]).astype(float)):
        truth = plain(np.random.default_rng(0), states=3, actions=1, observations=1)
        model = build(truth._replace(transition=np.tile(row, (1, 3, 1)), initial=row))
        np.testing.assert_allclose(model.to_dense().transition.sum(axis=2), 1, rtol=0, atol=1e-15)
        np.testing.assert_allclose(model.to_dense().initial.sum(), 1, rtol=0, atol=1e-15)


def test_more_than_dust_is_refused():
    row = np.array([0.5, 0.25, 0.25, 0, 0])
    with refused("transition[a=1 (right), x=2 (attic)] sums to 1.00002, expected 1"):
        POMDP.from_dense(*changed("transition", (1, 2), row * (1 + 2e-5)), **NAMES)
    truth = example("plain")
    with refused("initial sums to 0.99998, expected 1"):
        build(truth._replace(initial=truth.initial * (1 - 2e-5)))


@hypothesis.given(st.lists(st.floats(2.0**-99, 1.0, width=32), min_size=1, max_size=12))
def test_rows_of_rounded_numbers_are_left_alone(weights):
    """A float32 row that was normalised stays the same to the last bit, in silence."""
    row = (np.array(weights) / np.sum(weights)).astype(np.float32).astype(float)
    size = len(row)
    zeros = np.zeros(size, int)
    kept = row > 0
    *_, found = validate.rows("row", (zeros, zeros, np.arange(size), row), (1, 1, size), "xy", None, None)
    np.testing.assert_array_equal(found, row[kept])
    np.testing.assert_array_equal(validate.distribution("row", row, size), row)


# shapes and transposed arrays

SWAPPED = ": its axes look swapped, expected"


@pytest.mark.parametrize(
    ("part", "shape", "message"),
    [
        ("transition", (5, 5), "transition has shape (5, 5), expected (A, X, X)"),
        ("transition", (3, 5, 6), "transition has shape (3, 5, 6), expected (A, X, X)"),
        ("transition", (5, 3, 5), f"transition has shape (5, 3, 5), expected (A, X, X){SWAPPED} P[a, x, y]"),
        ("transition", (5, 5, 3), f"transition has shape (5, 5, 3), expected (A, X, X){SWAPPED} P[a, x, y]"),
        ("observation", (5, 4), "observation has shape (5, 4), expected (3, 5, Z)"),
        ("observation", (3, 6, 4), "observation has shape (3, 6, 4), expected (3, 5, Z)"),
        (
            "observation",
            (3, 4, 5),
            f"observation has shape (3, 4, 5), expected (3, 5, Z){SWAPPED} O[a, y, z]",
        ),
        (
            "observation",
            (5, 3, 4),
            f"observation has shape (5, 3, 4), expected (3, 5, Z){SWAPPED} O[a, y, z]",
        ),
        ("reward", (5,), "reward has shape (5,), expected R[x, a]: one row per state"),
        ("reward", (5, 2), "reward has shape (5, 2), expected (5, 3)"),
        ("reward", (3, 5), "reward has shape (3, 5), expected (5, 3): it looks transposed, expected R[x, a]"),
        ("initial", (4,), "initial has shape (4,), expected (5,)"),
        ("initial", (1, 5), "initial has shape (1, 5), expected (5,)"),
    ],
)
def test_shapes(part, shape, message):
    with refused(message):
        build(example("plain")._replace(**{part: np.zeros(shape)}))


def test_a_transposed_transition():
    truth = example("hard zeros")
    turned = truth._replace(transition=np.swapaxes(truth.transition, 1, 2))
    for make in both_ways(turned):
        with pytest.raises(JatpoError) as caught:
            make()
        pattern = (
            r"transition\[a=0 \(left\), x=\d \(\w+\)\] sums to [\d.]+, expected 1 "
            r"\(and \d+ more rows are off\); "
            r"the columns do sum to 1, so the array looks transposed: expected index order \[a, x, y\]"
        )
        assert re.fullmatch(pattern, str(caught.value))


def test_a_transposed_observation():
    truth = plain(np.random.default_rng(2), states=4, actions=2, observations=4)
    with pytest.raises(JatpoError, match=r"looks transposed: expected index order \[a, y, z\]$"):
        build(truth._replace(observation=np.swapaxes(truth.observation, 1, 2)))


def test_a_wrong_row_is_not_called_transposed():
    with pytest.raises(JatpoError) as caught:
        build(changed("transition", (1, 2), 0))
    assert "transposed" not in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 3, 4), "the model has no states: it needs at least one"),
        ((5, 0, 4), "the model has no actions: it needs at least one"),
        ((5, 3, 0), "the model has no observations: it needs at least one"),
    ],
)
@pytest.mark.parametrize("storage", ["auto", "dense", "blocked"])
def test_empty_models(sizes, message, storage):
    states, actions, observations = sizes
    parts = (
        np.zeros((actions, states, states)),
        np.zeros((actions, states, observations)),
        np.zeros((states, actions)),
    )
    with refused(message):
        POMDP.from_dense(*parts, np.zeros(states), 0.9, storage=storage)


# coordinates


def sparse_parts():
    truth = example("plain")
    return [coordinates(truth.transition), coordinates(truth.observation), *truth[2:]]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((0, 0), 3, "index a=3 of transition is outside 0..2"),
        ((0, 1), -1, "index x=-1 of transition is outside 0..4"),
        ((0, 2), 2**40, f"index y={2**40} of transition is outside 0..4"),
        ((1, 0), 7, "index a=7 of observation is outside 0..2"),
        ((1, 1), 5, "index y=5 of observation is outside 0..4"),
        ((1, 2), 4, "index z=4 of observation is outside 0..3"),
    ],
)
def test_indices_outside(place, value, message):
    parts = sparse_parts()
    parts[place[0]][place[1]][-1] = value
    with refused(message):
        POMDP.from_sparse(*parts, num_observations=4)


def test_indices_that_are_no_whole_numbers():
    parts = sparse_parts()
    parts[0] = (parts[0][0], parts[0][1].astype(float), *parts[0][2:])
    with refused("index x of transition has dtype float64, expected whole numbers"):
        POMDP.from_sparse(*parts)


def test_coordinate_arrays_that_do_not_match():
    parts = sparse_parts()
    short = [parts[0], (*parts[1][:3], parts[1][3][:-2]), *parts[2:]]
    with refused(
        "the four coordinate arrays of observation have lengths 60, 60, 60, 58, expected equal ones"
    ):
        POMDP.from_sparse(*short)
    three = [parts[0][:3], *parts[1:]]
    with refused("transition has 3 coordinate arrays, expected four: (a, x, y, p)"):
        POMDP.from_sparse(*three)


def test_empty_coordinates():
    parts = sparse_parts()
    with refused("transition[a=0, x=0] sums to 0, expected 1 (and 14 more rows are off)"):
        POMDP.from_sparse(([], [], [], []), *parts[1:])
    with refused("the model has no observations: it needs at least one"):
        POMDP.from_sparse(parts[0], ([], [], [], []), *parts[2:])


def test_more_observations_than_32_bits_hold():
    parts = sparse_parts()
    parts[1][2][-1] = 2**40
    with refused(f"the model has {2**40 + 1} observations: at most 2147483647 are possible"):
        POMDP.from_sparse(*parts)


# the rest of a model


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf, None, "often"])
def test_discounts_outside_zero_and_one(value):
    with refused(f"the discount is {value}, expected a number from 0 to 1"):
        build(example("plain")._replace(discount=value))


@pytest.mark.parametrize("value", [0, 1, np.float32(0.5)])
def test_discounts_at_the_ends(value):
    assert float(build(example("plain")._replace(discount=value)).discount) == value


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ([0.5, 0.2, 0, 0, 0], "initial sums to 0.7, expected 1"),
        ([0, 0, 0, 0, 0], "initial sums to 0, expected 1"),
        ([1.5, 0, -0.5, 0, 0], "initial[2 (attic)] is -0.5, expected a probability"),
        ([1, 0, 0, 0, np.nan], "initial[4 (garden)] is nan, expected a probability"),
    ],
)
def test_initial_beliefs(initial, message):
    with refused(message):
        build(example("plain")._replace(initial=np.array(initial, float)), **NAMES)


def test_an_initial_entry_without_names():
    with refused("initial[0] is inf, expected a probability"):
        build(changed("initial", 0, np.inf))


def test_rewards_that_are_not_finite():
    truth = changed("reward", (3, 1), np.nan)
    with refused("reward[x=3 (cellar), a=1 (right)] is nan, expected a finite number"):
        build(truth, **NAMES)
    with refused("reward[x=3, a=1] is -inf, expected a finite number"):
        build(changed("reward", (3, 1), -np.inf))


@pytest.mark.parametrize(
    ("kind", "names", "message"),
    [
        ("states", list("abc"), "3 names are given for 5 states: give one name for each"),
        ("actions", list("abcd"), "4 names are given for 3 actions: give one name for each"),
        ("observations", [], "0 names are given for 4 observations: give one name for each"),
        ("states", list("abcbc"), "the name 'b' stands for two states: names must differ"),
        ("actions", ["1", 1, 2], "the name '1' stands for two actions: names must differ"),
    ],
)
def test_names(kind, names, message):
    with refused(message):
        build(example("plain"), **{kind: names})


def test_a_name_given_twice_is_found_fast():
    names = [str(i) for i in range(100_000)]
    names[-1] = names[-2]
    start = time.perf_counter()
    with refused("the name '99998' stands for two states: names must differ"):
        validate.names_of("states", names, len(names))
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(("storage", "named"), [("sparse", "'sparse'"), ("denze", "'denze'.*'dense'")])
def test_storages(storage, named):
    with pytest.raises(JatpoError, match=named):
        build(example("plain"), storage)


def test_dtypes():
    with refused("the dtype is int32, expected float32 or float64"):
        build(example("plain"), dtype=np.int32)
    with refused("the dtype is float64, which JAX has switched off: set JAX_ENABLE_X64=1"):
        build(example("plain"), dtype=np.float64)


# memory


@pytest.fixture
def free(monkeypatch):
    """Set the free memory of the machine, in bytes."""
    return lambda count: monkeypatch.setattr(memory, "free_bytes", lambda: count)


def ring(size: int):
    """Coordinates of a ring of `size` states with one action and observation, and the rest."""
    here, nothing, one = np.arange(size), np.zeros(size, int), np.ones(size)
    return (
        (nothing, here, (here + 1) % size, one),
        (nothing, here, nothing, one),
        np.zeros((size, 1)),
        one / size,
        0.9,
    )


def test_dense_storage_that_would_not_fit(free):
    """Before anything is made: 4 bytes for each of 100,000 x (100,000 + 1) numbers."""
    free(8_000_000_000)
    text = (
        "dense storage of 100000 states, 1 actions and 1 observations needs 40.0 GB of memory "
        "and 8.0 GB are free: use storage='blocked'"
    )
    with refused(text):
        POMDP.from_sparse(*ring(100_000), storage="dense")


def test_precision_counts(free, x64):
    free(1_000_000)
    with pytest.raises(JatpoError, match=r"needs 8\.0 MB of memory and 1\.0 MB are free"):
        POMDP.from_sparse(*ring(1000), storage="dense")
    POMDP.from_sparse(*ring(1000), storage="blocked")


def test_dense_copies_that_would_not_fit(free):
    model = POMDP.from_sparse(*ring(1000))
    free(5_000_000)
    with refused("a dense copy of the model needs 8.0 MB of memory and 5.0 MB are free: use to_sparse()"):
        model.to_dense()
    with pytest.raises(
        JatpoError, match=r"^dense storage of 1000 states.* needs 4\.0 MB .*: use storage='blocked'$"
    ):
        free(4_500_000)
        model.with_storage("dense")
    free(6_000_000)
    assert model.with_storage("dense").storage == "dense"


def test_blocked_lists_that_would_not_fit(free):
    """One state leads everywhere, so that every list has 2,000 entries."""
    size = 2000
    transition, *rest = ring(size)
    spread = (np.zeros(size, int), np.zeros(size, int), np.arange(size), np.full(size, 1 / size))
    transition = tuple(np.concatenate([a, b[1:]]) for a, b in zip(spread, transition, strict=True))
    free(50_000_000)
    text = (
        "blocked storage of 2000 rows with up to 2000 entries each needs 48.0 MB of memory "
        "and 50.0 MB are free: make the fullest rows sparser, or use storage='dense' if that is smaller"
    )
    with refused(text):
        POMDP.from_sparse(transition, *rest, storage="blocked")


def test_require_leaves_a_share(free):
    free(1000)
    memory.require(800, "it", "wait")
    with refused("it needs 801 B of memory and 1.0 kB are free: wait"):
        memory.require(801, "it", "wait")


def test_memory_of_this_machine():
    assert 1 << 20 < memory.free_bytes() < 1 << 50


def test_memory_where_the_system_does_not_tell(monkeypatch):
    def nothing(*_):
        raise OSError

    monkeypatch.setattr("builtins.open", nothing)
    assert memory.free_bytes() > 1 << 20
    monkeypatch.setattr("os.sysconf", nothing)
    assert memory.free_bytes() == limits.UNLIMITED


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (1.5e6, "1.5 MB"), (2e9, "2.0 GB"), (4.7e13, "47.0 TB")],
)
def test_readable(count, words):
    assert memory.readable(count) == words


# names that are unknown


def test_nearest():
    assert errors.nearest("gridwrld", ["pursuit", "gridworld"]) == "; did you mean 'gridworld'?"
    assert errors.nearest("zzz", ["pursuit", "gridworld"]) == ""
    assert str(errors.unknown("domain", "pursit", iter(["ntu", "pursuit"]))) == (
        "no domain is called 'pursit'; did you mean 'pursuit'?"
    )
    assert (
        str(errors.unknown("domain", "zzz", ["ntu", "isr"]))
        == "no domain is called 'zzz'; choose from ntu, isr"
    )


def test_nothing_is_left_behind_by_a_refusal():
    """Validation makes no JAX array."""
    before = len(jax.live_arrays())
    with pytest.raises(JatpoError):
        build(changed("transition", (0, 0), 0))
    assert len(jax.live_arrays()) == before
