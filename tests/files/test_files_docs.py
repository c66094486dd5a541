"""docs/files.md: its snippets run, its library loads, its messages are what is said."""

import re
import shutil
from pathlib import Path

import pytest

from jatpo.errors import JatpoError
from jatpo.files import load, read_pomdp
from jatpo.files.formats import FORMATS

DATA = Path(__file__).parent.parent / "data"
PAGE = (DATA.parent.parent / "docs" / "files.md").read_text()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with the tiger in it."""
    for suffix in ("POMDP", "alpha", "policy"):
        shutil.copy(DATA / f"tiger.{suffix}", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snippets(language):
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found


def test_python(here):
    with FORMATS.restored():
        for snippet in snippets("python"):
            exec(snippet, {})
    assert (here / "copy.policy").read_text().startswith("<?xml")


def test_toml(here):
    deaf = (here / "tiger.POMDP").read_text().replace("0.85", "0.5").replace("0.15", "0.5")
    (here / "deaf.POMDP").write_text(deaf.replace("hear-left hear-right", "hear-right hear-left"))
    (here / "library.toml").write_text(snippets("toml")[0])
    library = load(here)
    assert library.labels == ("sharp ears", "deaf")
    assert library.horizon == 40


@pytest.mark.parametrize(
    "change",
    [("identity", "identiy"), ("open-left : tiger-left", "open-left : tiger-lft"), ("0.85", "0.8")],
    ids=lambda pair: pair[1],
)
def test_messages(change, here):
    path = here / "tiger.POMDP"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(JatpoError) as caught:
        read_pomdp("tiger.POMDP")
    assert f"    {str(caught.value).split(' (and')[0]}\n" in PAGE
