"""Programs run in a pseudo-terminal of some width, as a person would see them."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def screen_of(arguments, width, *, encoding="utf-8", colour=True, lines=50, **environment):
    """What `python ARGUMENTS` prints on a terminal, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm-256color", "PYTHONIOENCODING": encoding, **environment}
    env |= {} if colour else {"NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, *arguments], stdin=slave, stdout=slave, stderr=slave, env=env
    ) as run:
        os.close(slave)
        found = b"".join(iter(lambda: _read(master), b""))
    os.close(master)
    return found.decode(encoding), run.returncode


def _read(master):
    try:
        return os.read(master, 65536)
    except OSError:  # how a pseudo-terminal ends on Linux
        return b""


def without_escapes(text):
    """The letters alone."""
    return ESCAPE.sub("", text).replace("\r\n", "\n")
