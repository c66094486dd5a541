"""`jatpo watch`: playing, files, JSON, errors."""

import json
import re

import pytest

import tiny_domain
from jatpo.cli import app
from jatpo.cli.app import Command
from jatpo.cli.main import run

OURS = Command("Evaluation", "watch", "jatpo.cli.watch", "watch")
TIGER = """discount: 0.95
values: reward
states: tiger-{side} tiger-{other}
actions: listen open-left open-right
observations: hear-left hear-right
start: uniform
T: listen identity
T: open-left uniform
T: open-right uniform
O: listen
0.85 0.15
0.15 0.85
O: open-left uniform
O: open-right uniform
R: listen : * : * : * -1
R: open-left : * : * : * 10
R: open-left : tiger-left : * : * -100
R: open-right : * : * : * 10
R: open-right : tiger-right : * : * -100
"""


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    """The tiny domain, a stand-in for the solver, an empty directory to work in."""
    tiny_domain.stand_in(monkeypatch)
    monkeypatch.setattr(app, "COMMANDS", tuple(dict.fromkeys([*app.COMMANDS, OURS])))
    monkeypatch.chdir(tmp_path)
    with tiny_domain.registered() as name:
        yield name


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run(("watch", *arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_it_plays_as_plain_text_in_a_pipe(capsys, tiny):
    code, out, err = call(capsys, tiny, "--seed", "1", "--quiet", "--delay", "9")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tiny}, atpo, step 0 of ")
    steps = int(re.search(r"step 0 of (\d+)", out)[1])
    assert len(re.findall(r", step \d+ of ", out)) == steps + 1
    assert "posterior over models" in out and "\x1b" not in out


def test_json_is_the_episode(capsys, tiny):
    from jatpo.report.episode import record

    chosen = ("--agent", "bopa", "--seed", "2", "--trial", "3", "--model", "1")
    code, out, err = call(capsys, tiny, *chosen, "--json")
    assert code == 0 and "preparing three-doors" in err
    assert json.loads(out) == record(tiny, "bopa", 2, trial=3, model=1).to_json()
    assert json.loads(out)["truth"] == 1


def test_it_writes_a_page_and_a_gif(capsys, tiny, tmp_path):
    from PIL import Image

    code, out, _ = call(capsys, tiny, "--html", "a.html", "--gif", "a.gif", "--delay", "0.1")
    assert (code, out) == (0, "the replay is in a.html\nthe animation is in a.gif\n")
    page = (tmp_path / "a.html").read_text()
    data = json.loads(re.search(r'class="replay-data">(.*?)</script>', page)[1])
    with Image.open(tmp_path / "a.gif") as moving:
        assert moving.n_frames == len(data[0]["frames"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "a.html"]
    assert call(capsys, tiny, "--html", "b.html", "--quiet") == (0, "", "")


def test_a_library_of_files_is_shown_by_the_names_of_states(capsys, tmp_path):
    library = tmp_path / "tigers"
    library.mkdir()
    (library / "one.POMDP").write_text(TIGER.format(side="left", other="right"))
    (library / "two.POMDP").write_text(TIGER.format(side="right", other="left"))
    code, out, err = call(capsys, "tigers", "--horizon", "4", "--quiet")
    assert (code, err) == (0, "")
    assert re.search(r"^true state +belief\ntiger-\w+ +50\.0%  tiger-left$", out, re.MULTILINE)
    assert re.search(r"^. two +\S+ +50\.0%$", out, re.MULTILINE)
    told = json.loads(call(capsys, "tigers", "--horizon", "4", "--json", "--quiet")[1])
    assert told["rules"] is None and told["stages"] == {str(told["truth"]): None} | dict.fromkeys(
        told["stages"]
    )
    code, out, _ = call(capsys, "tigers/one.POMDP", "--horizon", "2", "--quiet")
    assert code == 0 and out.startswith("one, atpo, step 0 of 2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("three-dors",), "did you mean 'three-doors'"),
        (("three-doors", "--agent", "atop"), "did you mean 'atpo'"),
        (("three-doors", "--rules", "as_wrtten"), "did you mean 'as_written'"),
        (("three-doors", "--preset", "asrun"), "'asrun'"),
        (("three-doors", "--model", "3", "-q"), "has no model 3"),
        (("three-doors", "--trial", "-1"), "trial"),
        (("three-doors", "--html", "no/such/a.html"), "there is no directory"),
        (("three-doors", "--gif", "."), "is a directory: name a file in it"),
        (("three-doors", "--gif", "x.mp4"), "--gif writes .gif files, got 'x.mp4'"),
        (("three-doors", "--html", "x.gif"), "--html writes .html files, got 'x.gif'"),
        (("three-doors", "--seconds", "nan"), "greater than or equal to 0"),
        (("abandoned-power-plant", "--agent", "bopa"), "agent 'bopa' cannot run on abandoned-power-plant"),
        ((), "missing argument"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, arguments, message):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("jatpo: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_place_that_cannot_be_written_is_refused_before_any_work(capsys, monkeypatch, tiny):
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("jatpo.evaluate.solved.load_solved", None)  # any call would fail
    code, out, err = call(capsys, tiny, "--html", "a.html")
    assert (code, out) == (2, "")
    assert err == "jatpo: a.html cannot be written: choose another place or change its permissions\n"
