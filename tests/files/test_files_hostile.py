"""Hostile or unlucky files: each is refused by one sentence, in little time and memory."""

import os
import time

import jax
import numpy as np
import pytest

from jatpo import domains
from jatpo.bench.peers import COST
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.files import guard, load, read_policy, read_pomdp
from jatpo.learn.jsonl import read_histories
from jatpo.solve import Stop, solve_models
from jatpo.solve.qmdp import QMDP

TIGER = """discount: 0.95
values: reward
states: left right
actions: listen open
observations: left right
T: * identity
O: * uniform
R: listen : * : * : * -1
R: open : * : * : * 10
"""
GRID = '[[model]]\ndomain = "gridworld"\nmodel = 0\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = " + "[" * 100_000 + "]" * 100_000, "nested more than 32 deep"),
        ("a" + " . a" * 20_000 + " = 1", "more than 32 parts"),
        ("horizon = " + "9" * 5000, "not a TOML file"),
        ("horizon = " + "9" * 50 + "\n" + GRID, "horizon = 9+..., expected a whole number"),
        ('[[model]]\nfile = "a\\u0000.POMDP"', "NUL character"),
        (GRID + 'policy = "a\\u0000.policy"', "NUL character"),
        ('[[model]]\ndomain = "gridworld\\u0000"', "no domain is called"),
        *(
            (GRID + f"overrides = {{ {name} = 1 }}", f"no parameter '{name}'")
            for name in ("self", "rules", "name")
        ),
        (GRID + "overrides = { width = 100000 }", "memory"),
        (GRID + "overrides = { noise = nan }", "noise=nan"),
        ("prior = [true]\n" + GRID, "expected a list of numbers"),
        ("[[model]]\n" * 5000, "5000 .*at most 4096"),
        ("#" * (guard.MB + 1), "more than the"),
        ("a" + " " * 500_000 + "b" + "." * 40, "more than 32 parts"),
    ],
)
def test_libraries_are_refused(tmp_path, text, message):
    path = tmp_path / "library.toml"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(JatpoError, match=message):
        load(path)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.alpha", "0\n1 {}x\n"), ("a.POMDP", "discount: {}x\n"), ("b.POMDP", "states: {}.5.\n")],
)
def test_a_long_word_that_is_almost_a_number_takes_no_time(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text.format("3" * 500_000))
    began = time.process_time()
    with pytest.raises(JatpoError):
        (read_policy if name.endswith("alpha") else read_pomdp)(path)
    assert time.process_time() - began < 5


def test_the_search_for_costs_passes_over_empty_lines_once(tmp_path):
    began = time.process_time()
    assert not COST.search("\n" * 500_000) and COST.search("\n\n values : cost\n")
    assert time.process_time() - began < 5


@pytest.mark.parametrize("line", ["[" * 100_000, '{"actions":[' + "9" * 5000 + '],"observations":[0]}'])
def test_histories_are_refused(tmp_path, line):
    path = tmp_path / "h.jsonl"
    path.write_text(line)
    with pytest.raises(JatpoError, match=r"h\.jsonl:1"):
        read_histories(path, ["a"], ["z"])


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    mark = "\ufeff"
    (tmp_path / "m.POMDP").write_text(mark + TIGER, encoding="utf-8")
    assert read_pomdp(tmp_path / "m.POMDP").num_states == 2
    (tmp_path / "l.toml").write_text(mark + '[[model]]\nfile = "m.POMDP"', encoding="utf-8")
    assert load(tmp_path / "l.toml").num_models == 1
    (tmp_path / "h.jsonl").write_text(mark + '{"actions": [0], "observations": [0]}', encoding="utf-8")
    assert read_histories(tmp_path / "h.jsonl", ["a"], ["z"]).num_histories == 1
    (tmp_path / "p.alpha").write_text(mark + "0\n1 2\n", encoding="utf-8")
    assert read_policy(tmp_path / "p.alpha").vectors.shape == (1, 2)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no /dev/zero")
@pytest.mark.parametrize("suffix", ["POMDP", "toml", "policy", "alpha"])
def test_devices_and_pipes_are_refused(tmp_path, suffix):
    (tmp_path / f"zero.{suffix}").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    read = read_policy if suffix in ("policy", "alpha") else load
    for name in ("zero", "pipe"):
        with pytest.raises(JatpoError, match="is a device or a pipe"):
            read(tmp_path / f"{name}.{suffix}")
    if suffix == "POMDP":
        with pytest.raises(JatpoError, match="is a device or a pipe"):
            read_pomdp("/dev/zero")
        with pytest.raises(JatpoError, match="NUL character"):
            read_pomdp("a\0.POMDP")


