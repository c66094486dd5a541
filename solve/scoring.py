"""How to score alpha vectors for all observations with little work; made on the host, once for a model.

For a prediction w(y) and vectors v, a backup needs max_v sum_y O(z | y) w(y) v(y) for every z. Done plainly this costs
Z X multiply-adds for each vector. A plan cuts it down to sums over blocks of states, one batched matrix product, which
are then combined into observations. There are two ways to cut, and the cheaper one is taken:

* by class: states with equal rows of O are summed first, then spread over observations by their common row. Good where
  a state can look like many things but there are few kinds of state (mazes).
* direct: each observation sums over the states that can give it. Good where O is sparse (pursuit).

An observation that one state alone can give needs no sum: the best vector is the best one in that state. If that holds
for all observations, the observation reveals the state. The plans themselves are in `jatpo.solve.backup`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jatpo.model import POMDP
from jatpo.solve.backup import BlockPlan, Plan, RevealingPlan
from jatpo.storage import lists
from jatpo.validate import Coordinates

WIDTHS = (4, 8, 16, 32, 64)  # states in a block
LISTS = 32  # one number fetched on its own costs as much as so many in a row
TRAFFIC = 40  # the cost of one number written and read again, in multiply-adds


class Cut(NamedTuple):
    """Blocks of one action: states [G, n] padded with X, weights [G, n], and their part in each observation [G, Z]."""

    states: np.ndarray
    entry: np.ndarray
    part: np.ndarray


def make_plan(model: POMDP) -> Plan:
    """The plan of one model."""
    return make_plans([model])[0]


def make_plans(models: Sequence[POMDP]) -> list[Plan]:
    """The plans of `models`, of one shape."""
    if all(reveals(model) for model in models):
        return [RevealingPlan() for _ in models]
    tables = [_table(model) for model in models]
    groups = max(len(table) for table in tables)
    tables = [np.broadcast_to(table, (groups, *table.shape[1:])) for table in tables]
    alike = all(np.array_equal(table, tables[0]) for table in tables)
    different = tables[:1] if alike else tables
    lone = np.all([(table > 0).sum(axis=1) <= 1 for table in different], axis=(0, 1))  # [Z]
    cuts = _cheapest(different, lone)
    plans = _lay_out(different, cuts, lone, models[0].dtype)
    return plans * len(models) if alike else plans


def _seen(model: POMDP) -> Coordinates:
    """(a, y, z, p) of O, without the states that only pad the model: nothing leads on from those."""
    sparse = model.to_sparse()
    real = np.zeros(model.num_states, bool)
    real[sparse.transition[1]] = True
    a, y, z, p = (part[real[sparse.observation[1]]] for part in sparse.observation)
    return a, y, z, p


def reveals(model: POMDP) -> bool:
    """Whether every observation is possible in one state only."""
    a, _, z, _ = _seen(model)
    return len(np.unique(a * model.num_observations + z)) == len(z)


def _table(model: POMDP) -> np.ndarray:
    """O[d, y, z] on the host, with one d if the actions agree."""
    rows = lists.observation_lists(_seen(model), model.num_actions, model.num_states, np.dtype(model.dtype))
    dense = np.zeros((len(rows["symbol"]), model.num_observations))
    np.add.at(dense, (np.arange(len(dense))[:, None], rows["symbol"]), rows["probability"])
    return dense[rows["kind"]]


def _cheapest(tables: Sequence[np.ndarray], lone: np.ndarray) -> list[list[Cut]]:
    """The cuts of each table's groups, all of the kind and width that cost least."""
    sparse = all((table[:, :, ~lone] > 0).sum(axis=(1, 2)).max() <= 8 * table.shape[1] for table in tables)
    kinds = [[_kinds(rows) for rows in table] for table in tables]
    options = [
        [list(map(partial(_by_class, lone, width), *pair)) for pair in zip(tables, kinds, strict=True)]
        for width in WIDTHS
    ]
    if sparse:
        options += [[[_direct(lone, width, rows) for rows in table] for table in tables] for width in WIDTHS]
    return min(options, key=lambda option: max(_cost(cut) for cuts in option for cut in cuts))


