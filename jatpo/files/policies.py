"""Policies in files: Cassandra's .alpha and APPL's .policy, both of them alpha vectors with actions.

    .alpha    for each vector the number of its action, then its X values; blank lines between
    .policy   XML: <Vector action="2" obsValue="0">9.5 9.5 </Vector> within <AlphaVector>

The reader of each format gives vectors [V, X] and actions [V] in NumPy float64; sizes are checked here
against the model the policy is for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, TextIO

import jax
import numpy as np

from jatpo.disk import replacing
from jatpo.errors import JatpoError
from jatpo.files import appl, formats
from jatpo.files.decimals import shortest
from jatpo.files.formats import Format
from jatpo.files.guard import open_file
from jatpo.files.tokens import Window, number, run_of_floats
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER, Policy
from jatpo.storage.kernel_protocol import device_array

Parse = Callable[[BinaryIO, str, POMDP | None], tuple[np.ndarray, np.ndarray]]
Print = Callable[[TextIO, np.ndarray, np.ndarray], None]


def read_policy(path: str | os.PathLike[str], model: POMDP | None = None) -> Policy:
    """The policy in the file at `path`. With `model`, its sizes are checked and actions may be named."""
    return formats.read(path, formats.find(path, "policy"), model)


def write_policy(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write `policy` to `path`, in the format of its suffix; padding vectors are left out."""
    form = formats.find(path, "policy", write=True)
    assert form.write is not None  # of the formats that can be written
    form.write(policy, path)


def _read_by(parse: Parse, path: str | os.PathLike[str], model: POMDP | None = None) -> Policy:
    """The policy that `parse` finds in the file, checked against the model."""
    name = os.fspath(path)
    with open_file(name, "policy", factor=16) as file:
        vectors, actions = parse(file, name, model)
    if model is not None:
        _check(vectors, actions, model, name)
    dtype = np.dtype(model.dtype if model is not None else jax.dtypes.canonicalize_dtype(np.float64))
    if np.abs(vectors).max() > np.finfo(dtype).max:
        raise JatpoError(
            f"{name}: found the value {np.abs(vectors).max():.6g}, expected at most {np.finfo(dtype).max:.6g} ({dtype})"
        )
    return Policy(device_array(vectors, dtype), device_array(actions, dtype))


def _write_by(write: Print, policy: Policy, path: str | os.PathLike[str]) -> None:
    vectors, actions = _real_vectors(policy)
    with replacing(path) as file:
        write(file, vectors, actions)


def _real_vectors(policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    vectors, actions = np.asarray(policy.vectors), np.asarray(policy.actions)
    real = (vectors > NEVER / 2).any(axis=1)
    if not real.any():
        raise JatpoError("the policy has no vectors: solve the model first")
    return vectors[real], actions[real]


def _check(vectors: np.ndarray, actions: np.ndarray, model: POMDP, name: str) -> None:
    if vectors.shape[1] != model.num_states:
        found = f"vectors of {vectors.shape[1]} values"
        raise JatpoError(
            f"{name}: found {found}, expected {model.num_states}, one for each state of the model"
        )
    if actions.max() >= model.num_actions:
        expected = f"an action of the model, from 0 to {model.num_actions - 1}"
        raise JatpoError(
            f"{name}: found action {actions.max()} of vector {actions.argmax()}, expected {expected}"
        )


def _read_alpha(file: BinaryIO, name: str, model: POMDP | None) -> tuple[np.ndarray, np.ndarray]:
    window = Window(file.read(), 1, name)
    if not len(window):
        raise window.fail(0, "the number of an action")
    width = model.num_states if model is not None else _width(window)
    values = run_of_floats(window, 0, len(window))
    if values is None:
        values = _by_token(window, width, model)
    if len(values) % (width + 1):
        at = len(window) - len(values) % (width + 1)
        left = len(values) % (width + 1) - 1
        found = f"{left} values for the last vector"
        raise window.error(at, found, f"an action and then {width} values, one for each state")
    table = values.reshape(-1, width + 1)
    wrong = np.flatnonzero(
        (table[:, 0] != np.floor(table[:, 0])) | (table[:, 0] < 0) | (table[:, 0] > 1 << 30)
    )
    if len(wrong):
        raise window.fail(int(wrong[0]) * (width + 1), f"the number of an action before {width} values")
    return table[:, 1:], table[:, 0].astype(np.int64)


def _width(window: Window) -> int:
    """How many values a vector has: those between the first action and the next line with one word only."""
    if len(window) < 2:
        raise window.fail(1, "the values of a vector after its action")
    breaks = np.flatnonzero(window.bytes == ord("\n"))
    _, count = np.unique(np.searchsorted(breaks, window.start), return_counts=True)  # words on each line
    if count[0] > 1 or len(count) < 2:
        raise window.fail(
            1, "an action on a line of its own: without a model, vectors are separated by lines"
        )
    singles = np.flatnonzero(count[2:] == 1)
    return int(count[1 : singles[0] + 2].sum() if len(singles) else count[1:].sum())


def _by_token(window: Window, width: int, model: POMDP | None) -> np.ndarray:
    """Numbers token by token, with actions by name."""
    names = {action: float(a) for a, action in enumerate(model.actions)} if model is not None else {}
    values = np.empty(len(window))
    for at in range(len(window)):
        word = window.token(at)
        is_action = at % (width + 1) == 0
        values[at] = names.get(word, number(word)) if is_action else number(word)
        if np.isnan(values[at]):
            raise window.fail(at, "an action" if is_action else "a number")
    return values


def _write_alpha(file: TextIO, vectors: np.ndarray, actions: np.ndarray) -> None:
    for vector, action in zip(vectors, actions.tolist(), strict=True):
        file.write(f"{action}\n{' '.join(shortest(vector).tolist())}\n\n")


def _read_appl(file: BinaryIO, name: str, model: POMDP | None) -> tuple[np.ndarray, np.ndarray]:
    del model  # this format has its own sizes
    return appl.read(file, name)


formats.register(
    Format("alpha", "policy", (".alpha",), partial(_read_by, _read_alpha), partial(_write_by, _write_alpha))
)
formats.register(
    Format(
        "appl",
        "policy",
        (".policy", ".policyx"),
        partial(_read_by, _read_appl),
        partial(_write_by, appl.write),
    )
)
