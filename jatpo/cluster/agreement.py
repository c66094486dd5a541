"""Whether the workers of a cluster agree with this command: versions, devices, settings, directories."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jatpo.cluster import worker_units
from jatpo.cluster.dask_engine import DaskEngine
from jatpo.disk import write_whole
from jatpo.memory import readable
from jatpo.tables import Row

COLUMNS = ("worker", "host", "jatpo", "jax", "numpy", "devices", "disk", "agrees")
SHOWN = 3  # workers that a sentence names
SPACE = 1_000_000_000  # bytes; less is reported


class Agreement(NamedTuple):
    """A row for each worker, and a sentence for each thing that differs."""

    rows: Sequence[Row]
    problems: Sequence[str]


def check(engine: DaskEngine, shared: Path | None = None) -> Agreement:
    """Ask every worker; `shared` is the directory that all should have."""
    ours = worker_units.about()
    problems, found_by = list(engine.refused.values()), dict[str, list[str]]()
    rows: list[Row] = [{"worker": name, "agrees": "no"} for name in engine.refused]
    places = _places(engine, shared)
    for name, found in engine.ask(worker_units.about).items():
        wrong = [f"{found}"] if isinstance(found, Exception) else _differences(found, ours)
        place = places.get(name, {})
        wrong += _directory_problems(place, shared)
        for text in wrong:
            found_by.setdefault(text, []).append(name)
        known = {} if isinstance(found, Exception) else {key: found[key] for key in COLUMNS if key in found}
        free = place.get("free")
        disk = None if free is None else f"{readable(free)} free"
        rows.append({"worker": name, **known, "disk": disk, "agrees": "no" if wrong else "yes"})
    problems += [f"{_named(names)}: {text}" for text, names in found_by.items()]
    kinds = sorted({str(row["devices"]).partition(" ")[2] for row in rows if "devices" in row})
    if len(kinds) > 1:
        problems.append(
            f"the workers have devices of several kinds ({', '.join(kinds)}): results agree to the bit only on one kind"
        )
    return Agreement(rows, problems)


def _named(workers: Sequence[str]) -> str:
    """Which workers something concerns, in a few words."""
    if len(workers) == 1:
        return f"worker {workers[0]}"
    return f"{len(workers)} workers ({', '.join(workers[:SHOWN])}{', ...' if len(workers) > SHOWN else ''})"


def _differences(found: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """What of a worker differs from this process and may change results."""
    names = [name for name in ("python", "backend") if found[name] != ours[name]]
    wrong = [f"{name} is {found[name]} there and {ours[name]} here: use the same in both" for name in names]
    theirs, mine = found["settings"], ours["settings"]
    for name in sorted({*theirs, *mine}):
        if theirs.get(name) != mine.get(name):
            wrong.append(
                f"{name} is {theirs.get(name, 'not set')} there and {mine.get(name, 'not set')} here: set the same "
                "in both"
            )
    return wrong


def _places(engine: DaskEngine, shared: Path | None) -> Mapping[str, Mapping[str, Any]]:
    """The state of the shared directory on every worker; a file that is written here must be found there."""
    if shared is None:
        return {}
    name, content = f"check-{uuid.uuid4().hex}", f"written by process {os.getpid()}"
    place = shared.absolute()
    write_whole(place / name, content)
    try:
        found = engine.ask(worker_units.directory_state, str(place), name, content)
    finally:
        (place / name).unlink(missing_ok=True)
    return {
        worker: {"common": False, "error": str(state)} if isinstance(state, Exception) else state
        for worker, state in found.items()
    }


def _directory_problems(place: Mapping[str, Any], shared: Path | None) -> list[str]:
    if shared is None:
        return []
    if not place.get("common"):
        reason = place.get("error", "it is another directory there")
        return [f"{shared} is not shared with it ({reason})"]
    if place["free"] < SPACE:
        return [f"{shared} has only {readable(place['free'])} free"]
    return []
