"""Reading Cassandra's format: every form against numbers worked out by hand and against the slow oracle."""

import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from cassandra_files import Author
from jatpo.errors import JatpoError, RenormalisedWarning
from jatpo.files import pomdp_file, read_pomdp, reader
from jatpo.files.kernel import nonzeros
from jatpo.files.rewards import expected
from oracles import cassandra

DATA = Path(__file__).parent.parent / "data"
HEAD = "discount: 0.9\nvalues: reward\nstates: 2\nactions: 2\nobservations: 2\n"


def read_text(text, size=reader.WINDOW):
    """The model of a text, read in windows of `size` bytes."""
    found = reader.Reader("f.POMDP")
    found.read(io.BytesIO(text.encode()), size)
    return pomdp_file.model(found.preamble, found.specs, found.originals, storage="auto", dtype=None)


def kernels(text, size):
    """P, O, R, start and discount as they stand in a text: rows need not sum to 1."""
    found = reader.Reader("f.POMDP")
    found.read(io.BytesIO(text.encode()), size)
    start = found.preamble.start()
    found.specs["T"].settle_resets(start)
    coordinates = [nonzeros(found.specs[key].writes, key, None) for key in "TO"]
    reward = found.preamble.sign * expected(found.specs["R"].writes, *coordinates)
    return *(
        dense(part, found.specs[key].writes.sizes) for part, key in zip(coordinates, "TO", strict=True)
    ), (
        reward,
        start,
        found.preamble.discount,
    )


def dense(coordinates, shape):
    array = np.zeros(shape)
    array[tuple(coordinates[:3])] = coordinates[3]
    return array


def normalised(kernel):
    total = kernel.sum(axis=-1, keepdims=True)
    return kernel / np.where(total > 0, total, 1)


def close(model, transition=None, observation=None, reward=None, initial=None):
    """Compare the parts of a model that are given, to float32 rounding."""
    found = model.to_dense()
    for name, part in {
        "transition": transition,
        "observation": observation,
        "reward": reward,
        "initial": initial,
    }.items():
        if part is not None:
            np.testing.assert_allclose(getattr(found, name), part, rtol=1e-6, atol=1e-7, err_msg=name)


def test_tiger():
    model = read_pomdp(DATA / "tiger.POMDP")
    assert model.states == ("tiger-left", "tiger-right")
    assert model.actions == ("listen", "open-left", "open-right")
    assert model.observations == ("hear-left", "hear-right")
    half = [[0.5, 0.5], [0.5, 0.5]]
    close(
        model,
        [[[1, 0], [0, 1]], half, half],
        [[[0.85, 0.15], [0.15, 0.85]], half, half],
        [[-1, -100, 10], [-1, 10, -100]],
        [0.5, 0.5],
    )
    assert float(model.discount) == np.float32(0.95)


def test_every_form_of_a_statement():
    model = read_pomdp(DATA / "forms.POMDP")
    third = [1 / 3] * 3
    close(
        model,
        [
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
            [third, [0.5, 0.5, 0], [0.5, 0.25, 0.25]],
            [[0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]],
        ],
        [
            [[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]],
            [[0.5, 0.5]] * 2 + [[1, 0]],
            [[0.1, 0.9], [0.2, 0.8], [0.5, 0.5]],
        ],
        [[3, -2.5, -1], [4, 0.75, 3.55], [-1, -2.5, 9]],
        [0.5, 0.25, 0.25],
    )
    assert model.states == ("0", "1", "2")


def test_a_file_without_observations_shows_the_state():
    model = read_pomdp(DATA / "mdp.POMDP")
    assert model.observations == model.states == ("here", "there")
    close(model, observation=[np.eye(2)] * 2, reward=[[-1, -6], [-4, -7]], initial=[1, 0])


def test_statements_need_no_lines():
    model = read_pomdp(DATA / "include.POMDP")
    close(
        model,
        [[[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 1, 0], [1, 0, 0, 0]]],
        reward=[[1], [0], [0], [0]],
        initial=[0.5, 0, 0.5, 0],
    )


def test_dust_is_renormalised_and_reported_with_the_file():
    with pytest.warns(
        RenormalisedWarning, match=r"dust\.POMDP: 2 rows of transition were off by up to 4\.0e-06"
    ):
        model = read_pomdp(DATA / "dust.POMDP")
    np.testing.assert_array_equal(model.to_dense().transition.sum(axis=2), 1)


