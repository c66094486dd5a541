"""Memory and disk of very many trials: mapped files while they are compared, and a refusal before anything starts."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from jatpo import disk
from jatpo.errors import JatpoError
from jatpo.evaluate import gathered
from jatpo.evaluate.experiments import comparison
from jatpo.evaluate.gathered import Gathered
from jatpo.evaluate.trial_rows import TrialRows
from jatpo.evaluate.trials import Trials

COMMAND = ("evaluate", "three-doors", "--agents", "atpo,value-iteration,random", "-q", "--json")


def chunk(number, size=8):
    trial = np.arange(number * size, (number + 1) * size)
    earned = (trial * 0.5).astype(np.float32)
    return Trials(trial, (trial % 3).astype(np.int32), earned, earned / 2, {"steps": trial.astype(np.int32)})


@pytest.mark.parametrize("least", [0, 1 << 40])
def test_chunks_in_any_order(least, monkeypatch, tmp_path):
    monkeypatch.setattr(gathered, "MAPPED", least)
    kept = Gathered(20, 8, tmp_path)
    assert kept.missing() == [0, 1, 2]
    for number in (2, 0):
        kept.put(number, chunk(number))
    assert kept.missing() == [1] and kept.count == 2
    kept.put(1, chunk(1))
    found = kept.trials()
    np.testing.assert_array_equal(found.trial, np.arange(20))
    np.testing.assert_array_equal(found.returns, 0.5 * np.arange(20, dtype=np.float32))
    np.testing.assert_array_equal(found.records["steps"], np.arange(20))
    assert not list(tmp_path.iterdir())  # the file has no name


def test_results_are_the_same_in_files(call, monkeypatch):
    rows = json.loads(call(*COMMAND, "--trials", 300, "--out", "memory")[1])
    monkeypatch.setattr(gathered, "MAPPED", 0)
    assert json.loads(call(*COMMAND, "--trials", 300, "--out", "files")[1]) == rows


@pytest.mark.parametrize("number", [10**12 - 1, 10**10])
def test_more_than_the_disk_holds_is_refused_at_once(number, call, monkeypatch, tmp_path):
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda place: type("Usage", (), {"free": 10**11})())
    began = time.monotonic()
    monkeypatch.setattr(
        "jatpo.evaluate.experiment._solve", lambda *_: pytest.fail("the library was solved first")
    )
    code, _, err = call("evaluate", "three-doors", "--agents", "random", "--trials", number, "-q")
    assert code == 2 and f"{number} trials needs" in err and "of disk and 100.0 GB are free in" in err
    assert time.monotonic() - began < 20
    assert not list(tmp_path.glob("results/*/chunks/**/*.npz"))


def test_a_full_disk_is_no_crash(tmp_path, monkeypatch):
    with pytest.raises(OSError):
        disk.mapped(1 << 60, tmp_path)
    with pytest.raises(JatpoError, match=r"x needs 1152921.5 TB of disk and .* are free in .*: y"):
        disk.require(1152921504606846976, tmp_path, "x", "y")


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages")
def test_statistics_hold_a_block_at_a_time(tmp_path):
    """Estimates over 40 million trials in a file take a few megabytes beside the pages of the file."""
    code = f"""
import numpy as np, resource
from jatpo.evaluate import statistics
values = np.memmap({os.fspath(tmp_path / "v")!r}, np.float32, "w+", shape=40_000_000)
strata = np.memmap({os.fspath(tmp_path / "s")!r}, np.int8, "w+", shape=40_000_000)
statistics.estimate(values[:100]), statistics.difference(values[:100], values[:100])
used = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (int(used) * 1024 + (48 << 20), resource.RLIM_INFINITY))
assert statistics.estimate(values, strata, [1]).mean == 0
assert statistics.difference(values, values).mean == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_measures_over_domains_make_no_rows(monkeypatch):
    """A million trials as rows of Python objects took a minute and gigabytes."""
    monkeypatch.setattr(comparison, "MOST", 50)
    monkeypatch.setattr(TrialRows, "__getitem__", lambda *_: pytest.fail("a row was made"))
    random = np.random.default_rng(0)
    parts = []
    for name in ("a", "b"):
        for agent, mean in (("random", 0.0), ("value_iteration", 10.0), ("atpo", 8.0)):
            earned = random.normal(mean, 1, 100)
            numbers = np.arange(100)
            parts.append((name, agent, Trials(numbers, numbers, earned, earned, {})))
    found = comparison.overall({"trials": TrialRows(parts)})
    assert {row["trials"] for row in found["aggregate"]} == {100}  # 50 of each of two domains
