"""Names in files: what the format allows, and how names that it does not allow survive in comments.

A name of the format is a letter followed by letters, digits, `_` and `-`, and is none of its keywords. Where
a model's own name differs from the one written, a comment such as

    #jatpo state agent_0_4_teammate_2_3 "agent 0,4 teammate 2,3"

keeps it, and reading puts it back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from jatpo.files.preamble import RESERVED

LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")
LINE = re.compile(rb'^#jatpo (state|action|observation) (\S+) (".*")[ \t\r]*$', re.MULTILINE)


def legal_names(kind: str, names: Sequence[str]) -> list[str]:
    """Different legal names, each as close to the given one as the format allows."""
    fixed = {name for name in names if _is_legal(name)}
    used = set(fixed)
    result = []
    for index, name in enumerate(names):
        if name not in fixed:
            stem = ILLEGAL.sub("_", name).strip("_")
            name = stem if _is_legal(stem) else f"{kind[0]}_{stem}".rstrip("_")
            name = name if name not in used and _is_legal(name) else f"{name}_{index}"
            while name in used:
                name += "_"
            used.add(name)
        result.append(name)
    return result


def comments(kind: str, legal: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The lines that keep the names which had to be changed."""
    for written, name in zip(legal, names, strict=True):
        if written != name:
            yield f"#jatpo {kind} {written} {json.dumps(name)}\n"


def _is_legal(name: str) -> bool:
    return bool(LEGAL.fullmatch(name)) and name not in RESERVED


class Originals:
    """The names that comments of a file keep."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {"state": {}, "action": {}, "observation": {}}

    def collect(self, text: bytes) -> None:
        """Take up the comments in a piece of the file; those that are not ours are passed over."""
        if b"#jatpo " not in text:
            return
        for kind, written, quoted in LINE.findall(text):
            try:
                self._names[kind.decode()][written.decode("utf-8", "replace")] = str(json.loads(quoted))
            except ValueError:
                continue

    def restore(self, kind: str, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """`names` with the originals in their places; unchanged if two of them would be the same."""
        known = self._names[kind]
        if names is None or not known:
            return names
        restored = tuple(known.get(name, name) for name in names)
        return restored if len(set(restored)) == len(restored) else names
