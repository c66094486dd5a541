"""Tables, JSON and progress lines."""

import io
import json
import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from jatpo.cli.output import print_json, print_table
from jatpo.cli.progress import Progress, format_seconds

ROWS = [["abandoned-power-plant", 1440, 28.0625, None], ["ntu", 7, -1.5, "a remark that is long " * 3]]
COLUMNS = ["domain", "states", "mean", "note"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


def test_a_piped_table_has_one_line_for_each_row(capsys):
    print_table(COLUMNS, ROWS, title="Models")
    title, heading, *lines = capsys.readouterr().out.splitlines()
    assert title == "Models"
    assert heading == "domain                 states   mean  note"
    assert lines[0] == "abandoned-power-plant    1440  28.06  -"
    assert lines[1].startswith("ntu                         7   -1.5  a remark")
    assert len(lines) == 2


def test_a_table_on_a_terminal_folds_to_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    print_table(COLUMNS, [*ROWS, ["[bold]", 1, 2.0, "x"]])
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert "abandoned-power-plant" in text
    assert "[bold]" in text  # text is never taken for markup
    assert max(map(len, text.splitlines())) <= 60


def test_numbers_written_as_text_stand_to_the_right(capsys):
    print_table(["agent", "return"], [["atpo", "85.4"], ["bopa", "N.A."], ["random", "101.25"]])
    assert capsys.readouterr().out.splitlines()[1:] == ["atpo      85.4", "bopa      N.A.", "random  101.25"]


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        print_table(["a", "b"], [["only one"]])


def test_a_table_without_rows_has_its_heading(capsys):
    print_table(["a", "b"], [])
    assert capsys.readouterr().out == "a  b\n"


class Point(NamedTuple):
    x: float
    y: np.ndarray


def test_json_is_strict(capsys):
    value = {
        "mean": math.nan,
        "bounds": (-math.inf, np.float32(0.5), math.inf),
        "array": np.array([[1.0, np.nan], [2.0, 3.0]]),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "point": Point(1.0, np.arange(2)),
        "path": Path("a") / "b",
        "name": "é",
        3: None,
    }
    print_json(value)
    text = capsys.readouterr().out
    assert "é" in text
    assert json.loads(text, parse_constant=pytest.fail) == {
        "mean": None,
        "bounds": [None, 0.5, None],
        "array": [[1.0, None], [2.0, 3.0]],
        "count": 3,
        "flag": True,
        "point": {"x": 1.0, "y": [0, 1]},
        "path": "a/b",
        "name": "é",
        "3": None,
    }


def test_json_refuses_what_it_cannot_say():
    with pytest.raises(TypeError, match="object"):
        print_json([object()])


def test_plain_progress_is_a_line_now_and_then():
    stream, clock = io.StringIO(), Clock()
    with Progress("solving", interval=5, stream=stream, clock=clock) as progress:
        for stage in range(1, 11):
            clock.now += 2
            progress.update(stage, 10, best_value=stage / 3)
    assert stream.getvalue().splitlines() == [
        "solving: 3/10 (30 %), best value 1, 6 s, 14 s left",
        "solving: 6/10 (60 %), best value 2, 12 s, 8 s left",
        "solving: 9/10 (90 %), best value 3, 18 s, 2 s left",
        "solving: 10/10 (100 %), best value 3.333, 20 s",
    ]


def test_progress_without_a_total():
    stream, clock = io.StringIO(), Clock()
    with Progress("reading", stream=stream, clock=clock) as progress:
        progress.update(4, lines=10)
        clock.now += 3
    assert stream.getvalue() == "reading: 4, lines 10, 3 s\n"


def test_quiet_progress_says_nothing():
    stream, clock = Terminal(), Clock()
    with Progress("solving", quiet=True, stream=stream, clock=clock) as progress:
        clock.now += 60
        progress.update(1, 2)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_an_interrupted_job_leaves_its_last_state(stream):
    with pytest.raises(KeyboardInterrupt), Progress("solving", stream=stream, clock=Clock()) as progress:
        progress.update(1, 2)
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("solving: 1/2 (50 %), 0 s, 0 s left\n")


def test_live_progress_restores_the_cursor_and_leaves_standard_output_alone(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with Progress("solving", stream=stream) as progress:
        progress.update(1, 2)
        print("an answer")
    assert capsys.readouterr().out == "an answer\n"
    assert "an answer" not in stream.getvalue()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3599.7, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_durations(seconds, text):
    assert format_seconds(seconds) == text
