"""What runs on a worker: a unit of work, a report about the worker, and the refusal of another version.

Arguments travel as bytes, so that a worker compares versions and loads the user's extensions before it reads them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.metadata
import os
import pickle
import platform
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jatpo import program_cache
from jatpo.code_digest import code_digest, extensions_digest
from jatpo.cores import DEVICES
from jatpo.disk import write_whole
from jatpo.errors import JatpoError
from jatpo.registry import load_extensions
from jatpo.version import __version__

PACKAGES = ("jax", "jaxlib", "numpy")  # results depend on their versions, as they do on jatpo's
CODE, EXTENSIONS = "code", "extensions"  # entries beside the packages: digests
SETTINGS = ("XLA_FLAGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "OMP_NUM_THREADS", "JATPO_STORAGE")
About = Mapping[str, Any]


class Handle(NamedTuple):
    """Stands for shared value `number` of a unit within its arguments."""

    number: int


class Called(NamedTuple):
    """A unit as it travels: what to call with what, as bytes, and under which settings."""

    versions: Mapping[str, str]
    double: bool  # whether double precision is on
    content: bytes  # the function and its arguments, in which handles stand for shared values


def versions() -> dict[str, str]:
    """The versions that results depend on; the same version of jatpo may have other code in two clones."""
    return {"jatpo": __version__, CODE: code_digest(), EXTENSIONS: extensions_digest(), **_packages()}


@functools.cache
def _packages() -> Mapping[str, str]:
    """Read once: they are compared for every unit, and reading takes a millisecond."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str | None:
    """How a worker's versions differ from those of the command, in words; None where they agree."""
    other = [name for name in ours if theirs.get(name, "") != ours[name]]
    if theirs.get("jatpo") != ours["jatpo"]:
        other = [name for name in other if name != CODE]  # goes without saying
    if not other:
        return None
    found, wanted = (" and ".join(_worded(name, each) for name in other) for each in (theirs, ours))
    return f"it has {found}, and this command {wanted}: install the same there and start it again"


def _worded(name: str, versions: Mapping[str, str]) -> str:
    """One entry of `versions` in words."""
    number = versions.get(name)
    if name == CODE:
        return f"jatpo {versions['jatpo']} with code {number}"
    if name == EXTENSIONS:
        return f"extensions with code {number}" if number else "no extensions"
    return f"{name} {number or 'not installed'}"


def keep_programs() -> None:
    """Keep compiled programs as commands do; a worker may have been started by another one than jatpo."""
    directory = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]: made later
    if directory is None:
        chosen: dict[str, str] = {}
        program_cache.keep_compiled_programs(chosen)
        jax.config.update("jax_compilation_cache_dir", chosen[program_cache.DIRECTORY])
        seconds = float(chosen[program_cache.SHORTEST])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)


def own_devices() -> None:
    """Take the number of devices from this process' environment, also where jax was imported before it was set."""
    number = os.environ.get(DEVICES)
    if number is not None:
        with contextlib.suppress(RuntimeError):  # a worker that is in use keeps its devices
            jax.config.update("jax_num_cpu_devices", int(number))


def call(called: Called, *shared: Any) -> Any:
    """The value of a unit; refuses to compute for another version."""
    wrong = difference(versions(), called.versions)
    if wrong:
        raise JatpoError(f"worker on {socket.gethostname()} refused: {wrong}")
    keep_programs()
    load_extensions()
    function, arguments = pickle.loads(called.content)
    given = [shared[each.number] if type(each) is Handle else each for each in arguments]
    with jax.enable_x64(called.double):
        return function(*given)


def packed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Called:
    """A unit made ready to travel."""
    double = bool(jax.config.read("jax_enable_x64"))
    return Called(versions(), double, pickle.dumps((function, arguments)))


def same(value: Any) -> Any:
    """A shared value: itself."""
    return value


def about() -> About:
    """Host, versions, devices and settings of this process."""
    devices = jax.local_devices()
    return {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "python": platform.python_version(),
        **versions(),
        "backend": jax.default_backend(),
        "devices": f"{len(devices)} {devices[0].device_kind}",
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }


def directory_state(directory: str, name: str, content: str) -> About:
    """Whether `directory` is the one in which the command wrote `content` as `name`, can be written, and its space."""
    place = Path(directory)
    try:
        common = (place / name).read_text() == content
        mark = place / f"{name}-{socket.gethostname()}-{os.getpid()}"
        write_whole(mark, content)
        mark.unlink()
        return {"common": common, "free": shutil.disk_usage(place).free}
    except OSError as error:
        return {"common": False, "free": None, "error": error.strerror or str(error)}


def described(error: BaseException) -> str:
    """An error of a unit in one line, with the remedy where one is known."""
    text = " ".join(str(error).split()) or type(error).__name__
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of a worker is full ({text})"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return f"a worker is out of memory ({text[:200]})"
    known = isinstance(error, JatpoError)
    return text[:400] if known else f"{type(error).__name__}: {text[:300]}"
