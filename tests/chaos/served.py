"""`jatpo serve` under attack: a visitor while it runs, and whether it works afterwards."""

import contextlib
import signal
import subprocess
import urllib.error
import urllib.request
from urllib.parse import quote

from tests.chaos.work import LIMIT, Place

PAGE = "watch?agent=atpo&seed=1&library=" + quote("tigers.toml")


def visit(process: subprocess.Popen) -> int:
    """Ask the server for an episode, which solves the library first; the status, 0 where there was no answer."""
    with contextlib.suppress(OSError, ValueError, urllib.error.URLError):
        line = process.stdout.readline().decode("utf-8", "replace")
        address = next((word for word in line.split() if word.startswith("http://127.0.0.1:")), "")
        with urllib.request.urlopen(address + PAGE, timeout=LIMIT) as answer:
            answer.read()
            return answer.status
    return 0


def works(place: Place, arguments: list[str]) -> str | None:
    """Start the server again, see an episode, end it by Ctrl-C; what went wrong."""
    process = place.start(arguments, stderr=subprocess.DEVNULL)
    try:
        status = visit(process)
        process.send_signal(signal.SIGINT)
        code = process.wait(LIMIT)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return None if (status, code) == (200, 130) else f"serve again: status {status}, exit code {code}"
