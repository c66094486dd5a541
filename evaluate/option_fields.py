"""Fields of experiments that are options of their commands, and what such options are written as."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any

from jatpo.errors import JatpoError, shown

MOST = 10_000  # numbers in one option


def option(
    default: Any, help: str, *, parse: Callable[[Any], Any] | None = None, kept: bool = True, **more: Any
) -> Any:
    """A field of an experiment that is also an option of its command.

    With `parse`, the command reads a text (or what `kind` says) and `default` is one. `kept`: whether a directory
    refuses results with another value; False where they are other parts of it. `more` goes to `typer.Option`.
    """
    value = default if parse is None or default is None else parse(default)
    metadata = {"help": help, "parse": parse, "text": default, "kept": kept, "more": more}
    return field(default_factory=lambda: value, metadata=metadata)


def words(text: str) -> tuple[str, ...]:
    """Words from text such as atpo,random."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def numbers(text: str) -> tuple[float, ...]:
    """Numbers from text such as 0.5,2."""
    try:
        found = tuple(float(part) for part in words(text))
    except ValueError as error:
        raise JatpoError(f"'{shown(text)}' is not a list of numbers: write it as 0.5,2") from error
    if not all(map(math.isfinite, found)):
        raise JatpoError(f"'{shown(text)}' holds a number that is not finite: write it as 0.5,2")
    return found


def integers(text: str) -> tuple[int, ...]:
    """Whole numbers from text such as 2-32 or 2,4,8, each once and in order."""
    try:
        found: list[int] = []
        for part in words(text):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            if len(found) + len(numbers) > MOST:
                raise JatpoError(f"'{shown(text)}' holds more than {MOST} numbers: give fewer")
            found += numbers
    except (OverflowError, ValueError) as error:  # a range has at most 2^63 numbers
        raise JatpoError(
            f"'{shown(text)}' is not a list of whole numbers: write it as 2-32 or 2,4,8"
        ) from error
    if not found:
        raise JatpoError(f"'{shown(text)}' holds no number: write it as 2-32 or 2,4,8")
    return tuple(sorted(set(found)))
