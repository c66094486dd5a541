"""Disks that are full or read-only, narrow terminals, other encodings, another user."""

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.work import COMMANDS, Place
from tests.helpers.small_disk import small_disk

NOBODY = 65534
END = 4000  # letters of an error that are shown: with the places of all threads where a command does not end
WRITING = ("solve", "evaluate", "learn")


def _wrong(name: str, code: int, error: str, root: Path) -> str | None:
    lines = error.strip().splitlines()
    drafts = [str(path) for path in root.rglob(".draft-*")]
    if code == 0:
        return None  # it did fit
    if code != 2 or len(lines) != 1 or not lines[0].startswith("jatpo: "):
        return f"{name}: exit code {code}, {len(lines)} lines: {error.strip()[-END:]}"
    return f"{name}: drafts left: {drafts}" if drafts else None


def disks(setting) -> Iterator[str | None]:
    """A disk with a random amount of space left, one that cannot be written, and one that is slow."""
    while True:
        place = setting.place()
        name = setting.random.choice(WRITING)
        if setting.random.random() < 0.15:
            yield _slow(setting, place, name)
            if not setting.more():
                return
            continue
        full, size = setting.random.random() < 0.7, 4096 * setting.random.randrange(1, 200)
        with small_disk(place.root / "disk", size if full else 1 << 20) as own:
            if not own:
                return
            if not full:
                subprocess.run(["mount", "-o", "remount,ro", str(place.root / "disk")], capture_output=True)
            moved = {
                "out": "disk/out",
                "solutions": "disk/solutions",
                "learned": "disk/learned",
                "fits": "disk/fits",
            }
            arguments = [moved.get(word, word) for word in COMMANDS[name]]
            code, _, error = place.run(
                arguments, environment={"JATPO_CACHE": str(place.root / "disk" / "solutions")}
            )
            yield _wrong(f"{name} with {size if full else 0} bytes left", code, error, place.root / "disk")
        if not setting.more():
            return


def _slow(setting, place: Place, name: str) -> str | None:
    """What is wrong where every flush and every rename takes a fifth of a second."""
    expected, _ = setting.references.of(name)
    code, _, error = place.run(COMMANDS[name], slow=True)
    right = code == 0 and place.left() == expected
    return None if right else f"{name} on a slow disk: exit code {code}: {error.strip()[-300:]}"


def terminals(setting) -> Iterator[str | None]:
    """Pseudo-terminals of random widths, encodings, a missing home, and another user."""
    commands = (
        ["check", "tigers.toml"],
        ["info", "tigers.toml"],
        COMMANDS["solve"][:-1],
        ["solve", "nothing"],
    )
    while True:
        place = setting.place()
        arguments = setting.random.choice(commands)
        encoding = setting.random.choice(("ascii", "latin-1", "utf-8", "cp437"))
        width = setting.random.choice((1, 20, 40, 79, 300))
        environment = {"PYTHONIOENCODING": encoding, "COLUMNS": str(width), "TERM": "xterm"}
        kind = setting.random.choice(("terminal", "pipe", "closed", "user"))
        code, text = _shown(place, arguments, environment, kind)
        expected = (2,) if arguments[1] == "nothing" else (0, 2) if kind in ("closed", "user") else (0,)
        wrong = code not in expected or "Traceback" in text
        yield f"{arguments} as {kind}, {encoding}, {width}: code {code}: {text[-300:]}" if wrong else None
        if not setting.more():
            return


def _shown(place: Place, arguments: list[str], environment: dict[str, str], kind: str) -> tuple[int, str]:
    if kind == "terminal":
        main, inner = pty.openpty()
        process = place.start(arguments, environment=environment, stdout=inner, stderr=inner, stdin=inner)
        os.close(inner)
        text = b""
        with contextlib.suppress(OSError):
            while part := os.read(main, 1 << 16):
                text += part
        os.close(main)
        return process.wait(), text.decode("utf-8", "replace")
    if kind == "closed":
        code, out, error = place.run(
            ["-c", *arguments][1:], environment=environment, stdin=None, close_fds=True
        )
        return code, out + error
    if (
        kind == "user"
        and os.getuid() == 0
        and all(map(_readable_by_others, (sys.prefix, os.path.realpath(sys.executable))))
    ):
        os.chmod(place.root, 0o755)
        code, out, error = place.run(arguments, environment=environment, user=NOBODY, group=NOBODY)
        return code, out + error
    code, out, error = place.run(arguments, environment=environment)
    return code, out + error


def _readable_by_others(path: str) -> bool:
    folders = [Path(path), *Path(path).parents]
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in folders)
