"""What is said about a bad file: the file, the line, what was found, what was expected. One sentence each."""

import io

import numpy as np
import pytest

from cassandra_files import Author, random_pomdp
from jatpo.errors import JatpoError
from jatpo.files import pomdp_file, read_pomdp, reader
from jatpo.files.writer import write_to

HEAD = "discount: 0.9\nvalues: reward\nstates: left right\nactions: 2\nobservations: dim lit\n"
BODY = "T: * identity\nO: * uniform\n"
PROBABILITY = "expected a probability from 0 to 1"
STATE = "expected a state by name or by a number from 0 to 1"

# text after the preamble (from line 6 on), and the message after the file name
STATEMENTS = [
    ("T: 0 : left : right 1.5", ":6: found '1.5', " + PROBABILITY),
    ("T: 0 : left : right -0.5", ":6: found '-0.5', " + PROBABILITY),
    ("O: 0 : left 1.5 -.5", ":6: found '1.5', " + PROBABILITY),
    ("T: 0 : left : right p", ":6: found 'p', expected one probability after the indices of T"),
    ("T: 0 : left : right 1e999", ":6: found '1e999', expected one probability after the indices of T"),
    ("T: 0 : left : right nan", ":6: found 'nan', expected one probability after the indices of T"),
    ("T: 0 : left : right 0x1", ":6: found '0x1', expected one probability after the indices of T"),
    ("T: 0 : left : right 1_0", ":6: found '1_0', expected one probability after the indices of T"),
    ("T: 0 : left : right 1 0", ":6: found '0', expected one probability after the indices of T"),
    ("T: 0 : left : right\nO: * uniform", ":7: found 'O', expected one probability after the indices of T"),
    ("R: 0 : left : right : lit -", ":6: found the end of the file, expected a number after the sign"),
    ("R: 0 : left : right : lit - - 3", ":6: found '-', expected one number after the indices of R"),
    ("T: 0 :\nlefd : right 1", ":7: found 'lefd', " + STATE + "; did you mean 'left'?"),
    ("T: 0 : 2 : 0 1", ":6: found '2', " + STATE),
    ("T: 0 : -1 : 0 1", ":6: found '-1', " + STATE),
    ("T: 0 : : 0 1", ":6: found ':', " + STATE),
    ("T: go : 0 : 0 1", ":6: found 'go', expected an action by a number from 0 to 1"),
    ("O: 0 : left : dark 1", ":6: found 'dark', expected an observation by name or by a number from 0 to 1"),
    ("T:\n\n", ":8: found the end of the file, expected the action of T"),
    ("T: 0 : left :", ":6: found the end of the file, expected the state of T"),
    ("R: 0 1 2", ":6: found '1', expected ':' and the state of R"),
    ("T: 0 : left 1", ":6: found the end of the file, expected 1 more numbers for a row of T"),
    ("T: 0 : left x", ":6: found 'x', expected 2 numbers for a row of T or 'uniform' or 'reset'"),
    (
        "T: 0 : left identity",
        ":6: found 'identity', expected 2 numbers for a row of T or 'uniform' or 'reset'",
    ),
    ("T: 0 reset", ":6: found 'reset', expected 4 numbers for a matrix of T or 'uniform' or 'identity'"),
    ("O: 0 : left reset", ":6: found 'reset', expected 2 numbers for a row of O or 'uniform'"),
    ("R: 0 : left uniform", ":6: found 'uniform', expected 4 numbers for a matrix of R"),
    ("T: 0 1 0\n0 1 1", ":7: found '1', expected the next statement, for a matrix of T has 4 numbers"),
    ("T: 0 uniform 1", ":6: found '1', expected the next statement after 'uniform'"),
    ("T: 0 1 0 0\nO: 0 uniform", ":7: found 'O', expected 1 more numbers for a matrix of T"),
    (
        "Q: 0 uniform",
        ":6: found 'Q', expected one of discount:, values:, states:, actions:, observations:, start:",
    ),
    ("T: * identity\nstates: 3", ":7: found 'states', expected 'states:' before the first T, O or R"),
    ("discount: 0.5", ":6: found 'discount', expected no second 'discount:'"),
    ("start: 0.5 0.25", ":6: found start probabilities that sum to 0.75, expected 1"),
    ("start: 0.5 0.25 0.25", ":6: found 3 start probabilities, expected 2, one for each state"),
    ("start: 1.5 -0.5", ":6: found '1.5', " + PROBABILITY),
    ("start: lft", ":6: found 'lft', expected 2 probabilities, 'uniform' or a state; did you mean 'left'?"),
    ("start: 7", ":6: found '7', expected 2 probabilities, 'uniform' or a state"),
    ("start:", ":6: found the end of the file, expected something after 'start:'"),
    ("start include:\nT: * identity", ":7: found 'T', " + STATE),
    ("start include: *", ":6: found '*', expected a state by name or number"),
    ("start exclude: 0 1", ":6: found 'start exclude:' of all states, expected one to be left"),
    ("O: * uniform\nT: 0 identity", ": transition[a=1, x=0 (left)] sums to 0, expected 1"),
    (BODY + "T: 1 : left : right 0.5", ": transition[a=1, x=0 (left)] sums to 1.5, expected 1"),
    (BODY + "O: 1 : right : lit 0.25", ": observation[a=1, y=1 (right)] sums to 0.75, expected 1"),
    ("T: * identity", ": observation has no row for state 0 (left), expected one for every state"),
    ("T: 0 : left uniform\nO: 0 uniform", ": transition has no row for state 1 (right), expected one"),
]

