"""Writing a model and reading it back: the same to the last bit, with the same names."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassandra_files import random_pomdp
from jatpo.errors import JatpoError
from jatpo.files import decimals, naming, pomdp_file, read_pomdp, reader, writer
from jatpo.model import POMDP

NAMES = st.text(min_size=0, max_size=12)


def text_of(model):
    file = io.StringIO()
    writer.write_to(file, model)
    return file.getvalue()


def back(text):
    found = reader.Reader("f.POMDP")
    found.read(io.BytesIO(text.encode("ascii")))
    return pomdp_file.model(found.preamble, found.specs, found.originals, storage="auto", dtype=None)


@st.composite
def models(draw):
    """Models with rows of all kinds: certain, even, uneven, with entries down to 1e-30."""
    A, X, Z = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    weight = st.one_of(st.just(0.0), st.integers(1, 5).map(float), st.floats(1e-30, 1.0))

    def row(size):
        weights = np.array(draw(st.lists(weight, min_size=size, max_size=size)))
        weights[draw(st.integers(0, size - 1))] += 1.0
        return weights / weights.sum()

    transition = np.array([[row(X) for _ in range(X)] for _ in range(A)])
    observation = np.array([[row(Z) for _ in range(X)] for _ in range(A)])
    value = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e30, 1e30))
    reward = np.array(draw(st.lists(value, min_size=X * A, max_size=X * A))).reshape(X, A)
    names = {}
    for kind, size in (("states", X), ("actions", A), ("observations", Z)):
        if draw(st.booleans()):
            names[kind] = draw(st.lists(NAMES, min_size=size, max_size=size, unique=True))
    return POMDP.from_dense(transition, observation, reward, row(X), draw(st.floats(0, 1)), **names)


@settings(max_examples=60)
@given(models())
def test_what_is_written_reads_back_to_the_last_bit(model):
    again = back(text_of(model))
    assert again.content_hash() == model.content_hash()
    assert again.names == model.names
    assert np.signbit(np.asarray(again.reward)).tolist() == np.signbit(np.asarray(model.reward)).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_larger_models_read_back_to_the_last_bit(seed, tmp_path):
    model = random_pomdp(seed, storage=("dense", "blocked")[seed % 2])
    path = tmp_path / "model.POMDP"
    writer.write_pomdp(model, path)
    again = read_pomdp(path, storage=model.storage)
    assert again.content_hash() == model.content_hash()
    assert again.names == model.names
    assert path.read_text() == text_of(again)


def test_double_precision_reads_back_to_two_units_in_the_last_place(x64):
    for seed in range(40):
        model = random_pomdp(seed)
        first, second = model.to_dense(), back(text_of(model)).to_dense()
        for mine, theirs in zip(first[:2], second[:2], strict=True):
            np.testing.assert_array_max_ulp(mine, theirs, maxulp=2)
        np.testing.assert_array_equal(first.reward, second.reward)
        assert first.discount == second.discount


@pytest.mark.parametrize(
    ("rules", "name"), [("as_run", "gridworld"), ("as_written", "abandoned-power-plant")]
)
def test_domains_read_back(rules, name):
    from jatpo import domains

    model = domains.make(name, 0, rules)
    again = back(text_of(model))
    assert again.content_hash() == model.content_hash()
    assert (again.states, again.observations) == (model.states, model.observations)


def test_numbers_stand_for_states_in_large_files(monkeypatch):
    model = random_pomdp(1)
    assert model.names.states is not None
    named = text_of(model)
    monkeypatch.setattr(writer, "BY_NAME", 0)
    numbered = text_of(model)
    assert f"T: 0 : {naming.legal_names('state', model.states)[0]} : " in named
    assert "T: 0 : 0 : " in numbered
    assert back(numbered).content_hash() == back(named).content_hash() == model.content_hash()


def test_texts_do_not_depend_on_the_pieces_they_are_made_in(monkeypatch):
    model = random_pomdp(3)
    whole = text_of(model)
    monkeypatch.setattr(writer, "CHUNK", 1)
    assert text_of(model) == whole


def test_the_text_is_short_where_the_model_is_plain():
    model = POMDP.from_dense(
        np.tile(np.eye(3), (2, 1, 1)), np.full((2, 3, 2), 0.5), np.full((3, 2), -1.0), [0, 0.5, 0.5], 0.95
    )
    lines = text_of(model).splitlines()
    assert "discount: 0.95" in lines
    assert "start include: 1 2" in lines
    assert [line for line in lines if line.startswith("T")] == [f"T: * : {x} : {x} 1.0" for x in range(3)]
    assert [line for line in lines if line.startswith("R")] == ["R: * : * : * : * -1.0"]
    assert len(lines) < 25


def test_names_are_legal_different_and_close():
    names = [
        "agent 0,4 teammate 2,3",
        "#..T",
        "...T",
        "T",
        "start",
        "ok-1",
        "9 lives",
        "",
        "é",
        "é!",
        "o_T",
        "_",
    ]
    legal = naming.legal_names("observation", names)
    assert legal[0] == "agent_0_4_teammate_2_3"
    assert legal[5] == "ok-1"
    assert legal[10] == "o_T"
    assert len(set(legal)) == len(names)
    for name in legal:
        assert naming.LEGAL.fullmatch(name)
        assert name not in naming.RESERVED


@settings(max_examples=100)
@given(st.lists(NAMES, max_size=8, unique=True))
def test_any_names_survive_in_comments(names):
    legal = naming.legal_names("state", names)
    originals = naming.Originals()
    originals.collect("".join(naming.comments("state", legal, names)).encode("ascii"))
    assert originals.restore("state", tuple(legal)) == tuple(names)


def test_comments_of_others_change_no_names():
    text = '#jatpo state a "b"\n#jatpo state b "b"\n#jatpo state c no json\n#jatpo action 0 "zero"\n# jatpo\n'
    text += "discount: 1 values: reward states: a b actions: 1 observations: 1 T: 0 identity O: 0 uniform"
    model = back(text)
    assert model.states == ("a", "b")  # the original names would be the same
    assert model.actions == ("0",)


def test_decimals_are_the_shortest_that_read_back():
    values = np.array([0.1, 0.2, 0.7], np.float32)
    assert decimals.probability_texts(values, np.zeros(3, int), 1).tolist() == ["0.1", "0.2", "0.7"]
    assert decimals.shortest(np.array([0.1, 1e-7])).tolist() == ["0.1", "1e-07"]


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(JatpoError, match="is a directory: name a file in it"):
        writer.write_pomdp(random_pomdp(0), tmp_path)
    with pytest.raises(JatpoError, match=r"there is no directory .*none: make it first"):
        writer.write_pomdp(random_pomdp(0), tmp_path / "none" / "model.POMDP")
