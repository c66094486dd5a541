"""Input files made by mutation and by grammar, read in a process with little memory and an alarm for each file."""

import contextlib
import json
import multiprocessing
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.chaos.damage import damaged
from tests.chaos.readers import KINDS
from tests.chaos.work import fast

SECONDS = 5  # of processor time for one file, and ten times that on the clock
MOST = 100_000  # files that one process reads: it takes as long to start as to read 6,000
LONGEST = 1000  # characters of a word before it is repeated: what makes the files needs little memory too
ROOM = 1 << 30  # bytes that reading may allocate


def readers(setting) -> Iterator[str | None]:
    """Batches in processes of their own; a crash of one is a failure with its seed."""
    context = multiprocessing.get_context("spawn")
    while True:
        seed = setting.random.randrange(1 << 30)
        read, write = context.Pipe(duplex=False)
        process = context.Process(target=batch, args=(seed, write, *setting.batch(MOST)))
        process.start()
        write.close()
        tries, failures, room = 0, [], 0
        try:
            while True:
                tries, failures, room = read.recv()
        except EOFError:
            process.join()
        if process.exitcode and not tries:
            raise RuntimeError("the readers could not be prepared; the traceback is above")
        if process.exitcode:
            failures = [
                *failures,
                f"the process with seed {seed} ended with {process.exitcode} after {tries} files",
            ]
        if room > ROOM:
            failures = [*failures, f"reading took {room >> 20} MB"]
        yield from failures
        yield from (None for _ in range(tries - len(failures)))
        if not setting.more():
            return


def batch(seed: int, pipe, until: float, most: int) -> None:
    """Read `most` files, or until `until`; sends the number read, the failures and the bytes that reading took."""
    from jatpo.errors import JatpoError

    warnings.simplefilter("ignore")
    chance = random.Random(seed)
    signal.signal(signal.SIGALRM, _late)
    signal.signal(signal.SIGPROF, _late)
    with tempfile.TemporaryDirectory(dir=fast()) as folder:
        place = Path(folder)
        read = {kind: known.reader(place) for kind, known in KINDS.items()}
        for kind in KINDS:  # what is imported and compiled does not count
            for data in KINDS[kind].seeds:
                _read(read[kind], place / f"input.{kind}", data)
        before = _resident()
        soft = _virtual() + 2 * ROOM
        resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
        kinds = list(KINDS)
        tries, failures, told = 0, [], time.monotonic()
        while tries < most and (time.monotonic() < until or not tries):
            kind = chance.choice(kinds)
            data = made(chance, kind)
            _limit(SECONDS)
            try:
                read[kind](_file(place / f"input.{kind}", data))
            except JatpoError as error:
                if len(str(error)) > 2000:
                    failures.append(f"{kind}: a sentence of {len(str(error))} characters")
            except BaseException as error:
                failures.append(f"{kind}: {type(error).__name__}: {str(error)[:200]}: {data[:300]!r}")
            finally:
                _limit(0)
            tries += 1
            if time.monotonic() - told > 1:
                told = time.monotonic()
                pipe.send((tries, failures, _resident() - before))
        pipe.send((tries, failures, _resident() - before))


def _file(path: Path, data: bytes) -> Path:
    with open(path, "wb", buffering=0) as file:
        file.write(data)
    return path


def _read(reader: Callable[[Path], object], path: Path, data: bytes) -> None:
    """A right file."""
    from jatpo.errors import JatpoError

    with contextlib.suppress(JatpoError):
        reader(_file(path, data))


def made(chance: random.Random, kind: str) -> bytes:
    """A file of a kind: a right one with some damages, or words of its language in any order."""
    if chance.random() < 0.25:
        return b" ".join(chance.choices(KINDS[kind].words, k=chance.randrange(1, 80)))
    data = chance.choice(KINDS[kind].seeds)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        data = _mutated(chance, kind, data) if data else b"\n"
    return data


def _mutated(chance: random.Random, kind: str, data: bytes) -> bytes:
    words = KINDS[kind].words
    if chance.random() < 0.4:
        return damaged(chance, data)
    lines = data.split(b"\n")
    place = chance.randrange(len(lines))
    tokens = lines[place].split(b" ")
    at = chance.randrange(len(tokens))
    what = chance.randrange(5)
    if what == 0:
        tokens[at] = chance.choice(words)
    elif what == 1:
        del tokens[at]
    elif what == 2:
        tokens.insert(at, chance.choice(words))
    elif what == 3:
        tokens[at] = str(chance.choice((0, -1, 1e300, 10 ** chance.randrange(30), 0.1))).encode()
    else:
        tokens[at] = tokens[at][:LONGEST] * chance.choice((2, 30, 1000))
    lines[place] = b" ".join(tokens)
    if chance.random() < 0.1:
        lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"\n".join(lines)


def _limit(seconds: int) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)


def _late(*_: object) -> None:
    raise TimeoutError(f"no end after {SECONDS} s")


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _virtual() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[0]) * resource.getpagesize()


if __name__ == "__main__":
    print(
        json.dumps(
            {kind: made(random.Random(0), kind).decode("utf-8", "replace") for kind in KINDS}, indent=1
        )
    )
