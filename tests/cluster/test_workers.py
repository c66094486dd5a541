"""Units of work on real Dask workers: the same results, lost workers, other versions, failures by name."""

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import tiny_domain
from jatpo import cluster, code_digest, cores
from jatpo.background_writes import BackgroundWrites
from jatpo.cli.engines import Engines
from jatpo.cluster import dask_engine, worker_units
from jatpo.cluster.starting_engine import StartingEngine
from jatpo.disk import Checkpoints
from jatpo.engine import Unit, UnitsFailed
from jatpo.errors import JatpoError
from jatpo.evaluate import rollout
from jatpo.evaluate.experiment import Config, run
from jatpo.evaluate.experiments import Comparison
from jatpo.evaluate.results_store import numbers, ranges
from jatpo.evaluate.shares import SECONDS, Share, Sizes
from jatpo.evidence import to_arrays
from jatpo.solve import Perseus, Request, Stop, solve_models
from jatpo.solve.cache import OwnCache
from jatpo.solve.evidence_store import load_evidence
from jatpo.solve.graph import GraphSearch
from random_models import build, example
from units_for_workers import die_once, pair, plus, refuse_even

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
HELPERS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "helpers")


@pytest.fixture(scope="module")
def notes():
    return []


@pytest.fixture(scope="module")
def engine(notes):
    """Two workers of this machine; they find the tests' own units."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", HELPERS, prepend=os.pathsep)
        patch.setenv(cores.DEVICES, "7")  # as commands have it: every core of this machine a device
        with cluster.local_workers(2, on_event=notes.append) as found:
            yield found


def models():
    return [build(example(name)) for name in ("plain", "hard zeros", "unreachable")]


# ---------------------------------------------------------------- results


def test_units_are_answered_with_what_they_share(engine, notes):
    shared = engine.share(np.arange(4))
    found = {
        answer.number: answer for answer in engine.run(Unit(str(i), plus, (shared, i)) for i in range(40))
    }
    assert sorted(found) == list(range(40))
    assert all(np.array_equal(found[i].value, np.arange(4) + i) for i in found)
    assert {answer.worker for answer in found.values()} <= set(engine.workers)
    share = max(1, cores.usable_cores() // 2)
    assert all(each["jatpo"] and each["devices"] == f"{share} cpu" for each in engine.workers.values())
    assert any("dashboard" in event.note for event in notes)


def test_models_are_solved_to_the_same_bits(engine, tmp_path):
    given = (models(), Perseus(beliefs=20), Stop(stages=4))
    ours = solve_models(*given, key=jax.random.key(3))
    theirs = solve_models(*given, key=jax.random.key(3), engine=engine, cache=tmp_path)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.policy.vectors, other.policy.vectors)
        np.testing.assert_array_equal(mine.policy.actions, other.policy.actions)
        assert (mine.lower, mine.upper, mine.status, mine.seed) == (
            other.lower,
            other.upper,
            other.status,
            other.seed,
        )
    again = solve_models(*given, key=jax.random.key(3), cache=tmp_path)  # the workers kept them here
    assert [each.seconds for each in again] == [each.seconds for each in theirs]


def test_evidence_comes_back_from_workers_that_have_other_disks(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "common_files", False)
    given = (models()[:1], GraphSearch(), Stop(stages=3))
    (ours,) = solve_models(*given, key=jax.random.key(3), cache=tmp_path / "ours")
    for turn in ("first", "second"):  # the second time from the worker's own cache
        (theirs,) = solve_models(
            *given, key=jax.random.key(3), engine=engine, cache=(there := tmp_path / turn)
        )
        assert theirs.evidence is None
        mine, other = load_evidence(tmp_path / "ours", ours.key), load_evidence(there, theirs.key)
        assert mine is not None
        assert other is not None
        jax.tree.map(np.testing.assert_array_equal, to_arrays(mine), to_arrays(other))


def test_a_worker_whose_own_disk_is_full_still_solves(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))

    monkeypatch.setattr(Checkpoints, "save", full)
    store = OwnCache(tmp_path)
    (found,) = solve_models(models()[:1], GraphSearch(), Stop(stages=3), key=jax.random.key(3))
    store.save_solution("key", found)
    store.save_run("key", 1, 0.0, {})
    store.save_evidence("key", found.evidence)


def test_an_experiment_has_the_same_tables_and_says_who_computed_what(engine, tmp_path):
    config = Config(trials=5 * rollout.CHUNK + 3, request=Request("qmdp"))
    with tiny_domain.registered() as name:
        tables = {}
        for kind, where in (("alone", None), ("workers", engine)):
            there = Config(**{**vars(config), "engine": where, "solutions": tmp_path / f"{kind}-solved"})
            tables[kind] = run(Comparison(), name, ["perseus", "random"], there, tmp_path / kind)
    for name, table in tables["alone"].items():
        assert [untimed(row) for row in table.rows] == [untimed(row) for row in tables["workers"][name].rows]
    alone = sorted((tmp_path / "alone").glob("chunks/**/*.npz"))
    assert len(alone) == 12
    for path in alone:
        other = tmp_path / "workers" / path.relative_to(tmp_path / "alone")
        with np.load(path) as mine, np.load(other) as theirs:
            assert all(np.array_equal(mine[part], theirs[part]) for part in mine.files)
    manifest = json.loads((tmp_path / "workers" / "manifest.json").read_text())
    computed = manifest["computed"][f"{tiny_domain.NAME}/random"]
    assert sorted(chunk for text in computed.values() for chunk in numbers(text)) == list(range(6))
    solved = manifest["computed"][f"{tiny_domain.NAME}/models"]
    assert sorted(number for text in solved.values() for number in numbers(text)) == [0, 1, 2]
    assert {manifest["workers"][who]["jax"] for who in (*computed, *solved)} == {jax.__version__}


def untimed(row):
    return {
        name: value for name, value in row.items() if "us" not in name.split("_") and "seconds" not in name
    }


# ---------------------------------------------------------------- failures


def test_a_unit_that_fails_is_named_after_the_others_are_done(engine):
    with pytest.raises(UnitsFailed, match=r"2 of 5 units .*unit 0: ValueError: 0 is even; unit 2: "):
        list(engine.run(Unit(f"unit {i}", refuse_even, (i,)) for i in (0, 1, 2, 3, 5)))


def test_the_units_of_a_worker_that_is_killed_run_again(engine, tmp_path):
    before = engine.figures().get("workers lost", 0)
    mark = tmp_path / "died"
    found = [answer.value for answer in engine.run(Unit(str(i), die_once, (i, str(mark))) for i in range(6))]
    assert sorted(found) == list(range(6))
    assert mark.exists()
    assert engine.figures()["workers lost"] == before + 1


def test_an_answer_counts_whose_worker_is_lost_after_it_has_come(engine, monkeypatch):
    class Stream(dask_engine.as_completed):
        def __next__(self):
            future, value = super().__next__()
            future._state.lose()  # as Dask does where the worker that has the result is lost
            return future, value

    monkeypatch.setattr(dask_engine, "as_completed", Stream)
    assert [answer.value for answer in engine.run([Unit("one", pair, (1, 2))])] == [(1, 2)]


def test_a_worker_of_another_version_is_refused_by_name_of_both(engine, monkeypatch):
    ours = worker_units.versions()
    monkeypatch.setattr(worker_units, "versions", lambda: {**ours, "jatpo": "9.9"})
    with pytest.raises(JatpoError, match=rf"it has jatpo {ours['jatpo']}, and this command jatpo 9.9"):
        dask_engine.DaskEngine(engine._client, True)
    with pytest.raises(
        UnitsFailed, match=rf"refused: it has jatpo {ours['jatpo']}, and this command jatpo 9.9"
    ):
        list(engine.run([Unit("one", pair, (1, 2))]))


def test_a_scheduler_that_is_not_there_is_one_sentence():
    with pytest.raises(JatpoError, match=r"no scheduler at tcp://127\.0\.0\.1:9 .*dask scheduler"):  # noqa: SIM117
        with cluster.connected("tcp://127.0.0.1:9", timeout=0.5):
            pass


# ---------------------------------------------------------------- pieces


def test_ranges_are_read_back():
    for chosen in ([], [0], [0, 1, 2], [3, 5, 6, 9], [1, 2, 4]):
        assert numbers(ranges(chosen)) == chosen
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


@pytest.mark.parametrize("seconds", [1e-6, 0.01, 0.4, 30.0])
@pytest.mark.parametrize(("chunks", "slots"), [([1], 2), ([8], 2), ([100, 3, 2000], 4), ([900], 1)])
def test_units_have_every_chunk_once_and_about_the_seconds_that_are_wanted(chunks, slots, seconds):
    sizes, counts = Sizes(sum(chunks), lambda: slots), []
    for cell, left in enumerate(chunks):
        while left:
            count = sizes.next(cell, left)
            assert 1 <= count <= left
            known = cell in sizes._pace
            assert count <= (max(1, SECONDS / seconds) if known else rollout.TOGETHER)
            counts.append(count)
            sizes.note(cell, Share(range(count), None, (), count * seconds))
            left -= count
    assert sum(counts) == sum(chunks)
    assert counts[-1] <= max(1, sum(chunks) / slots)  # no slot has all of it at the end


def test_every_file_of_the_package_is_in_the_digest_of_its_code():
    files = dict(code_digest._files())
    assert {"jatpo/engine.py", "jatpo/solve/perseus.py", "jatpo/evaluate/agents/protocol.py"} <= set(files)
    assert all(path.is_file() for path in files.values())
    modules = {name.replace(".", "/") for name in sys.modules if name.startswith("jatpo.")}
    assert {name for name in modules if f"{name}.py" not in files} <= {
        name.removesuffix("/__init__.py") for name in files if name.endswith("__init__.py")
    }


def test_other_code_of_the_same_version_is_named_on_both_sides():
    ours = worker_units.versions()
    assert worker_units.difference(ours, ours) is None
    theirs = {**ours, "code": "0badc0de"}
    found = worker_units.difference(theirs, ours)
    assert found is not None
    version = ours["jatpo"]
    assert (
        f"it has jatpo {version} with code 0badc0de, and this command jatpo {version} with code {ours['code']}"
        in found
    )
    older = {name: each for name, each in ours.items() if name not in ("code", "extensions")}
    assert "with code None" in (worker_units.difference(older, ours) or "")


def test_other_extensions_are_another_version(tmp_path, monkeypatch):
    ours = worker_units.versions()
    (tmp_path / "mine.py").write_text("A = 1\n")
    monkeypatch.setenv("JATPO_EXTENSIONS", str(tmp_path / "mine.py"))
    code_digest.extensions_digest.cache_clear()
    try:
        found = worker_units.difference(ours, worker_units.versions())
    finally:
        code_digest.extensions_digest.cache_clear()
    assert found is not None
    assert "it has no extensions, and this command extensions with code " in found


def test_an_engine_that_starts_is_waited_for_and_its_failure_is_raised_where_it_is_needed(engine):
    with ThreadPoolExecutor(1) as pool:
        found = StartingEngine(pool.submit(lambda: engine))
        assert [answer.value for answer in found.run([Unit("one", pair, (1, 2))])] == [(1, 2)]
        assert (found.slots, set(found.workers)) == (engine.slots, set(engine.workers))
        broken = StartingEngine(pool.submit(plus))
        with pytest.raises(TypeError):
            next(broken.run([]))


def test_files_are_written_in_the_background_and_errors_are_raised(tmp_path):
    with BackgroundWrites(threads=2, waiting=3) as writes:
        for i in range(40):
            writes.put((tmp_path / str(i)).write_text, str(i))
    assert sorted(int(path.read_text()) for path in tmp_path.iterdir()) == list(range(40))
    with pytest.raises(FileNotFoundError), BackgroundWrites() as writes:
        writes.put((tmp_path / "no" / "folder").write_text, "")
    with pytest.raises(KeyboardInterrupt), BackgroundWrites() as writes:  # what was handed over is written
        writes.put((tmp_path / "last").write_text, "")
        raise KeyboardInterrupt
    assert (tmp_path / "last").exists()


def test_options_that_exclude_each_other_are_refused(tmp_path):
    with pytest.raises(JatpoError, match="--scheduler and --workers exclude each other"):
        Engines("tcp://x:1", 2).check()
    with pytest.raises(JatpoError, match="--shared is for --scheduler"):
        Engines(workers=2, shared=tmp_path).check()


def test_a_client_that_ends_at_once_prints_nothing_of_what_it_leaves():
    """As after Ctrl-C: the process that removes semaphores would warn of them after the command's last line."""
    script = """
import multiprocessing, os
from jatpo.cluster import dask_engine
dask_engine._track_quietly()
kept = multiprocessing.get_context("spawn").Semaphore()
os._exit(130)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
