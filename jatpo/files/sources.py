"""All that a command accepts where it asks for models: a domain, one model of it, a file, a library."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

from jatpo.errors import JatpoError, RenormalisedWarning, nearest
from jatpo.files.library import Member, Origin, Settings, UserLibrary, combine
from jatpo.files.manifest import of_domain, read_manifest

MODELS = (".pomdp",)
MANIFEST = "library.toml"


def resolve(source: str | os.PathLike[str], rules: str = "as_run", *, pool: bool = False) -> UserLibrary:
    """The library that `source` names.

    A domain (``gridworld``), one of its models (``gridworld:2``), a .POMDP file, a directory of such files
    or a TOML file. `rules` and `pool` are for domains. What was mended on reading is in `notes`.
    """
    from jatpo import domains

    text = os.fspath(source)
    name, colon, number = text.partition(":")
    if name in domains.names():
        return _domain(name, number if colon else None, rules, pool)
    if os.path.exists(text):
        return load_library(text, rules)
    hint = nearest(name, domains.names()) or "; 'jatpo domains' lists the domains"
    raise JatpoError(f"there is no domain and no file called '{text}'{hint}")


def load_library(path: str | os.PathLike[str], rules: str = "as_run") -> UserLibrary:
    """The library at `path`: a directory of .POMDP files, a TOML file, or a single .POMDP file."""
    place = Path(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RenormalisedWarning)
        library = _load(place, rules)
    notes = tuple(
        str(warning.message) for warning in caught if issubclass(warning.category, RenormalisedWarning)
    )
    for warning in caught:
        if not issubclass(warning.category, RenormalisedWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return replace(library, notes=notes)


def _load(place: Path, rules: str) -> UserLibrary:
    if place.is_dir():
        return read_manifest(place / MANIFEST, rules) if (place / MANIFEST).is_file() else _directory(place)
    if place.suffix.lower() == ".toml":
        return read_manifest(_existing(place), rules)
    if place.suffix.lower() in MODELS:
        return combine(place.stem, [_file(_existing(place))])
    raise JatpoError(f"{place} is no model by its suffix: use a .POMDP file, a .toml file or a directory")


def _existing(place: Path) -> Path:
    if not place.is_file():
        raise JatpoError(f"there is no file {place}: check the path")
    return place


def _directory(place: Path) -> UserLibrary:
    """The .POMDP files of a directory in the order of their names."""
    files = sorted(file for file in place.iterdir() if file.suffix.lower() in MODELS and file.is_file())
    if not files:
        raise JatpoError(f"directory {place} has no .POMDP files and no {MANIFEST}: it is no library")
    return combine(place.resolve().name, [_file(file) for file in files])


def _file(file: Path) -> Member:
    """A model with the policy of the same name next to it, if there is one."""
    from jatpo.files.policies import SUFFIXES, read_policy
    from jatpo.files.reader import read_pomdp

    model = read_pomdp(file)
    beside = [file.with_suffix(suffix) for suffix in SUFFIXES if file.with_suffix(suffix).is_file()]
    policy = read_policy(beside[0], model) if beside else None
    return Member(model, file.stem, Origin(file=str(file)), policy)


def _domain(name: str, number: str | None, rules: str, pool: bool) -> UserLibrary:
    from jatpo import domains

    if number is not None and not (number.isascii() and number.isdigit() and len(number) < 10):
        raise JatpoError(
            f"'{name}:{number}' names no model: write a number after the colon, as in '{name}:0'"
        )
    domain = domains.get(name)
    members = of_domain(name, None if number is None else int(number), rules, {}, pool)
    settings = Settings(domain.horizon, domain.beliefs, domain.tolerance, domain.noise)
    return combine(name if number is None else f"{name}:{int(number)}", members, settings=settings)
