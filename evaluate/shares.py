"""Chunks of trials as units of work for an engine: what travels, what a worker does, which chunks make a unit.

Trials have keys made of their numbers, so a chunk is the same wherever it is played and with whichever others. With a
directory that all workers have, a chunk is kept there under a digest of everything it depends on. A worker packs the
files of its chunks, and the trials of all of them travel as one array for each quantity.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jatpo.disk import digest, digest_json, write_whole
from jatpo.evaluate import chunks as files
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.rollout import TOGETHER, needs_steps, run_chunks
from jatpo.evaluate.scenario import Scenario, needed
from jatpo.evaluate.trials import Trials, concatenate
from jatpo.plain import to_json
from jatpo.version import __version__

FORMAT = 1  # of chunks that workers keep
ROUNDS = 2  # units for each slot, at least, where there are so many chunks
SECONDS = 1.5  # of work in a unit, about, once it is known how long a chunk takes
MOST = 256  # chunks of a unit


class Playing(NamedTuple):
    """All that the trials of a cell depend on, apart from their numbers."""

    agent: Agent
    scenario: Scenario
    parts: Mapping[str, Any]  # what is solved for the agent
    horizon: int
    record: tuple[str, ...]
    seed: int


def playing(
    agent: Agent,
    scenario: Scenario,
    solved: Mapping[str, Any],
    horizon: int,
    record: Sequence[str],
    seed: int,
) -> Playing:
    """What a worker needs, with everything that the agent needs solved."""
    return Playing(agent, scenario, dict(needed(agent, solved)), horizon, tuple(record), seed)


def content_key(setup: Playing) -> str:
    """A digest of everything that chunks of `setup` depend on."""
    arrays = digest(jax.tree.leaves((setup.scenario, setup.parts)))
    structure = str(jax.tree.structure((setup.scenario, setup.parts)))
    versions = [FORMAT, __version__, jax.__version__, jax.default_backend()]
    rest = [structure, setup.horizon, setup.record, setup.seed, to_json(fingerprint(setup.agent))]
    return digest_json(to_json([*versions, arrays, *rest]))[:32]


class Share(NamedTuple):
    """Chunks of a cell on their way back."""

    chunks: Sequence[int]
    trials: Trials  # of all of them, in that order
    contents: Sequence[bytes]  # of their files; none where nothing is kept
    seconds: float  # of playing them

    def parts(self) -> Iterator[tuple[int, Trials]]:
        """Chunks by number."""
        size = len(self.trials.trial) // len(self.chunks)
        for place, chunk in enumerate(self.chunks):
            own = slice(place * size, (place + 1) * size)
            yield chunk, jax.tree.map(lambda leaf, own=own: leaf[own], self.trials)


def play_share(
    setup: Playing, chunks: Sequence[int], kept: Path | None = None, identity: str | None = None
) -> Share:
    """Play chunks; those that are in the directory `kept` are read, the others kept there.

    `identity` is what files of the chunks are sealed with.
    """
    began = time.perf_counter()
    found = {chunk: trials for chunk in chunks if (trials := read_kept(kept, chunk)) is not None}
    missing = [chunk for chunk in chunks if chunk not in found]
    contents = {chunk: files.to_bytes(found[chunk], identity) for chunk in found if identity is not None}
    key = jax.random.key(setup.seed)
    what = (setup.agent, setup.scenario, setup.parts, setup.horizon)
    for chunk, trials in run_chunks(key, *what, missing, setup.record):
        found[chunk] = trials
        if kept:
            write_whole(_place(kept, chunk), files.to_bytes(trials, kept.name))
        if identity is not None:
            contents[chunk] = files.to_bytes(trials, identity)
    whole = concatenate([found[chunk] for chunk in chunks])
    ordered = [contents[chunk] for chunk in chunks if chunk in contents]
    return Share(list(chunks), whole, ordered, time.perf_counter() - began)


class Sizes:
    """How many chunks make the next unit of a cell: about `SECONDS` of work, and some for every slot at the end."""

    def __init__(self, total: int, slots: Callable[[], int]) -> None:
        """For `total` chunks in all cells; `slots` returns how many units are computed at once."""
        self._left, self._slots = total, slots
        self._pace: dict[int, float] = {}  # seconds of a chunk, by cell

    def note(self, cell: int, share: Share) -> None:
        """Take note of how long a unit took."""
        self._pace[cell] = share.seconds / len(share.chunks)

    def next(self, cell: int, left: int, most: int = MOST) -> int:
        """The chunks of the next unit of a cell of which `left` are not handed over."""
        pace = self._pace.get(cell)
        wanted = TOGETHER if pace is None else int(min(SECONDS / max(pace, 1e-9), most))
        fair = self._left // max(ROUNDS * self._slots(), 1)
        count = max(min(wanted, fair, most), 1)
        if count > TOGETHER:
            count -= count % TOGETHER
        self._left -= (count := min(count, left))
        return count


def most_together(record: Sequence[str]) -> int:
    """The most chunks of a unit: fewer where every step of their trials is kept, which takes memory and time."""
    return TOGETHER if needs_steps(record) else MOST


def _place(kept: Path, chunk: int) -> Path:
    return kept / f"{chunk:06d}.npz"


def read_kept(kept: Path | None, chunk: int) -> Trials | None:
    """A chunk that another run has kept; None where there is none that can be read."""
    if kept is None:
        return None
    try:
        return files.from_bytes(_place(kept, chunk).read_bytes(), kept.name)
    except (FileNotFoundError, ValueError):  # a damaged one is played and written again
        return None
