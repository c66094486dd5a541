"""What an agent's results depend on, in a form that fits into a manifest: what it may see and know, its parameters, its
program.

Numbers stand as they are, arrays as a digest of their bytes. The agents of jatpo are distinguished by its version. Of
anybody else's the code counts: the instructions of its functions, the constants and defaults in them, what they close
over, and in turn the functions, classes and values of the same file that they use by name. Code of other files and
attributes of other objects are not looked at.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jatpo.disk import digest
from jatpo.evaluate.agents.protocol import ON_HOST, Agent

DIGITS = 16
OWN = "jatpo."  # modules whose code is distinguished by the version


def fingerprint(agent: Agent) -> Mapping[str, object]:
    """The parts of an agent on which its results depend, as far as they can be found."""
    names = [field.name for field in dataclasses.fields(agent) if field.name not in ON_HOST]  # type: ignore[arg-type]
    parameters = {name: _plainly(getattr(agent, name)) for name in names}
    code = code_digest(tuple(kind for kind in type(agent).__mro__[:-1]))
    found = {"sees": agent.sees, "knows": agent.knows, "parameters": parameters}
    return found if code is None else {**found, "code": code}


def code_digest(functions: tuple[Callable, ...]) -> str | None:
    """A digest of all in `functions` that is not jatpo's own; None where there is nothing else."""
    seen: set[int] = set()
    words = [list(_words(function, seen)) for function in functions]
    if not any(words):
        return None
    return hashlib.sha256(b"\1".join(b"\0".join(each) for each in words)).hexdigest()[:DIGITS]


def _plainly(value: Any) -> Any:
    """Parameters with a digest for every array that is more than one number."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "_asdict"):
        return _plainly(value._asdict())
    if isinstance(value, dict):
        return {str(name): _plainly(item) for name, item in value.items()}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return value.item() if not np.ndim(value) and _is_number(value) else _array(value)
    if isinstance(value, tuple | list):
        return [_plainly(item) for item in value]
    leaves, structure = jax.tree.flatten(value)
    if len(leaves) == 1 and leaves[0] is value:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):  # static fields, such as a filter
            fields = {each.name: _plainly(getattr(value, each.name)) for each in dataclasses.fields(value)}
            return {"class": type(value).__qualname__, **fields}
        return code_digest((value,)) or type(value).__qualname__
    return {"structure": str(structure), "leaves": [_plainly(leaf) for leaf in leaves]}


def _is_number(value: Any) -> bool:
    return value.dtype == bool or jax.numpy.issubdtype(value.dtype, np.number)


def _array(value: Any) -> str:
    """Shape, type and digest of an array; random keys go by their data."""
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return f"{value.dtype}{list(np.shape(value))} {digest([value])[:DIGITS]}"


def _words(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Everything about a function, or about a value that one uses, that can make a difference."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
    elif isinstance(value, jax.Array | np.ndarray | np.generic):
        yield _array(value).encode()
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _words(item, seen)
    elif isinstance(value, dict):
        yield from _words([*value.items()], seen)
    elif isinstance(value, frozenset | set):
        yield from sorted(word for item in value for word in _words(item, seen))
    elif id(value) not in seen:
        seen.add(id(value))
        yield from _program_words(value, seen)


def _program_words(value: Any, seen: set[int]) -> Iterator[bytes]:
    if isinstance(value, types.CodeType):
        yield value.co_code
        yield from _words((value.co_names, value.co_consts), seen)
    elif isinstance(value, types.FunctionType):
        yield from _function_words(value, seen)
    elif isinstance(value, functools.partial):
        yield from _words((value.func, value.args, value.keywords), seen)
    elif isinstance(value, type):
        parts = {name: part for name, part in vars(value).items() if not name.startswith("__")}
        yield from _words(() if value.__module__.startswith(OWN) else parts, seen)
    else:  # methods, and what decorators such as jit and staticmethod make
        yield from _words(getattr(value, "__func__", getattr(value, "__wrapped__", ())), seen)


def _function_words(function: types.FunctionType, seen: set[int]) -> Iterator[bytes]:
    closed = tuple(cell.cell_contents for cell in function.__closure__ or ())
    if f"{function.__module__}.".startswith(OWN):
        yield from _words(closed, seen)
        return
    code = function.__code__
    if function.__doc__ is not None and code.co_consts[:1] == (function.__doc__,):
        code = code.replace(co_consts=(None, *code.co_consts[1:]))
    yield from _words((code, closed, function.__defaults__, function.__kwdefaults__), seen)
    for name in sorted(_names_in(code)):
        used = function.__globals__.get(name)
        if not callable(used) or getattr(used, "__module__", None) == function.__module__:
            yield from _words(used, seen)


def _names_in(code: types.CodeType) -> set[str]:
    """The names that a function looks up, those of functions inside it too."""
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)
