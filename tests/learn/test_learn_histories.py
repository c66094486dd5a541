"""Histories: the type, the file format and its errors, and how they are simulated."""

import json

import jax
import numpy as np
import pytest

import tiny_domain
from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.evaluate import Scenario
from jatpo.evaluate.agents import catalogue
from jatpo.learn import Histories, History, read_histories, simulate, write_histories

ACTIONS, OBSERVATIONS = ("listen", "open left", "open right"), ("a", "b", "#..T")
GOOD = {"actions": ["listen", 2], "observations": ["#..T", 0]}


def read(path, *lines):
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return read_histories(path, ACTIONS, OBSERVATIONS)


def test_names_and_numbers_comments_and_other_keys(tmp_path):
    longer = {"actions": [1, 0, 0], "observations": ["a", "b", "a"], "true model": 3}
    found = read(tmp_path / "h.jsonl", "# two episodes", GOOD, "", longer)
    np.testing.assert_array_equal(found.actions, [[0, 2, 0], [1, 0, 0]])
    np.testing.assert_array_equal(found.observations, [[2, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(found.mask, [[True, True, False], [True, True, True]])
    assert (found.num_histories, found.num_steps) == (2, 3)


BAD = {
    "no JSON": ('{"actions": [', "h.jsonl:2: .*JSON"),
    "no object": (
        "[1, 2]",
        r'h.jsonl:2: expected an object \{"actions": \[\.\.\.\], "observations": \[\.\.\.\]\}',
    ),
    "misspelt": (
        {"action": [0], "observations": [0]},
        r"""h.jsonl:2: expected a list under "actions"; did you mean 'action'\?""",
    ),
    "missing": ({"actions": [0]}, 'h.jsonl:2: expected a list under "observations"'),
    "no list": ({"actions": 3, "observations": [0]}, 'h.jsonl:2: expected a list under "actions"'),
    "lengths": (
        {"actions": [0, 1], "observations": [0]},
        "h.jsonl:2: 2 actions and 1 observations",
    ),
    "empty": ({"actions": [], "observations": []}, "h.jsonl:2: .*no steps"),
    "unknown name": (
        {"actions": ["listen", "open let"], "observations": [0, 0]},
        r"""h.jsonl:2: step 1 has action "open let"; did you mean 'open left'\?""",
    ),
    "too large": (
        {"actions": [0], "observations": [3]},
        "h.jsonl:2: step 0 has observation 3, expected a name or a number from 0 to 2",
    ),
    "negative": ({"actions": [-1], "observations": [0]}, "h.jsonl:2: step 0 has action -1, expected"),
    "a truth value": (
        {"actions": [True], "observations": [0]},
        "h.jsonl:2: step 0 has action true, expected",
    ),
    "a fraction": ({"actions": [0.5], "observations": [0]}, "h.jsonl:2: step 0 has action 0.5, expected"),
    "nested": ({"actions": [[0]], "observations": [0]}, r"h.jsonl:2: step 0 has action \[0\], expected"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named(name, tmp_path):
    line, message = BAD[name]
    with pytest.raises(JatpoError, match=message):
        read(tmp_path / "h.jsonl", GOOD, line, GOOD)


def test_files_that_hold_nothing(tmp_path):
    with pytest.raises(JatpoError, match=r"h\.jsonl .*no histories"):
        read(tmp_path / "h.jsonl", "# nothing")
    with pytest.raises(
        JatpoError, match=r"gone\.jsonl .*\(No such file or directory\)|gone\.jsonl does not exist"
    ):
        read_histories(tmp_path / "gone.jsonl", ACTIONS, OBSERVATIONS)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JatpoError, match=r"binary .*UTF-8"):
        read_histories(tmp_path / "binary", ACTIONS, OBSERVATIONS)


def test_what_is_written_reads_back(tmp_path):
    found = read(tmp_path / "h.jsonl", GOOD, {"actions": [1, 0, 0], "observations": ["a", "b", "#..T"]})
    write_histories(tmp_path / "again.jsonl", found, ACTIONS, OBSERVATIONS)
    again = read_histories(tmp_path / "again.jsonl", ACTIONS, OBSERVATIONS)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "open left" in (tmp_path / "again.jsonl").read_text()


def test_lists_and_batches():
    one, two = History(np.array([1, 2]), np.array([0, 1])), History(np.array([2]), np.array([2]))
    batch = Histories.from_list([one, two])
    back = batch.to_list()
    np.testing.assert_array_equal(back[1].actions, [2])
    np.testing.assert_array_equal(batch.take([1, 0]).mask, [[True, False], [True, True]])
    with pytest.raises(JatpoError, match="history 1 has 1 actions and 2 observations: give one"):
        Histories.from_list([one, History(np.array([1]), np.array([0, 1]))])
    with pytest.raises(JatpoError, match="there are no histories: give at least one"):
        Histories.from_list([])


def test_simulated_histories_are_the_agents_own():
    with tiny_domain.registered() as name:
        scenario = Scenario(domains.library(name))
        agent = catalogue.get("random")
        found = simulate(jax.random.key(1), agent, scenario, {}, 6, 50)
        again = simulate(jax.random.key(1), agent, scenario, {}, 6, 20)
    assert found.actions.shape == found.observations.shape == found.mask.shape == (50, 6)
    assert found.mask.all()
    assert set(np.unique(found.actions)) == {0, 1, 2, 3} and set(np.unique(found.observations)) == {0, 1, 2}
    np.testing.assert_array_equal(found.actions[:20], again.actions)
    np.testing.assert_array_equal(found.observations[:20], again.observations)
