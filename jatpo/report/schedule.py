"""How far a long run is and how long it still takes: steps with expected seconds, corrected by what is measured.

Steps are of kinds (solve, evaluate, ...) whose expectations are wrong by a factor of their own: the pace, actual
over expected seconds of the work of that kind done so far. A step whose results were there already does
not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jatpo.events import Event, OnEvent
from jatpo.tables import format_cell

TRUST = 5.0  # seconds of experience that a first guess is worth, at least


class Step(NamedTuple):
    """A piece of work."""

    kind: str
    title: str
    seconds: float  # expected


class Schedule:
    """Steps that are done in order."""

    def __init__(self, steps: Sequence[Step], clock: Callable[[], float] = time.monotonic) -> None:
        self.steps = list(steps)
        self._clock = clock
        self._at = -1
        self._share = 0.0
        self._worked = False
        self._start = clock()
        self._spent: dict[str, float] = {}
        self._expected: dict[str, float] = {}

    @property
    def step(self) -> Step:
        """The step under way."""
        return self.steps[self._at]

    @property
    def number(self) -> int:
        """The number of the step under way, from 1."""
        return self._at + 1

    def begin(self) -> Step:
        """Count the step under way as done and go to the next."""
        self._settle()
        self._at, self._share, self._worked = self._at + 1, 0.0, False
        self._start = self._clock()
        return self.step

    def advance(self, share: float, worked: bool = True) -> None:
        """`share` of this step is done; `worked`: and some of that just now."""
        self._share, self._worked = min(max(share, self._share), 1.0), self._worked or worked

    def end(self) -> None:
        """All steps are done."""
        self._settle()
        self._at, self._share, self._worked = len(self.steps), 0.0, False

    @property
    def done(self) -> float:
        """The share of the expected work that is done."""
        total = sum(step.seconds for step in self.steps)
        return self._finished() / total if total else 1.0

    @property
    def left(self) -> float:
        """Seconds still to go, by expectation and pace."""
        if self._at >= len(self.steps):
            return 0.0
        first = max(self._at, 0)
        rest = sum(step.seconds * self._pace(step.kind) for step in self.steps[first + (self._at >= 0) :])
        if self._at < 0:
            return rest
        whole = self.step.seconds * self._pace(self.step.kind)
        return rest + max((1 - self._share) * whole, 0.0)

    def event(self, doing: str) -> Event:
        """Where the schedule is: the step under way, the share of all work done, and seconds left."""
        title = f"{self.step.title} (step {self.number} of {len(self.steps)})"
        return Event(title, self.done, 1.0, {"doing": doing, "left": self.left})

    def _finished(self) -> float:
        whole = sum(step.seconds for step in self.steps[: max(self._at, 0)])
        inside = 0 <= self._at < len(self.steps)
        return whole + (self._share * self.step.seconds if inside else 0.0)

    def _pace(self, kind: str) -> float:
        spent, expected = self._spent.get(kind, 0.0), self._expected.get(kind, 0.0)
        if self._worked and self.step.kind == kind:
            spent += self._clock() - self._start
            expected += self._share * self.step.seconds
        # The expectation counts as experience too: compiling comes first and does not represent the rest.
        trust = max(TRUST, 0.2 * max(step.seconds for step in self.steps if step.kind == kind))
        return (spent + trust) / (expected + trust)

    def _settle(self) -> None:
        """Learn from the step under way, if it did any work."""
        if self._worked:
            kind = self.step.kind
            self._spent[kind] = self._spent.get(kind, 0.0) + self._clock() - self._start
            self._expected[kind] = self._expected.get(kind, 0.0) + self.step.seconds


class Scheduled:
    """A listener that shows the events of a run as progress of a schedule, whose steps have the events' titles."""

    def __init__(self, schedule: Schedule, on_event: OnEvent) -> None:
        self.schedule, self._on_event = schedule, on_event

    def begin(self, title: str) -> None:
        """Go to the step called `title`, if it is still to come; steps before it count as done."""
        ahead = [step.title for step in self.schedule.steps[self.schedule.number :]]
        if title in ahead:
            for _ in range(ahead.index(title) + 1):
                self.schedule.begin()
            self._on_event(self.schedule.event(""))

    def __call__(self, event: Event) -> None:
        """Show progress as a share of the step under way."""
        if event.note:
            self._on_event(event)
            return
        if not self.schedule.number or event.title != self.schedule.step.title:
            self.begin(event.title)
        figures = {name: value for name, value in event.figures.items() if name != "stored"}
        self.schedule.advance(event.share, worked=not event.figures.get("stored"))
        shown = [f"{name.replace('_', ' ')} {format_cell(value)}" for name, value in figures.items()]
        self._on_event(self.schedule.event(", ".join(shown)))
