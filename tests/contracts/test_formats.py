"""What every file format must do, ours and one from outside the package: round trips, errors, whole files."""

import os
from pathlib import Path

import numpy as np
import pytest

import jatpo
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.files import formats, load
from jatpo.files.formats import FORMATS, Format, register
from jatpo.registry import load_extension
from jatpo.solve.policy import Policy
from random_models import build, example, plain

OUTSIDE = Path(__file__).parent / "outside" / "json_models.py"
DATA = Path(__file__).parent.parent / "data"

load_extension(OUTSIDE)
ALL = [FORMATS.get(name) for name in FORMATS.names()]
MODELS = [form for form in ALL if form.holds == "model"]
WRITTEN = [form for form in ALL if form.write is not None]


def by_name(form: Format) -> str:
    return form.name


def random_model(seed: int):
    names = {"states": list("abcde"), "actions": ["left", "right", "stay"], "observations": list("wxyz")}
    truths = plain(np.random.default_rng(seed), zeros=0.3 * (seed % 3)), example("hard zeros")
    return build(truths[seed % 2], **(names if seed % 2 else {}))


def value_of(form: Format, seed: int = 0):
    """Something that the format can hold."""
    if form.holds == "model":
        return random_model(seed)
    random = np.random.default_rng(seed)
    return Policy(random.normal(size=(4, 5)).astype(np.float32), random.integers(3, size=4).astype(np.int32))


def same(form: Format, one, other) -> bool:
    if form.holds == "model":
        return (one.content_hash(), one.names) == (other.content_hash(), other.names)
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def test_the_outside_format_is_among_them():
    assert {"cassandra", "alpha", "appl", "library", "json-model"} <= set(FORMATS.names())


@pytest.mark.parametrize("form", WRITTEN, ids=by_name)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_is_read(form, seed, tmp_path):
    for suffix in form.suffixes:
        path, value = tmp_path / f"a{suffix}", value_of(form, seed)
        form.write(value, path)
        assert same(form, formats.read(path, form), value)
        assert (
            formats.find(path, form.holds)
            is formats.find(tmp_path / f"A{suffix.upper()}", form.holds)
            is form
        )
        assert formats.holds(path) == form.holds


@pytest.mark.parametrize("form", ALL, ids=by_name)
@pytest.mark.parametrize("text", ["", "{]", "1 2 3 <", "\x00\xff"])
def test_a_file_that_is_something_else_is_refused_by_name(form, text, tmp_path):
    path = tmp_path / f"broken{form.suffixes[0]}"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(JatpoError, match="broken"):
        formats.read(path, form)


@pytest.mark.parametrize("form", WRITTEN, ids=by_name)
def test_a_file_that_ends_early_is_refused_by_name(form, tmp_path):
    path = tmp_path / f"short{form.suffixes[0]}"
    form.write(value_of(form), path)
    content = path.read_bytes().rstrip()
    path.write_bytes(content[: len(content) * 2 // 3])
    try:
        found = formats.read(path, form)
    except JatpoError as error:
        assert "short" in str(error)
    else:  # in a format of statements, a part may be a model or a policy too
        assert form.name in ("cassandra", "alpha") and not same(form, found, value_of(form))


@pytest.mark.parametrize("form", ALL, ids=by_name)
def test_a_missing_file_and_a_directory_are_refused_by_name(form, tmp_path):
    (tmp_path / f"folder{form.suffixes[0]}").mkdir()
    for name in ("none", "folder"):
        with pytest.raises(JatpoError, match=name):
            formats.read(tmp_path / f"{name}{form.suffixes[0]}", form)


@pytest.mark.parametrize("form", WRITTEN, ids=by_name)
def test_a_failed_write_leaves_what_was_there(form, tmp_path):
    path = tmp_path / f"a{form.suffixes[0]}"
    form.write(value_of(form), path)
    before = path.read_bytes()
    with pytest.raises((AttributeError, TypeError, JatpoError)):
        form.write(None, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("form", MODELS, ids=by_name)
def test_a_model_file_works_wherever_a_library_does(form, tmp_path, monkeypatch, capsys):
    """`load` of the file, of a directory and of a TOML file; info, check, convert, solve and evaluate."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path / "solutions"))
    monkeypatch.setenv("JATPO_EXTENSIONS", str(OUTSIDE))
    suffix, tiger = form.suffixes[0], load(DATA / "tiger.POMDP").member(0)
    (tmp_path / "lib").mkdir()
    name = f"lib/tiger{suffix}"
    form.write(tiger, name)
    Path("lib.toml").write_text(f'[[model]]\nfile = "{name}"\nlabel = "t"')
    for source in (name, "lib", "lib.toml"):
        assert jatpo.load(source).member(0).content_hash() == tiger.content_hash()
    assert jatpo.load("lib").origins[0].file.endswith(suffix)
    assert run(["info", name]) == 0 and "states" in capsys.readouterr().out
    assert run(["check", name]) == 0 and capsys.readouterr().out.startswith("ok: tiger")
    assert (
        run(["convert", name, f"copy{suffix}"]) == 0 and run(["convert", f"copy{suffix}", "back.POMDP"]) == 0
    )
    assert jatpo.load("back.POMDP").member(0).content_hash() == tiger.content_hash()
    assert run(["solve", name, "--stages", "2", "--quiet"]) == 0
    assert run(["evaluate", name, "--agents", "atpo,random", "--trials", "4", "-q"]) == 0
    assert "atpo" in capsys.readouterr().out


def test_unsupported_types_are_refused_with_what_is_supported(tmp_path):
    for path, wanted in (("a.foo", "model"), ("a.foo", "policy"), ("a.alpha", "model"), ("a", "library")):
        with pytest.raises(JatpoError, match=rf"'{Path(path).suffix}'.*{formats.suffixes(wanted)[0]}"):
            formats.find(tmp_path / path, wanted)
    with pytest.raises(JatpoError, match="toml"):
        formats.find("a.toml", "library", write=True)


def test_suffixes_and_built_in_names_are_taken():
    form = FORMATS.get("cassandra")
    with FORMATS.restored():
        for wrong in (
            Format("mine", "model", (".pomdp",), form.read),
            Format("mine", "model", ("pomdp2",), form.read),
            Format("mine", "picture", (".png",), form.read),
            Format("cassandra", "model", (".POMDP", ".pomdp2"), form.read),
        ):
            with pytest.raises(JatpoError, match=wrong.name):
                register(wrong)
