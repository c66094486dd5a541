"""A directory of results: chunks, manifest, tables, and what is refused."""

import csv
import json
import math

import jax
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.evaluate import rollout
from jatpo.evaluate.results_store import Store
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


def test_a_damaged_chunk_is_named(tmp_path):
    kept = Store(tmp_path / "r", "evaluate", {})
    kept.save("a", "atpo", 0, some_trials())
    path = tmp_path / "r" / "chunks" / "a" / "atpo" / "000000.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(JatpoError, match=r"000000.npz is damaged: remove it"):
        kept.load("a", "atpo", 0)


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
