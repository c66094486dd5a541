"""Units of work on Dask workers. Dask distributes, balances and retries; here are only its client and its settings.

A unit whose worker is lost runs again elsewhere; one that raises is tried `RETRIES` times more. Units are handed over
in a window, so the memory of the client does not grow with their number.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import forkserver, resource_tracker
from typing import Any, NamedTuple

from jatpo.cluster import worker_units
from jatpo.cores import DEVICES, THREADS, usable_cores
from jatpo.engine import Answer, Failure, Unit, failed
from jatpo.errors import JatpoError
from jatpo.events import Event, OnEvent, ignore

try:
    import dask.config as dask_config
    from distributed import Client, Future, LocalCluster, WorkerPlugin, as_completed
    from distributed.scheduler import KilledWorker
except ImportError as error:
    raise JatpoError(
        f"a cluster needs Dask ({error}): pip install 'jatpo[cluster]', or leave out --scheduler and --workers"
    ) from error

RETRIES = 2  # of a unit that raises
KILLS = 20  # workers that a unit may lose before it counts as failed, at least, where the scheduler is ours
FAILURES = "distributed.scheduler.allowed-failures"
FOREVER = 10 * 365 * 24 * 3600  # seconds
WINDOW = 8  # units under way for each slot
TOPIC = "jatpo"
LEFT = "ignore:resource_tracker"  # warnings of semaphores that are removed anyway, as an option of Python
PRELOADED = ("distributed", "jatpo.cluster.dask_engine", "jatpo.evaluate.shares")  # by local workers
QUIET = ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler", "tornado")


class Guard(WorkerPlugin):
    """Closes a worker that joins later and has other versions."""

    name = "jatpo"

    def __init__(self, versions: Mapping[str, str], known: Iterable[str] = ()) -> None:
        self.versions, self.known = dict(versions), frozenset(known)

    def setup(self, worker: Any) -> None:
        """Compare; what differs goes into the worker's log and to the clients. Workers that are `known` stay."""
        worker_units.own_devices()
        wrong = worker_units.difference(worker_units.versions(), self.versions)
        if wrong and worker.address not in self.known:
            text = f"worker {worker.address} is refused: {wrong}"
            worker.log_event(TOPIC, text)
            worker.loop.add_callback(worker.close, reason="jatpo-version")
            raise JatpoError(text)


