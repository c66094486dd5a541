"""The lists of the blocked storage, from sorted coordinates (a, x, y, p) on the host. NumPy only."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from jatpo import memory
from jatpo.validate import Coordinates


def padded_lists(
    row: np.ndarray, column: np.ndarray, p: np.ndarray, num_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lists (column, p) of each row, padded with (0, 0) to the longest: two arrays [num_rows, width].

    `row` must be sorted.
    """
    count, slot = np.bincount(row, minlength=num_rows), slots(row, num_rows)
    width = max(int(count.max(initial=0)), 1)
    _require(num_rows, width)
    index = np.zeros((num_rows, width), np.int32)
    weight = np.zeros((num_rows, width))
    index[row, slot] = column
    weight[row, slot] = p
    return index, weight


def slots(row: np.ndarray, num_rows: int) -> np.ndarray:
    """The place of each entry in the list of its row; `row` must be sorted."""
    count = np.bincount(row, minlength=num_rows)
    return np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def transition_lists(coordinates: Coordinates, num_actions: int, num_states: int) -> dict[str, np.ndarray]:
    """The arrays of `BlockedTransition`."""
    a, x, y, p = coordinates
    shape, number = (num_actions, num_states, -1), num_actions * num_states
    successor, probability = padded_lists(a * num_states + x, y, p, number)
    slot = slots(a * num_states + x, number)
    arriving = np.bincount(a * num_states + y, minlength=number)
    hub = _hubs(arriving.reshape(num_actions, num_states).max(axis=0))
    place = np.full(num_states, -1)
    place[hub] = np.arange(len(hub))
    to_hub = place[y] >= 0
    _require(number, len(hub))
    hub_slot = np.full((num_actions, len(hub), num_states), -1, np.int32)
    hub_slot[a[to_hub], place[y[to_hub]], x[to_hub]] = slot[to_hub]
    row, x, slot = (a * num_states + y)[~to_hub], x[~to_hub], slot[~to_hub]
    order = np.argsort(row, kind="stable")
    predecessor, at = padded_lists(row[order], x[order], slot[order] + 1.0, number)
    return {
        "successor": successor.reshape(shape),
        "probability": probability.reshape(shape),
        "predecessor": predecessor.reshape(shape),
        "slot": at.astype(np.int32).reshape(shape) - 1,
        "hub": hub.astype(np.int32),
        "hub_slot": hub_slot,
    }


def successor_lists(coordinates: Coordinates, num_actions: int, num_states: int) -> dict[str, np.ndarray]:
    """The arrays of `SuccessorLists`."""
    a, x, y, p = coordinates
    successor, probability = padded_lists(a * num_states + x, y, p, num_actions * num_states)
    shape = (num_actions, num_states, -1)
    return {"successor": successor.reshape(shape), "probability": probability.reshape(shape)}


def _require(num_rows: int, width: int) -> None:
    """Refuse lists of `width` entries (an int32 and a float64) for every row that would not fit."""
    what = f"blocked storage of {num_rows} rows with up to {width} entries each"
    remedy = "make the fullest rows sparser, or use storage='dense' if that is smaller"
    memory.require(12 * num_rows * width, what, remedy)


def _hubs(arriving: np.ndarray) -> np.ndarray:
    """The states to keep out of the predecessor lists: list width plus number of hubs is least.

    A list of width Q costs X Q and H dense rows cost X H for each action, so Q + H is the cost of a prediction.
    """
    width = np.sort(arriving)[::-1]  # with the h largest as hubs, the lists have width[h] entries
    cost = np.append(width, 0) + np.arange(len(arriving) + 1)
    hubs = int(np.argmin(cost))
    return np.sort(np.argsort(-arriving, kind="stable")[:hubs])


def observation_lists(coordinates: Coordinates, num_actions: int, num_states: int, dtype: np.dtype) -> dict:
    """The arrays of `BlockedObservation`: the distinct rows of O and which of them each (action, state) has.

    Rows are compared as they will be stored, in `dtype`. Where O does not depend on the action, one action's are.
    """
    a, y, z, p = coordinates
    p = p.astype(dtype)
    cuts = np.searchsorted(a, np.arange(num_actions + 1))
    each = [[part[start:end] for part in (y, z, p)] for start, end in pairwise(cuts)]
    alike = all(all(map(np.array_equal, own, each[0])) for own in each[1:])
    if alike:
        (y, z, p), a = each[0], np.zeros(len(each[0][0]), np.int64)
    number = 1 if alike else num_actions
    kind, symbol, probability = _distinct(a * num_states + y, z, p, number * num_states)
    kind = kind.reshape(number, num_states)
    if (kind == kind[0]).all():
        kind = kind[:1]
    return {"kind": kind, "symbol": symbol, "probability": probability}


def _distinct(
    row: np.ndarray, column: np.ndarray, p: np.ndarray, num_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The class of each row [num_rows], and the classes as padded lists [C, L], in the order of their first rows.

    Rows of equal length are compared with each other, so that none is padded to the longest.
    """
    count = np.bincount(row, minlength=num_rows)
    begins = np.cumsum(count) - count
    kind, examples = np.zeros(num_rows, np.int64), []
    for length in np.unique(count):
        rows = np.flatnonzero(count == length)
        place = begins[rows][:, None] + np.arange(length)
        keys = np.concatenate([column[place].astype(np.float64), p[place].astype(np.float64)], axis=1)
        _, first, own = np.unique(_as_bytes(keys), return_index=True, return_inverse=True)
        kind[rows] = len(examples) + own
        examples += rows[first].tolist()
    order = np.argsort(examples)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    chosen = np.array(examples)[order]
    width = max(int(count.max(initial=0)), 1)
    symbol, probability = np.zeros((len(chosen), width), np.int32), np.zeros((len(chosen), width), p.dtype)
    for number, example in enumerate(chosen):
        entries = slice(begins[example], begins[example] + count[example])
        symbol[number, : count[example]], probability[number, : count[example]] = column[entries], p[entries]
    return rank[kind].astype(np.int32), symbol, probability


def _as_bytes(keys: np.ndarray) -> np.ndarray:
    """The rows of `keys` [n, m] as n values that can be sorted; rows without entries are all alike."""
    if keys.shape[1] == 0:
        return np.zeros(len(keys), np.int8)
    return np.ascontiguousarray(keys).view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1])))[:, 0]
