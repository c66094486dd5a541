"""Errors that a user can fix: one sentence that names what, where and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN, LONGER = 40, 200  # letters of what was given, and of a name or a path


class JatpoError(Exception):
    """Bad input; the command line prints it as one line and exits with code 2."""


class RenormalisedWarning(UserWarning):
    """Probabilities were off by rounding dust and have been renormalised."""


def shown(text: str, longest: int = SHOWN) -> str:
    """`text` as a message may show it: not too long, without control characters."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text[: longest + 1])
    return text[:longest] + "..." if len(text) > longest else text


def nearest(name: str, choices: Iterable[str]) -> str:
    """A clause such as ``; did you mean 'gridworld'?``, or nothing when no choice is close."""
    close = difflib.get_close_matches(name[:LONGER], list(choices), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def unknown(kind: str, name: str, choices: Iterable[str]) -> JatpoError:
    """The error for a name that is not among `choices`."""
    choices = list(choices)
    hint = nearest(name, choices) or f"; choose from {', '.join(choices)}"
    return JatpoError(f"no {kind} is called '{shown(name, LONGER)}'{hint}")
