"""File formats by suffix: what a file of a format holds, how it is read, and how it is written.

    register(Format("json-model", "model", (".jpomdp",), read, write))

A format holds one of three things, and its functions are called with

    model      read(path) -> POMDP                      write(model, path)
    policy     read(path, model or None) -> Policy      write(policy, path)
    library    read(path, rules) -> Library             write(library, path)

A reader raises `JatpoError` with the file and the place in it; a writer leaves a whole file or none (`jatpo.disk`).
A file named in JATPO_EXTENSIONS can register more formats, which then work in every command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jatpo.errors import JatpoError
from jatpo.files.guard import check_regular
from jatpo.registry import Registry

HOLDS = ("model", "policy", "library")


@dataclass(frozen=True)
class Format:
    """One file format. `write` is None for a format that is only read."""

    name: str
    holds: str
    suffixes: tuple[str, ...]
    read: Callable[..., Any]
    write: Callable[..., None] | None = None


FORMATS: Registry[Format] = Registry("file format")


def register(form: Format) -> Format:
    """Register a format; its suffixes must be free."""
    if form.holds not in HOLDS:
        raise JatpoError(f"file format '{form.name}' holds '{form.holds}': choose from {', '.join(HOLDS)}")
    for suffix in form.suffixes:
        taken = of_suffix(suffix)
        if not suffix.startswith(".") or (taken is not None and taken.name != form.name):
            remedy = "begin it with a dot" if taken is None else f"'{taken.name}' has it, choose another"
            raise JatpoError(f"file format '{form.name}' cannot have the suffix '{suffix}': {remedy}")
    return FORMATS.add(form.name, form)


def of_suffix(suffix: str) -> Format | None:
    """The format with a suffix, capital or small letters alike; None if there is none."""
    found = (form for form in map(FORMATS.get, FORMATS.names()) if suffix.lower() in _lower(form.suffixes))
    return next(found, None)


def holds(path: str | os.PathLike[str]) -> str | None:
    """What the file at `path` holds by its suffix; None for an unknown one."""
    form = of_suffix(Path(path).suffix)
    return None if form is None else form.holds


def suffixes(*wanted: str) -> tuple[str, ...]:
    """The suffixes of all formats that hold one of `wanted`."""
    chosen = (form for form in map(FORMATS.get, FORMATS.names()) if form.holds in wanted)
    return tuple(suffix for form in chosen for suffix in form.suffixes)


def find(path: str | os.PathLike[str], *wanted: str, write: bool = False) -> Format:
    """The format of the file at `path`, which must hold one of `wanted`; with `write`, one that can be written."""
    form = of_suffix(Path(path).suffix)
    if form is None or form.holds not in wanted or (write and form.write is None):
        can = f"a {' or '.join(wanted)} {'can be written as' if write else 'is read from'}"
        raise JatpoError(
            f"unsupported file type '{Path(path).suffix}' of {path}: {can} {', '.join(suffixes(*wanted))}"
        )
    return form


def read(path: str | os.PathLike[str], form: Format, *arguments: Any) -> Any:
    """The result of a reader; any other error than a `JatpoError` becomes one that names the file."""
    check_regular(path)
    try:
        return form.read(path, *arguments)
    except RecursionError as error:
        raise JatpoError(f"{path} cannot be read as {form.name}: it is nested too deeply") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, JatpoError):
            raise
        raise JatpoError(f"{path} cannot be read as {form.name}: {type(error).__name__}: {error}") from error


def _lower(found: tuple[str, ...]) -> list[str]:
    return [suffix.lower() for suffix in found]
