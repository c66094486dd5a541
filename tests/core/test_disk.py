"""Files and directories written whole, sealed checkpoints, digests."""

import errno
import json
import os
import stat
import time

import numpy as np
import orbax.checkpoint as ocp
import pytest

from jatpo import drafts
from jatpo.disk import (
    Checkpoints,
    check_file,
    digest,
    digest_json,
    from_arrays,
    is_whole,
    new_directory,
    replacing,
    sealed,
    to_arrays,
    write_whole,
)
from jatpo.errors import JatpoError

IDENTITY = {"format": 1, "key": "abc"}


def test_a_file_is_written_with_its_directories_and_the_usual_permissions(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_whole(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    (tmp_path / "plain").write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    write_whole(path, b"\0")
    assert path.read_bytes() == b"\0"
    assert os.listdir(path.parent) == ["b.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write_whole(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "no space")))
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table.csv"]


def test_an_interrupted_stream_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.POMDP"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write("new, but not all")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with replacing(path) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["model.POMDP"]


@pytest.mark.parametrize("write", [lambda path: write_whole(path, "new"), None], ids=["whole", "stream"])
def test_a_link_is_written_through(tmp_path, write):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    if write:
        write(tmp_path / "link")
    else:
        with replacing(tmp_path / "link") as file:
            file.write("new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_places_that_cannot_be_written_are_refused(tmp_path):
    assert check_file(tmp_path / "new") == (tmp_path / "new").resolve()
    with pytest.raises(JatpoError, match="directory"):
        check_file(tmp_path)
    with pytest.raises(JatpoError, match="none"):
        check_file(tmp_path / "none" / "file")


def test_a_directory_appears_whole(tmp_path):
    target = tmp_path / "made"
    target.mkdir()  # an empty one may be there
    with pytest.raises(RuntimeError), new_directory(target) as draft:
        (draft / "half").write_text("")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["made"] and not os.listdir(target)
    with new_directory(target) as draft:
        (draft / "all").write_text("")
        assert not os.listdir(target)
    assert os.listdir(tmp_path) == ["made"] and os.listdir(target) == ["all"]
    with pytest.raises(JatpoError, match="made"), new_directory(target):
        raise AssertionError
    with pytest.raises(JatpoError, match="none"), new_directory(tmp_path / "none" / "deep"):
        raise AssertionError


def test_digests_tell_numbers_shapes_and_order_apart():
    one, two = np.arange(4.0), np.ones(2)
    found = [[one, two], [two, one], [one.reshape(2, 2), two], [one, two * 2], [np.append(one, two)]]
    assert len({digest(arrays) for arrays in found}) == len(found)
    assert digest([one[::-1]]) == digest([one[::-1].copy()])
    assert digest_json({"a": 1, "b": [2.5]}) == digest_json({"b": [2.5], "a": 1}) != digest_json({"a": 1})


@pytest.fixture
def kept(tmp_path):
    notes = []
    checkpoints = Checkpoints(tmp_path / "kept", IDENTITY, lambda event: notes.append(event.note))
    for number in (1, 2):
        arrays = {"x": np.full(3, number, np.float32), "n": np.int32(number)}
        checkpoints.save(f"run-{number:03d}", {"stage": number, "seconds": 0.5}, arrays)
    return checkpoints, notes


def both(meta, arrays):
    return meta, arrays


def test_a_checkpoint_comes_back(kept):
    checkpoints, notes = kept
    meta, arrays = checkpoints.load("run-001", both)
    assert meta == {"stage": 1, "seconds": 0.5}
    assert set(arrays) == {"x", "n"} and arrays["x"].dtype == np.float32 and arrays["n"] == 1
    assert checkpoints.load_newest("run-", both)[0]["stage"] == 2
    assert checkpoints.names() == ["run-002", "run-001"]
    checkpoints.drop(["run-001", "run-009"])
    assert checkpoints.names() == ["run-002"]
    assert checkpoints.load("run-001", both) is None
    assert not notes


def test_one_that_is_there_is_kept(kept):
    checkpoints, _ = kept
    checkpoints.save("run-001", {"stage": 7}, {"x": np.zeros(1)})
    assert checkpoints.load("run-001", both)[0]["stage"] == 1
    assert [name for name in os.listdir(checkpoints.directory) if name.startswith(".")] == []


def test_the_newest_of_numbered_states_is_kept(kept):
    checkpoints, _ = kept
    tree = {"a": np.arange(3.0, dtype=np.float32), "b": (np.int32(4),)}
    for number in (9, 10):
        checkpoints.save_newest("step-", number, {"number": number}, to_arrays(tree))
    assert checkpoints.names() == ["step-000010", "run-002", "run-001"]
    found = checkpoints.load_newest("step-", lambda meta, arrays: from_arrays(arrays, tree))
    np.testing.assert_array_equal(found["a"], tree["a"])
    assert found["b"] == (4,)
    with pytest.raises(ValueError, match="shapes"):
        from_arrays(to_arrays(tree), {**tree, "a": np.zeros(2)})


def damage_a_file(checkpoints):
    files = [path for path in (checkpoints.directory / "run-002").rglob("*") if path.is_file()]
    path = max(files, key=lambda file: file.stat().st_size)
    path.write_bytes(path.read_bytes()[:-1])


def damage_the_seal(checkpoints):
    (checkpoints.directory / "run-002" / "seal.json").unlink()


@pytest.mark.parametrize("damage", [damage_a_file, damage_the_seal])
def test_a_damaged_one_is_set_aside_and_the_next_is_used(kept, damage):
    checkpoints, notes = kept
    damage(checkpoints)
    assert checkpoints.load_newest("run-", both)[0]["stage"] == 1
    assert checkpoints.names() == ["run-001"]
    (aside,) = checkpoints.directory.glob("*.damaged")
    (note,) = notes
    assert str(checkpoints.directory / "run-002") in note and aside.name in note


def test_one_of_another_identity_is_set_aside(kept):
    checkpoints, notes = kept
    other = Checkpoints(checkpoints.directory, {**IDENTITY, "format": 2}, checkpoints.on_event)
    assert other.load_newest("run-", both) is None
    assert len(notes) == 2 and not other.names()


def test_one_that_the_caller_cannot_read_is_set_aside(kept):
    checkpoints, notes = kept
    assert checkpoints.load("run-002", lambda meta, arrays: arrays["y"]) is None
    assert "'y'" in notes[0] and checkpoints.names() == ["run-001"]


def draft_of(pid: int, start: int = 1) -> str:
    return f".draft-{drafts.machine()}-{pid}-{start}-0123456789abcdef"


def test_only_drafts_of_dead_owners_that_are_old_are_removed(tmp_path):
    ours = drafts.draft_name(tmp_path / "x").name
    dead = 2**22 + 1  # above the largest number of a process
    names = [ours, draft_of(dead), draft_of(os.getpid(), 1), ".draft-00000000-1-1-abc", ".draft-abc", "draft"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("")
    assert drafts.sweep(tmp_path) == []  # none is old
    for name in names:
        os.utime(tmp_path / name, (0, 0) if name == ".draft-abc" else (time.time() - 3600,) * 2)
    swept = {path.name for path in drafts.sweep(tmp_path)}
    assert swept == {draft_of(dead), draft_of(os.getpid(), 1), ".draft-abc"}
    assert set(os.listdir(tmp_path)) == set(names) - swept


def test_what_a_killed_process_left_goes_with_a_later_write(tmp_path):
    stale = tmp_path / draft_of(2**22 + 1)
    beside = tmp_path / f"{stale.name}.orbax-checkpoint-tmp-0"
    stale.write_text("half")
    beside.mkdir()
    for path in (stale, beside):
        os.utime(path, (time.time() - 3600,) * 2)
    write_whole(tmp_path / "table.csv", "new")
    assert os.listdir(tmp_path) == ["table.csv"]


def test_a_lock_is_waited_for_but_not_forever(tmp_path):
    with drafts.locked(tmp_path) as own:
        assert own
        times = iter([0.0, 5.0, 11.0])
        with drafts.locked(tmp_path, lambda: next(times)) as other:
            assert not other
    with drafts.locked(tmp_path) as own:
        assert own


@pytest.mark.parametrize(
    "raised",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        ValueError("RESOURCE_EXHAUSTED: Error writing 'a': [OS error 28: No space left on device]"),
        RuntimeError("Error creating file: Read-only file system [OS error 30: EROFS]"),
    ],
    ids=["os", "full", "read-only"],
)
def test_a_disk_that_refuses_a_checkpoint_is_an_os_error_and_no_draft_stays(kept, monkeypatch, raised):
    checkpoints, _ = kept

    class Failing:
        def save(self, path, tree):
            path.with_name(f"{path.name}.orbax-checkpoint-tmp-1").mkdir()
            raise raised

    monkeypatch.setattr(ocp, "PyTreeCheckpointer", Failing)
    with pytest.raises(OSError, match=r"No space left|Read-only") as found:
        checkpoints.save("run-003", {}, {"x": np.zeros(3)})
    assert found.value.errno in (errno.ENOSPC, errno.EROFS)
    assert found.value.filename == str(checkpoints.directory)
    assert sorted(os.listdir(checkpoints.directory)) == ["run-001", "run-002"]


def test_sealed_objects():
    value = sealed({"a": [1, 0.5], "b": {"c": None}})
    assert is_whole(value) and is_whole(json.loads(json.dumps(value)))
    assert not any(
        map(is_whole, (None, [], {}, {**value, "a": [1, 0.25]}, {**value, "d": 1}, {"a": [1, 0.5]}))
    )


def test_a_checkpoint_keeps_empty_arrays(tmp_path):
    checkpoints = Checkpoints(tmp_path, {"made": "for this"})
    kept = {"full": np.arange(3.0), "none": np.zeros((0, 4), np.int32)}
    checkpoints.save("state", {"seconds": 1}, kept)
    found = checkpoints.load("state", lambda meta, arrays: arrays)
    assert found is not None and found["none"].shape == (0, 4) and found["none"].dtype == np.int32
    np.testing.assert_array_equal(found["full"], kept["full"])
