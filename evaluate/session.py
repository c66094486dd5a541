"""The cells of an experiment and the session that plays them: stored chunks are loaded, missing ones played and kept.

Trial i of a cell has a key made of the session's seed and i, so agents in the same scenario play the same trials, and
a run that resumes plays the same ones as a run that was never interrupted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax

from jatpo import disk, memory
from jatpo.background_writes import BackgroundWrites
from jatpo.disk import Checkpoints
from jatpo.engine import Engine, Rate, Unit
from jatpo.errors import JatpoError
from jatpo.evaluate.agents.protocol import Agent, refusal
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.gathered import Gathered
from jatpo.evaluate.results_store import Store
from jatpo.evaluate.rollout import TOGETHER, chunk_size, run_chunks
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.shares import Share, Sizes, content_key, most_together, play_share, playing
from jatpo.evaluate.solved import Solved
from jatpo.evaluate.trials import Trials
from jatpo.events import Event, OnEvent, ignore
from jatpo.tables import Row

BYTES = 100  # of a trial on disk: 20 while it is compared, 32 in a chunk, 45 in a table
NOTED = 2  # bytes of a trial in memory, for the chunks that are to be played


@dataclass(frozen=True)
class Cell:
    """One run: trials of an agent in a scenario, kept under `part`."""

    part: str
    agent: Agent
    scenario: Scenario
    solved: Solved
    horizon: int
    trials: int
    record: tuple[str, ...] = ()
    label: Row = field(default_factory=dict)  # the cell's place in its experiment, as in {"size": 8}
    made_of: Row = field(default_factory=dict)  # what the trials of `part` depend on, apart from the agent
    seed: int | None = None  # default: the session's

    @property
    def reason(self) -> str | None:
        """Why the agent cannot play here, or None."""
        return refusal(self.agent, self.scenario.library)

    @property
    def num_chunks(self) -> int:
        return -(-self.trials // chunk_size(self.scenario.library))


class Played(NamedTuple):
    """A cell with its trials; None, with the reason, where the agent cannot play."""

    cell: Cell
    trials: Trials | None
    reason: str | None = None
    chunk_seconds: float | None = None  # of a chunk, without compiling; None where it could not be measured


class Pace:
    """The seconds of a chunk, by the times at which chunks were finished."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._times: list[float] = []
        self._clock = clock

    def tick(self) -> None:
        """A chunk is finished."""
        self._times.append(self._clock())

    def seconds(self) -> float | None:
        """Seconds of a chunk after the first round of them, which had to compile; None if there was no other."""
        later = len(self._times) - TOGETHER * jax.local_device_count()
        return (self._times[-1] - self._times[0]) / later if later > 0 else None


