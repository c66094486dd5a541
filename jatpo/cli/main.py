"""Entry point of ``jatpo``: runs one command and turns a foreseeable failure into one line and an exit code.

Exit codes: 0 done, 1 a defect in jatpo (with its traceback), 2 bad input or a full disk (one line on
standard error), 130 interrupted. Everything heavy is imported inside `run`, so that Ctrl-C is
handled from the first moment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from jatpo import interrupts

COMPLETING = "_JATPO_COMPLETE"  # set by a shell that asks how its command line can continue
REMEDIES = {
    "ENOSPC": "free some space and run the same command again",
    "EDQUOT": "free some space and run the same command again",
    "EACCES": "choose another place or change its permissions",
    "EPERM": "choose another place or change its permissions",
    "EROFS": "choose a place that can be written",
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line (by default the process's own) and exit with its code."""
    interrupts.install()
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
        interrupts.finish(code)
    except BaseException:
        if not interrupts.requested():
            raise
    if interrupts.requested():  # whatever it has become on its way here
        interrupts.leave()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line. Only a defect in jatpo raises."""
    from jatpo.cores import every_core_a_device
    from jatpo.program_cache import keep_compiled_programs, renew_unreadable
    from jatpo.screen import never_fail

    never_fail(sys.stdout, sys.stderr)
    if "jax" not in sys.modules:
        every_core_a_device(os.environ)
    keep_compiled_programs(os.environ)
    renew_unreadable(os.environ, _note)
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader went away, as in `jatpo domains | head`
        _settle_output()
        return 141
    except KeyboardInterrupt:
        return _interrupted()
    except MemoryError:
        return _complain("out of memory; use blocked storage, fewer models at once or smaller batches")
    except OSError as error:
        _settle_output()
        return _complain(describe_os_error(error))


def _invoke(arguments: Sequence[str]) -> int:
    """Parse and execute, with errors of the command line's own as one line."""
    import typer

    from jatpo.cli.app import build, describe_usage_error
    from jatpo.errors import JatpoError

    try:
        if COMPLETING in os.environ:
            build([]).main([], prog_name="jatpo")
        arguments = arguments or ["--help"]
        command = build(arguments)
        with command.make_context("jatpo", list(arguments)) as context:
            command.invoke(context)
        return 0
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return _interrupted()
    except typer.TyperException as error:
        return _complain(describe_usage_error(error, arguments))
    except JatpoError as error:
        return _complain(str(error))


def describe_os_error(error: OSError) -> str:
    """One sentence with the file, the system's reason and, where there is one, the remedy."""
    import errno

    reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
    place = f"{os.fspath(error.filename)}: " if isinstance(error.filename, str | os.PathLike) else ""
    remedy = REMEDIES.get(errno.errorcode.get(error.errno or 0, ""), "")
    return f"{place}{reason[:1].lower()}{reason[1:]}" + (f"; {remedy}" if remedy else "")


def _complain(message: str, code: int = 2) -> int:
    """Print `message` as one line on standard error, folded on a terminal; returns `code`."""
    from jatpo.screen import folded, visible

    print(folded("jatpo: " + visible(" ".join(message.split())), sys.stderr), file=sys.stderr)
    return code


def _note(text: str) -> None:
    from jatpo.cli.solving import print_notes

    print_notes([text])


def _interrupted() -> int:
    """Print what Ctrl-C did, where `main` does not."""
    if interrupts.requested():
        return interrupts.CODE
    return _complain(interrupts.MESSAGE, interrupts.CODE)


def _settle_output() -> None:
    """Write out what was printed so far, or drop it, so that the interpreter's last flush cannot fail."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
