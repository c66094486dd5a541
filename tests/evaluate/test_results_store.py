"""A directory of results: chunks, manifest, tables, and what is refused."""

import csv
import json
import math
import multiprocessing

import jax
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.evaluate import rollout
from jatpo.evaluate.results_store import Store, place_for
from jatpo.evaluate.trial_rows import TrialRows
from jatpo.tables import Table


def some_trials(first: int = 0) -> rollout.Trials:
    numbers = np.arange(first, first + 4)
    records = {"posterior": np.full((4, 2, 3), 0.25, np.float32)}
    return rollout.Trials(numbers, numbers % 3, numbers * 1.5, numbers * 1.0, records)


def test_chunks_come_back_as_they_went_in(tmp_path):
    kept = Store(tmp_path / "new", "evaluate", {"seed": 0})
    kept.open_part("a", {"horizon": 5})
    kept.save("a", "atpo", 3, some_trials())
    again = Store(tmp_path / "new", "evaluate", {"seed": 0})
    again.open_part("a", {"horizon": 5})
    assert again.has("a", "atpo", 3)
    assert not again.has("a", "atpo", 2)
    jax.tree.map(np.testing.assert_array_equal, again.load("a", "atpo", 3), some_trials())
    manifest = json.loads((tmp_path / "new" / "manifest.json").read_text())
    assert {"jatpo", "jax", "backend", "created", "settings", "parts", "agents", "seconds"} <= set(manifest)


def test_other_settings_are_refused_with_what_differs(tmp_path):
    kept = Store(tmp_path / "r", "evaluate", {"seed": 0, "rules": "as_run"})
    kept.open_part("a", {"models": ["x"], "horizon": 5})
    before = (tmp_path / "r" / "manifest.json").read_bytes()
    with pytest.raises(JatpoError, match=r"settings.seed is 0 there and 1 here.*choose another directory"):
        Store(tmp_path / "r", "evaluate", {"seed": 1, "rules": "as_run"})
    with pytest.raises(JatpoError, match="experiment is evaluate there and scaling here"):
        Store(tmp_path / "r", "scaling", {"seed": 0, "rules": "as_run"})
    with pytest.raises(JatpoError, match=r"results of a made otherwise .*horizon is 5 there and 6 here"):
        kept.open_part("a", {"models": ["x"], "horizon": 6})
    assert (tmp_path / "r" / "manifest.json").read_bytes() == before


