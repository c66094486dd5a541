"""Policies in .alpha and .policy files: both directions, both forms of vectors, what is said of bad ones."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jatpo.errors import JatpoError
from jatpo.files import read_policy, read_pomdp, write_policy
from jatpo.solve.policy import NEVER, Policy

DATA = Path(__file__).parent.parent / "data"
TIGER = [[-1, -1], [-100, 10], [10, -100]]
XML = '<Policy type="value"><AlphaVector vectorLength="2" numVectors="1">{}</AlphaVector></Policy>'


def policy_of(vectors, actions):
    return Policy(jnp.asarray(vectors, jnp.float32), jnp.asarray(actions, jnp.int32))


@pytest.mark.parametrize("suffix", ["alpha", "policy"])
@pytest.mark.parametrize("with_model", [False, True])
def test_tiger(suffix, with_model):
    model = read_pomdp(DATA / "tiger.POMDP") if with_model else None
    policy = read_policy(DATA / f"tiger.{suffix}", model)
    assert policy.vectors.tolist() == TIGER
    assert policy.actions.tolist() == [0, 1, 2]
    assert policy.vectors.dtype == jnp.float32
    assert policy.actions.dtype == jnp.int32


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    vectors=arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 5)),
        elements=st.floats(-(2.0**70), 2.0**70, width=32),
    ),
    suffix=st.sampled_from([".alpha", ".policy", ".policyx", ".ALPHA"]),
)
def test_what_is_written_reads_back_to_the_last_bit(vectors, suffix, tmp_path):
    actions = np.arange(len(vectors)) % 3
    path = tmp_path / f"some{suffix}"
    write_policy(policy_of(vectors, actions), path)
    again = read_policy(path)
    np.testing.assert_array_equal(np.asarray(again.vectors), vectors)
    np.testing.assert_array_equal(np.asarray(again.actions), actions)


def test_padding_is_left_out(tmp_path):
    write_policy(policy_of([[1, 2], [NEVER, NEVER], [3, 4]], [0, 0, 1]), tmp_path / "a.alpha")
    assert (tmp_path / "a.alpha").read_text() == "0\n1.0 2.0\n\n1\n3.0 4.0\n\n"
    with pytest.raises(JatpoError, match="the policy has no vectors: solve the model first"):
        write_policy(policy_of([[NEVER, NEVER]], [0]), tmp_path / "a.alpha")


def test_sizes_are_in_the_xml(tmp_path):
    write_policy(policy_of([[1, 2]], [0]), tmp_path / "a.policy")
    assert 'vectorLength="2" numObsValue="1" numVectors="1"' in (tmp_path / "a.policy").read_text()


@pytest.mark.parametrize(
    "text", ["0\n1 2\n\n1\n3 4\n", "0 1\n2\n1\n3\n4", "# both\n0\n1 2 1 3 4", "listen 1 2 open-left 3 4"]
)
def test_alpha_with_a_model_is_a_stream_of_numbers(text, tmp_path):
    (tmp_path / "a.alpha").write_text(text)
    policy = read_policy(tmp_path / "a.alpha", read_pomdp(DATA / "tiger.POMDP"))
    assert policy.vectors.tolist() == [[1, 2], [3, 4]]
    assert policy.actions.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "states"),
    [("0\n1 2 3\n", 3), ("0\n1\n1\n2\n", 1), ("0\n1 2\n3 4\n1\n5 6\n7 8", 4), ("\n0\n\n1 2", 2)],
)
def test_alpha_without_a_model_goes_by_lines(text, states, tmp_path):
    (tmp_path / "a.alpha").write_text(text)
    assert read_policy(tmp_path / "a.alpha").vectors.shape[1] == states


ALPHA_ERRORS = [
    ("", "a.alpha:1: found the end of the file, expected the number of an action"),
    ("0\n1 2 3\n", "a.alpha:2: found 0 values for the last vector, expected an action and then 2 values"),
    ("0\n1 2\n\n1\n3", "a.alpha:4: found 1 values for the last vector, expected an action and then 2 values"),
    ("0\n1 x", "a.alpha:2: found 'x', expected a number"),
    ("jump\n1 2", "a.alpha:1: found 'jump', expected an action"),
    ("0.5\n1 2", "a.alpha:1: found '0.5', expected the number of an action before 2 values"),
    ("0\n1 2\n\n-1\n3 4", "a.alpha:4: found '-1', expected the number of an action before 2 values"),
    ("0\n1 nan", "a.alpha:2: found 'nan', expected a number"),
    ("3\n1 2", "a.alpha: found action 3 of vector 0, expected an action of the model, from 0 to 2"),
    ("0\n1 2e99", "a.alpha: found the value 2e+99, expected at most 3.40282e+38 (float32)"),
]


@pytest.mark.parametrize(("text", "message"), ALPHA_ERRORS, ids=[case[0] for case in ALPHA_ERRORS])
def test_bad_alpha_files(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.alpha").write_text(text)
    with pytest.raises(JatpoError) as caught:
        read_policy("a.alpha", read_pomdp(DATA / "tiger.POMDP"))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["0", "0 1 2"])
def test_alpha_without_a_model_needs_lines(text, tmp_path):
    (tmp_path / "a.alpha").write_text(text)
    with pytest.raises(JatpoError, match=r"a\.alpha:1: found .*, expected .* action"):
        read_policy(tmp_path / "a.alpha")


XML_ERRORS = [
    ("", "a.policy:1: found broken XML (no element found), expected an APPL policy"),
    (
        '<?xml version="1.0" encoding="x"?>',
        "a.policy:1: found an unknown encoding, expected ISO-8859-1 or UTF-8",
    ),
    ("<Policy>", "a.policy:1: found broken XML (no element found), expected an APPL policy"),
    ("0\n1 2", "a.policy:1: found broken XML (syntax error), expected an APPL policy"),
    ("<pomdpx/>", "a.policy:1: found <pomdpx>, expected <Policy>"),
    ("<Policy/>", "a.policy: found no <Vector>, expected a policy of alpha vectors"),
    (
        '<Policy type="graph"/>',
        "a.policy:1: found a policy of type 'graph', expected type 'value', alpha vectors",
    ),
    ("<Policy><Vector/></Policy>", "a.policy:1: found <Vector> in <Policy>, expected it in <AlphaVector>"),
    (
        "<Policy><AlphaVector/></Policy>",
        "a.policy:1: found no attribute vectorLength, expected it to be an integer",
    ),
    (
        XML.format("<Vector>1 2</Vector>"),
        "a.policy:1: found no attribute action, expected it to be an integer",
    ),
    (
        XML.format('<Vector action="x">1 2</Vector>'),
        "a.policy:1: found action='x', expected an integer from 0",
    ),
    (
        XML.format('<Vector action="0">1</Vector>'),
        "a.policy:1: found a vector of 1 values, expected vectorLength=2",
    ),
    (XML.format('<Vector action="0">1 x</Vector>'), "a.policy:1: found '1 x', expected numbers"),
    (
        XML.format('<Vector action="0" obsValue="1">1 2</Vector>'),
        "a.policy:1: found a vector for an observed part",
    ),
    (XML.format(""), "a.policy: found no <Vector>, expected a policy of alpha vectors"),
    (XML.format('<Vector action="0">1 2</Vector>' * 2), "a.policy: found 2 vectors, expected numVectors=1"),
    (
        XML.format('<SparseVector action="0">\n<Entry>2 1</Entry></SparseVector>'),
        "a.policy:2: found another <Entry>, expected an index from 0 to 1 and a value",
    ),
    (
        '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><Policy>&d;</Policy>',
        "a.policy:1: found a document type, expected an APPL policy, which has none",
    ),
    (
        XML.format('<Vector action="4">1 2</Vector>'),
        "a.policy: found action 4 of vector 0, expected an action",
    ),
    (
        XML.format('<Vector action="0">1 2 3</Vector>').replace('Length="2"', 'Length="3"'),
        "a.policy: found vectors of 3 values, expected 2, one for each state of the model",
    ),
]


@pytest.mark.parametrize(("text", "message"), XML_ERRORS, ids=[case[1][8:60] for case in XML_ERRORS])
def test_bad_xml_files(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.policy").write_text(text)
    with pytest.raises(JatpoError) as caught:
        read_policy("a.policy", read_pomdp(DATA / "tiger.POMDP"))
    assert str(caught.value).startswith(message)


def test_vectors_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("jatpo.memory.free_bytes", lambda: 10**9)
    text = XML.format('<SparseVector action="0"/>' * 9).replace('Length="2"', 'Length="100000000"')
    (tmp_path / "a.policy").write_text(text)
    with pytest.raises(
        JatpoError, match=r"1 vectors of 100000000 values needs 2.4 GB of memory and 1.0 GB are free"
    ):
        read_policy(tmp_path / "a.policy")


def test_files_that_are_none(tmp_path):
    with pytest.raises(JatpoError, match=r"none\.alpha"):
        read_policy(tmp_path / "none.alpha")
    with pytest.raises(JatpoError, match=r"'.txt' of a.txt"):
        read_policy("a.txt")
    (tmp_path / "d.alpha").mkdir()
    with pytest.raises(JatpoError, match=r"d.alpha is a directory"):
        read_policy(tmp_path / "d.alpha")


def test_no_policy_file_does_more_than_fail(tmp_path):
    """Random damage to right files, byte by byte."""
    rng = np.random.default_rng(0)
    model = read_pomdp(DATA / "tiger.POMDP")
    read = 0
    for turn in range(200):
        suffix = (".alpha", ".policy")[turn % 2]
        text = bytearray((DATA / f"tiger{suffix}").read_bytes())
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(text)))
            text[at : at + int(rng.integers(0, 9))] = rng.bytes(int(rng.integers(0, 3)))
        path = tmp_path / f"a{suffix}"
        path.write_bytes(bytes(text))
        try:
            assert read_policy(path, model).vectors.shape[1] == 2
            read += 1
        except JatpoError as error:
            assert str(error).startswith(f"{path}:")
    assert 5 < read < 190