class DaskEngine:
    """Computes units on the workers of one scheduler. Made by `connected` and `local_workers`."""

    def __init__(
        self, client: Client, common_files: bool, on_event: OnEvent = ignore, timeout: float = 30.0
    ) -> None:
        """Name the workers that are refused, and wait for one at most `timeout` seconds if there is none.

        `on_event` gets notes about workers from a thread of the client.
        """
        self.common_files = common_files
        self.workers: dict[str, worker_units.About] = {}
        self._client: Any = client  # Any: Dask says of every method that it may return a coroutine
        self._on_event = on_event
        self.refused: dict[str, str] = {}
        self._lost = self._failures = self._done = 0
        self._present: set[str] = set()
        self._counted, self._window = -1, 0
        self._running: Any = None  # the units under way as Dask has them, while there are some
        client.subscribe_topic(TOPIC, self._note_refused)
        client.subscribe_topic("all", self._heard)  # before the workers are asked: one may join meanwhile
        self._refuse_other_versions()
        with contextlib.suppress(Exception) if self.refused else contextlib.nullcontext():
            client.register_plugin(Guard(worker_units.versions(), self._present))
        self._wait_for_workers(timeout)

    @property
    def address(self) -> str:
        """Of the scheduler."""
        scheduler = self._client.scheduler
        return (scheduler.address if scheduler else None) or "the scheduler"

    @property
    def slots(self) -> int:
        threads = self._client.nthreads()
        return sum(count for name, count in threads.items() if name not in self.refused)

    def figures(self) -> Mapping[str, Any]:
        """Workers present and lost, units that failed."""
        more = {"workers lost": self._lost, "failures": self._failures}
        found = {name: count for name, count in more.items() if count}
        return {"workers": len(self._present - set(self.refused)), **found}

    def share(self, value: Any) -> Future:
        """A task whose result is `value`: where its worker is lost, Dask makes it again."""
        content = worker_units.packed(worker_units.same, (value,))
        name = hashlib.sha256(content.content).hexdigest()[:24]
        options: dict = {"key": f"jatpo-shared-{name}", "pure": True, **self._where()}
        return self._client.submit(worker_units.call, content, **options)

    def run(self, units: Iterable[Unit]) -> Iterator[Answer]:
        """Answers as they come; then the units that failed, as one error."""
        waiting: dict[str, tuple[int, Unit]] = {}
        failures: dict[int, Failure] = {}
        todo, begun = enumerate(units), self._done
        first = self._submit(todo, self._room(waiting), waiting)
        stream = as_completed(first, loop=self._client.loop, with_results=True, raise_errors=False)
        self._running = stream
        del first
        try:
            for future, value in stream:
                number, unit = waiting.pop(future.key)
                if isinstance(value, Computed):  # whose worker may be lost by now, and with it the future
                    self._done += 1
                    self.workers.setdefault(value.worker, value.about)
                    yield Answer(number, value.value, value.worker)
                else:
                    failures[number] = Failure(unit.label, self._reason(future))
                    self._failures += 1
                stream.update(self._submit(todo, self._room(waiting), waiting))
        finally:
            self._running = None
            stream.clear()
        if failures:
            raise failed([failures[number] for number in sorted(failures)], self._done - begun)

    def _room(self, waiting: Mapping[str, object]) -> int:
        """How many more units may be under way; workers may have joined."""
        if len(self._present) != self._counted:
            self._counted, self._window = len(self._present), WINDOW * max(self.slots, 1)
        return max(self._window - len(waiting), 0)

    def _submit(
        self, todo: Iterator[tuple[int, Unit]], count: int, waiting: dict[str, tuple[int, Unit]]
    ) -> list[Future]:
        """The next `count` units as futures, entered in `waiting`."""
        made = []
        for number, unit in itertools.islice(todo, count):
            shared = [each for each in unit.arguments if isinstance(each, Future)]
            numbers = itertools.count()
            arguments = tuple(
                worker_units.Handle(next(numbers)) if isinstance(each, Future) else each
                for each in unit.arguments
            )
            content = worker_units.packed(unit.function, arguments)
            options: dict = {"pure": False, "retries": RETRIES, **self._where()}
            future = self._client.submit(answer, content, *shared, **options)
            waiting[future.key] = (number, unit._replace(arguments=()))
            made.append(future)
        return made

    def _where(self) -> Mapping[str, list[str]]:
        """Options of Dask that keep work from workers that are refused."""
        return {"workers": self._accepted()} if self.refused else {}

    def _accepted(self) -> list[str]:
        return sorted(self._present - set(self.refused))

    def _reason(self, future: Future) -> str:
        """Why a unit has no value; raises where the scheduler itself is lost."""
        if future.status in ("cancelled", "lost"):
            if self.refused and not self._accepted():
                raise JatpoError(
                    "all workers are lost but those that were refused; what was finished is kept: start others and "
                    f"give the same command to resume ({next(iter(self.refused.values()))})"
                )
            raise JatpoError(
                f"the connection to the scheduler {self.address} is lost; what was finished is kept: "
                "start the scheduler and its workers again and give the same command to resume"
            )
        error = future.exception()
        assert isinstance(error, BaseException)
        if isinstance(error, KilledWorker):
            lost = error.allowed_failures + 1
            return f"{lost} workers were lost while they computed it; too little memory is the usual cause"
        return worker_units.described(error)

    def _heard(self, event: tuple[float, Any]) -> None:
        """Count workers that come and go; runs in the client's thread."""
        found = event[1] if isinstance(event[1], dict) else {}
        action, name = found.get("action"), found.get("worker", "")
        if action == "add-worker":
            self._present.add(name)
        elif action == "remove-worker":
            self._present.discard(name)
            if not found.get("expected"):
                self._lost += 1
            if self._running is not None and not self._accepted():
                self._none_is_left()

    def _none_is_left(self) -> None:
        """Wait for a worker to join, unless what is under way was meant for those that are lost (`_where`)."""
        if self.refused:
            left = list(self._running.futures)
            self._client.loop.add_callback(self._client.cancel, left, asynchronous=True)
        else:
            self._on_event(Event(note="no worker is left: waiting for one to join"))

    def _note_refused(self, event: tuple[float, str]) -> None:
        """Pass on the sentence of a worker that was closed."""
        self._on_event(Event(note=event[1]))

    def _wait_for_workers(self, timeout: float) -> None:
        if not self._present:
            note = f"{self.address} has no workers yet: waiting for one, at most {timeout:g} s"
            self._on_event(Event(note=note))
        try:
            self._client.wait_for_workers(1, timeout=timeout)
        except TimeoutError as error:
            refused = [text for _, text in self._client.get_events(TOPIC)][-1:]
            more = "".join(f"; the last one that was refused: {text}" for text in refused)
            raise JatpoError(
                f"the scheduler has no workers after {timeout:g} s: start some with 'dask worker {self.address}'{more}"
            ) from error

    def close(self) -> None:
        """Leave the scheduler as it was found: workers of any version may join again."""
        with contextlib.suppress(Exception):  # the scheduler may be lost
            self._client.unregister_worker_plugin(Guard.name)

    def _refuse_other_versions(self) -> None:
        """Name the workers whose versions differ, which get no work; an error where there is no other."""
        ours = worker_units.versions()
        found = self._client.run(own_versions, on_error="return")
        self._present |= set(found)
        for name, theirs in found.items():
            wrong = _unlike(theirs, ours)
            if wrong:
                self.refused[name] = f"worker {name} gets no work: {wrong}"
        if found and len(self.refused) == len(found):
            raise JatpoError(f"no worker can be used: {next(iter(self.refused.values()))}")
        for text in self.refused.values():
            self._on_event(Event(note=text))

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Mapping[str, Any]:
        """What `function` returns on every worker that is used, by the worker's address."""
        return self._client.run(function, *arguments, workers=self._accepted(), on_error="return")


