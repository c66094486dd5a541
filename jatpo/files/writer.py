"""Writing Cassandra's .POMDP format, line by line, from the coordinates of a model.

Every entry of T and O is a line of its own; what does not depend on the action is written once, with `*`. The
most common reward is written for everything, the others after it. Nothing dense is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TextIO

import numpy as np

from jatpo.disk import replacing
from jatpo.files import formats, naming
from jatpo.files.decimals import probability_texts, shortest
from jatpo.files.pomdp_file import read_pomdp
from jatpo.model import POMDP
from jatpo.validate import Coordinates
from jatpo.version import __version__

BY_NAME = 100_000  # entries up to which lines call states by name and not by number
PER_LINE = 12
CHUNK = 1 << 17  # entries whose texts are made together


def write_pomdp(model: POMDP, path: str | os.PathLike[str]) -> None:
    """Write `model` to `path`; reading it gives the same numbers and names."""
    with replacing(path) as file:
        write_to(file, model)


def write_to(file: TextIO, model: POMDP) -> None:
    """Write `model` to an open file."""
    sparse = model.to_sparse()
    by_name = len(sparse.transition[0]) + len(sparse.observation[0]) <= BY_NAME
    file.write(f"# written by jatpo {__version__}\n")
    states = _items(file, "state", model.names.states, model.num_states, by_name)
    actions = _items(file, "action", model.names.actions, model.num_actions, by_name)
    observations = _items(file, "observation", model.names.observations, model.num_observations, by_name)
    file.write(f"discount: {shortest(np.asarray(model.discount).reshape(1))[0]}\nvalues: reward\n")
    _wrapped(file, *_start(np.asarray(model.initial), states))
    sizes = (model.num_actions, model.num_states)
    file.writelines(_kernel("T", sparse.transition, sizes, model.dtype, (actions, states, states)))
    file.writelines(_kernel("O", sparse.observation, sizes, model.dtype, (actions, states, observations)))
    file.writelines(_reward(np.asarray(model.reward), actions, states))


def _items(file: TextIO, kind: str, names: Sequence[str] | None, size: int, by_name: bool) -> Sequence[str]:
    """Write what there is of one kind; what lines are to call each."""
    numbers = list(map(str, range(size)))
    if names is None:
        file.write(f"{kind}s: {size}\n")
        return numbers
    legal = naming.legal_names(kind, names)
    file.writelines(naming.comments(kind, legal, names))
    _wrapped(file, f"{kind}s:", legal)
    return legal if by_name else numbers


def _wrapped(file: TextIO, head: str, words: Sequence[str]) -> None:
    """`head` and the words after it, some on each line."""
    for first in range(0, len(words), PER_LINE):
        file.write(f"{head} {' '.join(words[first : first + PER_LINE])}\n")
        head = " " * len(head)


def _start(initial: np.ndarray, states: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The start distribution in the shortest form that reads back to the same numbers."""
    chosen = initial > 0
    even = chosen / chosen.sum()
    if np.array_equal((even / even.sum()).astype(initial.dtype), initial):
        if chosen.all():
            return "start:", ["uniform"]
        return "start include:", [states[x] for x in np.flatnonzero(chosen).tolist()]
    texts = np.full(len(initial), "0", dtype="U32")
    one_row = np.zeros(int(chosen.sum()), np.int64)
    texts[chosen] = probability_texts(initial[chosen], one_row, 1)
    return "start:", texts.tolist()


def _kernel(
    keyword: str,
    coordinates: Coordinates,
    sizes: tuple[int, int],
    dtype: np.dtype,
    labels: tuple[Sequence[str], ...],
) -> Iterator[str]:
    """The lines of T or O, action by action."""
    a, row, column, p = coordinates
    bounds = np.searchsorted(a, np.arange(sizes[0] + 1))
    pieces = [tuple(part[low:high] for part in (row, column, p)) for low, high in pairwise(bounds)]
    same = all(_equal(piece, pieces[0]) for piece in pieces[1:])
    names = ["*"] if same else labels[0]
    for name, piece in zip(names, pieces, strict=not same):
        yield "\n"
        for rows, columns, values in _some_rows(*piece):
            texts = probability_texts(values.astype(dtype), rows - rows[0], sizes[1]).tolist()
            for x, y, text in zip(rows.tolist(), columns.tolist(), texts, strict=True):
                yield f"{keyword}: {name} : {labels[1][x]} : {labels[2][y]} {text}\n"


def _some_rows(rows: np.ndarray, *others: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Sorted entries in pieces of whole rows."""
    first = 0
    while first < len(rows):
        last = min(first + CHUNK, len(rows)) - 1
        stop = int(np.searchsorted(rows, rows[last], side="right"))
        yield tuple(part[first:stop] for part in (rows, *others))
        first = stop


def _equal(piece: tuple, other: tuple) -> bool:
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(piece, other, strict=True))


def _reward(reward: np.ndarray, actions: Sequence[str], states: Sequence[str]) -> Iterator[str]:
    """The lines of R: the most common value, then the pairs of state and action that have another."""
    bits = reward.view(np.int64 if reward.dtype == np.float64 else np.int32)  # distinguishes -0.0 from 0.0
    values, count = np.unique(bits, return_counts=True)
    common = values[np.argmax(count)]
    by_state = bool((bits == bits[:, :1]).all())
    yield f"\nR: * : * : * : * {shortest(np.array([common]).view(reward.dtype))[0]}\n"
    for a, name in enumerate(["*"] if by_state else actions):
        other = np.flatnonzero(bits[:, a] != common)
        for x, text in zip(other.tolist(), shortest(reward[other, a]).tolist(), strict=True):
            yield f"R: {name} : {states[x]} : * : * {text}\n"


formats.register(formats.Format("cassandra", "model", (".POMDP",), read_pomdp, write_pomdp))
