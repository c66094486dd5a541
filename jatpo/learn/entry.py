"""A learned model as an entry of a library on disk: a directory with `library.toml` and .POMDP files.

What comes from a domain stays a line that names the domain; what was learned, or came from a file, is written
out. The directory is made under another name and renamed: it is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jatpo.errors import JatpoError
from jatpo.files import UserLibrary, write_policy, write_pomdp
from jatpo.files.library import Origin
from jatpo.model import POMDP
from jatpo.solve.policy import Policy

MANIFEST = "library.toml"


@dataclass(frozen=True)
class Entry:
    """One model of the library to write. `origin` is used if it names a domain, `model` otherwise."""

    label: str
    model: POMDP
    origin: Origin | None = None
    policy: Policy | None = None


def kept_entries(library: UserLibrary) -> list[Entry]:
    """The models of a library as they are."""
    parts = zip(library.labels, library.models, library.origins, library.policies, strict=True)
    return [Entry(*part) for part in parts]


def check_target(directory: Path) -> None:
    """Refuse, before anything is computed, a directory that cannot be made or that is in use."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise JatpoError(f"{directory} is there already: choose another directory or remove it")
    if not directory.resolve().parent.is_dir():
        raise JatpoError(f"there is no directory {directory.resolve().parent}: make it first")


def write_library(
    directory: str | os.PathLike[str], library: UserLibrary, entries: Sequence[Entry], prior: np.ndarray
) -> None:
    """Write `entries` with the prior [K] and the settings of `library`; `jatpo evaluate directory` uses it."""
    target = Path(os.path.abspath(directory))
    check_target(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        draft.mkdir()
        lines = [
            *_head(library, prior),
            *(line for k, entry in enumerate(entries) for line in _entry(draft, k, entry)),
        ]
        (draft / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")
        if target.is_dir():
            target.rmdir()
        os.rename(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _head(library: UserLibrary, prior: np.ndarray) -> list[str]:
    settings = library.settings
    shares = ", ".join(repr(float(share)) for share in prior / prior.sum())
    return [
        f"name = {json.dumps(library.name)}",
        f"prior = [{shares}]",
        f"horizon = {settings.horizon}",
        f"beliefs = {settings.beliefs}",
        f"tolerance = {settings.tolerance!r}",
    ]


def _entry(place: Path, k: int, entry: Entry) -> list[str]:
    """The lines of one model, whose files are written next to them."""
    lines = ["", "[[model]]", f"label = {json.dumps(entry.label)}"]
    origin = entry.origin
    if origin is not None and origin.domain is not None:
        lines += [f"domain = {json.dumps(origin.domain)}", f"model = {origin.model}"]
        lines += [f"rules = {json.dumps(origin.rules)}"] if origin.rules else []
        if origin.overrides:
            pairs = ", ".join(f"{name} = {_toml(value)}" for name, value in origin.overrides.items())
            lines.append(f"overrides = {{ {pairs} }}")
    else:
        write_pomdp(entry.model, place / f"model-{k}.POMDP")
        lines.append(f'file = "model-{k}.POMDP"')
    if entry.policy is not None:
        write_policy(entry.policy, place / f"model-{k}.policy")
        lines.append(f'policy = "model-{k}.policy"')
    return lines


def _toml(value: Any) -> str:
    """A value of a builder's parameter in TOML."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(part) for part in value)}]"
    return json.dumps(value)
