"""Units of work on the processes of `jax.distributed`: one program over all devices of several hosts.

    srun jatpo evaluate gridworld --trials 1000000 --distributed

The first process leads: it reads, decides, keeps and prints. The others receive what it shares and units of work, and
nothing else is exchanged but the answers. Process p of P computes unit p of a round, on all of its own devices, over
which `jatpo.evaluate.rollout` shards trials.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils

from jatpo.cluster import worker_units
from jatpo.engine import Answer, Failure, Unit, failed
from jatpo.errors import JatpoError
from jatpo.events import Event, OnEvent, ignore

SMALLEST = (
    1 << 12
)  # bytes of a message; lengths are rounded up to powers of two, so few programs are compiled
HEARTBEAT = 60  # seconds after which the others stop when a process is lost
LONGEST = 7 * 24 * 3600 * 1000  # milliseconds that a process waits for the others
MOST = (1 << 31) - 1  # bytes of a message


_meetings = itertools.count()


class Values(NamedTuple):
    """A message: the shared values of the rounds that follow."""

    content: list[worker_units.Called]


class Round(NamedTuple):
    """A message: units to compute, each with the numbers of its shared values."""

    units: list[tuple[worker_units.Called, tuple[int, ...]]]


class Shared:
    """Stands for a value that is sent to every process once for each run of units."""

    def __init__(self, value: Any) -> None:
        self.content = worker_units.packed(worker_units.same, (value,))


class ProcessEngine:
    """Computes units on all processes; made by `joined` in the first."""

    common_files = False  # hosts may have disks of their own

    def __init__(self) -> None:
        self.workers: dict[str, worker_units.About] = {}

    @property
    def slots(self) -> int:
        return jax.process_count()

    def figures(self) -> Mapping[str, Any]:
        """Processes and devices."""
        return {"processes": jax.process_count(), "devices": jax.device_count()}

    def share(self, value: Any) -> Shared:
        """`value`, to be sent with the units that need it."""
        return Shared(value)

    def run(self, units: Iterable[Unit]) -> Iterator[Answer]:
        """Answers round by round; then the units that failed, as one error."""
        todo, failures, finished = enumerate(units), [], 0
        while batch := list(itertools.islice(todo, jax.process_count())):
            values = list(
                {id(part): part for _, unit in batch for part in unit.arguments if _is(part)}.values()
            )
            _broadcast(Values([each.content for each in values]))
            sent = Round([_packed(unit, values) for _, unit in batch])
            _broadcast(sent)
            answers = _compute(sent, _received([each.content for each in values]))
            for (number, unit), (fine, value, name, about) in zip(batch, answers, strict=True):
                self.workers.setdefault(name, about)
                if fine:
                    finished += 1
                    yield Answer(number, value, name)
                else:
                    failures.append(Failure(unit.label, value))
        if failures:
            raise failed(failures, finished)


def _is(part: Any) -> bool:
    return type(part) is Shared


def _packed(unit: Unit, values: list[Shared]) -> tuple[worker_units.Called, tuple[int, ...]]:
    """A unit with the numbers, within `values`, of what it shares."""
    used = [part for part in unit.arguments if _is(part)]
    places = itertools.count()
    arguments = tuple(worker_units.Handle(next(places)) if _is(part) else part for part in unit.arguments)
    return worker_units.packed(unit.function, arguments), tuple(values.index(part) for part in used)


def _received(values: list[worker_units.Called]) -> list[Any]:
    return [worker_units.call(content) for content in values]


def _compute(given: Round, values: list[Any]) -> list[tuple[bool, Any, str, worker_units.About]]:
    """The answers of all processes to a round, in the order of its units."""
    own = []
    for content, numbers in given.units[jax.process_index() :: jax.process_count()]:
        try:
            own.append((True, worker_units.call(content, *(values[number] for number in numbers))))
        except Exception as error:  # named by the first process; the others go on
            own.append((False, worker_units.described(error)))
    about = worker_units.about()
    name = f"{about['host']}:{about['process']}"
    parts = [pickle.loads(part) for part in _gather(pickle.dumps((own, name, about)))]
    found = [[(*each, who, what) for each in found] for found, who, what in parts]
    count, processes = len(given.units), jax.process_count()
    return [found[at % processes][at // processes] for at in range(count)]


def _serve() -> None:
    """Compute for the first process until it has no more work."""
    values: list[Any] = []
    while (message := _broadcast(None)) is not None:
        if type(message) is Values:
            values = _received(message.content)
        else:
            _compute(message, values)


def _broadcast(message: Any) -> Any:
    """The message of the first process, in every process."""
    return pickle.loads(_gather(pickle.dumps(message) if jax.process_index() == 0 else b"")[0])


def _wait_for_all() -> None:
    """Return when every process is here, however long that takes; a lost process is an error.

    Gloo gives up a collective after half a minute, so processes meet here before each. jax has no public name for it.
    """
    client = distributed.global_state.client
    if client is not None:
        client.wait_at_barrier(f"jatpo-{next(_meetings)}", timeout_in_ms=LONGEST)


def _gather(content: bytes) -> list[bytes]:
    """The bytes of every process, in order."""
    _wait_for_all()
    lengths = np.ravel(multihost_utils.process_allgather(np.array([len(content)], np.int32)))
    longest = int(lengths.max())
    if longest > MOST // 2:
        raise JatpoError(f"a message of {longest} bytes is too long for --distributed: record less at once")
    size = max(SMALLEST, 1 << (longest - 1).bit_length())
    padded = np.zeros(size, np.uint8)
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    found = np.asarray(multihost_utils.process_allgather(padded)).reshape(len(lengths), size)
    return [bytes(row[:length]) for row, length in zip(found, lengths, strict=True)]


@contextlib.contextmanager
def joined(*, on_event: OnEvent = ignore, timeout: int = 300) -> Iterator[ProcessEngine | None]:
    """The engine in the first process; None in the others, after they have computed for it.

    Who takes part is read from SLURM or Open MPI, or from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
    JAX_PROCESS_ID.
    """
    _initialize(timeout)
    try:
        if jax.process_index() != 0:
            _serve()
            yield None
            return
        on_event(Event(note=f"{jax.process_count()} processes with {jax.device_count()} devices in all"))
        try:
            yield ProcessEngine()
        finally:
            _broadcast(None)
    finally:
        jax.distributed.shutdown()


def _initialize(timeout: int) -> None:
    numbers: Any = {
        argument: int(os.environ[name])
        for argument, name in (("num_processes", "JAX_NUM_PROCESSES"), ("process_id", "JAX_PROCESS_ID"))
        if name in os.environ
    }
    try:
        jax.distributed.initialize(
            **numbers, initialization_timeout=timeout, heartbeat_timeout_seconds=HEARTBEAT
        )  # pyright: ignore[reportArgumentType]
    except (ValueError, RuntimeError) as error:
        raise JatpoError(
            f"the processes of --distributed cannot be joined ({str(error).strip().splitlines()[0][:200]}): start "
            "them by srun or mpirun, or set JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID"
        ) from error
    with _output_as_errors():
        multihost_utils.sync_global_devices("joined")


@contextlib.contextmanager
def _output_as_errors() -> Iterator[None]:
    """What libraries in C++ print on standard output, as Gloo does when processes meet, goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
