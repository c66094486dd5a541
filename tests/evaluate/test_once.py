"""On its way from a name to a table a model is validated once and hashed once."""

import cProfile
import pstats

import pytest

import jatpo
import tiny_domain
import tiny_team
from jatpo.cli.main import run
from jatpo.files import write_pomdp
from jatpo.model import POMDP


def counted(action) -> dict[tuple[str, str], int]:
    """How often each function of the package was called, by (end of its module's path, name)."""
    profile = cProfile.Profile()
    profile.runcall(action)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found: dict[tuple[str, str], int] = {}
    for (path, _, name), (_, calls, *_) in stats.items():
        key = (path.rsplit("/", 1)[-1], name)
        found[key] = found.get(key, 0) + calls
    return found


@pytest.fixture(params=["World", "Description", "POMDP", "file"])
def source(request, tmp_path, monkeypatch, registries):
    """A library from a builder that returns one of these, or from files; and how many models it has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path / "solutions"))
    if request.param == "World":
        with tiny_team.registered() as name:
            yield name, 2
        return
    with tiny_domain.registered() as name:
        if request.param == "file":
            (tmp_path / "doors").mkdir()
            for k, model in enumerate(jatpo.load(name)):
                write_pomdp(model, tmp_path / "doors" / f"{k}.POMDP")
            name = "doors"
        elif request.param == "POMDP":
            jatpo.domains.register("doors", models=3)(
                lambda model: jatpo.domains.to_pomdp(tiny_domain.describe(model))
            )
            name = "doors"
        yield name, 3


def test_loading_validates_once(source):
    name, models = source
    calls = counted(lambda: jatpo.load(name))
    assert calls["validate.py", "rows"] == 2 * models  # P and O


def test_a_table_hashes_every_model_once(source):
    name, models = source
    hashes = ("model.py", "_content_hash")
    arguments = ["evaluate", name, "--agents", "atpo,random", "--trials", "4", "--seconds", "0.1", "-q"]
    calls = counted(lambda: run(arguments))
    assert calls[hashes] == models


def test_a_hash_is_kept_and_a_changed_model_has_its_own():
    model: POMDP = jatpo.domains.to_pomdp(tiny_domain.describe(0))
    before = model.content_hash()
    calls = counted(lambda: [model.content_hash() for _ in range(3)])
    assert ("model.py", "_content_hash") not in calls
    assert model.replace(discount=model.discount / 2).content_hash() != before == model.content_hash()
