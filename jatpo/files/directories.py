"""`jatpo.save`: a library as a directory with `library.toml` and model files.

A model of a domain stays a line that names the domain; a model from a file, or one that was made or learned, is
written out. The directory is there whole or not at all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from jatpo.disk import new_directory
from jatpo.files.policies import write_policy
from jatpo.files.sources import MANIFEST
from jatpo.files.writer import write_pomdp
from jatpo.library import Library


def save(library: Library, directory: str | os.PathLike[str]) -> None:
    """Write `library` to a new directory, which `jatpo.load` and every command can read."""
    with new_directory(directory) as draft:
        lines = _head(library)
        for k in range(library.num_models):
            lines += _entry(draft, k, library)
        (draft / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _head(library: Library) -> list[str]:
    """The lines on the library as a whole."""
    shares = ", ".join(map(repr, library.host_prior.tolist()))
    lines = [f"name = {json.dumps(library.name)}", f"prior = [{shares}]", f"horizon = {library.horizon}"]
    if library.published is not None:
        lines += [
            f"beliefs = {library.published.beliefs}",
            f"tolerance = {library.published.tolerance!r}",
        ]
    return lines


def _entry(place: Path, k: int, library: Library) -> list[str]:
    """The lines of one model, whose files are written next to them."""
    lines = ["", "[[model]]", f"label = {json.dumps(library.labels[k])}"]
    origin, policy = library.origins[k], library.policies[k]
    if origin.domain is not None:
        lines += [f"domain = {json.dumps(origin.domain)}", f"model = {origin.model}"]
        lines += [f"rules = {json.dumps(origin.rules)}"] if origin.rules else []
        if origin.overrides:
            pairs = ", ".join(f"{name} = {_toml(value)}" for name, value in origin.overrides.items())
            lines.append(f"overrides = {{ {pairs} }}")
    else:
        write_pomdp(library.member(k), place / f"model-{k}.POMDP")
        lines.append(f'file = "model-{k}.POMDP"')
    if policy is not None:
        write_policy(policy, place / f"model-{k}.policy")
        lines.append(f'policy = "model-{k}.policy"')
    return lines


def _toml(value: Any) -> str:
    """A value of a builder's parameter in TOML."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(part) for part in value)}]"
    return json.dumps(value)
