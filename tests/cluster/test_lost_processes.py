"""Schedulers, workers and clients that are killed while a command runs: the same command gives the same tables.

A process is killed after so much work, not after so much time, so a machine that is busy kills no more often.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dask_processes import Cluster
from jatpo.evaluate.results_store import numbers

pytestmark = pytest.mark.slow
KILLS = 100
TRIALS = 600_000
CHUNKS = 40  # that come back between two kills, at most
WITHIN = 600.0  # seconds until something that is waited for has happened
WORK = (
    *("evaluate", "abandoned-power-plant", "--agents", "random,atpo", "--trials", str(TRIALS)),
    *("--solver", "qmdp"),
)


@pytest.fixture
def cluster(tmp_path):
    found = Cluster(tmp_path, 2, KILLS)
    yield found
    found.end()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The tables of a run on this machine alone."""
    folder = tmp_path_factory.mktemp("alone")
    alone = [sys.executable, "-m", "jatpo", *WORK, "--out", "alone", "--quiet"]
    subprocess.run(alone, cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, check=True)
    return _tables(folder / "alone")


def test_a_hundred_workers_killed_in_one_run_change_nothing(expected, tmp_path):
    rng, out = random.Random(1), tmp_path / "out"
    command = [sys.executable, "-m", "jatpo", *WORK, "--out", "out", "--workers", "2"]
    with open(tmp_path / "error", "w") as error:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=_environment(tmp_path), stdout=subprocess.DEVNULL, stderr=error
        )
    try:
        for _ in range(KILLS):
            _wait_for_more(out, rng.randint(1, CHUNKS), process)
            rng.choice(_local_workers(process)).kill()
        process.wait(WITHIN)
    finally:
        _end(process)
        said = (tmp_path / "error").read_text()
        print(said)  # shown where the test fails
    assert process.returncode == 0
    lost = [int(number) for number in re.findall(r"workers lost (\d+)", said)]
    assert 0 < lost[-1] <= KILLS  # one may be killed before it has joined
    assert "failures" not in said
    assert _tables(out) == expected
    computed = json.loads((out / "manifest.json").read_text())["computed"]
    for agent in ("random", "atpo"):
        done = computed[f"abandoned-power-plant/{agent}"]
        assert sorted(number for text in done.values() for number in numbers(text)) == list(
            range(-(-TRIALS // 128))
        )


def test_workers_of_a_scheduler_may_be_killed_one_after_the_other(cluster, expected, tmp_path):
    rng, out = random.Random(2), tmp_path / "out"
    process = cluster.command(*WORK, "--out", "out")
    for _ in range(10):
        _wait_for_more(out, rng.randint(1, CHUNKS), process)
        victim = rng.randrange(len(cluster.workers))
        cluster.workers[victim].kill()
        cluster.workers[victim].wait()
        cluster.workers[victim] = cluster.begin_worker()
    assert process.wait(WITHIN) == 0, cluster.error()
    assert _tables(out) == expected


def test_all_workers_may_be_lost_at_once(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"), process)
    for worker in cluster.workers:
        worker.kill()
    _wait_for(lambda: "no worker is left: waiting for one to join" in cluster.error(), process)
    cluster.workers += [cluster.begin_worker()]
    assert process.wait(WITHIN) == 0, cluster.error()
    assert _tables(tmp_path / "out") == expected


def test_the_client_may_be_killed(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"), process)
    process.kill()
    process.wait()
    kept = _chunks(tmp_path / "out")
    again = cluster.command(*WORK, "--out", "out")
    assert again.wait(WITHIN) == 0, cluster.error()
    assert kept <= _chunks(tmp_path / "out")
    assert _tables(tmp_path / "out") == expected


def test_the_workers_of_a_client_that_is_killed_end(tmp_path):
    command = [sys.executable, "-m", "jatpo", *WORK, "--out", "out", "--workers", "2", "--quiet"]
    process = subprocess.Popen(command, cwd=tmp_path, env=_environment(tmp_path), stdout=subprocess.DEVNULL)
    try:
        _wait_for(lambda: _chunks(tmp_path / "out"), process)
        started = psutil.Process(process.pid).children(recursive=True)
    finally:
        _end(process)
    assert len(started) > 2
    _, left = psutil.wait_procs(started, timeout=WITHIN)
    assert not left


def test_the_scheduler_may_be_killed(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"), process)
    cluster.scheduler.kill()
    assert process.wait(WITHIN) == 2
    error = cluster.error()
    assert "Traceback" not in error
    assert f"the connection to the scheduler {cluster.address} is lost" in " ".join(error.split())
    cluster.end()
    cluster.scheduler, cluster.workers = cluster.begin_scheduler(), [cluster.begin_worker()]
    again = cluster.command(*WORK, "--out", "out")
    assert again.wait(WITHIN) == 0, cluster.error()
    assert _tables(tmp_path / "out") == expected


def test_a_worker_that_is_stopped_holds_nothing_up(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"), process)
    cluster.workers[0].send_signal(signal.SIGSTOP)
    _wait_for_more(tmp_path / "out", 1000, process)  # of the other one
    cluster.workers[0].kill()
    assert process.wait(WITHIN) == 0, cluster.error()
    assert _tables(tmp_path / "out") == expected


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "cache")}


def _tables(out: Path) -> list[bytes]:
    """The tables of finished results, of cells and of single trials."""
    return [(out / name).read_bytes() for name in ("summary.csv", "trials.csv")]


def _chunks(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.glob("chunks/**/*.npz")}


def _local_workers(process: subprocess.Popen) -> list[psutil.Process]:
    """The workers of a command: they are forked by a process that the command starts."""
    found: list[psutil.Process] = []
    while not found:
        found = [worker for each in psutil.Process(process.pid).children() for worker in each.children()]
    return found


def _wait_for(condition, process: subprocess.Popen) -> None:
    """Until something has happened that the command does."""
    end = time.monotonic() + WITHIN
    while not condition():
        assert process.poll() is None, "the command has ended before"
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def _wait_for_more(out: Path, count: int, process: subprocess.Popen) -> None:
    """Until `count` more chunks have come back."""
    enough = len(_chunks(out)) + count
    _wait_for(lambda: len(_chunks(out)) >= enough, process)


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
