"""`jatpo run`: a study in a file, its results and its report, and what is refused."""

import json
import re

import pytest

import tiny_domain
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.evaluate.study_file import read_study

TEXT = """
name = "Doors & <windows>"
libraries = ["three-doors"]
agents = ["value-iteration", "atpo", "random"]
trials = 6
seeds = [0, 3]

[solve]
stages = 2

[[experiments]]
name = "evaluate"
baseline = "random"

[[experiments]]
name = "misspecified"
factors = [2]
seeds = [1]
"""


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    tiny_domain.stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)

    def calling(text, *arguments):
        (tmp_path / "study.toml").write_text(text)
        code = run(["run", "study.toml", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    with tiny_domain.registered():
        yield calling


def test_a_study_is_run_whole_and_reported_once(call, tmp_path):
    code, out, err = call(TEXT, "-q")
    assert code == 0, err
    place = tmp_path / "results" / "Doors----windows-"
    assert f"The report is {place.relative_to(tmp_path)}/report.html" in out
    found = sorted(str(path.parent.relative_to(place)) for path in place.rglob("manifest.json"))
    assert found == ["evaluate/seed-0", "evaluate/seed-3", "misspecified/seed-1"]
    page = (place / "report.html").read_text()
    assert "<windows>" not in page and "Doors &amp; &lt;windows&gt;" in page
    data = json.loads(re.search(r'id="results">(.*?)</script>', page, re.DOTALL)[1])
    assert list(data["tables"]) == ["evaluate, seed 0", "evaluate, seed 3", "misspecified"]
    assert "random minus rival, paired" in page
    chunk = place / "evaluate" / "seed-3" / "chunks" / "three-doors" / "atpo" / "000000.npz"
    written = chunk.stat().st_mtime_ns
    code, out, _ = call(TEXT, "-q", "--json")
    assert code == 0 and chunk.stat().st_mtime_ns == written
    assert [row["seed"] for row in json.loads(out)] == [0, 3, 1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("trials = 6", "trails = 6", "unknown key 'trails'; did you mean 'trials'?"),
        ("trials = 6", "trials = 0", "trials must be a whole number of at least 1, got 0"),
        ("seeds = [0, 3]", "seeds = [0, 0]", "seeds must be different"),
        ('"three-doors"', '"three-dors"', "did you mean 'three-doors'"),
        ('"atpo"', '"atop"', "did you mean 'atpo'"),
        ('"misspecified"', '"mispecified"', "did you mean 'misspecified'"),
        ("factors = [2]", "factors = ['a']", "factors: 'a' is not"),
        ("stages = 2", "stages = -2", "-2"),
        ("stages = 2", "seconds = nan", "nan"),
        ("[solve]", "[solve", "is not a TOML file"),
        ("stages = 2", "seconds = 1" + "0" * 400, "seconds must be a finite number, got 1000"),
        ("stages = 2", "settings = 3", "settings must be a table"),
        ("stages = 2", "settings = { capacity = [1] }", "capacity must be a finite number"),
        (
            "seeds = [0, 3]",
            "seeds = [9223372036854775808]",
            "seeds must be different whole numbers from 0 to",
        ),
        ("trials = 6", "trials = " + "9" * 5000, "is not a TOML file"),
        ("trials = 6", "trials = " + "[" * 100, "nested more than 32 deep"),
        ("trials = 6", "trials = 6\n" + "# " * 600_000, "more than the 1.0 MB that a study file may have"),
        ("factors = [2]", "factors = [nan]", "not finite"),
        ('baseline = "random"', "baseline = 3", "baseline must be of type str, got 3"),
    ],
)
def test_what_is_wrong_in_the_file_is_refused_before_any_work(call, tmp_path, old, new, words):
    assert old in TEXT
    code, out, err = call(TEXT.replace(old, new), "-q")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err and not (tmp_path / "results").exists()


def test_a_study_is_a_file_with_or_without_a_mark(call, tmp_path):
    for place in ("/dev/zero", str(tmp_path)):
        with pytest.raises(JatpoError, match=r"device|directory"):
            read_study(place)
    (tmp_path / "study.toml").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert read_study(tmp_path / "study.toml").name.startswith("Doors")


def test_libraries_are_found_beside_the_file(call, tmp_path, monkeypatch):
    (tmp_path / "tiger.POMDP").write_text("discount: 0.5\n")
    (tmp_path / "study.toml").write_text('libraries = ["tiger.POMDP"]\n')
    monkeypatch.chdir("/")
    (part,) = read_study(tmp_path / "study.toml").parts
    assert part.libraries == (str(tmp_path / "tiger.POMDP"),)
    assert part.label == "evaluate" and part.seeds == (0,)
