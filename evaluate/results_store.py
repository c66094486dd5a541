"""A directory of results: a manifest, chunks of trials, tables made from them.

    manifest.json                        what was run with what: settings, versions, model hashes, times
    chunks/<part>/<agent>/000003.npz     trials 3·N, ..., 4·N - 1, N the size of a chunk
    *.csv, *.json                        tables

Every file is written whole or not at all, so a run that is interrupted or killed loses at most the chunk it was at, and
the same command resumes it. Results of other settings or other solutions are never mixed in: opening a directory that
holds some is an error that names what differs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import numpy as np

from jatpo.disk import read_json, write_whole
from jatpo.errors import JatpoError
from jatpo.evaluate.trials import Trials
from jatpo.plain import to_json
from jatpo.tables import Row, Table
from jatpo.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"
SURROUNDINGS = ("solutions", "record")  # what an agent's trials depend on beside the agent itself
Manifest = MutableMapping[str, Any]  # what manifest.json holds


class Store:
    """An open directory of results."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        experiment: str,
        settings: Mapping[str, Any],
        *,
        replace: bool = False,
    ) -> None:
        """Open or make `directory` for `experiment`; settings that differ from those inside are an error.

        With `replace`, a part that was made otherwise is set aside, not refused.
        """
        self.directory, self._replace = Path(directory), replace
        identity = identity_of(experiment, settings)
        found = self._read()
        if found is not None:
            _refuse_other(self.directory, "", {name: found.get(name) for name in identity}, identity)
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._manifest = found or {"format": FORMAT, **identity, "created": now}
        for name in ("parts", "agents", "seconds"):
            self._manifest.setdefault(name, {})
        self.directory.mkdir(parents=True, exist_ok=True)
        self._save_manifest()

    def _read(self) -> Manifest | None:
        found = read_json(self.directory / MANIFEST)
        if found is None and self.directory.is_dir() and any(self.directory.iterdir()):
            raise JatpoError(
                f"{self.directory} is not empty and holds no results of jatpo: choose another directory"
            )
        return found

    def read_table(self, name: str) -> list[Row]:
        """The rows of a table that was written before; none where there is none."""
        return read_json(self.directory / f"{name}.json", [])

    @property
    def manifest(self) -> Manifest:
        """The manifest as it stands."""
        return self._manifest

    def open_part(self, part: str, settings: Mapping[str, Any]) -> str | None:
        """Begin or continue one part, such as a domain; refuses one that was made with other settings.

        Where the store replaces parts, a sentence about the one that was set aside.
        """
        parts = self._manifest["parts"]
        note = None
        if self._replace and part in parts and (changed := list(differences(parts[part], _plain(settings)))):
            note = self._set_aside(Path("chunks") / part, part, changed)
            self._manifest["agents"].pop(part, None)
            del parts[part]
        self._open(parts, part, f" of {part}", settings)
        return note

    def open_agent(self, part: str, agent: str, settings: Mapping[str, Any]) -> str | None:
        """Begin or continue an agent's trials in one part; refuses those of other solutions.

        `settings["solutions"]` has the digest of everything solved that the agent plays with. Trials of an agent whose
        parameters or code have changed since are set aside; a sentence about them, or None.
        """
        unknown = [name for name, digest in settings.get("solutions", {}).items() if not digest]
        if unknown:
            raise JatpoError(
                f"the trials of agent {agent} in {part} cannot be kept: there is no digest of its {unknown[0]}; "
                "open the part with what was solved first"
            )
        agents = self._manifest["agents"].setdefault(part, {})
        note = None
        if agent in agents:
            same = {name: agents[agent].get(name) for name in SURROUNDINGS}
            theirs, ours = agents[agent] | same, _plain(settings) | same
            if changed := list(differences(theirs, ours)):
                note = self._set_aside(Path("chunks") / part / agent, f"agent {agent} in {part}", changed)
                del agents[agent]
        self._open(agents, agent, f" of agent {agent} in {part}", settings)
        return note

    def _set_aside(self, place: Path, what: str, changed: Sequence[str]) -> str:
        """Move results out of the way; one sentence about it."""
        number, kept = 1, place
        while (self.directory / kept).exists():
            kept, number = place.with_name(f"{place.name}.before-{number}"), number + 1
        if kept != place:
            (self.directory / place).rename(self.directory / kept)
        return (
            f"{what} has changed ({'; '.join(changed[:3])}): its trials are played again; the earlier ones are in "
            f"{self.directory / kept}"
        )

    def _open(self, entries: Manifest, name: str, words: str, settings: Mapping[str, Any]) -> None:
        settings = _plain(settings)
        if name in entries:
            _refuse_other(self.directory, words, entries[name], settings)
        else:
            entries[name] = settings
            self._save_manifest()

    def add_seconds(self, what: str, seconds: float) -> None:
        """Add to the time spent on something."""
        times = self._manifest["seconds"]
        times[what] = round(times.get(what, 0) + seconds, 3)
        self._save_manifest()

    def has(self, part: str, agent: str, chunk: int) -> bool:
        """Whether a chunk has been done."""
        return self._chunk(part, agent, chunk).exists()

    def save(self, part: str, agent: str, chunk: int, trials: Trials) -> None:
        """Write a chunk."""
        whole = {name: getattr(trials, name) for name in Trials._fields if name != "records"}
        records = {f"record_{name}": array for name, array in trials.records.items()}
        buffer = io.BytesIO()
        arrays: Mapping[str, Any] = {**whole, **records}
        np.savez_compressed(buffer, **arrays)
        write_whole(self._chunk(part, agent, chunk), buffer.getvalue())

    def load(self, part: str, agent: str, chunk: int) -> Trials:
        """Read a chunk."""
        path = self._chunk(part, agent, chunk)
        try:
            with np.load(io.BytesIO(path.read_bytes())) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (ValueError, BadZipFile, EOFError) as error:
            raise JatpoError(f"{path} is damaged: remove it and run the same command again") from error
        records = {
            name[len("record_") :]: arrays.pop(name) for name in list(arrays) if name.startswith("record_")
        }
        return Trials(**arrays, records=records)

    def write_table(self, name: str, table: Table) -> Path:
        """Write a table as `name`.csv and `name`.json; returns the CSV file."""
        path = self.directory / f"{name}.csv"
        write_whole(path, table.to_csv())
        write_whole(self.directory / f"{name}.json", table.to_json())
        return path

    def _chunk(self, part: str, agent: str, chunk: int) -> Path:
        return self.directory / "chunks" / part / agent / f"{chunk:06d}.npz"

    def _save_manifest(self) -> None:
        write_whole(self.directory / MANIFEST, _json(self._manifest))