# whole files, and the message
FILES = [
    ("", ": found the end of the file, expected 'discount:'"),
    ("discount: 1", ": found the end of the file, expected 'values:'"),
    ("discount: 1 values: cost", ": found the end of the file, expected 'states:' before it"),
    ("discount: 1 values: cost states: 2", ": found the end of the file, expected 'actions:' before it"),
    ("T: * identity", ":1: found 'T', expected 'states:' before it"),
    ("states: 2\nT: * identity", ":2: found 'T', expected 'actions:' before it"),
    (
        "states: 2 actions: 1\nO: * uniform",
        ":2: found 'O', expected 'observations:' in the preamble of a file with O",
    ),
    ("hello world", ":1: found 'hello', expected a statement such as 'discount:', 'states:' or 'T:'"),
    ("\n\n0.5 states: 2", ":3: found '0.5', expected a statement such as 'discount:', 'states:' or 'T:'"),
    ("discont: 1", ":1: found 'discont', expected one of discount:, values:, states:"),
    ("discount: 1.5", ":1: found '1.5', expected a discount from 0 to 1"),
    ("discount: x", ":1: found 'x', expected a discount from 0 to 1"),
    ("discount: 1 2", ":1: found '2', expected the next statement after '1'"),
    ("values: cost cost", ":1: found 'cost', expected the next statement after 'cost'"),
    ("discount:\nvalues: cost", ":2: found 'values', expected a discount from 0 to 1"),
    ("discount:\n", ":2: found the end of the file, expected something after 'discount:'"),
    ("values: money", ":1: found 'money', expected 'reward' or 'cost'"),
    ("states: 0", ":1: found '0', expected a number of states from 1 to 2147483647"),
    ("states: 99999999999999999999", ":1: found '99999999999999999999', expected a number of states from 1"),
    ("states: a b\na", ":2: found 'a', expected a different name for each state"),
    (
        "states: a T",
        ":1: found 'T', expected the name of a state, which begins with a letter and is not a keyword",
    ),
    ("observations: 3 a", ":1: found '3', expected the name of an observation, which begins with a letter"),
    ("states: " + "x" * 99 + " * ", ":1: found '*', expected the name of a state"),
    ("x" * 99, ":1: found '" + "x" * 40 + "...', expected a statement"),
    ("\x00\x7f", ":1: found the control character 0x00: remove it"),
]


def message_of(text, size=reader.WINDOW):
    """What is said about a text that must not be read."""
    with pytest.raises(JatpoError) as caught:
        read_text(text, size)
    return str(caught.value)


