"""A digest of jatpo's own code and of the user's extensions: two processes of one version may differ in either."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from jatpo.registry import extension_files

PACKAGES = ("jatpo", "jatpo.domains", "jatpo.solve", "jatpo.evaluate")  # each may be in a folder of its own
DIGITS = 8


@functools.cache
def code_digest() -> str:
    """Of every Python file of jatpo, as it was when this was first asked, whether installed or in a clone."""
    state = hashlib.sha256()
    for name, path in sorted(dict(_files()).items()):
        state.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return state.hexdigest()[:DIGITS]


@functools.cache
def extensions_digest() -> str:
    """Of the user's files and modules that JATPO_EXTENSIONS names; empty where there are none."""
    found = [path.read_bytes() if path.is_file() else b"" for path in extension_files()]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:DIGITS] if found else ""


def _files() -> Iterator[tuple[str, Path]]:
    """The files of jatpo by the place that an installed package has them at."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).rglob("*.py"):
                yield f"{package.replace('.', '/')}/{path.relative_to(folder).as_posix()}", path
