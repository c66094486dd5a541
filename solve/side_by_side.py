"""Several pieces of work at once, each in a thread, while what they report arrives in the thread that asked for it.

Compiled programs and NumPy's products run outside of Python's lock, so threads of one process use all cores and share
what is compiled. A piece computes the same in any thread: results do not depend on how many there are.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax

from jatpo.events import Event, OnEvent

T = TypeVar("T")
Task = Callable[[OnEvent], T]
Place = Any  # a device of JAX, or None for the usual one


class _Done(NamedTuple):
    """Task `number` has ended with `value`, or with an error."""

    number: int
    value: Any
    error: BaseException | None


class Lead:
    """A block that one thread goes through first, while others wait: so it compiles what all of them use."""

    def __init__(self) -> None:
        self._lock, self._led = threading.Lock(), False

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """The block."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            if self._led:
                stack.close()
            yield
            self._led = True


def run(tasks: Sequence[Task[T]], places: Sequence[Place], on_event: OnEvent) -> list[T]:
    """The results of `tasks`, in order; at once run as many as there are `places`.

    An error or an interrupt ends all of them: the function that a task reports to then raises KeyboardInterrupt.
    """
    if min(len(places), len(tasks)) <= 1:
        return [task(on_event) for task in tasks]
    inbox: queue.SimpleQueue[Event | _Done] = queue.SimpleQueue()
    halt = threading.Event()
    threads = _start(tasks, places[: len(tasks)], inbox, halt)
    found: dict[int, T] = {}
    try:
        while len(found) < len(tasks):
            message = inbox.get()
            if isinstance(message, Event):
                on_event(message if message.note else replace(message, done=len(found)))
            elif message.error is not None:
                raise message.error
            else:
                found[message.number] = message.value
    except BaseException:
        halt.set()
        for thread in threads:
            thread.join()
        _pass_on_notes(inbox, on_event)
        raise
    return [found[number] for number in range(len(tasks))]


def _start(
    tasks: Sequence[Task[T]],
    places: Sequence[Place],
    inbox: queue.SimpleQueue[Event | _Done],
    halt: threading.Event,
) -> list[threading.Thread]:
    """Threads that take one task after another, each on its device."""
    double = bool(jax.config.read("jax_enable_x64"))  # a thread does not inherit it
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(tasks)):
        waiting.put(number)

    def report(event: Event) -> None:
        inbox.put(event)
        if halt.is_set():
            raise KeyboardInterrupt

    def work(place: Place) -> None:
        on_device = contextlib.nullcontext() if place is None else jax.default_device(place)
        with jax.enable_x64(double), on_device, contextlib.suppress(queue.Empty):
            while not halt.is_set():
                number = waiting.get_nowait()
                try:
                    inbox.put(_Done(number, tasks[number](report), None))
                except BaseException as error:
                    inbox.put(_Done(number, None, error))

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in places]
    for thread in threads:
        thread.start()
    return threads


def _pass_on_notes(inbox: queue.SimpleQueue[Event | _Done], on_event: OnEvent) -> None:
    """What the tasks noted while they ended."""
    while not inbox.empty():
        message = inbox.get()
        if isinstance(message, Event) and message.note:
            on_event(message)
