"""A directory of results: a manifest, chunks of trials, tables made from them.

    manifest.json                        what was run with what: settings, versions, model hashes, times
    chunks/<part>/<agent>/000003.npz     trials 3·N, ..., 4·N - 1, N the size of a chunk
    *.csv, *.json                        tables; single trials as CSV only

Every file is written whole or not at all, so a run that is killed loses at most the chunks that it plays or writes, and
the same command resumes it. Results of other settings or other solutions are never mixed in: opening a directory that
holds some is an error that names what differs.

Every file that is read again has a digest: the manifest and tables in manifest.json, a chunk in its own file together
with what it was made for. One that has changed is set aside under another name, reported as a note and made anew. Any
number of processes may share a directory: each change of the manifest and of a table is made under a lock, on what is
there by then.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jatpo.disk import DAMAGED, digest_json, is_whole, read_json, replacing, sealed, set_aside, write_whole
from jatpo.drafts import LOCK, PREFIX, locked, sweep_tree
from jatpo.errors import JatpoError
from jatpo.evaluate import chunks
from jatpo.evaluate.trial_rows import TrialRows
from jatpo.evaluate.trials import Trials
from jatpo.events import Event, OnEvent, ignore
from jatpo.plain import to_json
from jatpo.tables import Row, Table
from jatpo.version import __version__

FORMAT = 2
MANIFEST = "manifest.json"
LONG = 100_000  # rows of a table whose writing takes long enough to be shown
SURROUNDINGS = ("solutions", "record")  # what an agent's trials depend on beside the agent itself
Manifest = MutableMapping[str, Any]  # what manifest.json holds


class Store:
    """An open directory of results."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        experiment: str,
        settings: Mapping[str, Any],
        on_event: OnEvent = ignore,
        *,
        replace: bool = False,
    ) -> None:
        """Open or make `directory` for `experiment`; settings that differ from those inside are an error.

        With `replace`, a part that was made otherwise is set aside, not refused.
        """
        self.directory, self.on_event, self._replace = Path(directory), on_event, replace
        self._identity = identity_of(experiment, settings)
        _refuse_foreign(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        sweep_tree(self.directory)
        self._manifest: Manifest = {}
        self._change(lambda manifest: None)

    def _change(self, change: Callable[[Manifest], None]) -> None:
        """Make a change to the manifest as it is by now, which other processes may have changed."""
        with locked(self.directory):
            found = self._read()
            now = {**self._identity, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            manifest: Manifest = json.loads(_json(found or now))
            for name in ("parts", "agents", "seconds", "tables"):
                manifest.setdefault(name, {})
            change(manifest)
            self._manifest = sealed(manifest)
            if self._manifest != found:
                write_whole(self.directory / MANIFEST, _json(self._manifest))

    def _read(self) -> Manifest | None:
        """The manifest on disk, None where there is none; a damaged one is set aside, one of other settings refused."""
        path = self.directory / MANIFEST
        try:
            found = read_json(path)
            whole = is_whole(found) or (found is None and not path.exists())
        except JatpoError:
            found, whole = None, False
        if not whole and not _is_old(found):
            self._report(path, "it is damaged")
            return None
        if found is not None:
            _refuse_other(
                self.directory, "", {name: found.get(name) for name in self._identity}, self._identity
            )
        return found

    def _report(self, path: Path, reason: str) -> None:
        aside = set_aside(path)
        note = f"{path} cannot be used ({reason}): set aside as {aside.name} and made anew"
        self.on_event(Event(note=note))

    def read_table(self, name: str) -> list[Row]:
        """The rows of a table that was written before; none where there is none."""
        return self._rows(name, self._manifest)

    def _rows(self, name: str, manifest: Manifest) -> list[Row]:
        path, known = self.directory / f"{name}.json", manifest["tables"].get(name)
        if not known or not path.exists():
            return []
        try:
            rows = read_json(path)
        except JatpoError:
            rows = None
        if rows is not None and digest_json(rows) in known:
            return rows
        self._report(path, "it is damaged; rows of other runs are missing until they are made again")
        return []

    @property
    def manifest(self) -> Manifest:
        """The manifest as it stands."""
        return self._manifest

    def open_part(self, part: str, settings: Mapping[str, Any]) -> str | None:
        """Begin or continue one part, such as a domain; refuses one that was made with other settings.

        Where the store replaces parts, a sentence about the one that was set aside.
        """
        notes: list[str] = []

        def replaced(manifest: Manifest, changed: Sequence[str]) -> None:
            if self._replace:
                notes.append(self._set_aside(Path("chunks") / part, part, changed))
                manifest["agents"].pop(part, None)
                del manifest["parts"][part]

        self._open(("parts",), part, f" of {part}", _plain(settings), replaced)
        return next(iter(notes), None)

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
        notes: list[str] = []

        def replaced(manifest: Manifest, changed: Sequence[str]) -> None:
            del changed
            agents = manifest["agents"][part]
            same = {name: agents[agent].get(name) for name in SURROUNDINGS}
            own = list(differences(agents[agent] | same, _plain(settings) | same))
            if own:
                notes.append(self._set_aside(Path("chunks") / part / agent, f"agent {agent} in {part}", own))
                del agents[agent]

        self._open(("agents", part), agent, f" of agent {agent} in {part}", _plain(settings), replaced)
        return next(iter(notes), None)

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

    def _open(
        self,
        place: Sequence[str],
        name: str,
        words: str,
        settings: Mapping[str, Any],
        replaced: Callable[[Manifest, Sequence[str]], None],
    ) -> None:
        """Enter settings at a place of the manifest; others that are there are given to `replaced`, or refused."""

        def change(manifest: Manifest) -> None:
            entries = manifest
            for step in place:
                entries = entries.setdefault(step, {})
            changed = list(differences(entries[name], settings)) if name in entries else []
            if changed:
                replaced(manifest, changed)
            if name in entries:
                _refuse_other(self.directory, words, entries[name], settings)
            else:
                entries[name] = settings

        self._change(change)

    def add_seconds(self, what: str, seconds: float) -> None:
        """Add to the time spent on something."""

        def change(manifest: Manifest) -> None:
            times = manifest["seconds"]
            times[what] = round(times.get(what, 0) + seconds, 3)

        self._change(change)

    def add_computed(
        self, what: str, done: Mapping[str, Sequence[int]], workers: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Record which workers, described by name in `workers`, computed which chunks of something."""

        def change(manifest: Manifest) -> None:
            manifest.setdefault("workers", {}).update(_plain({name: workers[name] for name in done}))
            computed = manifest.setdefault("computed", {}).setdefault(what, {})
            for name, more in done.items():
                computed[name] = ranges(sorted({*numbers(computed.get(name, "")), *more}))

        if done:
            self._change(change)

    def has(self, part: str, agent: str, chunk: int) -> bool:
        """Whether a chunk has been done."""
        return self._chunk(part, agent, chunk).exists()

    def save(self, part: str, agent: str, chunk: int, trials: Trials) -> None:
        """Write a chunk."""
        self.save_content(part, agent, chunk, chunks.to_bytes(trials, self.made_for(part, agent)))

    def save_content(self, part: str, agent: str, chunk: int, content: bytes) -> None:
        """Write a chunk that `chunks.to_bytes` has packed with `made_for(part, agent)`."""
        write_whole(self._chunk(part, agent, chunk), content)

    def load(self, part: str, agent: str, chunk: int) -> Trials | None:
        """Read a chunk; None where there is none that can be used, which is reported."""
        path = self._chunk(part, agent, chunk)
        try:
            return chunks.from_bytes(path.read_bytes(), self.made_for(part, agent))
        except FileNotFoundError:
            return None
        except ValueError as error:
            self._report(path, str(error))
            return None

    def made_for(self, part: str, agent: str) -> str:
        """The digest of all that the trials of an agent in a part depend on."""
        manifest = self._manifest
        made_of = [manifest["parts"].get(part), manifest["agents"].get(part, {}).get(agent)]
        return digest_json([self._identity, part, agent, *made_of])

    def write_table(self, name: str, table: Table) -> Path:
        """Write a table as `name`.csv and `name`.json; returns the CSV file."""
        self.merge_table(name, lambda _: table.rows)
        return self.directory / f"{name}.csv"

    def merge_table(self, name: str, merge: Callable[[list[Row]], Sequence[Row]]) -> list[Row]:
        """Write a table made of the rows that are there, which other processes may have written; its rows."""
        merged: list[Row] = []

        def change(manifest: Manifest) -> None:
            merged[:] = merge(self._rows(name, manifest))
            table = Table(merged)
            text = table.to_json()
            known = [digest_json(json.loads(text)), *manifest["tables"].get(name, ())[:1]]
            manifest["tables"][name] = list(dict.fromkeys(known))
            # The digests first, the old one among them: wherever the process is killed, what is there has one.
            write_whole(self.directory / MANIFEST, _json(sealed(manifest)))
            write_whole(self.directory / f"{name}.csv", table.to_csv())
            write_whole(self.directory / f"{name}.json", text)

        self._change(change)
        return merged

    def write_stream(self, name: str, rows: TrialRows, on_event: OnEvent = ignore) -> None:
        """Write a table that may not fit memory as text, as `name`.csv only."""
        with replacing(self.directory / f"{name}.csv", "utf-8") as file:
            for done, text in rows.csv_pieces():
                file.write(text)
                if len(rows) > LONG:
                    on_event(Event(f"writing {name}.csv", done, len(rows)))

    def _chunk(self, part: str, agent: str, chunk: int) -> Path:
        return self.directory / "chunks" / part / agent / f"{chunk:06d}.npz"


def identity_of(experiment: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What all results of one directory have in common."""
    return {"format": FORMAT, "experiment": experiment, "settings": _plain(settings), **_versions()}


def place_for(directory: Path, experiment: str, settings: Mapping[str, Any]) -> Path:
    """`directory`, or a further one beside it, named by the settings, where it holds results of other settings."""
    identity = identity_of(experiment, settings)
    try:
        found = read_json(directory / MANIFEST)
    except JatpoError:
        found = None
    if found is None or not (is_whole(found) or _is_old(found)):
        return directory  # where a damaged manifest is set aside
    if all(found.get(name) == value for name, value in identity.items()):
        return directory
    return directory.with_name(f"{directory.name}-{hashlib.sha256(_json(identity).encode()).hexdigest()[:8]}")


def _is_old(manifest: Any) -> bool:
    """Whether an earlier version of jatpo wrote it, without a digest."""
    known = isinstance(manifest, dict) and "digest" not in manifest
    return known and manifest.get("format", FORMAT) != FORMAT


def differences(theirs: Any, ours: Any, place: str = "") -> Iterable[str]:
    """Where two nested settings differ, in words."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in dict.fromkeys([*theirs, *ours]):
            yield from differences(
                theirs.get(name), ours.get(name), f"{place}.{name}" if place else str(name)
            )
    elif theirs != ours:
        yield f"{place} is {_short(theirs)} there and {_short(ours)} here"


def ranges(whole: Sequence[int]) -> str:
    """Sorted numbers in short, as in ``0-7,16-23``."""
    ends = [at for at in range(len(whole)) if at + 1 == len(whole) or whole[at + 1] != whole[at] + 1]
    begins = [0, *(at + 1 for at in ends[:-1])]
    pairs = [(whole[first], whole[last]) for first, last in zip(begins, ends, strict=False)]
    return ",".join(f"{first}-{last}" if first != last else f"{first}" for first, last in pairs)


def numbers(text: str) -> list[int]:
    """The numbers that `ranges` wrote."""
    pairs = [part.partition("-") for part in text.split(",") if part]
    return [number for first, _, last in pairs for number in range(int(first), int(last or first) + 1)]


def _refuse_other(directory: Path, part: str, theirs: Mapping, ours: Mapping) -> None:
    found = list(differences(theirs, ours))
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise JatpoError(
            f"{directory} holds results{part} made otherwise ({'; '.join(found[:3])}{more}): "
            "choose another directory or remove it"
        )


def _refuse_foreign(directory: Path) -> None:
    """Refuse a directory of others; a killed process may have left drafts, a lock, a manifest set aside."""
    paths = directory.iterdir() if directory.is_dir() else ()
    names = {path.name for path in paths if not (path / MANIFEST).is_file()}  # results inside are no obstacle
    if LOCK in names and (MANIFEST in names or any(name.endswith(DAMAGED) for name in names)):
        return
    if MANIFEST not in names and any(name != LOCK and not name.startswith(PREFIX) for name in names):
        raise JatpoError(f"{directory} is not empty and holds no results of jatpo: choose another directory")
    found = read_json(directory / MANIFEST, {})
    if MANIFEST in names and not (isinstance(found, dict) and "format" in found):
        raise JatpoError(f"{directory / MANIFEST} is not a manifest of jatpo: choose another directory")


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
