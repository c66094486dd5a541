"""`jatpo evaluate` and `jatpo experiment`: output, files, resuming, errors."""

import json

import pytest

import tiny_domain
from jatpo.cli import app
from jatpo.cli.app import Command
from jatpo.cli.main import run
from jatpo.solve import default_directory

OURS = (
    Command("Evaluation", "evaluate", "jatpo.cli.evaluate", "evaluate"),
    Command("Evaluation", "experiment", "jatpo.cli.experiments", "experiment"),
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    """The tiny domain, a stand-in for the solver, an empty directory to work in."""
    tiny_domain.stand_in(monkeypatch)
    monkeypatch.setattr(app, "COMMANDS", tuple(dict.fromkeys([*app.COMMANDS, *OURS])))
    monkeypatch.chdir(tmp_path)
    with tiny_domain.registered() as name:
        yield name


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_evaluate_prints_a_table_and_paired_differences(capsys, tiny):
    code, out, err = call(capsys, "evaluate", tiny, "--trials", "20", "--quiet")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["domain", "agent", "mean", "std"]
    assert sum(line.startswith(tiny) for line in lines) == 6 + 5
    assert "ATPO minus rival, paired" in lines


def test_evaluate_prints_json_with_the_promised_fields(capsys, tiny):
    code, out, err = call(
        capsys,
        "evaluate",
        tiny,
        "--agents",
        "random,value-iteration",
        "--trials",
        "7",
        "--seed",
        "3",
        "--json",
    )
    assert code == 0
    assert "evaluating three-doors" in err
    rows = json.loads(out)
    assert [row["agent"] for row in rows] == ["random", "value_iteration"]
    fields = {"domain", "agent", "trials", "mean", "std", "low", "high"}
    fields |= {"published_mean", "published_std", "compatible"}
    assert all(fields <= set(row) for row in rows)
    assert {row["trials"] for row in rows} == {7}
    again = json.loads(
        call(capsys, "evaluate", tiny, "--agents", "random", "--trials", "7", "--seed", "3", "--json", "-q")[
            1
        ]
    )
    assert again[0]["mean"] == rows[0]["mean"]


def test_results_are_kept_and_gone_on_with(capsys, tiny, tmp_path):
    arguments = ("evaluate", tiny, "--agents", "random", "--quiet", "--out", "kept")
    assert call(capsys, *arguments, "--trials", "100")[0] == 0
    assert call(capsys, *arguments, "--trials", "200")[0] == 0
    chunks = sorted(path.name for path in (tmp_path / "kept" / "chunks" / tiny / "random").iterdir())
    assert chunks == ["000000.npz", "000001.npz"]
    assert len((tmp_path / "kept" / "trials.csv").read_text().splitlines()) == 201
    summary = json.loads((tmp_path / "kept" / "summary.json").read_text())
    assert summary[0]["trials"] == 200
    code, _, err = call(capsys, *arguments, "--trials", "100", "--seed", "1")
    assert code == 2
    assert "settings.seed is 0 there and 1 here" in err


def test_evaluate_writes_a_page(capsys, tiny, tmp_path):
    assert call(capsys, "evaluate", tiny, "--trials", "5", "-q", "--page", "docs/page.md")[0] == 0
    text = (tmp_path / "docs" / "page.md").read_text()
    assert text.startswith(
        "# Results\n\nMade by `jatpo evaluate three-doors --trials 5 --seed 0 --rules as_run"
    )
    assert "## three-doors" in text
    code, _, err = call(capsys, "evaluate", tiny, "--trials", "5", "-q", "--page", "docs")
    assert code == 2 and "docs is a directory: name a file in it" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("three-dors",), "did you mean 'three-doors'"),
        (("three-doors", "--agents", "atop"), "did you mean 'atpo'"),
        (("three-doors", "--agents", ","), "--agents"),
        (("three-doors", "--rules", "as_wrtten"), "did you mean 'as_written'"),
        (("three-doors", "--preset", "asrun"), "did you mean 'as_run'"),
        (("three-doors", "--trials", "0"), "trials"),
        ((), "missing argument"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, arguments, message):
    code, out, err = call(capsys, "evaluate", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("jatpo: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("name", "table", "more"),
    [
        ("library-scaling", "scaling", ("--sizes", "2,3")),
        ("identification", "identification", ()),
        ("loss-bound", "loss-bound", ()),
        ("misspecified", "misspecified", ("--factors", "2")),
    ],
)
def test_experiments_write_tables_and_a_manifest(capsys, tiny, tmp_path, name, table, more):
    arguments = ("experiment", name, tiny, "--trials", "4", "--quiet", *more)
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "results are in results" in out
    directory = tmp_path / "results" / name
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["experiment"] == name
    rows = json.loads((directory / f"{table}.json").read_text())
    assert len((directory / f"{table}.csv").read_text().splitlines()) == len(rows) + 1
    code, out, _ = call(capsys, *arguments, "--json")
    assert code == 0
    assert json.loads(out) == rows


def test_the_loss_bound_is_shown_by_domain(capsys, tiny):
    """A line of means for people, a row for each trial for programs."""
    code, out, _ = call(capsys, "experiment", "loss-bound", tiny, "--trials", "4", "--quiet")
    lines = [line for line in out.splitlines() if line.startswith(tiny)]
    assert code == 0 and len(lines) == 1 and lines[0].split()[1] == "4"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("library-scaling", "--sizes", "2-x"), ("--sizes", "2-x")),
        (("library-scaling", "--sizes", "9"), ("9", "2 to 3")),
        (("misspecified", "--factors", "a"), ("--factors", "'a'")),
        (("off-policy", "--shares", "a"), ("--shares", "'a'")),
        (("loss-bund",), ("did you mean 'loss-bound'",)),
    ],
)
def test_experiments_refuse_bad_input(capsys, tiny, arguments, words):
    code, out, err = call(capsys, "experiment", arguments[0], tiny, *arguments[1:], "-q")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words)


def test_experiments_are_listed(capsys):
    code, out, err = call(capsys, "experiment")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("adapt", "beyond", "library-scaling", "off-policy", "tune"))


def test_off_policy_shares_are_parts_of_one_directory(capsys, tiny, tmp_path):
    arguments = (
        "experiment",
        "off-policy",
        tiny,
        "--shares",
        "0,0.5",
        "--rounds",
        "1",
        "--trials",
        "4",
        "-q",
    )
    code, out, _ = call(capsys, *arguments, "--json")
    assert code == 0
    assert [(row["off_policy"], row["agent"]) for row in json.loads(out)] == [
        (0.0, "perseus"),
        (0.0, "atpo"),
        (0.5, "perseus"),
        (0.5, "atpo"),
    ]
    parts = json.loads((tmp_path / "results" / "off-policy" / "manifest.json").read_text())["parts"]
    assert [part.rpartition("/")[2] for part in parts] == ["share-0", "share-0.5"]


@pytest.mark.slow
def test_the_solver_itself_serves_the_commands(capsys, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "evaluate", "abandoned-power-plant", "--trials", "256", "--json")
    assert code == 0
    assert "solving abandoned-power-plant" in err
    rows = {row["agent"]: row for row in json.loads(out)}
    assert rows["bopa"]["mean"] is None
    assert rows["perseus"]["compatible"]
    assert rows["value_iteration"]["mean"] >= rows["atpo"]["mean"] > rows["random"]["mean"]
    assert default_directory().is_dir() and not (tmp_path / ".jatpo").exists()
