"""Progress of long commands, on standard error so that standard output stays the answer.

    with Progress("solving gridworld", quiet=quiet) as progress:
        for stage in range(stages):
            ...
            progress(Event(done=stage + 1, total=stages, figures={"vectors": len(vectors)}))

On a terminal it is one live line with a bar; elsewhere one plain line every few seconds and one at
the end; with ``quiet`` nothing but notes. Leaving the block by Ctrl-C or an error restores the terminal and
leaves the last state on a line of its own; the exception is passed on to the caller.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from jatpo.events import Event
from jatpo.screen import folded, visible
from jatpo.tables import format_cell

BAR_WIDTH = 20


class Progress:
    """One job's progress: a listener to events (`jatpo.events`); at most one at a time."""

    def __init__(
        self,
        title: str,
        quiet: bool = False,
        *,
        interval: float = 5.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self._quiet = quiet
        self._interval = interval
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._done: float = 0
        self._total: float | None = None
        self._fields: Mapping[str, Any] = {}
        self._live: Any = None
        self._printed: str | None = None
        self._ended = False

    def __enter__(self) -> Progress:
        self._start = self._last = self._clock()
        if not self._quiet and self._stream.isatty():
            self._live = _start_live(self._render, self._stream)
        return self

    def __call__(self, event: Event) -> None:
        """Show what is done out of the total and the figures beside it; a note gets a line of its own."""
        if event.note:
            self._print_note(event.note)
            return
        self.title = event.title or self.title
        self._done, self._total, self._fields = event.done, event.total, event.figures
        now = self._clock()
        if not self._quiet and self._live is None and now - self._last >= self._interval:
            self._last = now
            self._print()

    def __exit__(self, exception_type: type[BaseException] | None, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if not self._quiet and (exception_type is None or self._done):
            self._ended = exception_type is None
            self._print()

    def line(self) -> str:
        """The state in words: ``title: 3/10 (30 %), vectors 41, 12 s, 28 s left``.

        Work that has ended without a last event has no share and no time left.
        """
        elapsed = self._clock() - self._start
        parts = [f"{name.replace('_', ' ')} {format_cell(value)}" for name, value in self._fields.items()]
        if self._total and not (self._ended and self._done < self._total):
            share = int(100 * self._done / self._total)
            parts.insert(0, f"{format_cell(self._done)}/{format_cell(self._total)} ({share} %)")
        elif self._done and not self._total:
            parts.insert(0, f"{format_cell(self._done)} done")
        parts.append(format_seconds(elapsed))
        if self._total and 0 < self._done < self._total and not self._ended:
            parts.append(f"{format_seconds(elapsed * (self._total - self._done) / self._done)} left")
        return visible(f"{self.title}: {', '.join(parts)}")

    def _print_note(self, text: str) -> None:
        self._print_line(f"jatpo: note: {visible(text)}")

    def _print_line(self, line: str) -> None:
        if self._live is not None:
            self._live.console.print(
                folded(line, self._stream), markup=False, highlight=False, soft_wrap=True
            )
        else:
            print(folded(line, self._stream), file=self._stream, flush=True)

    def _print(self) -> None:
        line = self.line()
        if line != self._printed:
            self._printed = line
            print(folded(line, self._stream), file=self._stream, flush=True)

    def _render(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self._total, completed=self._done, width=BAR_WIDTH, pulse=not self._total)
        grid.add_row(bar, Text(self.line()))  # on two lines rather than without its end, the time left
        return grid


class Steps(Progress):
    """Progress of several steps, known by the titles of their events: each has a line and a clock of its own."""

    def __call__(self, event: Event) -> None:
        """As `Progress`; a new title ends the line of the step before."""
        if event.title and not event.note and event.title != self.title:
            if self._fields and not self._quiet and self.line() != self._printed:
                self._print_line(self.line())
            self._start = self._last = self._clock()
        super().__call__(event)


def format_seconds(seconds: float) -> str:
    """A duration for people: ``9 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _start_live(render: Callable[[], Any], stream: TextIO) -> Any:
    """A running rich display of `render()`. Standard output is left alone: it may be the user's data."""
    from rich.console import Console
    from rich.live import Live

    live = Live(
        get_renderable=render,
        console=Console(file=stream),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
    )
    live.start()
    return live
