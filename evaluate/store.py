"""A directory of results: a manifest, chunks of trials, tables made from them.

    manifest.json                        what was run with what: settings, versions, model hashes, times
    chunks/<part>/<agent>/000003.npz     trials 3·N, ..., 4·N - 1, N the size of a chunk
    *.csv, *.json                        tables

Every file is written whole or not at all (a temporary file, then a rename), so a run that is interrupted or
killed loses at most the chunk it was at, and the same command goes on. Results of other settings are never
mixed in: opening a directory that holds some says what differs.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate.rollout import Trials
from jatpo.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"


class Store:
    """An open directory of results."""

    def __init__(
        self, directory: str | os.PathLike[str], experiment: str, settings: Mapping[str, Any]
    ) -> None:
        """Open or make `directory` for `experiment`; settings that differ from those inside are an error."""
        self.directory = Path(directory)
        identity = {"experiment": experiment, "settings": _plain(settings), **_versions()}
        found = self._read()
        if found is not None:
            _refuse_other(self.directory, "", {name: found.get(name) for name in identity}, identity)
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._manifest = found or {"format": FORMAT, **identity, "created": now}
        for name in ("parts", "agents", "seconds"):
            self._manifest.setdefault(name, {})
        self.directory.mkdir(parents=True, exist_ok=True)
        self._save_manifest()

    def _read(self) -> dict[str, Any] | None:
        path = self.directory / MANIFEST
        if not path.exists():
            if self.directory.is_dir() and any(self.directory.iterdir()):
                raise JatpoError(
                    f"{self.directory} is not empty and holds no results of jatpo: choose another directory"
                )
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise JatpoError(
                f"{path} cannot be read as JSON: remove {self.directory} or choose another"
            ) from error

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as it stands."""
        return self._manifest

    def open_part(self, part: str, settings: Mapping[str, Any]) -> None:
        """Begin or continue one part, such as a domain; refuses one that was made with other settings."""
        self._open(self._manifest["parts"], part, f" of {part}", settings)

    def open_agent(self, part: str, agent: str, settings: Mapping[str, Any]) -> None:
        """Begin or continue an agent's trials in one part; refuses those that were made with other settings."""
        agents = self._manifest["agents"].setdefault(part, {})
        self._open(agents, agent, f" of agent {agent} in {part}", settings)

    def _open(self, entries: dict[str, Any], name: str, words: str, settings: Mapping[str, Any]) -> None:
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
        arrays: dict[str, Any] = {**whole, **records}
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

    def write_table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Write rows as `name`.csv and `name`.json; returns the CSV file."""
        columns = list(dict.fromkeys(column for row in rows for column in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{column: _cell(row.get(column)) for column in columns} for row in rows])
        path = self.directory / f"{name}.csv"
        write_whole(path, text.getvalue().encode())
        write_whole(self.directory / f"{name}.json", _json([dict(row) for row in rows]))
        return path

    def _chunk(self, part: str, agent: str, chunk: int) -> Path:
        return self.directory / "chunks" / part / agent / f"{chunk:06d}.npz"

    def _save_manifest(self) -> None:
        write_whole(self.directory / MANIFEST, _json(self._manifest))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as any other new file; mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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


def _versions() -> dict[str, Any]:
    import jax

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


def _json(value: Any) -> bytes:
    from jatpo.plain import to_json

    return (json.dumps(to_json(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return value
