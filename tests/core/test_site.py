"""The documentation site: every public name in the reference, every page reachable, tutorials that are executed."""

import re
import subprocess
import sys
from pathlib import Path

import jatpo

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
LONGEST = 155  # lines of a page, about what a newcomer reads
RESULTS = {"results", "beyond", "adapt", "performance"}  # they state a question, a setting and a table
FREE = RESULTS | {"index", "research-log", "contributing", "changelog"}


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^\.\. auto\w+:: jatpo\.(\w+)$", text, re.MULTILINE))
    assert set(jatpo.__all__) - {"__version__"} <= listed


def test_the_page_of_commands_and_the_help_of_experiments_are_up_to_date():
    command = [sys.executable, ROOT / ".ci" / "commands.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_six_tutorials_are_executed():
    pages = sorted((DOCS / "tutorials").glob("*.md"))
    assert len(pages) >= 5
    for page in pages:
        text = page.read_text()
        assert text.startswith("---\nfile_format: mystnb\n") and "```{code-cell} python3" in text


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def test_the_index_lists_every_page_once():
    text = (DOCS / "index.md").read_text()
    blocks = "\n".join(re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL))
    names = re.findall(r"^([\w/-]+)$", blocks, re.MULTILINE)
    for pattern in re.findall(r"^(\w+/\*)$", blocks, re.MULTILINE):
        names += [str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.glob(pattern)]
    pages = [str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")]
    assert sorted([*names, "index"]) == sorted(pages)


def test_pages_are_short():
    """Outside of results and the reference, no page is longer than a newcomer reads."""
    for page in DOCS.rglob("*.md"):
        if page.stem not in RESULTS and page.parent.name != "reference":
            assert len(page.read_text().splitlines()) <= LONGEST, page.name


def test_pages_begin_with_what_the_reader_can_do():
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text(), flags=re.DOTALL).strip()
        free = page.stem in FREE or (page.parent.name == "reference" and page.stem != "commands")
        assert free or re.match(r"# .*\n\nAfter (reading )?this (page|tutorial) you ", text), page.name
