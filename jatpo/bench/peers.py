"""Other solvers of POMDPs that a user has installed, run for a bounded time, and the bounds that they print.

Each runs as a process of its own that ends with ours. What it prints is read strictly: a line that is not what the
program is known to print is an error of that solver, not a guess.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from jatpo.errors import JatpoError
from jatpo.files.writer import write_pomdp
from jatpo.model import POMDP

SLOWER, GRACE = (
    4.0,
    60.0,
)  # times its own limit, and seconds, after which it is stopped: that limit is processor time
LARGEST = 1 << 26  # bytes of output that are read
HEADER = ("Time", "#Trial", "#Backup", "LBound", "UBound", "Precision", "#Alphas", "#Beliefs")
COST = re.compile(r"^[^\S\n]*values\s*:\s*cost", re.MULTILINE | re.IGNORECASE)


class Bounds(NamedTuple):
    """The bounds at the initial belief after some seconds."""

    seconds: float
    lower: float
    upper: float


class Peer(NamedTuple):
    """A solver: its name, how to get it, where it was found (None: absent), and how it is run on a file."""

    name: str
    source: str
    place: str | None
    run: Callable[[str, Path, float], list[Bounds]]


def peers() -> list[Peer]:
    """All solvers that jatpo knows how to run, present or not."""
    scikit_decide = sys.executable if find_spec("skdecide") else None
    return [
        Peer("pomdpsol", "SARSOP of APPL, on PATH", shutil.which("pomdpsol"), run_pomdpsol),
        *(
            Peer(
                f"scikit-decide {algorithm}",
                "pip install scikit-decide",
                scikit_decide,
                partial(run_scikit_decide, algorithm=algorithm),
            )
            for algorithm in ("SARSOP", "HSVI")
        ),
    ]


def unsupported() -> list[str]:
    """Packages for POMDPs that are installed and that jatpo does not run."""
    return [name for name in ("stormpy",) if find_spec(name)]


@contextlib.contextmanager
def model_file(source: str, model: POMDP) -> Iterator[Path]:
    """The .POMDP file of `model`: `source` if it is one that holds rewards, otherwise one that is written for the time.

    Programs differ in what they make of `values: cost`.
    """
    given = Path(source)
    if (
        given.is_file()
        and given.suffix.lower() == ".pomdp"
        and not COST.search(given.read_text("utf-8", "replace"))
    ):
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.POMDP"
        write_pomdp(model, path)
        yield path


def run_pomdpsol(program: str, file: Path, seconds: float) -> list[Bounds]:
    """The bounds that SARSOP prints over time."""
    with tempfile.TemporaryDirectory() as directory:
        policy = str(Path(directory) / "out.policy")
        limits = ["--timeout", f"{seconds:g}", "--precision", "1e-9"]
        text = run_bounded([program, *limits, "--output", policy, str(file)], SLOWER * seconds + GRACE)
    return read_pomdpsol(text)


def read_pomdpsol(text: str) -> list[Bounds]:
    """The bounds in what `pomdpsol` printed: a table between lines of dashes under a header that is known."""
    lines = iter(text.splitlines())
    for line in lines:
        if tuple(part.strip() for part in line.replace("|", " ").split()) == HEADER:
            break
    else:
        raise JatpoError("pomdpsol printed no table of bounds")
    found: list[Bounds] = []
    next(lines, None)  # dashes
    for line in lines:
        if line.startswith("---"):
            break
        if line.strip():
            found.append(_bounds(line, found[-1].seconds if found else 0.0))
    if not found:
        raise JatpoError("pomdpsol printed a table without bounds")
    return found


def _bounds(line: str, earlier: float) -> Bounds:
    """The bounds in one line of the table of `pomdpsol`."""
    try:
        numbers = [float(part) for part in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) != len(HEADER) or not all(map(math.isfinite, numbers)) or numbers[0] < earlier:
        raise JatpoError(f"pomdpsol printed a line that is not one of its table: '{line.strip()[:80]}'")
    return Bounds(numbers[0], numbers[3], numbers[4])


def run_scikit_decide(python: str, file: Path, seconds: float, algorithm: str) -> list[Bounds]:
    """The bounds over time of a solver of scikit-decide, in a process of its own."""
    command = [python, "-m", "jatpo.bench.scikit_decide", algorithm, str(file), f"{seconds:g}"]
    return read_scikit_decide(run_bounded(command, SLOWER * seconds + GRACE))


def read_scikit_decide(text: str) -> list[Bounds]:
    """The bounds in what `jatpo.bench.scikit_decide` printed."""
    found: list[Bounds] = []
    for line in text.splitlines():
        if line.startswith("bounds "):
            try:
                numbers = [float(part) for part in line.split()[1:]]
            except ValueError:
                numbers = []
            if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
                raise JatpoError(f"scikit-decide has bounds that are not three finite numbers: '{line[:80]}'")
            found.append(Bounds(*numbers))
    if not found:
        raise JatpoError("scikit-decide reported no bounds")
    return found


def run_bounded(command: Sequence[str], seconds: float) -> str:
    """What `command` printed; it is stopped after `seconds`, and with this process however that ends."""
    name = Path(command[0]).name
    with tempfile.TemporaryFile() as output, _ended_by_signals():
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise JatpoError(f"{name} did not stop by itself within {seconds:g} s: it was stopped") from error
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read(LARGEST).decode("utf-8", "replace")
    if code != 0:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        raise JatpoError(
            f"{name} ended with code {code}: {lines[-1][:200] if lines else 'it printed nothing'}"
        )
    return text


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A request to end this process raises SystemExit within the block, so that what it started is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        del frame
        raise SystemExit(128 + number)

    earlier = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
