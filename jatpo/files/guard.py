"""What every reader of jatpo asks of a file before it reads: that it is one, how large it may be, what its text is.

The limits are stated in docs/files.md. They are far above what anybody uses and far below what hurts: a file that takes
more is refused by one sentence instead of being read until time or memory has run out.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from jatpo import memory
from jatpo.errors import LONGER, JatpoError, shown

BOM = b"\xef\xbb\xbf"
MB = 1 << 20
LARGEST = {  # bytes of a file, by what it is
    "model": 4096 * MB,
    "policy": 2048 * MB,
    "library": MB,
    "study": MB,
    "histories": 1024 * MB,
}
SMALL = MB  # bytes of memory that are not worth asking the system about
DEEPEST = 32  # brackets in brackets, and parts of a dotted key
_WORDS = re.compile(rb"[^\s,=\[\]{}]+")


def open_file(path: str | os.PathLike[str], kind: str, factor: float = 0) -> BinaryIO:
    """An open regular file, past its byte order mark; one that is missing, no file or too large is refused.

    Reading takes `factor` times its size of memory.
    """
    name, size = check_path(path), check_regular(path)
    if size > LARGEST[kind]:
        most = memory.readable(LARGEST[kind])
        raise JatpoError(
            f"{name} has {memory.readable(size)}, more than the {most} that a {kind} file may have: split it"
        )
    if factor * size > SMALL:
        memory.require(int(factor * size), f"reading {name}", "use a smaller file")
    file = open(name, "rb")  # noqa: SIM115 - the caller closes it
    if file.read(len(BOM)) != BOM:
        file.seek(0)
    return file


def read_text(path: str | os.PathLike[str], kind: str) -> str:
    """The text of a UTF-8 file, without its byte order mark."""
    with open_file(path, kind, factor=8) as file:
        return file.read().decode("utf-8")


def read_toml(path: str | os.PathLike[str], kind: str) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and the table in it."""
    try:
        text = read_text(path, kind)
        check_toml(text, Path(path))
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(";")[0]
        raise JatpoError(f"{path} is not a TOML file: {reason}") from error


def check_regular(path: str | os.PathLike[str]) -> int:
    """The size of a file in bytes; one that is missing, a directory, a device or a pipe is refused."""
    name = check_path(path)
    try:
        found = os.stat(name)
    except FileNotFoundError as error:
        raise JatpoError(f"file {name} does not exist: check the path") from error
    except OSError as error:  # a name that is too long, a file where a directory should be
        raise JatpoError(
            f"file {shown(name, LONGER)} cannot be found ({error.strerror}): check the path"
        ) from error
    if stat.S_ISDIR(found.st_mode):
        raise JatpoError(f"{name} is a directory: name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise JatpoError(f"{name} is a device or a pipe: copy it into a file first")
    return found.st_size


def check_path(path: str | os.PathLike[str]) -> str:
    """`path` as text; one with a NUL, which no system has, is refused."""
    name = os.fspath(path)
    if "\0" in name:
        raise JatpoError(f"the path '{name}' contains a NUL character: check the path")
    return name


def check_toml(text: str, path: Path) -> None:
    """Refuse a TOML text whose depth would take the parser's time or memory: long dotted keys, nested brackets."""
    data = text.encode()
    for line in data.splitlines():
        if line.count(b".") > DEEPEST:
            words = _WORDS.findall(b".".join(part.strip(b" \t") for part in line.split(b".")))
            if any(word.count(b".") > DEEPEST for word in words):
                raise JatpoError(f"{path} has a key of more than {DEEPEST} parts: shorten it")
    check_depth(data, path)


def check_depth(data: bytes, place: Any) -> None:
    """Refuse JSON or TOML with more than `DEEPEST` brackets open at once; brackets in texts are not counted apart."""
    depth = 0
    for letter in data.translate(None, _NO_BRACKETS):
        depth = depth + 1 if letter in b"[{" else max(depth - 1, 0)
        if depth > DEEPEST:
            raise JatpoError(f"{place} has brackets nested more than {DEEPEST} deep: write it flatter")


_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
