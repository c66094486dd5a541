"""Chunks of trials as units of work for an engine: what travels, what a worker does, which chunks make a unit.

Trials have keys made of their numbers, so a chunk is the same wherever it is played and with whichever others. With a
directory that all workers have, a chunk is kept there under a digest of everything it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jatpo.disk import digest, digest_json, write_whole
from jatpo.evaluate import chunks as files
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.rollout import TOGETHER, run_chunks
from jatpo.evaluate.scenario import Scenario, needed
from jatpo.evaluate.trials import Trials
from jatpo.plain import to_json
from jatpo.version import __version__

FORMAT = 1  # of chunks that workers keep
ROUNDS = 2  # units for each slot, at least, where there are so many chunks


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


def play_share(setup: Playing, chunks: Sequence[int], kept: Path | None = None) -> list[tuple[int, Trials]]:
    """Chunks by number; those that are in the directory `kept` are read, the others played and kept there."""
    found = {chunk: trials for chunk in chunks if (trials := _read(kept, chunk)) is not None}
    missing = [chunk for chunk in chunks if chunk not in found]
    key = jax.random.key(setup.seed)
    what = (setup.agent, setup.scenario, setup.parts, setup.horizon)
    for chunk, trials in run_chunks(key, *what, missing, setup.record):
        found[chunk] = trials
        if kept:
            write_whole(_place(kept, chunk), files.to_bytes(trials, kept.name))
    return [(chunk, found[chunk]) for chunk in chunks]


def shares(chunks: Sequence[int], total: int, slots: int) -> list[Sequence[int]]:
    """The chunks of a cell in units; `total` chunks in all cells are to keep `slots` busy."""
    each = min(max(total // max(ROUNDS * slots, 1), 1), TOGETHER)
    return [chunks[at : at + each] for at in range(0, len(chunks), each)]


def _place(kept: Path, chunk: int) -> Path:
    return kept / f"{chunk:06d}.npz"


def _read(kept: Path | None, chunk: int) -> Trials | None:
    """A chunk that another run has kept; None where there is none that can be read."""
    if kept is None:
        return None
    try:
        return files.from_bytes(_place(kept, chunk).read_bytes(), kept.name)
    except (FileNotFoundError, ValueError):  # a damaged one is played and written again
        return None