def _cost(cut: Cut) -> float:
    """Work for one vector and belief: multiply-adds, with memory traffic counted in."""
    many = int(((cut.part > 0).sum(axis=0) > 1).sum())
    return len(cut.states) * (cut.states.shape[1] + many + TRAFFIC) + many * TRAFFIC


def _kinds(rows: np.ndarray) -> np.ndarray:
    """A number for each state [X], equal where the rows of O [X, Z] are equal."""
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()


def _by_class(lone: np.ndarray, width: int, rows: np.ndarray, kind: np.ndarray) -> Cut:
    """States with equal rows of O [X, Z], those of one `kind` [X], together."""
    useful = np.flatnonzero((rows[:, ~lone] > 0).any(axis=1))
    states, _ = _blocks(kind[useful], useful, width, len(rows))
    part = rows[states[:, 0]] * ~lone
    return Cut(states, (states < len(rows)).astype(float), part)


def _direct(lone: np.ndarray, width: int, rows: np.ndarray) -> Cut:
    """For each observation, the states that can give it."""
    z, y = np.nonzero((rows * ~lone).T)
    states, owner = _blocks(z, y, width, len(rows))
    padded = np.concatenate([rows, np.zeros((1, rows.shape[1]))])
    part = (np.arange(rows.shape[1]) == owner[:, None]).astype(float)
    return Cut(states, padded[states, owner[:, None]], part)


def _blocks(owner: np.ndarray, states: np.ndarray, width: int, pad: int) -> tuple[np.ndarray, np.ndarray]:
    """`states` [n] of each owner in blocks [G, width], padded with `pad`, and the owner of each block [G]."""
    order = np.argsort(owner, kind="stable")
    ranked = owner[order]
    place = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    starts = place % width == 0
    table = np.full((int(starts.sum()), width), pad, np.int32)
    table[np.cumsum(starts) - 1, place % width] = states[order]
    return table, ranked[starts]


def _lay_out(
    tables: Sequence[np.ndarray], cuts: Sequence[Sequence[Cut]], lone: np.ndarray, dtype: np.dtype
) -> list[Plan]:
    """The arrays of each plan, padded to one number of blocks."""
    num_blocks = max(len(cut.states) for group in cuts for cut in group)
    padded = [[_padded(cut, num_blocks, tables[0].shape[1]) for cut in group] for group in cuts]
    givers = np.max([(cut.part > 0).sum(axis=0) for group in padded for cut in group], axis=0)  # [Z]
    many = np.flatnonzero(~lone & (givers > 1))
    few = np.flatnonzero(~lone & (givers <= 1))
    single = np.flatnonzero(lone)
    most = max(int((table > 0).sum(axis=2).max()) for table in tables)
    plans: list[Plan] = []
    for table, group in zip(tables, padded, strict=True):
        states, entry, part = (np.stack(parts) for parts in zip(*group, strict=True))
        block = part[:, :, few].argmax(axis=1)
        ordered = np.swapaxes(table, 1, 2)[:, np.concatenate([many, few, single])]
        arrays = (
            states,
            entry,
            part[:, :, many],
            block,
            np.take_along_axis(part[:, :, few], block[:, None], axis=1)[:, 0],
            table[:, :, single].argmax(axis=1),
            ordered,
            _lists(ordered, most),
        )
        kinds = (np.int32, dtype, dtype, np.int32, dtype, np.int32, dtype, np.int32)
        plans.append(
            BlockPlan(
                *(jax.device_put(np.asarray(array, kind)) for array, kind in zip(arrays, kinds, strict=True))
            )
        )
    return plans


def _lists(table: np.ndarray, most: int) -> np.ndarray:
    """The observations that each state can give, at most `most` of them, for a table [D, Z, X]: [D, X, most or 0].

    What a state cannot give fills its list up; it has probability 0 there.
    """
    if most * LISTS > table.shape[1]:
        return np.zeros((table.shape[0], table.shape[2], 0))
    return np.swapaxes(np.argsort(table <= 0, axis=1, kind="stable")[:, :most], 1, 2)


def _padded(cut: Cut, num_blocks: int, num_states: int) -> Cut:
    """`cut` with blocks of padding added."""
    short = ((0, num_blocks - len(cut.states)), (0, 0))
    return Cut(
        np.pad(cut.states, short, constant_values=num_states),
        np.pad(cut.entry, short),
        np.pad(cut.part, short),
    )
