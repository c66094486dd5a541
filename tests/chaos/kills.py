"""Processes that are killed, stopped, interrupted and crowded, and files whose times are wrong."""

import json
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from jatpo.disk import write_whole
from tests.chaos import served
from tests.chaos.work import BEFORE, COMMANDS, LIMIT, PRINTED, Place, used

LATEST = 2.0  # seconds from Ctrl-C to the end
CROWD = 3
LONGEST = 20.0  # seconds of a command in which it is disturbed
PATIENCE = 10  # seconds on the clock for one of processor time, then a command is taken to wait for something
RARELY = 4
SERVE, SERVING = "serve", 8.0  # the command that ends by Ctrl-C only, and seconds of its life
NEW = ("learn",)  # commands that make a directory that must not be there


class References:
    """What an uninterrupted run of a command leaves, and how long it takes.

    Each is run twice: the second run, with its programs compiled, gives the time and must leave the same. They are
    kept in files, so that several campaigns with one folder share them.
    """

    def __init__(self, folder: Path, caches: Path) -> None:
        self._folder, self._caches = folder, caches

    def of(self, name: str) -> tuple[dict[str, str], float]:
        """The digests, and how many seconds of processor time it takes once its programs are compiled."""
        if name == SERVE:
            return {}, SERVING
        kept = self._path(name)
        while not kept.exists():
            if not self._claim(name):
                time.sleep(0.5)  # another campaign is at it
                continue
            first, _, kind = self._run(name, "first")
            left, seconds, _ = self._run(name, "second")
            assert left == first, f"{name}: two runs without faults left different results"
            write_whole(kept, json.dumps([left, seconds, kind]))
        found, seconds, _ = json.loads(kept.read_text())
        return found, min(seconds, LONGEST)

    def _run(self, name: str, which: str) -> tuple[dict[str, str], float, str]:
        """What a run leaves, its seconds of processor time, and the name of its directory."""
        folder = self._folder / f"{self._path(name).stem}-{which}-{os.getpid()}"
        place = self.prepare(Place(folder, self._caches), name)
        before = _children()
        code, out, error = place.run(COMMANDS[name])
        assert code == 0, f"{name}: {error}"
        return _result(place, name, out), _children() - before, folder.name

    def ready(self, names: list[str]) -> None:
        """Run what no campaign has run or is running, then wait for the others."""
        for name in [name for name in names if name != SERVE and not self._path(name, ".claimed").exists()]:
            self.of(name)
        for name in names:
            self.of(name)

    def _path(self, name: str, suffix: str = ".json") -> Path:
        return self._folder / f"{name.replace(' ', '-')}{suffix}"

    def _claim(self, name: str) -> bool:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._path(name, ".claimed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def prepare(self, place: Place, name: str) -> Place:
        """A place with what the command needs of another one."""
        if name in BEFORE:
            self.of(BEFORE[name])
            source = json.loads((self._folder / f"{BEFORE[name]}.json").read_text())[2]
            shutil.copytree(self._folder / source / "out", place.root / "out", dirs_exist_ok=True)
        return place


def _children() -> float:
    """Processor seconds of the processes that this one has waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def pass_time(process: subprocess.Popen, name: str, seconds: float) -> None:
    """Wait until a command has used `seconds` more of processor time, has ended, or waits for something itself.

    On the clock, every moment would fall into the first imports where the machine has other work.
    """
    if name == SERVE:  # it waits for visitors
        time.sleep(seconds)
        return
    until, end = used(process.pid) + seconds, time.monotonic() + PATIENCE * (1 + seconds)
    while process.poll() is None and used(process.pid) < until and time.monotonic() < end:
        time.sleep(0.02)


def _result(place: Place, name: str, out: str) -> dict[str, str]:
    """What a command has left, and what it printed where that is its result."""
    return place.left() | ({"output": out} if name in PRINTED else {})


def _finish(place: Place, name: str, expected: dict[str, str]) -> str | None:
    """What is wrong once the command has been given again."""
    if name == SERVE:
        return served.works(place, COMMANDS[name])
    code, out, error = place.run(COMMANDS[name])
    if code == 2 and name in NEW and "exists already" in error:  # it was finished before
        code = 0
    if code:
        return f"{name} resumed with exit code {code}: {error.strip()[-300:]}"
    left = _result(place, name, out)
    different = [key for key in {**expected, **left} if expected.get(key) != left.get(key)]
    return f"{name}: other results: {different[:3]}" if different else None


def _names(setting, without: tuple[str, ...] = ()) -> Iterator[str]:
    """Commands in a random order while there is time; the slower half comes once in `RARELY` rounds."""
    names: list[str] = []
    known = [name for name in setting.names if name not in without]
    turn = setting.random.randrange(RARELY)
    while True:
        if not names:
            names = list(known)
            if turn % RARELY:
                setting.references.ready(setting.random.sample(names, len(names)))
                names.sort(key=lambda name: setting.references.of(name)[1])
                names = names[: -(-len(names) // 2)]
            setting.random.shuffle(names)
            turn += 1
        yield names.pop()
        if not setting.more():
            return


def kills(setting) -> Iterator[str | None]:
    """kill -9 once or twice, then the command again."""
    known = setting.references
    for name in _names(setting):
        expected, seconds = known.of(name)
        place = known.prepare(setting.place(), name)
        moments = []
        for _ in range(setting.random.choice((1, 1, 2))):
            process = place.start(COMMANDS[name])
            moments.append(round(setting.random.uniform(0, 1.1 * seconds), 2))
            pass_time(process, name, moments[-1])
            process.kill()
            process.communicate()
        found = _finish(place, name, expected)
        yield found and f"killed after {moments} s: {found}"


def stops(setting) -> Iterator[str | None]:
    """Stopped and continued at random moments."""
    known = setting.references
    for name in _names(setting, without=(SERVE,)):
        expected, seconds = known.of(name)
        place = known.prepare(setting.place(), name)
        process = place.start(COMMANDS[name])
        for _ in range(3):
            pass_time(process, name, setting.random.uniform(0, seconds / 3))
            for what in (signal.SIGSTOP, signal.SIGCONT):
                process.send_signal(what)
                time.sleep(setting.random.uniform(0, 0.3))
        process.communicate(timeout=LIMIT)
        yield _finish(place, name, expected)


def _wait_for(path: Path, process: subprocess.Popen) -> None:
    """Until a command's own code has begun, or it has ended."""
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)


