"""The description of the package: README.md without what only works inside the repository.

Everything else is in pyproject.toml. A package index shows the description on a page of its own, where pictures and
links with a relative address are broken.
"""

import re
from pathlib import Path

from setuptools import setup

RELATIVE = r"\((?![a-z]+:)[^)]*\)"


def description(readme: str) -> str:
    """The text without pictures at relative addresses, and with relative links replaced by their text."""
    without = re.sub(rf"^!\[[^\]]*\]{RELATIVE}\n\n", "", readme, flags=re.MULTILINE)
    return re.sub(rf"\[([^\]\n]*)\]{RELATIVE}", r"\1", without)


setup(
    long_description=description(Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
