"""Things that commands know by name, and the loader of users' files that add to them.

    domains = Registry("domain")
    domains.add("two-doors", domain)
    domains.get("two_doors")

Domains, agents, solvers, storages, experiments and file formats are each one `Registry`. Before a name is looked up,
the files or modules named in the environment variable JATPO_EXTENSIONS (separated like PATH) are imported, once;
JATPO_DOMAINS and JATPO_AGENTS are further names for the same list. A user's file cannot replace a built-in name.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from jatpo.errors import JatpoError, unknown

VARIABLES = ("JATPO_EXTENSIONS", "JATPO_DOMAINS", "JATPO_AGENTS")
T = TypeVar("T")

_loaded: set[str] = set()
_loading: list[str] = []  # the innermost last: an extension may load another one


class Registry(Generic[T]):
    """Values of one kind by name. Hyphens and underscores are alike, and so are capital and small letters."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[
            str, tuple[str, T, str | None]
        ] = {}  # spelling: name, value, the extension it is from
        self._protected: frozenset[str] = frozenset()
        self._beside: tuple[Registry, ...] = ()

    def add(self, name: str, value: T) -> T:
        """Enter `value` under `name`. The same extension, or a session, may enter a name of its own again."""
        if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
            raise JatpoError(
                f"'{name}' cannot be the name of a {self.kind}: use letters, digits, hyphens and underscores"
            )
        origin = _loading[-1] if _loading else None
        self._refuse_taken(name, origin)
        self._entries[_spelling(name)] = (name, value, origin)
        return value

    def share_names(self, other: Registry) -> None:
        """Refuse from now on, here and in `other`, a name that the other one has: commands take either."""
        self._beside += (other,)
        other._beside += (self,)

    def protect(self, *names: str) -> None:
        """Make `names` (default: all that are entered so far) built-in: nothing can replace them."""
        self._protected |= frozenset(map(_spelling, names)) if names else frozenset(self._entries)

    def get(self, name: str) -> T:
        """The value called `name`."""
        if name not in self:
            raise unknown(self.kind, str(name), self.names())
        return self._entries[_spelling(str(name))][1]

    def names(self) -> tuple[str, ...]:
        """All names, in the order in which they were entered."""
        load_extensions()
        return tuple(name for name, _, _ in self._entries.values())

    def __contains__(self, name: str) -> bool:
        load_extensions()
        return _spelling(str(name)) in self._entries

    def remove(self, name: str) -> None:
        """Forget a name."""
        self.get(name)
        del self._entries[_spelling(name)]

    def load(self, source: str | os.PathLike[str]) -> tuple[str, ...]:
        """Import a file or module; the names it entered here."""
        before = dict(self._entries)
        load_extension(source)
        return tuple(entry[0] for key, entry in self._entries.items() if before.get(key) is not entry)

    @contextlib.contextmanager
    def restored(self) -> Iterator[Registry[T]]:
        """Forget at the end of the block what was entered in it."""
        before = dict(self._entries)
        try:
            yield self
        finally:
            self._entries = before

    def _refuse_taken(self, name: str, origin: str | None) -> None:
        key = _spelling(name)
        where = f"{origin} names" if origin else "there is"
        for other in self._beside:
            if key in other._entries:
                raise JatpoError(
                    f"{where} a {self.kind} '{name}', but '{other._entries[key][0]}' is the name of a "
                    f"{other.kind}: choose another name"
                )
        if key not in self._entries:
            return
        taken, _, theirs = self._entries[key]
        if key in self._protected:
            raise JatpoError(
                f"{where} a {self.kind} '{name}', but '{taken}' is a built-in {self.kind}: choose another name"
            )
        if origin and theirs and origin != theirs:
            raise JatpoError(
                f"{where} a {self.kind} '{name}', but {theirs} has entered '{taken}': rename one"
            )


def load_extensions() -> None:
    """Import what the environment variables name, each once."""
    for source in _named():
        if _identity(source) not in _loaded:
            load_extension(source)


def set_aside_broken() -> list[str]:
    """Import what the environment variables name; what fails is passed over from now on, and its errors returned."""
    errors = []
    for source in _named():
        try:
            if _identity(source) not in _loaded:
                load_extension(source)
        except JatpoError as error:
            errors.append(str(error))
            _loaded.add(_identity(source))
    return errors


def _named() -> list[str]:
    """What the environment variables name."""
    listed = os.pathsep.join(os.environ.get(variable, "") for variable in VARIABLES)
    return [source for source in dict.fromkeys(listed.split(os.pathsep)) if source]


def extension_files() -> list[Path]:
    """The files that the environment variables name, of modules too; their code is what an extension depends on."""
    return [path for source in _named() if (path := _file_of(source)) is not None]


def _file_of(source: str) -> Path | None:
    if _is_file(source):
        return Path(_identity(source))
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(source)
        return Path(spec.origin) if spec and spec.origin else None
    return None


def load_extension(source: str | os.PathLike[str]) -> None:
    """Import a user's file (a path) or module (a dotted name); whatever fails is one `JatpoError`."""
    text = os.fspath(source)
    name = _identity(text)
    known = name in _loaded
    _loaded.add(name)  # first: the file itself may look up names
    _loading.append(name)
    try:
        if _is_file(text):
            _import_file(Path(name))
        else:
            importlib.import_module(text)
    except Exception as error:
        if not known:
            _loaded.discard(name)
        raise _failure(text, error) from error
    finally:
        _loading.pop()


def _failure(source: str, error: Exception) -> JatpoError:
    if isinstance(error, JatpoError):
        return error if source in str(error) else JatpoError(f"{source}: {error}")
    if isinstance(error, ModuleNotFoundError) and error.name in (source, source.split(".")[0]):
        return JatpoError(f"there is no module '{source}': install it, or give the path of a .py file")
    return JatpoError(f"{source} fails with {type(error).__name__}: {error}")


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise JatpoError(f"there is no file {path}: check the path")
    # Two files may have the same name in different directories.
    module_name = f"jatpo_extension_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise JatpoError(f"{path} is not Python code: give the path of a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)


def _is_file(source: str) -> bool:
    return source.endswith(".py") or os.sep in source


def _identity(source: str) -> str:
    """One name for one file, however it is written."""
    return os.path.realpath(source) if _is_file(source) else source


def _spelling(name: str) -> str:
    return name.replace("-", "_").lower()
