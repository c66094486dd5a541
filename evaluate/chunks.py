"""A chunk of trials as the bytes of a file: what `numpy.savez_compressed` writes, then a line with a digest.

The digest covers every byte before it and what the trials were made for (`identity`). So a file that has changed
anywhere, or that belongs to other settings or solutions, is never read as data. `numpy.load` reads the file as it is.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from jatpo.evaluate.trials import Trials

MARK = b"\njatpo chunk "
LENGTH = len(MARK) + 64 + 1
RECORD = "record_"


def to_bytes(trials: Trials, identity: str) -> bytes:
    """The content of a chunk's file."""
    whole = {name: getattr(trials, name) for name in Trials._fields if name != "records"}
    records = {f"{RECORD}{name}": array for name, array in trials.records.items()}
    arrays: Mapping[str, Any] = {**whole, **records}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    content = buffer.getvalue()
    return content + _seal(content, identity)


def from_bytes(data: bytes, identity: str) -> Trials:
    """The trials in a chunk's file; ValueError where it is not exactly what was written for `identity`."""
    content, seal = data[:-LENGTH], data[-LENGTH:]
    if seal != _seal(content, identity):
        raise ValueError("it is damaged or was made for other settings or solutions")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    records = {name[len(RECORD) :]: arrays.pop(name) for name in list(arrays) if name.startswith(RECORD)}
    return Trials(**arrays, records=records)


def _seal(content: bytes, identity: str) -> bytes:
    return MARK + hashlib.sha256(identity.encode() + content).hexdigest().encode() + b"\n"
