"""How long work reports what it is doing: events, sent to one function that the caller gives.

A driver sends an `Event` after each piece of work; who listens adds the clock and decides what to show.
`jatpo.cli.progress.Progress` shows them as a progress line. Kernels send nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """Progress (`done` of `total`, with figures to show) or a `note`: a sentence that a person should read."""

    title: str = ""  # what is under way, such as a model or an agent; empty: as before
    done: float = 0
    total: float | None = None  # None: unknown
    figures: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def share(self) -> float:
        """How much of the work is done, in [0, 1]; 0 where the total is unknown."""
        return min(max(self.done / self.total, 0.0), 1.0) if self.total else 0.0


OnEvent = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener that does nothing: the default everywhere."""


def titled(title: str, on_event: OnEvent) -> OnEvent:
    """A listener that passes events on under another title, notes as they are."""

    def send(event: Event) -> None:
        if event.note:
            on_event(event)
        else:
            on_event(Event(title, event.done, event.total, event.figures))

    return send
