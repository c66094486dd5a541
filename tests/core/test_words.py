"""Plain English: the check of the word list finds what it should, and the repository passes it."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def words():
    spec = importlib.util.spec_from_file_location("words", ROOT / ".ci" / "words.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "text",
    [
        "x is no " + "model by its suffix",
        "15 s " + "are over",
        "lear" + "nt",
        "be" + "trays",
        "for" + " ever",
        "beyond" + " doubt",
        "wins" + " back",
    ],
)
def test_words_of_the_list_are_found(words, tmp_path, text):
    file = tmp_path / "page.md"
    file.write_text(f"first\n{text}\n{text}  # {words.KEEP}\nthere is no file\n")
    found = words.places(file, "page.md")
    assert found and all(place.startswith("page.md:2: ") for place in found)


def test_the_repository_passes(words, capsys):
    assert words.main([]) == 0, capsys.readouterr().out