def interrupts(setting) -> Iterator[str | None]:
    """Ctrl-C at a random moment from when the command's own code has begun, then the command again."""
    known, waits = setting.references, []
    for name in _names(setting):
        expected, seconds = known.of(name)
        place = known.prepare(setting.place(), name)
        process = place.start(COMMANDS[name])
        if name == SERVE:
            threading.Thread(target=served.visit, args=(process,), daemon=True).start()
        moment = setting.random.uniform(0, seconds)
        _wait_for(place.root / "began", process)
        pass_time(process, name, moment)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT)  # what is printed fits into a pipe
        took = time.monotonic() - began
        error = process.stderr.read() if name == SERVE else process.communicate(timeout=LIMIT)[1]
        last = error.decode("utf-8", "replace").strip().splitlines()[-1:]
        what = f"{name} interrupted after {moment:.2f} s"
        done = process.returncode == 0  # it was finished before the signal came
        waits.append((took, what))
        if not done and (process.returncode != 130 or not last or "interrupted" not in last[0]):
            yield f"{what}: exit code {process.returncode}, {last}"
        elif took > LATEST:
            yield f"{what}: took {took:.2f} s to end"
        else:
            again = not done and len(waits) % setting.resume == 0
            found = _finish(place, name, expected) if again else None
            yield found and f"{what}: {found}"
    ordered = sorted(waits)
    setting.notes.append(
        f"half ended within {ordered[len(ordered) // 2][0]:.2f} s, the slowest in {ordered[-1]}"
    )


def shares(setting) -> Iterator[str | None]:
    """Several processes with one command in one directory."""
    known = setting.references
    names = [
        name for name in setting.names if name not in (*NEW, SERVE)
    ]  # it makes a new directory, which is one process's
    while True:
        name = setting.random.choice(names)
        expected, _ = known.of(name)
        place = known.prepare(setting.place(), name)
        crowd = []
        for _ in range(CROWD):
            crowd.append(place.start(COMMANDS[name]))
            time.sleep(setting.random.uniform(0, 0.5))
        ends = [process.communicate(timeout=LIMIT)[1].decode("utf-8", "replace") for process in crowd]
        bad = [end for process, end in zip(crowd, ends, strict=True) if process.returncode]
        yield f"{name} beside others: {bad[0][-300:]}" if bad else _finish(place, name, expected)
        if not setting.more():
            return


def clocks(setting) -> Iterator[str | None]:
    """A run that is killed, whose files then seem to be from the past or the future, and is given again."""
    known = setting.references
    for name in _names(setting, without=(SERVE,)):
        expected, seconds = known.of(name)
        place = known.prepare(setting.place(), name)
        process = place.start(COMMANDS[name])
        pass_time(process, name, setting.random.uniform(0.3, 1) * seconds)
        process.kill()
        process.communicate()
        for path in place.root.rglob("*"):
            moment = setting.random.choice((0.0, time.time() + 10**8, time.time() - 10**6))
            os.utime(path, (moment, moment))
        yield _finish(place, name, expected)
