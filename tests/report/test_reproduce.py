"""`jatpo reproduce` from end to end on a domain of three small models: files, resuming, refusing, interruption."""

import json
import os

import pytest

import tiny_domain
from jatpo.cli.main import run
from jatpo.cli.reproduce import Overall
from jatpo.disk import sealed
from jatpo.evaluate.agents.catalogue import PAPER
from jatpo.evaluate.experiment import Config
from jatpo.events import Event
from jatpo.report import plan as plans
from jatpo.report import reproduction
from jatpo.report.schedule import Schedule, Step

TABLES = ["curves", "effects", "identification", "rules", "run", "solutions", "summary", "times"]


@pytest.fixture(scope="module")
def tiny():
    with tiny_domain.registered() as name:
        yield name


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture
def call(capsys, monkeypatch, workplace):
    """Runs a command in a directory that the tests of this file share; the code, output and errors."""
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("JATPO_CACHE", str(workplace / "solutions"))

    def calling(*arguments):
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return calling


@pytest.fixture(scope="module")
def done(tiny, workplace):
    """One run, for the tests to look at: its directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)
        patch.setenv("JATPO_CACHE", str(workplace / "solutions"))
        assert run(["reproduce", tiny, "--trials", "6", "--quiet", "--pictures", "pictures"]) == 0
    return workplace / "results" / "reproduce"


def read(directory, table):
    return json.loads((directory / f"{table}.json").read_text())


def test_it_leaves_tables_and_a_report(done, tiny):
    assert sorted(path.stem for path in done.glob("*.json")) == sorted([*TABLES, "manifest"])
    assert sorted(path.stem for path in done.glob("*.csv")) == sorted({*TABLES, "trials"} - {"run"})
    summary = read(done, "summary")
    assert [row["agent"] for row in summary] == list(PAPER)
    assert {row["trials"] for row in summary} == {6}
    solutions = read(done, "solutions")
    assert [row["model"] for row in solutions] == [0, 1, 2]
    assert all(row["lower"] <= row["upper"] for row in solutions)
    (times,) = read(done, "times")
    assert times["solve"] == pytest.approx(sum(row["seconds"] for row in solutions))
    assert len(read(done, "curves")) == 2 * (tiny_domain.HORIZON + 1)
    text = (done / "report.html").read_text()
    assert tiny in text
    assert all(f"{row['mean']:.2f}" in text for row in summary)


def test_the_manifest_names_the_digest_of_every_policy_played(done, tiny):
    agents = read(done, "manifest")["agents"][tiny]
    assert set(agents) == set(PAPER)
    digests = {name: value for agent in agents.values() for name, value in agent["solutions"].items()}
    assert set(digests) == {"policies", "q"}
    assert all(isinstance(value, str) and len(value) == 16 for value in digests.values())


def test_it_draws_small_pictures(done, workplace):
    pictures = sorted((workplace / "pictures").iterdir())
    assert [path.name for path in pictures] == ["replay.png", "results.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    assert all(1000 < path.stat().st_size < 200_000 for path in pictures)


def test_it_agrees_with_the_commands_for_the_parts(done, tiny, call):
    code, out, _ = call("evaluate", tiny, "--trials", "6", "--json", "--quiet")
    assert code == 0
    assert json.loads(out) == read(done, "summary")
    code, out, _ = call("experiment", "identification", tiny, "--trials", "6", "--json", "--quiet")
    assert code == 0
    assert json.loads(out) == read(done, "identification")


def test_the_same_command_resumes(done, tiny, call):
    chunk = done / "chunks" / tiny / "perseus" / "000000.npz"
    before = {path: path.stat().st_mtime_ns for path in (done / "chunks").rglob("*.npz")}
    chunk.unlink()
    summary = read(done, "summary")
    code, out, err = call("reproduce", tiny, "--trials", "6")
    assert code == 0
    assert "Table 3: mean returns over 6 trials" in out
    assert "report.html" in out.splitlines()[-1]
    assert "reproducing: done" in err.splitlines()[-1]
    assert read(done, "summary") == summary
    after = {path: path.stat().st_mtime_ns for path in (done / "chunks").rglob("*.npz")}
    assert [path for path in after if after[path] != before[path]] == [chunk]


def test_an_interruption_keeps_what_is_done(tiny, call, workplace):
    def stop(event):
        if "bopa" in event.figures.get("doing", ""):
            raise KeyboardInterrupt

    plan = plans.Plan([tiny], config=Config(trials=5))
    with pytest.raises(KeyboardInterrupt):
        reproduction.reproduce(plan, "stopped", stop)
    chunks = {path: path.stat().st_mtime_ns for path in (workplace / "stopped").rglob("*.npz")}
    assert {path.parent.name for path in chunks} == set(PAPER) - {"random"}
    assert call("reproduce", tiny, "--trials", "5", "--out", "stopped", "--quiet")[0] == 0
    after = {path: path.stat().st_mtime_ns for path in (workplace / "stopped").rglob("*.npz")}
    assert [path.parent.name for path in after if after[path] != chunks.get(path)] == ["random"]


def test_other_settings_are_refused_with_what_differs(done, tiny, call):
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    code, out, err = call("reproduce", tiny, "--seed", "3", "--out", str(done))
    assert (code, out) == (2, "")
    assert "settings.seed is 0 there and 3 here" in err
    code, _, err = call("reproduce", tiny, "--rules", "as_written", "--out", str(done))
    assert (code, "settings.rules is as_run there and as_written here" in err) == (2, True)
    manifest = done / "manifest.json"
    other = json.loads(before[manifest]) | {"jatpo": "0.0.9"}
    manifest.write_text(json.dumps(sealed(other)))
    code, _, err = call("reproduce", tiny)
    assert (code, "jatpo is 0.0.9 there" in err) == (2, True)
    manifest.write_bytes(before[manifest])
    assert {path: path.read_bytes() for path in done.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("three-dors",), "did you mean 'three-doors'"),
        (("ntu", "--rules", "as_writen"), "did you mean 'as_written'"),
        (("ntu", "--sizes", "2-4"), "name gridworld too"),
        (("gridworld", "--sizes", "2-40"), "2 to 32 models"),
        (("ntu", "--trials", "0"), "trials"),
        (("ntu", "--preset", "some"), "exact, as_run"),
    ],
)
def test_bad_input_is_one_line(tiny, call, arguments, message):
    code, out, err = call("reproduce", *arguments, "--out", "refused")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not os.path.exists("refused")


def test_the_scaling_experiment_is_part_of_it(tiny, call):
    plan = plans.Plan([tiny], [2, 3], Config(trials=4), replays=0, pool=tiny)
    shown = []
    found = reproduction.reproduce(plan, "scaled", shown.append)
    rows = [row for row in found.results["scaling"] if row["agent"] == "atpo"]
    assert [row["size"] for row in rows] == [2, 3]
    assert "figure-scaling" in found.report.read_text()
    assert [event.done for event in shown] == sorted(event.done for event in shown)
    steps = list(dict.fromkeys(event.title for event in shown))
    assert steps[-2:] == ["scaling the library (step 4 of 5)", "writing the report (step 5 of 5)"]


def test_all_eleven_domains_come_with_the_scaling():
    from jatpo.cli.reproduce import _chosen, _sizes

    chosen = _chosen(None)
    assert len(chosen) == 11
    assert _sizes(None, chosen, everything=True) == tuple(range(2, 33))
    steps = [step.title for step in plans.steps_of(plans.Plan(chosen, sizes=[2]))]
    assert sum(title.startswith("solving") for title in steps) == 12
    assert sum(title.startswith("recording") for title in steps) == 4
    assert steps[-3:] == ["solving the pool of gridworld", "scaling the library", "writing the report"]


def test_the_progress_line_says_what_how_far_and_how_long():
    now = [0.0]
    schedule = Schedule([Step("solve", "solving a", 30), Step("play", "playing a", 10)], clock=lambda: now[0])
    progress = Overall("reproducing", quiet=True, clock=lambda: now[0])
    with progress:
        schedule.begin()
        now[0] = 14
        schedule.advance(0.5)
        progress(schedule.event("model 1 of 2"))
        assert progress.line() == "solving a (step 1 of 2): model 1 of 2; 38 % done, 14 s, about 24 s left"
        progress(Event("reproducing", 1.0, 1.0))
        assert progress.line() == "reproducing: done, 14 s"