def read_text(text, size):
    found = reader.Reader("f.POMDP")
    found.read(io.BytesIO(text.encode()), size)
    return pomdp_file.model(found.preamble, found.specs, found.originals, storage="auto", dtype=None)


@pytest.mark.parametrize(("text", "message"), STATEMENTS, ids=[case[0][:30] for case in STATEMENTS])
def test_bad_statements(text, message):
    for size in (reader.WINDOW, 40):  # the line is right in every window
        found = message_of(HEAD + text, size)
        assert found.startswith("f.POMDP" + message)
        assert "\n" not in found


@pytest.mark.parametrize(("text", "message"), FILES, ids=[case[0][:30] for case in FILES])
def test_bad_files(text, message):
    assert message_of(text).startswith("f.POMDP" + message)


def test_the_first_of_several_mistakes_is_named():
    good = "\n".join(f"T: {k % 2} : {k // 2 % 2} : left 1" for k in range(300))
    text = HEAD + good + "\nT: 0 : left : rihgt 1\nT: 0 : oops\nT: 9 : left : right 1"
    assert message_of(text).startswith("f.POMDP:306: found 'rihgt'")


def test_a_line_far_into_the_file_is_counted_over_windows_and_comments():
    text = HEAD + "# a comment: T: 0\n" * 500 + BODY + "\n" * 500 + "T: 0 : left : right two"
    for size in (reader.WINDOW, 1000, 64):
        assert message_of(text, size).startswith("f.POMDP:1008: found 'two'")


def test_missing_files(tmp_path):
    with pytest.raises(JatpoError, match=r"none\.POMDP"):
        read_pomdp(tmp_path / "none.POMDP")
    with pytest.raises(JatpoError, match=r"is a directory: name a file in it"):
        read_pomdp(tmp_path)


# The fuzzer: files that are right, mutated token by token and byte by byte

WORDS = "* : T O R uniform identity reset start include exclude states discount values - + nan inf 1e999"
WORDS += " -1 2 0.5 1.0 999999999999 1000000000 3000000 10000 x \x00 é # 0x10 1_0 1e .. T: O:* R:*:* ::"
STATEMENT_WORDS = [
    "R: * : *",
    "O: * uniform",
    "T: * identity",
    "actions: 3",
    "states: 5",
    "start include: 0",
    "",
]


def mutated(text, rng):
    """`text` with a few random changes."""
    for _ in range(int(rng.integers(1, 4))):
        tokens = text.split(" ")
        at, other = (int(rng.integers(len(tokens))) for _ in range(2))
        low = int(rng.integers(len(text) + 1))
        word = rng.choice([*WORDS.split(" "), *STATEMENT_WORDS])
        change = int(rng.integers(7))
        if change == 0:
            del tokens[at]
        elif change == 1:
            tokens[at] = word
        elif change == 2:
            tokens.insert(at, word)
        elif change == 3:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        text = " ".join(tokens)
        if change == 4:
            text = text[:low] + text[low + int(rng.integers(1, 40)) :]
        elif change == 5:
            text = text[:low] + chr(int(rng.integers(1, 256))) + text[low:]
        elif change == 6:
            text = text[:low]
    return text


def right_file(seed):
    """A file that reads well: our own writing of a random model, or a random one that need not sum to 1."""
    if seed % 3 == 0:
        return Author(seed).file()
    file = io.StringIO()
    write_to(file, random_pomdp(seed))
    return file.getvalue()


@pytest.mark.filterwarnings("ignore::jatpo.errors.RenormalisedWarning")
def test_no_input_does_more_than_fail(monkeypatch):
    monkeypatch.setattr("jatpo.memory.free_bytes", lambda: 200_000_000)
    read = 0
    for seed in range(300):
        text = mutated(right_file(seed), np.random.default_rng(seed))
        try:
            model = read_text(text, 50 if seed % 4 == 0 else reader.WINDOW)
        except JatpoError as error:
            assert str(error).startswith("f.POMDP:")
            assert "\n" not in str(error)
        else:
            np.testing.assert_allclose(model.to_dense().transition.sum(axis=2), 1, atol=1e-5)
            read += 1
    assert 10 < read < 250  # mutations do hit, and do not hit everything
