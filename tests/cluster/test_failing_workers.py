"""Workers that are slow, of another version, or out of disk or memory: the rest is done, and the command resumes."""

import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from dask_processes import Cluster
from jatpo import cluster
from jatpo.cluster.agreement import check
from jatpo.engine import Unit, UnitsFailed
from jatpo.errors import JatpoError
from jatpo.version import __version__
from small_disk import small_disk
from units_for_workers import grow, pair, pause

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
HELPERS = str(Path(__file__).parent.parent / "helpers")
OTHER = "import jatpo.version\njatpo.version.__version__ = '9.9'\n"
WITHIN = 300.0


@pytest.fixture
def processes(tmp_path):
    found = Cluster(tmp_path, 0, allowed_failures=1)
    yield found
    found.end()


@pytest.fixture
def other(tmp_path):
    """The environment of a worker that has another version."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sitecustomize.py").write_text(OTHER)
    return {"PYTHONPATH": str(tmp_path / "other")}


# ---------------------------------------------------------------- versions


def test_a_worker_of_another_version_gets_no_work_and_the_others_do_all(processes, other, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as the workers have it
    processes.workers += [processes.begin_worker(PYTHONPATH=HELPERS) for _ in range(2)]
    processes.workers.append(processes.begin_worker(**other))
    _wait_for_workers(processes, 3)
    notes = []
    with cluster.connected(processes.address, on_event=notes.append) as engine:
        found = list(engine.run(Unit(str(i), pause, (i,)) for i in range(40)))
        agreement = check(engine)
        shared = [engine.share(i) for i in range(12)]  # more than there are workers
        pairs = list(engine.run(Unit(str(i), pair, (shared[i], i)) for i in range(12)))
    assert sorted(answer.value for answer in found) == list(range(40))
    assert sorted(answer.value for answer in pairs) == [(i, i) for i in range(12)]
    assert {each["jatpo"] for each in engine.workers.values()} == {__version__}
    sentence = f"it has jatpo 9.9, and this command jatpo {__version__}"
    assert any(sentence in event.note for event in notes)
    assert any(sentence in problem for problem in agreement.problems)
    assert Counter(row["agrees"] for row in agreement.rows) == {"yes": 2, "no": 1}


def test_a_worker_of_another_version_that_joins_later_is_closed_and_named(processes, other):
    processes.workers.append(processes.begin_worker(PYTHONPATH=HELPERS))
    notes = []
    with cluster.connected(processes.address, on_event=notes.append) as engine:
        late = processes.begin_worker(**other)
        processes.workers.append(late)
        late.wait(WITHIN)
        assert [answer.value for answer in engine.run([Unit("one", pause, (1,))])] == [1]
        assert any(
            f"refused: it has jatpo 9.9, and this command jatpo {__version__}" in e.note for e in notes
        )
    again = processes.begin_worker(**other)  # nobody of this version uses the scheduler now
    processes.workers.append(again)
    _wait_for_workers(processes, 2)
    assert again.poll() is None


def test_when_only_workers_of_another_version_are_left_the_command_ends(processes, other):
    used = processes.begin_worker(PYTHONPATH=HELPERS)
    processes.workers += [used, processes.begin_worker(**other)]
    _wait_for_workers(processes, 2)
    with (
        cluster.connected(processes.address) as engine,
        pytest.raises(
            JatpoError, match=rf"all workers are lost but those .* it has jatpo 9\.9.*{__version__}"
        ),
    ):
        for _ in engine.run(Unit(str(i), pause, (i,)) for i in range(2000)):
            used.kill()


def test_no_worker_but_those_of_another_version_is_an_error_with_both(processes, other):
    processes.workers.append(processes.begin_worker(**other))
    _wait_for_workers(processes, 1)
    process = processes.command("evaluate", "abandoned-power-plant", "--trials", "128", "--out", "out")
    assert process.wait(WITHIN) == 2
    said = " ".join(processes.error().split())
    assert f"it has jatpo 9.9, and this command jatpo {__version__}" in said
    assert "Traceback" not in said


def test_a_scheduler_without_workers_names_the_one_that_was_refused(processes, other):
    notes = []

    def begin(event):
        notes.append(event.note)
        if "waiting for one" in event.note:
            processes.workers.append(processes.begin_worker(**other))

    with (
        pytest.raises(JatpoError, match=rf"no workers after .* it has jatpo 9\.9, .*jatpo {__version__}"),
        cluster.connected(processes.address, on_event=begin, timeout=20),
    ):
        pass


# ---------------------------------------------------------------- slow workers, memory, disks


def test_a_slow_worker_leaves_its_units_to_the_other(processes):
    processes.workers.append(processes.begin_worker(PYTHONPATH=HELPERS, PAUSE="2"))
    processes.workers.append(processes.begin_worker(PYTHONPATH=HELPERS))
    _wait_for_workers(processes, 2)
    with cluster.connected(processes.address) as engine:
        began = time.monotonic()
        found = Counter(answer.worker for answer in engine.run(Unit(str(i), pause, (i,)) for i in range(60)))
        seconds = time.monotonic() - began
    assert sum(found.values()) == 60
    assert min(found.values()) < 15
    assert seconds < 45  # 60 if each had its half


def test_a_unit_that_needs_more_memory_than_a_worker_has_is_named_and_the_others_are_done(processes):
    limit = ("--nanny", "--memory-limit", "1GB")
    processes.workers += [processes.begin_worker(*limit, PYTHONPATH=HELPERS) for _ in range(2)]
    _wait_for_workers(processes, 2)
    found = []
    with cluster.connected(processes.address) as engine:
        expected = r"1 of 12 units .*unit 5: 2 workers were lost while they computed it; too little memory"
        with pytest.raises(UnitsFailed, match=expected):
            for answer in engine.run(Unit(f"unit {i}", grow, (i, 5)) for i in range(12)):
                found.append(answer.value)
        assert sorted(found) == [i for i in range(12) if i != 5]
        assert engine.figures()["workers lost"] == 2
        again = engine.run([Unit("unit 5", grow, (5, None))])  # with more memory
        assert [answer.value for answer in again] == [5]


def test_a_shared_disk_that_is_full_is_named_and_the_same_command_resumes(processes, tmp_path):
    processes.workers += [processes.begin_worker() for _ in range(2)]
    work = (
        "evaluate",
        "abandoned-power-plant",
        "--agents",
        "random,atpo",
        "--trials",
        "20000",
        "--out",
        "out",
    )
    work = (*work, "--solver", "qmdp", "--shared", str(tmp_path / "disk"))
    with small_disk(tmp_path / "disk", 400_000) as mounted:
        if not mounted:
            pytest.skip("a file system cannot be mounted here")
        process = processes.command(*work)
        assert process.wait(WITHIN) == 2
        said = " ".join(processes.error().split())
        assert "the disk of a worker is full" in said
        assert "give the same command again" in said
        assert "Traceback" not in said
        assert not list((tmp_path / "disk").rglob(".draft-*"))
        kept = set((tmp_path / "out").glob("chunks/**/*.npz"))
        subprocess.run(["mount", "-o", "remount,size=100M", str(tmp_path / "disk")], check=True)
        again = processes.command(*work)
        assert again.wait(WITHIN) == 0, processes.error()
    assert kept <= set((tmp_path / "out").glob("chunks/**/*.npz"))
    assert (tmp_path / "out" / "summary.csv").exists()


def test_a_worker_whose_own_disk_is_full_returns_its_solutions(processes, tmp_path):
    with small_disk(tmp_path / "disk", 8192) as mounted:
        if not mounted:
            pytest.skip("a file system cannot be mounted here")
        processes.workers.append(processes.begin_worker(JATPO_CACHE=str(tmp_path / "disk")))
        process = processes.command("solve", "abandoned-power-plant", "--stages", "3")
        assert process.wait(WITHIN) == 0, processes.error()


def _wait_for_workers(processes, count):
    from distributed import Client

    with Client(processes.address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)
