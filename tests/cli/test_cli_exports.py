"""Tables in formats for programs and papers, completion of shells, broken extensions, numbers that are refused."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jatpo.files import read_policy
from jatpo.solve import default_directory

TIGER = Path(__file__).parent.parent / "data" / "tiger.POMDP"


TABLES = [
    ("domains",),
    ("domains", "three-doors"),
    ("domains", "three-doors", "--compare"),
    ("domains", "three-doors", "--exact"),
    ("info", "three-doors"),
    ("info", TIGER),
    ("evaluate", "three-doors", "--trials", 5, "-q"),
    ("experiment", "misspecified", "three-doors", "--factors", "2", "--trials", 4, "-q"),
    ("bench", "core", "--states", 20, "--beliefs", 8, "-q"),
]


@pytest.mark.parametrize("arguments", TABLES, ids=lambda each: "-".join(map(str, each[:2])).split("/")[0])
def test_every_table_has_four_formats(call, arguments):
    code, out, _ = call(*arguments, "--csv")
    lines = [line for line in csv.reader(io.StringIO(out)) if line]
    assert code == 0 and len(lines) > 1
    code, out, _ = call(*arguments, "--markdown")
    assert code == 0 and "| --- |" in out.replace("---:", "---")
    code, out, _ = call(*arguments, "--latex")
    assert code == 0 and out.count("\\begin{tabular}") == out.count("\\end{tabular}") > 0
    code, out, _ = call(*arguments, "--json")
    assert code == 0 and json.loads(out)


def test_two_formats_at_once_are_refused(call):
    assert call("domains", "--csv", "--latex") == (
        2,
        "",
        "jatpo: --csv and --latex are different formats: choose one of them\n",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "x", "--seconds", "-1"),
        ("solve", "x", "--gap", "nan"),
        ("evaluate", "x", "--seconds", "inf"),
        ("experiment", "beyond", "x", "--gap", "-0.5"),
        ("experiment", "misspecified", "x", "--seconds", "nan"),
        ("learn", "x", "--rate", "nan"),
        ("learn", "x", "--trust", "inf"),
        ("watch", "x", "--delay", "nan"),
        ("reproduce", "x", "--stages", "-2"),
    ],
    ids=" ".join,
)
def test_numbers_that_make_no_sense_are_refused(call, arguments):
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert arguments[-2] in err


def test_a_policy_is_exported(call, tmp_path):
    options = ("--solver", "qmdp", "-q")
    for name in ("tiger.alpha", "tiger.policy"):
        assert call("solve", TIGER, *options, "--export", name)[0] == 0
        policy = read_policy(tmp_path / name)
        assert policy.vectors.shape[1] == 2 and np.isfinite(np.asarray(policy.vectors)).all()
    code, _, err = call("solve", "three-doors", *options, "--export", "x.policy")
    assert code == 2 and "--export writes one policy, and three-doors has 3 models" in err
    code, _, err = call("solve", TIGER, *options, "--export", "x.foo")
    assert code == 2 and "x.foo" in err
    assert call("solve", "three-doors", *options, "--model", 1, "--export", "one.policy")[0] == 0


def test_solutions_are_kept_for_the_user(call, tmp_path):
    assert call("solve", TIGER, "--solver", "qmdp", "-q")[0] == 0
    assert default_directory().is_dir() and not list(tmp_path.iterdir())


def test_a_broken_extension_is_named_and_the_other_domains_listed(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("raise RuntimeError('half written')\n")
    worse = tmp_path / "worse.py"
    worse.write_text(
        "from jatpo.domains import register\n"
        "@register('worse', summary='fails', models=1, horizon=5)\n"
        "def build(model):\n    raise ValueError('no walls')\n"
    )
    environment = {**os.environ, "COLUMNS": "80", "JATPO_EXTENSIONS": f"{bad}{os.pathsep}{worse}"}
    found = subprocess.run(
        [sys.executable, "-m", "jatpo", "domains"], capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0
    assert "gridworld" in found.stdout and "three-doors" not in found.stdout
    assert "bad.py fails with RuntimeError: half written" in found.stderr
    assert "worse" in found.stderr and "no walls" in found.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("jatpo dom", "domains"), ("jatpo evaluate grid", "gridworld"), ("jatpo solve --sol", "--solver")],
)
def test_shells_complete_commands_domains_and_options(line, wanted):
    asked = {"_JATPO_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    found = subprocess.run(
        [sys.executable, "-c", "from jatpo.cli.main import main; main([])"],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
    )
    assert found.returncode == 0, found.stderr
    assert wanted in found.stdout.split()
