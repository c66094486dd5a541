"""The lists of the blocked storage, from sorted coordinates (a, x, y, p) on the host. NumPy only."""

from __future__ import annotations

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

    Rows are compared as they will be stored, in `dtype`.
    """
    a, y, z, p = coordinates
    symbol, probability = padded_lists(a * num_states + y, z, p, num_actions * num_states)
    probability = probability.astype(dtype)
    rows = np.concatenate([symbol.astype(np.float64), probability], axis=1)
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)  # classes in the order in which the states meet them
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    kind = rank[kind].reshape(num_actions, num_states).astype(np.int32)
    if (kind == kind[0]).all():
        kind = kind[:1]
    return {"kind": kind, "symbol": symbol[first[order]], "probability": probability[first[order]]}
