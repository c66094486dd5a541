"""`jatpo compare`, with a small program in the place of pomdpsol."""

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from jatpo.bench import peers
from jatpo.bench.peers import Bounds, model_file, read_pomdpsol, read_scikit_decide, run_bounded
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.files import load

TIGER = Path(__file__).parent.parent / "data" / "tiger.POMDP"
TABLE = """
Loading the model ...
-----------------------------------------------------------
 Time   |#Trial |#Backup |LBound    |UBound    |Precision  |#Alphas |#Beliefs
-----------------------------------------------------------
 0       0       0        -20        92.8205   112.82      3        1
 0.01    2       51       19.3       19.5      0.2         5        14
-----------------------------------------------------------

SARSOP finishing ...
"""


@pytest.fixture
def workplace(monkeypatch, tmp_path):
    """A directory with a program `pomdpsol` that `fake` writes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def fake(place: Path, body: str) -> str:
    """A program that runs `body` in Python."""
    program = place / "bin" / "pomdpsol"
    program.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def compared(capsys, *options: str) -> dict:
    assert run(["compare", str(TIGER), "--seconds", "0.2", "--quiet", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_bounds_of_both_solvers(workplace, capsys):
    fake(workplace, f"assert open(sys.argv[-1]).read().count('discount') == 1\nprint({TABLE!r})")
    answer = compared(capsys, "--plot", "bounds.svg")
    theirs = [row for row in answer["bounds"] if row["solver"] == "pomdpsol"]
    assert [(row["seconds"], row["lower"], row["upper"]) for row in theirs] == [
        (0, -20, 92.8205),
        (0.01, 19.3, 19.5),
    ]
    ours = [row for row in answer["bounds"] if row["solver"] == "jatpo graph"]
    assert ours[-1]["lower"] <= 19.372 and ours[-1]["upper"] >= 19.371 and ours[-1]["gap"] >= 0
    assert "<svg" in Path("bounds.svg").read_text()
    assert all(note.startswith("scikit-decide") and "not installed" in note for note in answer["notes"])


def test_an_absent_solver_is_a_note(workplace, capsys):
    answer = compared(capsys)
    assert {row["solver"] for row in answer["bounds"]} == {"jatpo graph"}
    assert any("pomdpsol" in note and "not installed" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("body", "problem"),
    (
        ("print('reading failed'); sys.exit(3)", "ended with code 3: reading failed"),
        ("print('hello')", "no table"),
        (f"print({TABLE!r}.replace('19.3 ', 'nan  '))", "not one of its table"),
        (f"print({TABLE!r}.replace(' 51 ', ' '))", "not one of its table"),
        (f"print({TABLE!r}.replace('0.01 ', '-0.1 '))", "not one of its table"),
        (f"print({TABLE!r}.partition(' 0       0 ')[0])", "without bounds"),
    ),
)
def test_a_solver_that_fails_is_one_sentence(body, problem, workplace, capsys):
    fake(workplace, body)
    answer = compared(capsys)
    (note,) = (note for note in answer["notes"] if note.startswith("pomdpsol"))
    assert note.startswith("pomdpsol failed") and problem in note


def test_what_scikit_decide_prints():
    text = "[info] Running\nbounds 0.01 -20.0 200.0\nbounds 0.5 19.3 19.5\n[info] finished"
    assert read_scikit_decide(text) == [Bounds(0.01, -20.0, 200.0), Bounds(0.5, 19.3, 19.5)]
    for wrong in ("[info] finished", "bounds 0.1 nan 3.0", "bounds 0.1 2.0"):
        with pytest.raises(JatpoError, match="scikit-decide"):
            read_scikit_decide(wrong)


@pytest.mark.parametrize("line", ["bounds 1 x 2", "bounds 1 2", "bounds nan 1 2", "nothing"])
def test_other_lines_of_scikit_decide_are_no_bounds(line):
    with pytest.raises(JatpoError, match=r"three finite numbers|no bounds"):
        read_scikit_decide(line + "\n")


def test_scikit_decide_bounds_the_value(tmp_path):
    pytest.importorskip("skdecide")
    for peer in peers.peers()[1:]:
        last = peer.run(sys.executable, TIGER, 1.0)[-1]
        assert last.lower <= 19.372 <= last.upper and last.lower > 0


def test_what_pomdpsol_prints():
    assert read_pomdpsol(TABLE) == [Bounds(0.0, -20.0, 92.8205), Bounds(0.01, 19.3, 19.5)]


def test_a_program_that_does_not_stop_is_stopped_with_its_children(workplace):
    body = (
        "import os, time\nchild = os.fork()\n"
        "if child:\n    open('pids', 'w').write(f'{os.getpid()} {child}')\ntime.sleep(600)"
    )
    program = fake(workplace, body)
    with pytest.raises(JatpoError, match="was stopped"):
        run_bounded([program], 3.0)
    for pid in set(Path("pids").read_text().split()):
        for _ in range(100):
            if not alive(int(pid)):
                break
            time.sleep(0.1)
        assert not alive(int(pid))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_file_of_costs_is_written_anew(tmp_path):
    """Programs differ in what they make of costs, so they get rewards."""
    text = TIGER.read_text()
    path = tmp_path / "cost.POMDP"
    path.write_text(text.replace("values: reward", "values: cost"))
    model = load(str(path)).members[0]
    with model_file(str(path), model) as file:
        assert file != path and "cost" not in file.read_text().partition("states")[0]
    with model_file(str(TIGER), load(str(TIGER)).members[0]) as file:
        assert file == TIGER.absolute()


def test_wrong_options(workplace, capsys):
    assert run(["compare", str(TIGER), "--seconds", "nan"]) == 2
    assert run(["compare", str(TIGER), "--seconds", "-1"]) == 2
    assert run(["compare", str(TIGER), "--plot", "bounds.gif"]) == 2
    assert run(["compare", "gridworld", "--seconds", "1"]) == 2
    assert "choose one with --model" in capsys.readouterr().err
    assert peers.peers()[0].place is None