def test_directories_of_others_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(JatpoError, match="not empty"):
        Store(tmp_path, "evaluate", {})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text("{")
    with pytest.raises(JatpoError, match="cannot be read as JSON"):
        Store(other, "evaluate", {})
    (other / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(JatpoError, match="not a manifest of jatpo"):
        Store(other, "evaluate", {})
    assert [path.name for path in other.iterdir()] == ["manifest.json"]


CHUNK = "r/chunks/a/atpo/000000.npz"


def with_a_chunk(tmp_path, notes=None) -> Store:
    kept = Store(
        tmp_path / "r", "evaluate", {}, lambda event: (notes if notes is not None else []).append(event)
    )
    kept.open_part("a", {"horizon": 5})
    kept.open_agent("a", "atpo", {"solutions": {"policies": "34"}})
    return kept


def test_every_damage_to_a_chunk_is_detected(tmp_path):
    kept = with_a_chunk(tmp_path, notes := [])
    kept.save("a", "atpo", 0, some_trials())
    path, random = tmp_path / CHUNK, np.random.default_rng(0)
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << random.integers(8)
        path.write_bytes(flipped)
        assert kept.load("a", "atpo", 0) is None
        path.write_bytes(whole[:place])
        assert kept.load("a", "atpo", 0) is None
    assert len(notes) == 2 * len(whole)
    assert all("000000.npz cannot be used" in event.note for event in notes)
    assert not kept.has("a", "atpo", 0)
    path.write_bytes(whole)
    assert kept.load("a", "atpo", 0) is not None
    assert set(np.load(path).files) == {"trial", "truth", "returns", "discounted", "record_posterior"}


def test_chunks_of_other_settings_are_not_taken_when_the_manifest_is_gone(tmp_path):
    kept = with_a_chunk(tmp_path)
    kept.save("a", "atpo", 0, some_trials())
    (tmp_path / "r" / "manifest.json").write_text("null")
    again = Store(tmp_path / "r", "evaluate", {}, (notes := []).append)
    again.open_part("a", {"horizon": 6})
    again.open_agent("a", "atpo", {"solutions": {"policies": "34"}})
    assert again.load("a", "atpo", 0) is None
    assert [event.note.split(" cannot")[0] for event in notes] == [
        str(tmp_path / "r" / "manifest.json"),
        str(tmp_path / CHUNK),
    ]


def test_every_damage_to_a_manifest_is_detected(tmp_path):
    kept = with_a_chunk(tmp_path)
    kept.save("a", "atpo", 0, some_trials())
    path, random = tmp_path / "r" / "manifest.json", np.random.default_rng(0)
    whole, value = path.read_bytes(), json.loads(path.read_bytes())
    for place in random.choice(len(whole), 60, replace=False):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << random.integers(8)
        for damaged in (bytes(flipped), whole[:place]):
            path.write_bytes(damaged)
            again = with_a_chunk(tmp_path, notes := [])
            assert again.load("a", "atpo", 0) is not None  # it carries what it was made for
            same = len(notes) == 0 and json.loads(path.read_bytes()) == value  # blanks, letters of an escape
            assert same or [event.note.split(" cannot")[0] for event in notes] == [str(path)]
            path.write_bytes(whole)


def test_a_directory_with_a_damaged_manifest_is_the_usual_place(tmp_path):
    kept = with_a_chunk(tmp_path)
    usual = tmp_path / "r"
    whole = (usual / "manifest.json").read_text()
    settings = kept.manifest["settings"]
    assert place_for(usual, "evaluate", settings) == usual
    assert place_for(usual, "evaluate", {**settings, "seed": -1}) != usual
    for damaged in (whole[:50], "[]", "null", "3", whole.replace('"evaluate"', '"evaluatf"')):
        (usual / "manifest.json").write_text(damaged)
        assert place_for(usual, "evaluate", settings) == usual
    (usual / "manifest.json").write_text('{"format": 1, "experiment": "evaluate"}')  # of an earlier version
    assert place_for(usual, "evaluate", settings) != usual


def test_a_kill_inside_the_first_write_is_no_obstacle(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / ".draft-00000000-1-1-abc").write_text('{"format"')
    (tmp_path / "r" / ".lock").touch()
    with_a_chunk(tmp_path).save("a", "atpo", 0, some_trials())
    (tmp_path / "r" / "manifest.json").rename(tmp_path / "r" / "manifest.json-12345678.damaged")
    assert with_a_chunk(tmp_path).load("a", "atpo", 0) is not None  # killed before the new one was written


def test_every_damage_to_a_table_is_detected(tmp_path):
    kept = Store(tmp_path / "r", "evaluate", {}, (notes := []).append)
    rows = [{"a": 1, "b": 0.5}, {"a": 2, "b": None}]
    kept.write_table("t", Table(rows[:1]))
    kept.write_table("t", Table(rows))
    assert kept.read_table("t") == rows
    path, random = tmp_path / "r" / "t.json", np.random.default_rng(0)
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << random.integers(8)
        for damaged in (bytes(flipped), whole[:place]):
            path.write_bytes(damaged)
            notes.clear()
            assert kept.read_table("t") in ([], rows)
            assert notes or kept.read_table("t") == rows
    path.unlink()
    assert kept.read_table("t") == []


def share(directory: str, number: int) -> list[dict]:
    """What one of several processes does: open, add an agent, a chunk and rows of its own."""
    kept = Store(directory, "evaluate", {})
    kept.open_part("a", {"horizon": 5})
    kept.open_agent("a", f"agent-{number}", {"solutions": {}})
    kept.save("a", f"agent-{number}", 0, some_trials())
    kept.add_seconds("all", 1.0)
    return kept.merge_table("t", lambda found: [*found, {"number": number}])


def test_any_number_of_processes_may_share_a_directory(tmp_path):
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        pool.starmap(share, [(str(tmp_path / "r"), number) for number in range(12)], chunksize=1)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert set(manifest["agents"]["a"]) == {f"agent-{number}" for number in range(12)}
    assert manifest["seconds"] == {"all": 12.0}
    kept = Store(tmp_path / "r", "evaluate", {})
    assert sorted(row["number"] for row in kept.read_table("t")) == list(range(12))
    assert all(kept.load("a", f"agent-{number}", 0) is not None for number in range(12))
    assert not list((tmp_path / "r").rglob(".draft-*"))


def test_single_trials_are_written_as_csv_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("jatpo.evaluate.trial_rows.PIECE", 3)
    rows = TrialRows([("a, b", "atpo", some_trials()), ("c", "random", some_trials(4))])
    kept = Store(tmp_path / "r", "evaluate", {})
    kept.write_stream("trials", rows)
    assert len(rows) == 8 and rows[-1] == {
        "domain": "c",
        "agent": "random",
        "trial": 7,
        "model": 1,
        "return": 10.5,
    }
    assert (tmp_path / "r" / "trials.csv").read_text() == Table(rows).to_csv()


def test_tables_are_tidy(tmp_path):
    kept = Store(tmp_path / "r", "evaluate", {})
    kept.write_table("t", Table([{"a": 1, "b": math.nan}, {"a": None, "c": np.float32(0.5)}]))
    with (tmp_path / "r" / "t.csv").open() as lines:
        assert list(csv.DictReader(lines)) == [{"a": "1", "b": "", "c": ""}, {"a": "", "b": "", "c": "0.5"}]
    assert json.loads((tmp_path / "r" / "t.json").read_text()) == [{"a": 1, "b": None}, {"a": None, "c": 0.5}]


def test_trials_of_policies_without_a_digest_are_refused(tmp_path):
    kept = Store(tmp_path / "r", "evaluate", {})
    kept.open_part("a", {"horizon": 5})
    before = (tmp_path / "r" / "manifest.json").read_bytes()
    with pytest.raises(JatpoError, match=r"atpo in a .*policies"):
        kept.open_agent("a", "atpo", {"solutions": {"q": "12", "policies": None}})
    assert (tmp_path / "r" / "manifest.json").read_bytes() == before
    kept.open_agent("a", "random", {"solutions": {}})
    kept.open_agent("a", "atpo", {"solutions": {"policies": "34"}})
    with pytest.raises(JatpoError, match=r"policies is 34 there and 56 here"):
        kept.open_agent("a", "atpo", {"solutions": {"policies": "56"}})