class Session:
    """Plays cells with one seed and, with a store, keeps their chunks. Nothing else plays trials of experiments."""

    def __init__(
        self,
        seed: int,
        store: Store | None = None,
        on_event: OnEvent = ignore,
        engine: Engine | None = None,
        chunks: Path | None = None,
    ) -> None:
        """With an `engine`, its workers play; they keep chunks in the directory `chunks` if all of them have it."""
        self.seed, self.store, self.on_event = seed, store, on_event
        self.engine, self.chunks = engine, chunks

    def require(self, trials: int, title: str) -> None:
        """Refuse trials that neither the disk nor the memory has room for."""
        what, remedy = f"{title}: {trials} trials", "play fewer at once"
        disk.require(trials * BYTES, self._files(), what, remedy)
        memory.require(trials * NOTED, what, remedy)

    def play(self, cells: Sequence[Cell], title: str = "") -> list[Played]:
        """All cells in order; progress is that of all of them."""
        able = [cell for cell in cells if cell.reason is None]
        for cell in able:
            if cell.trials < 1:
                raise JatpoError(f"there are {cell.trials} trials to play: ask for at least one")
        total = sum(cell.num_chunks for cell in able)
        trials = sum(cell.trials for cell in able)
        self.require(trials, title or "the run")
        if able:
            self.on_event(Event(title, 0, total, {"agent": able[0].agent.name, "trials": trials}))
        if self.engine is not None:
            return self._play_elsewhere(self.engine, cells, title)
        done, found = 0, []
        for cell in cells:
            reason = cell.reason
            if reason is not None:
                found.append(Played(cell, None, reason))
                continue
            found.append(self._play(cell, title, done, total))
            done += cell.num_chunks
        return found

    def _play(self, cell: Cell, title: str, before: int, total: int) -> Played:
        """One cell; `before` of `total` chunks were finished with earlier ones."""
        began, pace = time.perf_counter(), Pace()
        gathered = self._gathered(cell)

        def report(**figures: int) -> None:
            share = before + gathered.count
            self.on_event(Event(title, share, total, {"agent": cell.agent.name, **figures}))

        self._take_stored(cell, gathered)
        if gathered.count:
            report(stored=gathered.count)
        missing = gathered.missing()
        key = jax.random.key(self.seed if cell.seed is None else cell.seed)
        what = (cell.agent, cell.scenario, cell.solved, cell.horizon)
        with BackgroundWrites() as writes:
            for chunk, result in run_chunks(key, *what, missing, cell.record):
                if self.store:
                    writes.put(self.store.save, cell.part, cell.agent.name, chunk, result)
                gathered.put(chunk, result)
                pace.tick()
                report()
        if self.store and missing:
            self.store.add_seconds(f"{cell.part}/{cell.agent.name}", time.perf_counter() - began)
        return Played(cell, gathered.trials(), None, pace.seconds())

    def _play_elsewhere(self, engine: Engine, cells: Sequence[Cell], title: str) -> list[Played]:
        """All cells at once: their missing chunks are units for the workers."""
        able = {number: cell for number, cell in enumerate(cells) if cell.reason is None}
        found = {number: self._gathered(cell) for number, cell in able.items()}
        for number, cell in able.items():
            self._take_stored(cell, found[number])
        left = {number: found[number].missing() for number in able}
        total = sum(cell.num_chunks for cell in able.values())
        computed: dict[int, dict[str, list[int]]] = {number: {} for number in able}
        rate, played_here, done = Rate("trials"), 0, sum(gathered.count for gathered in found.values())
        try:
            with BackgroundWrites() as writes:
                for number, share, worker in self._answers(engine, able, left):
                    self._keep(writes, able[number], share)
                    for chunk, trials in share.parts():
                        found[number].put(chunk, trials)
                    computed[number].setdefault(worker, []).extend(share.chunks)
                    played_here += min(len(share.trials.trial), able[number].trials)
                    done += len(share.chunks)
                    self.on_event(
                        Event(title, done, total, {**rate.figures(played_here), **engine.figures()})
                    )
        finally:
            if self.store:
                for number, chunks in computed.items():
                    what = f"{able[number].part}/{able[number].agent.name}"
                    self.store.add_computed(what, chunks, engine.workers)
        return [
            Played(cell, found[number].trials()) if number in found else Played(cell, None, cell.reason)
            for number, cell in enumerate(cells)
        ]

    def _keep(self, writes: BackgroundWrites, cell: Cell, share: Share) -> None:
        """Write the chunks' files as the worker packed them."""
        for chunk, content in zip(share.chunks, share.contents, strict=False):
            if self.store:
                writes.put(self.store.save_content, cell.part, cell.agent.name, chunk, content)

    def _answers(
        self, engine: Engine, cells: Mapping[int, Cell], left: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[int, Share, str]]:
        """Cell, share and worker of each unit; the chunks `left` of the cells are cut into units as they are needed."""
        sizes, places = Sizes(sum(map(len, left.values())), lambda: engine.slots), []

        def units() -> Iterator[Unit]:
            for number, cell in cells.items():
                for unit in self._units(engine, cell, left[number], partial(sizes.next, number)):
                    places.append(number)
                    yield unit

        for unit, share, worker in engine.run(units()):
            sizes.note(places[unit], share)
            yield places[unit], share, worker

    def _units(
        self, engine: Engine, cell: Cell, chunks: Sequence[int], size: Callable[[int, int], int]
    ) -> Iterator[Unit]:
        """Chunks of a cell as units of work; `size` says how many of those left make the next one."""
        if not chunks:
            return
        seed = self.seed if cell.seed is None else cell.seed
        setup = playing(cell.agent, cell.scenario, cell.solved, cell.horizon, cell.record, seed)
        kept = self.chunks / content_key(setup) if self.chunks else None
        identity = self.store.made_for(cell.part, cell.agent.name) if self.store else None
        shared, label = engine.share(setup), f"{cell.part}, {cell.agent.name}, trials from chunk"
        most, at = most_together(cell.record), 0
        while at < len(chunks):
            own = chunks[at : at + size(len(chunks) - at, most)]
            yield Unit(f"{label} {own[0]}", play_share, (shared, own, kept, identity))
            at += len(own)

    def _files(self) -> Path:
        """Where files of many trials are made."""
        return self.store.directory if self.store else Path(tempfile.gettempdir())

    def _gathered(self, cell: Cell) -> Gathered:
        return Gathered(cell.trials, chunk_size(cell.scenario.library), self._files())

    def _take_stored(self, cell: Cell, gathered: Gathered) -> None:
        """Put in the chunks that were played before."""
        store, agent = self.store, cell.agent
        if store is None:
            return
        notes = [store.open_part(cell.part, cell.made_of)]
        solved = {name: cell.solved.digest(name) for name in agent.needs}
        made_of = {**fingerprint(agent), "solutions": solved, "record": cell.record}
        notes.append(store.open_agent(cell.part, agent.name, made_of))
        for text in filter(None, notes):
            self.on_event(Event(note=text))
        for chunk in range(cell.num_chunks):
            found = store.load(cell.part, agent.name, chunk)
            if found is not None:
                gathered.put(chunk, found)

    def folder(self, *names: str) -> Path | None:
        """A folder of the results' directory, for something else that an experiment keeps; None without a store."""
        return self.store.directory.joinpath(*names) if self.store else None

    def checkpoints(self, kind: str, name: str, made_of: Mapping[str, object]) -> Checkpoints | None:
        """Where a training keeps its state; refuses one that is made of something else. None without a store."""
        if self.store is None:
            return None
        self.store.open_part(f"{kind}-{name}", made_of)
        return Checkpoints(self.store.directory / kind / name, {kind: name}, self.on_event)
