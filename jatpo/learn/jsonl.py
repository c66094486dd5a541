"""Histories as a text file, one episode per line:

    {"actions": ["up", "stay"], "observations": ["#..T", "...."]}

Observation t is what was seen after action t. Names and numbers (from 0) may be mixed. Other keys, empty lines
and lines that begin with # are passed over. A line that is wrong is named, and nothing is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from jatpo.disk import replacing
from jatpo.errors import JatpoError, nearest
from jatpo.files.guard import check_depth, read_text
from jatpo.learn.histories import Histories, History

KINDS = ("actions", "observations")


def read_histories(
    path: str | os.PathLike[str], actions: Sequence[str], observations: Sequence[str]
) -> Histories:
    """The histories in a file, for a model with these actions and observations."""
    try:
        text = read_text(path, "histories")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise JatpoError(f"cannot read the histories {path} ({reason}): check the path") from error
    names = dict(zip(KINDS, (actions, observations), strict=True))
    places = {kind: {name: number for number, name in enumerate(names[kind])} for kind in KINDS}
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _holds(line)]
    found = [_history(line, f"{path}:{number}", places) for number, line in lines]
    if not found:
        raise JatpoError(f"{path} contains no histories: write one JSON object per line")
    return Histories.from_list(found)


def _holds(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _history(line: str, where: str, places: dict[str, dict[str, int]]) -> History:
    """The history on one line; errors name the line."""
    try:
        check_depth(line.encode(), where)
        record = json.loads(line)
    except ValueError as error:
        reason = str(error).partition(";")[0]
        raise JatpoError(f"{where}: invalid JSON ({reason}): write one object per line") from error
    if not isinstance(record, dict):
        raise JatpoError(f'{where}: expected an object {{"actions": [...], "observations": [...]}}')
    for kind in KINDS:
        if not isinstance(record.get(kind), list):
            hint = nearest(kind, record) if kind not in record else ""
            raise JatpoError(f'{where}: expected a list under "{kind}"{hint}')
    first, second = (len(record[kind]) for kind in KINDS)
    if first != second:
        raise JatpoError(f"{where}: {first} actions and {second} observations, expected equal numbers")
    if not first:
        raise JatpoError(f"{where}: the history has no steps: remove the line")
    parts = [[_number(item, where, kind, t, places) for t, item in enumerate(record[kind])] for kind in KINDS]
    return History(*(np.array(part, np.int32) for part in parts))


def _number(item: Any, where: str, kind: str, t: int, places: dict[str, dict[str, int]]) -> int:
    """The number of an action or observation given by name or number."""
    known = places[kind]
    if isinstance(item, str) and item in known:
        return known[item]
    if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < len(known):
        return item
    shown = json.dumps(item, ensure_ascii=False)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    hint = nearest(item, known) if isinstance(item, str) else ""
    expected = f", expected a name or a number from 0 to {len(known) - 1}"
    raise JatpoError(f"{where}: step {t} has {kind[:-1]} {shown}{hint or expected}")


def write_histories(
    path: str | os.PathLike[str], histories: Histories, actions: Sequence[str], observations: Sequence[str]
) -> None:
    """Write histories with the names of actions and observations; the file is written whole or not at all."""
    with replacing(path) as file:
        for history in histories.to_list():
            record = {
                "actions": [actions[a] for a in history.actions],
                "observations": [observations[z] for z in history.observations],
            }
            file.write(json.dumps(record) + "\n")
