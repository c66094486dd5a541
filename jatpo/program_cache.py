"""Where compiled programs are kept between processes, so that each is compiled once on a machine.

jax writes them in place. One that a kill or a full disk cut short fails its checksum, and jax would report that in
every run without replacing it: `renew_unreadable` removes it, so that it is compiled and kept again.
"""

from __future__ import annotations

import contextlib
import glob
import platform
import re
import warnings
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from jatpo.errors import shown
from jatpo.user_cache import user_cache

DIRECTORY, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
PROBLEM = re.compile(
    r"Error (?P<what>reading|writing) persistent compilation cache entry for '(?P<name>[^']*)': (?P<why>.*)",
    re.DOTALL,
)
REASON = 100  # letters


def keep_compiled_programs(environment: MutableMapping[str, str]) -> None:
    """Let jax keep what it compiles, in the user's cache directory, unless `environment` says otherwise.

    jax reads the environment when it is imported.
    """
    place = user_cache() / f"compiled-{platform.node() or 'here'}"  # a program suits one machine
    environment.setdefault(DIRECTORY, str(place))
    environment.setdefault(SHORTEST, "0.2")


def renew_unreadable(environment: Mapping[str, str], report: Callable[[str], None]) -> None:
    """From now on, remove compiled programs that jax cannot read or write, and `report` it as one sentence."""
    before = warnings.showwarning

    def show(message, category, filename, lineno, file=None, line=None) -> None:
        found = PROBLEM.fullmatch(str(message))
        if found is None:
            before(message, category, filename, lineno, file, line)
            return
        directory = environment.get(DIRECTORY, "")
        drop(directory, found["name"])
        how = "read: it is removed and compiled again" if found["what"] == "reading" else "kept"
        why = shown(" ".join(found["why"].split()), REASON)
        report(f"the compiled program {found['name']} in {directory} cannot be {how} ({why})")

    warnings.showwarning = show


def drop(directory: str, name: str) -> None:
    """Remove the programs called `name`: those that are whole are compiled again when they are needed."""
    for path in glob.glob(f"{glob.escape(name)}-*", root_dir=directory or None):
        with contextlib.suppress(OSError):
            Path(directory, path).unlink()
