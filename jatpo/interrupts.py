"""Ctrl-C: exit code 130 within two seconds wherever the program is, and state that is whole when it is saved.

Python runs the handler of a signal between two bytecodes of the main thread, so four things can keep Ctrl-C from
arriving: native code that takes long (XLA compiling a program), a callback whose exceptions Python drops (garbage
collection, `__del__`), a callback from C++ that may not raise, after which the library aborts the process (jaxlib while
it is imported), and threads of XLA that abort it when the interpreter ends before them. So a command calls `install`,
which starts a thread that hears of the signal from the system itself; after the signal, an abort or a fault of native
code is an end like the others:

    first Ctrl-C     KeyboardInterrupt in the main thread, which saves what can be saved; after `GRACE` seconds the
                     process ends all the same, and after half of that if the main thread has not heard of it
    second Ctrl-C    the process ends at once

The process ends by `os._exit`, past the interpreter's own ending. Files are written whole or not at all (`jatpo.disk`),
so that loses what was not saved yet and damages nothing.

A step that changes its state in place runs inside `deferred`: a Ctrl-C that comes meanwhile is raised when the block
has ended, and the state may be saved.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

MESSAGE = "interrupted; run the same command again to continue"
CODE = 130
GRACE = 1.3  # seconds between the first Ctrl-C and the end
UNHEARD = 0.5  # of that for native code that keeps the main thread from hearing of it: nothing is being saved
ENDING = 30.0  # seconds that the interpreter has to end once a command is done: a thread of a library may never end
ALARM = 5  # seconds after that in which the process ends whatever state it is in
SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"
HANDLED = 0xFF  # written by the handler itself, for loops that take the wakeup descriptor away
FINISHED = 0xFE  # written once the command is done


class _State:
    """What is known of Ctrl-C in this process."""

    installed = False
    requested = False
    ending = threading.Lock()
    finished: int | None = None  # the exit code of a command that is done
    depth = 0  # of blocks of `deferred`
    pipe: tuple[int, int] = (-1, -1)
    grace = GRACE


_state = _State()


def install(grace: float = GRACE) -> None:
    """Handle Ctrl-C of this process from now on, unless it is ignored, as in a job that a script runs behind itself."""
    here = threading.current_thread() is threading.main_thread()
    if not here or _state.installed or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    _state.installed, _state.pipe, _state.grace = True, (read, write), grace
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _handle)
    atexit.register(
        signal.signal, signal.SIGINT, signal.SIG_IGN
    )  # the ending interpreter would restore the default
    threading.Thread(target=_watch, args=(read, grace), name="interrupts", daemon=True).start()


def requested() -> bool:
    """Whether Ctrl-C has come."""
    return _state.requested


def finish(code: int) -> None:
    """The command is done: the process ends with `code`, at once after Ctrl-C, in any case after `ENDING` seconds."""
    if _state.requested:
        return
    _write_out()
    _state.finished = code
    if _state.installed:
        _tell(FINISHED)


def leave() -> NoReturn:
    """Write out what was printed and that the command was interrupted, then end the process."""
    _write_out()
    _end()


def _write_out() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _tell(mark: int) -> None:
    """Wake the thread that watches."""
    with contextlib.suppress(OSError):
        os.write(_state.pipe[1], bytes([mark]))


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A block that Ctrl-C does not cut short: it is raised at the end of the block; a second one is raised at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    borrowed = before is signal.default_int_handler  # called from Python, not from a command
    if borrowed:
        signal.signal(signal.SIGINT, _handle)
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        came = _state.requested and not _state.depth
        if borrowed:
            signal.signal(signal.SIGINT, before)
            _state.requested = False
    if came:
        raise KeyboardInterrupt


def _handle(number: int, frame: Any) -> None:
    """The handler, in the main thread."""
    del number, frame
    if _state.finished is not None:
        os._exit(_state.finished)
    again, _state.requested = _state.requested, True
    if _state.installed and not again:
        _end_by_abort()
    if _state.installed:
        _tell(HANDLED)
    if not _state.depth or (again and not _state.installed):
        raise KeyboardInterrupt


def _end_by_abort() -> None:
    """Let an abort or a fault of native code end this process as Ctrl-C does: it was given KeyboardInterrupt.

    Where even that is not possible, the system's alarm ends the process.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not on every system
        for number in (signal.SIGABRT, signal.SIGSEGV):
            ctypes.CDLL(None).signal(int(number), _ABORTED)
        signal.alarm(math.ceil(_state.grace) + ALARM)


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _ABORTED(number: int) -> None:
    del number
    _end()


def _watch(read: int, grace: float) -> None:
    """In a thread of its own: end the process at the second Ctrl-C, or `grace` seconds after the first.

    Half of that is enough where the handler has not run by then. A command that is done has `ENDING` seconds.
    """
    heard, handled, first, until = 0, 0, None, None
    while heard < 2 and handled < 2:
        left = None if until is None else max(until - time.monotonic(), 0)
        ready, _, _ = select.select([read], [], [], left)
        if not ready:
            break
        mark, now = os.read(read, 1)[0], time.monotonic()
        heard, handled = heard + (mark == signal.SIGINT), handled + (mark == HANDLED)
        if mark == FINISHED:
            until = now + ENDING
        elif heard or handled:
            first = now if first is None else first
            until = first + (grace if handled else UNHEARD * grace)
    _end()


def _end() -> NoReturn:
    """End the process past the interpreter's ending; in the main thread or that of `_watch`, whichever is first."""
    if not _state.ending.acquire(blocking=False):
        time.sleep(GRACE)
    if _state.finished is not None:
        os._exit(_state.finished)
    with contextlib.suppress(OSError):  # past Python's streams: another thread may hold their locks
        os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + f"jatpo: {MESSAGE}\n".encode())
    os._exit(CODE)