def _unlike(theirs: Any, ours: Mapping[str, str]) -> str | None:
    """How a worker differs that answered `theirs`, an error where it has no such code; None where it agrees."""
    if isinstance(theirs, BaseException):
        wanted = f"jatpo {ours['jatpo']}"
        return f"it has another version of jatpo or none ({_short(theirs)}), and this command {wanted}"
    return worker_units.difference(theirs, ours)


def own_versions() -> Mapping[str, str]:
    """The versions of the worker that runs this; Dask sends it by name, so that other code answers for itself."""
    return worker_units.versions()


class Computed(NamedTuple):
    """A unit's value, with who computed it."""

    value: Any
    about: worker_units.About
    worker: str


def answer(content: worker_units.Called, *shared: Any) -> Computed:
    """What a worker returns for a unit."""
    value = worker_units.call(content, *shared)
    found = worker_units.about()
    return Computed(value, found, f"{found['host']}:{found['process']}")


@contextlib.contextmanager
def connected(
    scheduler: str, *, common_files: bool = False, on_event: OnEvent = ignore, timeout: float = 30.0
) -> Iterator[DaskEngine]:
    """The workers of a scheduler that is running, such as tcp://host:8786."""
    with _quiet():
        try:
            client = Client(scheduler, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise JatpoError(
                f"there is no scheduler at {scheduler} ({_short(error)}): start one with 'dask scheduler', and workers "
                f"with 'dask worker {scheduler}'"
            ) from error
        with client:
            yield from _started(client, common_files, on_event, timeout)


@contextlib.contextmanager
def local_workers(count: int, *, on_event: OnEvent = ignore) -> Iterator[DaskEngine]:
    """`count` worker processes on this machine, which share its cores; they end with the block."""
    devices = max(1, usable_cores() // count)
    settings = {
        FAILURES: max(KILLS, dask_config.get(FAILURES)),
        "distributed.nanny.pre-spawn-environ": {},  # workers compute as this process does
        "distributed.worker.profile.enabled": False,  # it takes a sample every 10 ms
        "distributed.deploy.lost-worker-timeout": FOREVER,  # one that starts slowly is not given up
        **_forked(),
    }
    with (
        _quiet(),
        dask_config.set(settings),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            env={**os.environ, DEVICES: str(devices), THREADS: str(devices)},
            silence_logs=logging.CRITICAL + 1,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield from _started(client, True, on_event, 60.0)


def _forked() -> Mapping[str, str]:
    """Settings of Dask under which workers are forked from one process that has imported what they need.

    That process starts here. It runs no threads and has no devices yet; where there is none, each worker imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return {}
    multiprocessing.set_forkserver_preload(list(PRELOADED))
    _track_quietly()
    forkserver.ensure_running()
    return {"distributed.worker.multiprocessing-method": "forkserver"}


def _track_quietly() -> None:
    """Start the process that cleans up after this one; it warns of what it finds, as after Ctrl-C."""
    sys.warnoptions.append(LEFT)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(LEFT)


def _started(client: Client, common_files: bool, on_event: OnEvent, timeout: float) -> Iterator[DaskEngine]:
    if client.dashboard_link:
        on_event(Event(note=f"the dashboard is at {client.dashboard_link}"))
    engine = DaskEngine(client, common_files, on_event, timeout)
    try:
        yield engine
    finally:
        engine.close()


def _short(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0][:120]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own messages stay out of the progress line; large shared values are expected."""
    loggers = [logging.getLogger(name) for name in QUIET]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL + 1)
    try:
        with dask_config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
            yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)
