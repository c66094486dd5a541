"""What standard output can show: its width, whether it takes escape codes, and the characters of its encoding.

Text that an encoding lacks is replaced by the nearest ASCII (``±`` by ``+/-``), so that printing never fails. Importing
this module registers that replacement as the error handler `REPLACE` of Python's codecs.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from typing import TextIO

REPLACE = "jatpo.nearest"
PLAIN = {
    "±": "+/-",
    "…": "...",
    "·": ".",
    "█": "#",
    "─": "-",
    "—": "-",
    "–": "-",
    "−": "-",
    "×": "x",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "γ": "gamma",
    "Δ": "delta",
}


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """The handler: the nearest ASCII for what cannot be encoded, ``?`` where there is none."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_plain_letter, text)), error.end


def _plain_letter(letter: str) -> str:
    if letter in PLAIN:
        return PLAIN[letter]
    base = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return base or ("" if unicodedata.combining(letter) else "?")


CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


codecs.register_error(REPLACE, _nearest)


def readable(text: str, stream: TextIO | None = None) -> str:
    """`text` in the characters that `stream` (standard output) can show."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    try:
        return text.encode(encoding, REPLACE).decode(encoding)
    except (LookupError, UnicodeError):
        return text.encode("ascii", REPLACE).decode("ascii")


def visible(text: str) -> str:
    """`text` with ``?`` for control characters: names and messages must not command the terminal."""
    return CONTROL.sub("?", text)


def never_fail(*streams: TextIO | None) -> None:
    """Let the streams replace characters that their encoding lacks."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=REPLACE)


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None for a pipe or file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def folded(text: str, stream: TextIO | None = None) -> str:
    """Sentences for `stream` (standard output): on a terminal, lines that break between words; else as they are."""
    stream = stream or sys.stdout
    if stream is None or not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 20)
    lines = (_fold(line, width) for line in text.split("\n"))
    return "\n".join(lines)


def _fold(line: str, width: int) -> str:
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def colourful() -> bool:
    """Whether standard output takes escape codes."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def cells(text: str) -> int:
    """The columns that `text` takes on a terminal: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(bool(unicodedata.combining(letter)) for letter in text)
