"""JSON and progress lines."""

import io
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from jatpo.cli.output import print_json
from jatpo.cli.progress import Progress, Steps, format_seconds
from jatpo.events import Event


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


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
            progress(Event("", stage, 10, {"best_value": stage / 3}))
    assert stream.getvalue().splitlines() == [
        "solving: 3/10 (30 %), best value 1, 6 s, 14 s left",
        "solving: 6/10 (60 %), best value 2, 12 s, 8 s left",
        "solving: 9/10 (90 %), best value 3, 18 s, 2 s left",
        "solving: 10/10 (100 %), best value 3.333, 20 s",
    ]


def test_progress_without_a_total():
    stream, clock = io.StringIO(), Clock()
    with Progress("reading", stream=stream, clock=clock) as progress:
        progress(Event(done=4, figures={"lines": 10}))
        clock.now += 3
    assert stream.getvalue() == "reading: 4 done, lines 10, 3 s\n"


def test_an_event_may_change_the_title_and_a_note_is_a_line():
    stream = io.StringIO()
    with Progress("solving", stream=stream, clock=Clock(), quiet=True) as progress:
        progress(Event("reading", 1, 2))
        progress(Event(note="look here"))
        assert progress.line().startswith("reading: 1/2")
    assert stream.getvalue() == "jatpo: note: look here\n"  # notes are shown in quiet commands too


def test_steps_have_a_line_and_a_clock_each():
    stream, clock = io.StringIO(), Clock()
    with Steps("evaluate", stream=stream, clock=clock) as progress:
        for title, seconds in (("solving a", 3), ("playing a", 2)):
            for done in (0, 1):
                progress(Event(title, done, 2, {"agent": "atpo"}))
                clock.now += seconds
        progress(Event(note="look here"))
    assert stream.getvalue().splitlines() == [
        "solving a: 1/2 (50 %), agent atpo, 6 s, 6 s left",
        "jatpo: note: look here",
        "playing a: agent atpo, 4 s",  # it has ended, so there is no time left
    ]


def test_quiet_progress_says_nothing():
    stream, clock = Terminal(), Clock()
    with Progress("solving", quiet=True, stream=stream, clock=clock) as progress:
        clock.now += 60
        progress(Event("", 1, 2))
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_an_interrupted_job_leaves_its_last_state(stream):
    with pytest.raises(KeyboardInterrupt), Progress("solving", stream=stream, clock=Clock()) as progress:
        progress(Event("", 1, 2))
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("solving: 1/2 (50 %), 0 s, 0 s left\n")


def test_live_progress_restores_the_cursor_and_leaves_standard_output_alone(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with Progress("solving", stream=stream) as progress:
        progress(Event("", 1, 2))
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
