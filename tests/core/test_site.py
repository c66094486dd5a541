"""The documentation site: every public name in the reference, every page reachable, tutorials that are executed."""

import re
import subprocess
import sys
from pathlib import Path

import jatpo

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^\.\. auto\w+:: jatpo\.(\w+)$", text, re.MULTILINE))
    assert set(jatpo.__all__) - {"__version__"} <= listed


def test_the_page_of_commands_is_up_to_date():
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
