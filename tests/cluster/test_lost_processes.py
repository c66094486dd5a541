"""Schedulers, workers and clients that are killed while a command runs: the same command gives the same tables."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dask_processes import Cluster

pytestmark = pytest.mark.slow
KILLS = 100
TRIALS = 600_000
WITHIN = 300.0  # seconds until something that is waited for has happened


@pytest.fixture
def cluster(tmp_path):
    found = Cluster(tmp_path, 2, KILLS)
    yield found
    found.end()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The table of a run on this machine alone."""
    folder = tmp_path_factory.mktemp("alone")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    alone = [sys.executable, "-m", "jatpo", *WORK, "--out", "alone", "--quiet"]
    subprocess.run(alone, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return _table(folder / "alone")


WORK = (
    *("evaluate", "abandoned-power-plant", "--agents", "random,atpo", "--trials", str(TRIALS)),
    *("--solver", "qmdp"),
)


def test_workers_that_are_killed_at_random_change_nothing(cluster, expected, tmp_path):
    rng = random.Random(1)
    kills = 0
    while kills < KILLS:
        out = f"out{kills}"
        process = cluster.command(*WORK, "--out", out)
        while process.poll() is None:
            time.sleep(rng.uniform(1.0, 6.0))
            if kills < KILLS and process.poll() is None and (tmp_path / out).exists():
                victim = rng.randrange(len(cluster.workers))
                cluster.workers[victim].kill()
                cluster.workers[victim].wait()
                cluster.workers[victim] = cluster.begin_worker()
                kills += 1
        assert process.returncode == 0, cluster.error()
        assert _table(tmp_path / out) == expected


def test_all_workers_may_be_lost_at_once(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"))
    for worker in cluster.workers:
        worker.kill()
    cluster.workers += [cluster.begin_worker()]
    assert process.wait(WITHIN) == 0, cluster.error()
    assert _table(tmp_path / "out") == expected


def test_the_client_may_be_killed(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"))
    process.kill()
    process.wait()
    kept = _chunks(tmp_path / "out")
    again = cluster.command(*WORK, "--out", "out")
    assert again.wait(WITHIN) == 0, cluster.error()
    assert kept <= _chunks(tmp_path / "out")
    assert _table(tmp_path / "out") == expected


def test_the_scheduler_may_be_killed(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"))
    cluster.scheduler.kill()
    assert process.wait(WITHIN) == 2
    error = cluster.error()
    assert "Traceback" not in error
    assert f"the connection to the scheduler {cluster.address} is lost" in error.splitlines()[-1]
    cluster.end()
    cluster.scheduler, cluster.workers = cluster.begin_scheduler(), [cluster.begin_worker()]
    again = cluster.command(*WORK, "--out", "out")
    assert again.wait(WITHIN) == 0, cluster.error()
    assert _table(tmp_path / "out") == expected


def test_a_worker_that_is_stopped_holds_nothing_up(cluster, expected, tmp_path):
    process = cluster.command(*WORK, "--out", "out")
    _wait_for(lambda: _chunks(tmp_path / "out"))
    cluster.workers[0].send_signal(signal.SIGSTOP)
    time.sleep(20)
    cluster.workers[0].kill()
    assert process.wait(WITHIN) == 0, cluster.error()
    assert _table(tmp_path / "out") == expected


def _table(out: Path) -> str:
    """The table of finished results."""
    return (out / "summary.csv").read_text()


def _chunks(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.glob("chunks/**/*.npz")}


def _wait_for(condition) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