def policy_text(body: str, length: int, count: int) -> str:
    head = f'<AlphaVector vectorLength="{length}" numObsValue="1" numVectors="{count}">'
    return f'<Policy version="0.1" type="value">{head}{body}</AlphaVector></Policy>'


def test_policies_of_many_entries_take_a_moment(tmp_path):
    entries = "".join(f"<Entry>{place} {place}.5</Entry>" for place in range(100_000))
    body = f'<SparseVector action="0" obsValue="0">{entries}</SparseVector>'
    (tmp_path / "sparse.policy").write_text(policy_text(body, 200_000, 1))
    body = '<Vector action="0" obsValue="0">1.5</Vector>' * 100_000
    (tmp_path / "dense.policy").write_text(policy_text(body, 1, 100_000))
    began = time.process_time()
    sparse = np.asarray(read_policy(tmp_path / "sparse.policy").vectors)
    np.testing.assert_array_equal(sparse[0, :100_000], np.arange(100_000) + 0.5)
    assert not sparse[0, 100_000:].any()
    assert read_policy(tmp_path / "dense.policy").vectors.shape == (100_000, 1)
    assert time.process_time() - began < 8  # it was 100 microseconds for each


@pytest.mark.parametrize("entry", ["1", "1 2 3", "x 2", "9 1", "0.5 1", "-1 1", ""])
def test_a_wrong_entry_is_named(tmp_path, entry):
    body = (
        f'<SparseVector action="0" obsValue="0">\n<Entry>0 1</Entry>\n<Entry>{entry}</Entry>\n</SparseVector>'
    )
    path = tmp_path / "p.policy"
    path.write_text(policy_text(body, 3, 1))
    with pytest.raises(JatpoError, match=r"p\.policy:3: found "):
        read_policy(path)


@pytest.mark.parametrize(
    ("reward", "discount", "message"),
    [
        ("1e39", "0.5", "holds numbers up to"),
        ("-1e39", "0.5", "holds numbers up to"),
        ("1e38", "0.99", "values up to 1e.40"),
        ("1e29", "0.5", "values up to 2e.29"),
        ("1e20", "0.99", None),
    ],
)
def test_rewards_and_values_beyond_what_a_policy_can_hold_are_refused(tmp_path, reward, discount, message):
    path = tmp_path / "m.POMDP"
    path.write_text(TIGER.replace("10", reward).replace("0.95", discount))

    def solved() -> float:
        model = read_pomdp(path)
        return solve_models([model], QMDP(), Stop(), key=jax.random.key(0))[0].upper

    if message is None:
        assert np.isfinite(solved())
    else:
        with pytest.raises(JatpoError, match=message):
            solved()


def test_control_characters_never_reach_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    escape, other = "\x1b[31m", "\x9b31m"
    (tmp_path / "quoted.POMDP").write_text(TIGER + '#jatpo state left "\\u001b[31m"\n')
    (tmp_path / "plain.POMDP").write_text(TIGER.replace("listen", f"li{other}sten"))
    (tmp_path / f"m{escape}.POMDP").write_text(TIGER)
    (tmp_path / "l.toml").write_text(
        f'name = "a\\u001b[1m"\n[[model]]\nlabel = "{other}"\nfile = "m{other}.POMDP"'
    )
    (tmp_path / f"m{other}.POMDP").write_text(TIGER)
    for name in (
        "quoted.POMDP",
        "plain.POMDP",
        f"m{escape}.POMDP",
        f"no{escape}.POMDP",
        "l.toml",
        f"x{escape}",
    ):
        for command in (["check"], ["info"], ["info", "--json"]):
            run([*command, name])
    shown = "".join(capsys.readouterr())
    assert "ok: " in shown
    assert not [letter for letter in shown if letter != "\n" and not letter.isprintable()]


@pytest.mark.parametrize("letter", ["\x1b[31m", "\x00", "\x07", "\x1f"])
def test_control_characters_do_not_part_names(letter, tmp_path):
    """They counted as blanks, so that a name with one was read as two states."""
    path = tmp_path / "model.POMDP"
    path.write_text(f"discount: 0.9\nvalues: reward\nstates: left{letter}x right\nactions: go\n")
    with pytest.raises(
        JatpoError, match=rf"model.POMDP:3: found the control character 0x{ord(letter[0]):02x}"
    ):
        read_pomdp(path)


def test_grids_that_do_not_fit_are_refused_before_they_are_built():
    with pytest.raises(JatpoError, match=r"needs .* of memory"):
        domains.make("gridworld", width=3000)
