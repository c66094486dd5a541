"""Files, directories and checkpoints that are on disk whole or not at all, and digests of arrays.

Everything is written under a draft name beside its target and then renamed, so an interrupted write leaves no trace and
two processes that write the same thing cannot harm each other. What a killed process left is removed by a later one
(`jatpo.drafts`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import mmap
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np

from jatpo.drafts import discard, draft_name, remove
from jatpo.errors import JatpoError
from jatpo.events import Event, OnEvent, ignore
from jatpo.memory import readable

SEAL = "seal.json"  # in a checkpoint: the digest of every other file, written last
META, EMPTY = "meta", "empty"
DAMAGED = ".damaged"
DIGEST = "digest"
OVERHEAD = 1 << 18  # bytes of a checkpoint beside its arrays
REASONS = {  # what libraries say of a disk, in words of their own
    "no space left": errno.ENOSPC,
    "disk quota": errno.EDQUOT,
    "read-only file system": errno.EROFS,
    "permission denied": errno.EACCES,
    "file too large": errno.EFBIG,
}
ORBAX = threading.Lock()  # it, and the log that is silenced meanwhile, serve one thread at a time
Arrays = dict[str, np.ndarray]
T = TypeVar("T")


def check_file(path: str | os.PathLike[str]) -> Path:
    """The file that `path` stands for, links followed; refuses, before any work, one that cannot be written."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise JatpoError(f"{path} is a directory: name a file in it")
    if not target.parent.is_dir():
        raise JatpoError(f"there is no directory {target.parent}: make it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise JatpoError(f"{path} cannot be written: choose another place or change its permissions")
    return target


def check_new_directory(path: str | os.PathLike[str]) -> Path:
    """The directory to make at `path`; refuses one that is in use or that cannot be made."""
    target = Path(os.path.abspath(path))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise JatpoError(f"{path} exists already: choose another directory or remove it")
    if not target.resolve().parent.is_dir():
        raise JatpoError(f"there is no directory {target.resolve().parent}: make it first")
    return target


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file, text in UTF-8; missing parent directories are made."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _draft(target) as draft, open(draft, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        _flush(file)


def read_json(path: str | os.PathLike[str], missing: Any = None) -> Any:
    """What a JSON file holds, or `missing` where there is none; a damaged one is refused."""
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        return missing
    except (ValueError, RecursionError) as error:
        raise JatpoError(
            f"{path} cannot be read as JSON: remove it and run the command that made it again"
        ) from error


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the digest of the rest of it."""
    rest = {name: item for name, item in value.items() if name != DIGEST}
    return {**rest, DIGEST: digest_json(rest)}


def is_whole(value: Any) -> bool:
    """Whether `value` is what `sealed` returned."""
    return isinstance(value, dict) and value == sealed(value)


def seal(directory: Path) -> None:
    """Write the digests of all files of a directory into it."""
    with open(directory / SEAL, "w", encoding="ascii") as file:
        json.dump(_file_digests(directory), file)
        _flush(file)


def is_sealed(directory: Path) -> bool:
    """Whether the files of a directory are those that were there when it was sealed."""
    try:
        return json.loads((directory / SEAL).read_bytes()) == _file_digests(directory)
    except (OSError, ValueError, RecursionError):
        return False


def set_aside(path: Path) -> Path:
    """Rename a damaged file or directory, so that it is made anew and nothing is destroyed; its new place."""
    aside = path.with_name(f"{path.name}-{uuid.uuid4().hex[:8]}{DAMAGED}")
    with contextlib.suppress(OSError):  # another process was first
        os.rename(path, aside)
    return aside


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], encoding: str = "ascii") -> Iterator[TextIO]:
    """A text stream that takes the place of the file `path` when the block ends without an error."""
    with _draft(check_file(path)) as draft, open(draft, "w", encoding=encoding, newline="\n") as file:
        yield file
        _flush(file)


@contextlib.contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A directory to fill that appears at `path` when the block ends without an error."""
    target = check_new_directory(path)
    with _draft(target) as draft:
        draft.mkdir()
        yield draft
        if target.is_dir():
            target.rmdir()


def digest(arrays: Iterable[Any]) -> str:
    """The SHA-256 of the numbers and shapes of arrays, in order; names, storage and device do not count."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
        state.update(repr(np.shape(array)).encode())
    return state.hexdigest()


def digest_json(value: Any) -> str:
    """The SHA-256 of a value made of JSON's own types."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def to_arrays(tree: Any) -> Arrays:
    """The leaves of a pytree as named arrays, for a checkpoint."""
    import jax  # not at import: `jatpo domains` does without

    return {f"leaf{number:04d}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}


def from_arrays(arrays: Arrays, like: T) -> T:
    """The pytree that `to_arrays` took apart; `like` has its structure, shapes and dtypes."""
    import jax  # not at import: `jatpo domains` does without

    leaves, structure = jax.tree.flatten(like)
    found = [arrays[f"leaf{number:04d}"] for number in range(len(leaves))]
    if [leaf.shape for leaf in found] != [np.shape(leaf) for leaf in leaves]:
        raise ValueError("its arrays have other shapes")
    return jax.tree.unflatten(structure, jax.device_put(found))


class Checkpoints:
    """Orbax checkpoints in one directory, sealed with the digests of their files.

    `identity` (JSON) is what they were made for. A checkpoint whose files have changed, that was made for another
    identity or that the caller cannot read is set aside under another name and reported as a note.
    """

    def __init__(
        self, directory: str | os.PathLike[str], identity: Mapping[str, Any], on_event: OnEvent = ignore
    ) -> None:
        self.directory = Path(directory).absolute()
        self.identity = dict(identity)
        self.on_event = on_event

    def names(self, prefix: str = "") -> list[str]:
        """The checkpoints whose names begin with `prefix`, the last in the alphabet (the newest) first."""
        found = self.directory.iterdir() if self.directory.is_dir() else ()
        names = (path.name for path in found if path.suffix != DAMAGED)
        return sorted((name for name in names if name.startswith(prefix) and name[0] != "."), reverse=True)

    def save(self, name: str, meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write a checkpoint; one of that name that is already there is kept."""
        whole = {key: np.asarray(array) for key, array in arrays.items()}
        empty = {key: (array.shape, array.dtype.str) for key, array in whole.items() if not array.size}
        text = json.dumps({"identity": self.identity, META: dict(meta), EMPTY: empty})
        tree = {META: np.frombuffer(text.encode(), np.uint8)}
        tree |= {key: array for key, array in whole.items() if array.size}  # Orbax takes no empty ones
        self.directory.mkdir(parents=True, exist_ok=True)
        target = self.directory / name
        _check_space(self.directory, sum(array.nbytes for array in tree.values()))
        draft = draft_name(target)
        try:
            with ORBAX, _as_os_errors(self.directory):
                _checkpointer().save(draft, tree)
            seal(draft)
            try:
                os.rename(draft, target)
            except OSError:  # another process was first, with the same content
                if not target.exists():
                    raise
                remove(draft)
        except BaseException:
            discard(draft)
            raise

    def save_newest(
        self, prefix: str, number: int, meta: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> None:
        """Write the checkpoint of a numbered state, and remove the earlier ones with that prefix."""
        name = f"{prefix}{number:06d}"
        earlier = [other for other in self.names(prefix) if other != name]
        self.save(name, meta, arrays)
        self.drop(earlier)

    def load(self, name: str, read: Callable[[dict[str, Any], Arrays], T]) -> T | None:
        """What `read(meta, arrays)` makes of a checkpoint; None when there is none that can be used."""
        path = self.directory / name
        if not path.exists():
            return None
        try:
            return read(*self._restore(path))
        except Exception as error:  # whatever is wrong with it: it is computed anew
            if path.exists():  # otherwise another process has dropped it
                self._set_aside(path, str(error).partition("\n")[0] or type(error).__name__)
            return None

    def load_newest(self, prefix: str, read: Callable[[dict[str, Any], Arrays], T]) -> T | None:
        """The newest checkpoint with `prefix` that can be used."""
        return next(
            (found for name in self.names(prefix) if (found := self.load(name, read)) is not None), None
        )

    def drop(self, names: Iterable[str]) -> None:
        """Remove checkpoints, renaming them first so that nobody finds half of one."""
        for name in names:
            draft = draft_name(self.directory / name)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(self.directory / name, draft)
            remove(draft)

    def _restore(self, path: Path) -> tuple[dict[str, Any], Arrays]:
        if not is_sealed(path):
            raise ValueError("its files are not as they were written")
        with ORBAX:
            tree = dict(_checkpointer().restore(path))
        stored = json.loads(bytes(np.asarray(tree.pop(META), np.uint8)))
        if stored["identity"] != json.loads(json.dumps(self.identity)):
            raise ValueError("it was made for another model, other settings or another version")
        empty = {key: np.empty(shape, dtype) for key, (shape, dtype) in stored.get(EMPTY, {}).items()}
        return stored[META], empty | {key: np.asarray(array) for key, array in tree.items()}

    def _set_aside(self, path: Path, reason: str) -> None:
        aside = set_aside(path)
        text = f"the checkpoint {path} cannot be used ({reason[:200]}): set aside as {aside.name}"
        self.on_event(Event(note=text))


def prepare() -> None:
    """Import what saving needs. It takes seconds, which Ctrl-C would not leave for the state under way."""
    import orbax.checkpoint  # noqa: F401


def require(count: int, directory: Path, what: str, remedy: str) -> None:
    """Refuse work whose files of `count` bytes would not fit into `directory`."""
    free = shutil.disk_usage(directory).free
    if count > free:
        raise JatpoError(
            f"{what} needs {readable(count)} of disk and {readable(free)} are free in {directory}: {remedy}"
        )


def mapped(size: int, directory: Path) -> mmap.mmap:
    """A private file of `size` bytes in `directory` without a name, as memory; all of its space is reserved."""
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(
                file.fileno(), 0, size
            )  # a hole that finds no room later would end the process
        else:
            file.truncate(size)
        return mmap.mmap(file.fileno(), size)


def _check_space(directory: Path, size: int) -> None:
    """Refuse a disk that is full before a library with many threads finds that out in each of them."""
    if shutil.disk_usage(directory).free < size + OVERHEAD:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))


@contextlib.contextmanager
def _as_os_errors(directory: Path) -> Iterator[None]:
    """Failures of the disk in a library, which have many types, as `OSError` with the directory and no log of it."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(directory)) from error
    except Exception as error:
        text = str(error).lower()
        code = next((code for words, code in REASONS.items() if words in text), None)
        if code is None:
            raise
        raise OSError(code, os.strerror(code), str(directory)) from error
    finally:
        log.setLevel(level)


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A name beside `target` whose file or directory takes its place when the block ends without an error."""
    draft = draft_name(target)
    try:
        yield draft
        os.replace(draft, target)
    except BaseException:
        discard(draft)
        raise


def _flush(file: Any) -> None:
    """To the disk before the rename: a crash must not leave an empty file under the new name."""
    file.flush()
    os.fsync(file.fileno())


def _file_digests(path: Path) -> dict[str, str]:
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and file.name != SEAL)
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }


def _checkpointer() -> Any:
    """Orbax's, for this process alone: the others of `jax.distributed` take no part in what it writes or reads."""
    import jax
    import orbax.checkpoint as ocp  # takes seconds to import

    if jax.process_count() == 1:
        return ocp.PyTreeCheckpointer()
    own = jax.process_index()
    options = ocp.options.MultiprocessingOptions(
        primary_host=own, active_processes={own}, barrier_sync_key_prefix=f"jatpo-{own}"
    )
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)
