"""Schedulers, workers and clients that are killed while a command runs: the same command gives the same tables.

A process is killed after so much work, not after so much time, so a machine that is busy kills no more often.
"""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from dask import config as dask_config

from dask_processes import Cluster
from jatpo.cluster import local_workers
from jatpo.engine import Unit
from jatpo.evaluate.results_store import numbers
from units_for_workers import pair

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
HELPERS = str(Path(__file__).parent.parent / "helpers")
KILLS = 100
LONGEST = 2.5  # seconds of processor time that a worker lives, at most; it takes about half of them to begin
TRIALS = 100_000
CHUNKS = 100  # that come back between two kills, at most
WITHIN = 600.0  # seconds until something that is waited for has happened
WORK = (
    *("evaluate", "abandoned-power-plant", "--agents", "random,atpo", "--solver", "qmdp"),
    *("--trials", str(TRIALS)),
)
COMMAND = (sys.executable, "-m", "jatpo", *WORK)


@pytest.fixture
def cluster(tmp_path):
    found = Cluster(tmp_path, 2, KILLS)
    yield found
    found.end()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The tables of a run on this machine alone."""
    folder = tmp_path_factory.mktemp("alone")
    command = [*COMMAND, "--out", "alone", "--quiet"]
    subprocess.run(command, cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, check=True)
    return _tables(folder / "alone")


def test_a_hundred_workers_killed_in_a_run_change_nothing(expected, tmp_path):
    rng, kills, runs = random.Random(1), 0, 0
    while kills < KILLS:  # a fast machine may finish a run before
        out, runs = tmp_path / f"out{runs}", runs + 1
        said = tmp_path / "error"
        with open(said, "w") as error:
            words = [*COMMAND, "--out", out.name, "--workers", "2"]
            environment = {
                **_environment(tmp_path),
                "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(KILLS),
            }
            process = subprocess.Popen(
                words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=error
            )
        try:
            _wait_for(lambda out=out: _chunks(out), process)
            while kills < KILLS and process.poll() is None:
                kills += _kill_a_worker(process.pid, rng)
            process.wait(WITHIN)
        finally:
            _end(process)
        print(f"{kills} kills in {runs} runs:", said.read_text())  # shown where the test fails
        assert process.returncode == 0
        lost = [int(number) for number in re.findall(r"workers lost (\d+)", said.read_text())]
        assert 0 < lost[-1] <= kills  # one may be killed before it has joined
        assert "failures" not in said.read_text()
        assert _tables(out) == expected
        computed = json.loads((out / "manifest.json").read_text())["computed"]
        for agent in ("random", "atpo"):
            done = computed[f"abandoned-power-plant/{agent}"]
            chunks = sorted(number for text in done.values() for number in numbers(text))
            assert chunks == list(range(-(-TRIALS // 128)))


def test_a_hundred_workers_killed_in_one_run_of_units_lose_none(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", HELPERS, prepend=os.pathsep)
    rng, killed = random.Random(3), []

    def kill():
        end = time.monotonic() + WITHIN
        while len(killed) < KILLS and time.monotonic() < end:
            killed.extend([True] if _kill_a_worker(os.getpid(), rng, 0.5) else [])

    settings = {"distributed.scheduler.allowed-failures": KILLS}
    with dask_config.set(settings), local_workers(2) as engine, ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill)
        shared = engine.share("shared")

        def units():  # until the last worker is killed
            for number in itertools.count():
                time.sleep(0.05)
                yield Unit(str(number), pair, (shared, number))
                if killing.done():
                    return

        found = [answer.value for answer in engine.run(units())]
        killing.result()
    assert len(killed) == KILLS
    assert sorted(found) == [("shared", number) for number in range(len(found))]


def test_workers_of_a_scheduler_may_be_killed_one_after_the_other(cluster, expected, tmp_path):
    rng, out = random.Random(2), tmp_path / "out"
    process = cluster.command(*WORK, "--out", "out")
    for _ in range(6):
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
    command = [*COMMAND, "--out", "out", "--workers", "2", "--quiet"]
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
    _wait_for_more(tmp_path / "out", 500, process)  # of the other one
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


def _kill_a_worker(process: int, rng: random.Random, longest: float = LONGEST) -> bool:
    """Kill one of a process' local workers, once it has worked for a while; whether there was one to kill."""
    lives = rng.uniform(0.0, longest)
    try:
        # Workers are forked by a process that the command starts.
        workers = [worker for each in psutil.Process(process).children() for worker in each.children()]
        if workers:
            victim = rng.choice(workers)
            while victim.status() != psutil.STATUS_ZOMBIE:
                if sum(victim.cpu_times()[:2]) >= lives:
                    victim.kill()
                    return True
                time.sleep(0.02)
    except psutil.NoSuchProcess:
        pass
    time.sleep(0.02)
    return False


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
