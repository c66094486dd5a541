"""The documentation site: every public name in the reference, every page reachable, tutorials that are executed."""

import re
from pathlib import Path

import jatpo

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
LONG = {"architecture", "results", "beyond", "adapt", "performance", "research-log"}


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^\.\. auto\w+:: jatpo\.(\w+)$", text, re.MULTILINE))
    assert set(jatpo.__all__) - {"__version__"} <= listed


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


def test_the_index_lists_no_page_that_is_not_there():
    text = (DOCS / "index.md").read_text()
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    names = re.findall(r"^([\w/-]+)$", "\n".join(blocks), re.MULTILINE)
    assert "@others@" in text  # where pages stand that nobody has listed
    assert [name for name in names if not (DOCS / f"{name}.md").is_file()] == []