def identity_of(experiment: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What all results of one directory have in common."""
    return {"experiment": experiment, "settings": _plain(settings), **_versions()}


def place_for(directory: Path, experiment: str, settings: Mapping[str, Any]) -> Path:
    """`directory`, or a further one beside it, named by the settings, where it holds results of other settings."""
    identity = identity_of(experiment, settings)
    found = read_json(directory / MANIFEST)
    if found is None or all(found.get(name) == value for name, value in identity.items()):
        return directory
    return directory.with_name(f"{directory.name}-{hashlib.sha256(_json(identity).encode()).hexdigest()[:8]}")


def differences(theirs: Any, ours: Any, place: str = "") -> Iterable[str]:
    """Where two nested settings differ, in words."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in dict.fromkeys([*theirs, *ours]):
            yield from differences(
                theirs.get(name), ours.get(name), f"{place}.{name}" if place else str(name)
            )
    elif theirs != ours:
        yield f"{place} is {_short(theirs)} there and {_short(ours)} here"


def _refuse_other(directory: Path, part: str, theirs: Mapping, ours: Mapping) -> None:
    found = list(differences(theirs, ours))
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise JatpoError(
            f"{directory} holds results{part} made otherwise ({'; '.join(found[:3])}{more}): "
            "choose another directory or remove it"
        )


def _versions() -> dict[str, str]:
    return {
        "jatpo": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "backend": jax.default_backend(),
    }


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(value: Any) -> Any:
    """`value` as it comes back from a JSON file."""
    return json.loads(_json(value))


def _json(value: Any) -> str:
    return json.dumps(to_json(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