@pytest.mark.parametrize(
    ("start", "belief"),
    [
        ("", [0.25] * 4),
        ("start: uniform", [0.25] * 4),
        ("start: c", [0, 0, 1, 0]),
        ("start: 3", [0, 0, 0, 1]),
        ("start:\n0.1 0.2\n\n0.3 # half way\n.4", [0.1, 0.2, 0.3, 0.4]),
        ("start include: a d", [0.5, 0, 0, 0.5]),
        ("start include : 1 1", [0, 1, 0, 0]),
        ("start exclude: 0", [0, 1 / 3, 1 / 3, 1 / 3]),
        ("start\nexclude\n:\na b c", [0, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize("place", [0, 2, 5, 6])
def test_all_forms_of_start_anywhere(start, belief, place):
    lines = ["discount: 1", "values: reward", "states: a b c d", "actions: 1", "observations: 1"]
    lines += ["T: 0 identity\nT: 0 : a reset\nO: * uniform"]
    lines.insert(place, start)
    model = read_text("\n".join(lines))
    close(model, [[belief, *np.eye(4)[1:]]], initial=belief)


@pytest.mark.parametrize("seed", range(80))
def test_random_files_against_the_oracle(seed, monkeypatch):
    text = Author(seed).file()
    slow = cassandra.read(text)
    empty = slow.O.sum(axis=2) == 0  # what follows such a state has no probability: R is not compared there
    sound = ((slow.P.sum(axis=2) > 0) & ~((slow.P > 0) & empty[:, None, :]).any(axis=2)).T
    reward = slow.sign * np.einsum("axy,ayz,axyz->xa", normalised(slow.P), normalised(slow.O), slow.r)
    for size, long in (
        (reader.WINDOW, reader.LONG),
        (64, 12),
    ):  # whole, and in windows that cut statements up
        monkeypatch.setattr(reader, "LONG", long)
        transition, observation, rest = kernels(text, size)
        np.testing.assert_array_equal(transition, slow.P)
        np.testing.assert_array_equal(observation, slow.O)
        np.testing.assert_allclose(rest[0][sound], reward[sound], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(rest[1], slow.initial)
        assert rest[2] == slow.discount


def test_entries_read_together_and_one_by_one_agree(monkeypatch):
    """The bulk path against the statement path, on single entries and rows of a larger model."""
    rng = np.random.default_rng(0)
    names = [f"state_{'x' * (x % 40)}{x}" for x in range(50)]
    lines = [HEAD.replace("states: 2", f"states: {' '.join(names)}"), "O: * uniform"]
    for a in range(2):
        for x in range(50):
            p = rng.dirichlet(np.ones(3))
            ends = rng.choice(50, 3, replace=False)
            lines += [
                f"T: {a} : {names[x]} : {names[y]} {q!r}" for y, q in zip(ends, p.tolist(), strict=True)
            ]
            lines += [f"R: {a} : {names[x]} : {names[ends[0]]} : * {rng.normal()!r}"]
            lines += [f"O: {a} : {x} {' '.join(map(repr, rng.dirichlet(np.ones(2)).tolist()))}"]
            lines += [f"R: * : {x} : * 1 2.5", f"R: 1 : {x} : {x} : 0 -3"]
    together = read_text("\n".join(lines))
    monkeypatch.setattr(reader.bulk, "take", lambda spec, window, head, stop, time: np.zeros(len(head), bool))
    assert together.content_hash() == read_text("\n".join(lines)).content_hash()


def test_later_lines_count_entry_by_entry():
    rows = "T: * : 0 : 0 0.5\nT: 1 : 0 : 0 1\nT: * : 0 : 1 0.5\nT: 1 : * : 1 0\nT: * : 1 : 1 1\n"
    model = read_text(HEAD + rows + "O: 0 identity\nO: * : 1 uniform\nO: 1 uniform")
    close(model, [[[0.5, 0.5], [0, 1]], [[1, 0], [0, 1]]], [[[1, 0], [0.5, 0.5]], [[0.5, 0.5]] * 2])


@pytest.mark.parametrize(
    "number", ["0.5", ".5", "5e-1", "0.05E+1", "+0.5", "+ .5", "0.50000", "00.5", "5.e-1"]
)
def test_numbers(number):
    text = f"T: * identity\nO: * identity\nT: 0 : 0 {number} {number}\nR: 0 : 0 : * : * {number}"
    model = read_text(HEAD + text)
    close(model, reward=[[0.5, 0], [0, 0]])
    assert model.to_dense().transition[0, 0].tolist() == [0.5, 0.5]


def test_numbers_are_correctly_rounded(x64):
    values = np.random.default_rng(1).normal(size=200) * 10.0 ** np.arange(-100, 100)
    lines = [f"R: 0 : {x} : * : * {value!r}" for x, value in enumerate(values.tolist())]
    model = read_text(
        HEAD.replace("states: 2", "states: 200") + "T: * identity\nO: * uniform\n" + "\n".join(lines)
    )
    np.testing.assert_array_equal(model.to_dense().reward[:, 0], values)


def test_wildcards_take_no_room():
    """A hundred thousand states by wildcards: what comes out is small, and so is what it takes."""
    text = """
    discount: 0.9 values: reward states: 100000 actions: 4 observations: 1000
    T: * : * : * 0.0   T: * identity   T: 2 : * : 99999 1.0   T: 2 : * : * 0   T: 2 : * : 7 1
    O: * : * : * 0.001   O: * : * uniform   O: * : * : * 0   O: * : * : 3 1
    R: * : * : * : * -1   R: * : * : 7 : * 5   R: 1 : * : * : 3 2   R: 3 : 50 : 50 : 3 100
    """
    tracemalloc.start()
    model = read_text(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6
    reward = np.asarray(model.reward)
    assert reward[:8].tolist() == [[-1, 2, 5, -1]] * 7 + [[5, 2, 5, 5]]
    assert reward[50].tolist() == [-1, 2, 5, 100]
    a, x, y, p = model.to_sparse().transition
    np.testing.assert_array_equal(y, np.where(a == 2, 7, x))
    assert (p == 1).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "states: 1000000000 actions: 2 observations: 2 T: * identity",
            "a model of 1000000000 states, 2 actions",
        ),
        (
            "states: 200000 actions: 2 observations: 2 T: * uniform O: * uniform",
            "80000000000 non-zero entries",
        ),
        (
            "states: 90000 actions: 2 observations: 2 T: * identity T: 0 : 5 uniform O: * uniform",
            "a model of 90000",
        ),
        (
            "states: 2 actions: 2 observations: 2000000000 T: * identity O: * uniform",
            "and 2000000000 observations",
        ),
        (
            "states: 20000 actions: 2 observations: 2 start: uniform T: * : * reset O: * uniform",
            "800000000 non-zero",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_figure(text, message, monkeypatch):
    monkeypatch.setattr("jatpo.memory.free_bytes", lambda: 8 * 10**9)
    with pytest.raises(JatpoError, match=f"f.POMDP: .*{message}.* needs .* of memory and 8.0 GB are free"):
        read_text(f"discount: 1 values: reward {text}")


def test_a_mistyped_number_of_states_is_found_before_memory_is_taken():
    tracemalloc.start()
    with pytest.raises(JatpoError, match=r"transition .*state 2\b"):
        read_text(
            HEAD.replace("states: 2", "states: 10000000") + "T: * : 0 : 0 1\nT: * : 1 : 1 1\nO: * uniform"
        )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # the start distribution, and nothing for each pair


def test_a_matrix_longer_than_a_window_is_not_kept_whole():
    size = 700
    matrix = "\n".join(" ".join("1" if x == y else "0" for y in range(size)) for x in range(size))
    text = HEAD.replace("states: 2", f"states: {size}") + f"T: * {matrix}\nO: * uniform"
    tracemalloc.start()
    found = reader.Reader("f.POMDP")
    found.read(io.BytesIO(text.encode()), 1 << 17)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * (1 << 20)  # all numbers of the matrix as float64 would be 3.9 MB, all tokens 12 MB
    assert len(nonzeros(found.specs["T"].writes, "T", None)[0]) == 2 * size


def test_names_of_the_format_may_be_longer_and_stranger_than_it_says():
    for first in ("(1,2)", "søndag", "no\u00a0break", "a\x85b", "q"):
        other = "y" * 100
        text = HEAD.replace("states: 2", f"states: {first} {other}")
        model = read_text(f"{text}T: * : {first} : {other} 1\nT: * : {other} : {first} 1\nO: * identity")
        assert model.states == (first, other)
        close(model, [[[0, 1], [1, 0]]] * 2)


def test_listed_numbers_are_numbers():
    model = read_text(HEAD.replace("states: 2", "states: 0 1") + "T: * identity\nO: * identity")
    assert model.names.states is None


def test_storage_and_precision_can_be_chosen(tmp_path):
    path = DATA / "tiger.POMDP"
    assert read_pomdp(path, storage="blocked").storage == "blocked"
    assert read_pomdp(path).content_hash() == read_pomdp(str(path), storage="blocked").content_hash()
