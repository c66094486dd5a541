"""What a solver claims, in the form in which `jatpo.certify` checks it, and what is wrong with its form.

Shapes: A actions, X states, Z observations, V vectors, N nodes, H rows, E edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jatpo.errors import JatpoError

INFORMED, CORNERS, BACKED_UP = -1, -2, -3  # what bounds a node, if no other node does
PARTS = {"belief": ("first", "state", "weights"), "edge": ("first", "observation", "child")}
LARGEST, LEAST = 1e100, 1e-100  # of claims, and of weights


class Evidence(NamedTuple):
    """What a solver claims. Beliefs and edges in compressed rows; node 0 is the initial belief."""

    values: np.ndarray  # [V, X]
    action: np.ndarray  # [V]
    successor: np.ndarray  # [V, Z] vector to continue with
    informed: np.ndarray  # [A, X] F
    belief: tuple[np.ndarray, np.ndarray, np.ndarray]  # first entry [N + 1], states, weights
    upper: np.ndarray  # [N] u; only that of generators is used
    source: np.ndarray  # [N] INFORMED, CORNERS, BACKED_UP or the node that bounds it
    corner: np.ndarray  # [X] the node at this single state, -1 for none
    row: np.ndarray  # [N, A] the row of an action, -1 for F
    edge: tuple[np.ndarray, np.ndarray, np.ndarray]  # first edge [H + 1], observation, node of the successor
    states: np.ndarray | None = (
        None  # [X] the state of the model that each state is, -1 for none; None: the same
    )


def require(condition: bool, problem: str) -> None:
    """Refuse evidence that has a `problem` unless the condition holds."""
    if not condition:
        raise JatpoError(f"the solution is not valid evidence: {problem}; solve the model again")


def typed(e: Evidence) -> Evidence:
    """The evidence in float64 and int64."""

    def cast(name: str, part: np.ndarray) -> np.ndarray:
        require(part is not None, f"{name} is missing")
        part = np.asarray(part)
        require(part.ndim > 0, f"{name} is a single number")
        kind = "f" if name in ("values", "informed", "upper", "weights") else "iu"
        require(part.dtype.kind in kind, f"{name} has numbers of type {part.dtype}")
        return part.astype(np.float64 if kind == "f" else np.int64, copy=False)

    def part(name: str, found: Any) -> Any:
        return tuple(map(cast, PARTS[name], found)) if name in PARTS else cast(name, found)

    given = {name: found for name, found in e._asdict().items() if name != "states" or found is not None}
    return Evidence(**{name: part(name, found) for name, found in given.items()})


def require_form(e: Evidence, A: int, Z: int, initial: np.ndarray) -> None:
    """Every array has its shape, every index its range, every number is finite."""
    X = len(initial)
    V, N, H = len(e.values), len(e.upper), len(e.edge[0]) - 1
    require(V > 0 and N > 0 and H >= 0, "there is no vector or no node")
    shapes = (
        ("values", e.values, (V, X)), ("action", e.action, (V,)), ("informed", e.informed, (A, X)),
        ("successor", e.successor, (V, Z)), ("source", e.source, (N,)), ("upper", e.upper, (N,)),
        ("corner", e.corner, (X,)), ("row", e.row, (N, A)), ("first", e.belief[0], (N + 1,)),
        ("weights", e.belief[2], (e.belief[1].size,)), ("state", e.belief[1], (e.belief[1].size,)),
        ("edges", e.edge[0], (H + 1,)), ("observation", e.edge[1], (e.edge[1].size,)),
        ("child", e.edge[2], (e.edge[1].size,)),
    )  # fmt: skip
    for name, array, shape in shapes:
        require(array.shape == shape, f"{name} has shape {array.shape}, expected {shape}")
    ranges = (
        ("action", e.action, 0, A), ("successor", e.successor, 0, V), ("state", e.belief[1], 0, X),
        ("source", e.source, BACKED_UP, N), ("corner", e.corner, -1, N), ("row", e.row, -1, H),
        ("observation", e.edge[1], 0, Z), ("child", e.edge[2], 0, N),
    )  # fmt: skip
    for name, array, low, high in ranges:
        require(bool(((array >= low) & (array < high)).all()), f"{name} is out of [{low}, {high})")
    for name, array in (("values", e.values), ("informed", e.informed), ("upper", e.upper)):
        require(bool((np.abs(array) <= LARGEST).all()), f"{name} is out of [-{LARGEST:g}, {LARGEST:g}]")
    light, heavy = e.belief[2] >= LEAST, e.belief[2] <= LARGEST
    require(bool((light & heavy).all()), "a belief has a weight that is not positive")
    _require_rows(e, Z)
    _require_places(e, initial)


def _require_rows(e: Evidence, Z: int) -> None:
    """Compressed rows follow each other, in order and without repetition."""
    (first, states, _), (edge, seen, _) = e.belief, e.edge
    for name, start, size, least in (("belief", first, states.size, 1), ("edge", edge, seen.size, 0)):
        rising = bool((np.diff(start) >= least).all())
        require(rising and start[0] == 0 and start[-1] == size, f"{name} rows do not follow each other")
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    inside = owner[1:] == owner[:-1]
    require(bool((np.diff(states)[inside] > 0).all()), "the states of a belief are not in order")
    key = np.repeat(np.arange(len(edge) - 1), np.diff(edge)) * Z + seen
    require(np.unique(key).size == key.size, "a row has two edges for one observation")


def _require_places(e: Evidence, initial: np.ndarray) -> None:
    """Nodes are at the beliefs that they are said to be at."""
    first, states, weights = e.belief
    start = np.zeros(len(initial))
    start[states[: first[1]]] = weights[: first[1]]
    require(np.array_equal(start, initial), "node 0 is not the initial belief of the model")
    at = np.flatnonzero(e.corner >= 0)
    single = (np.diff(first)[e.corner[at]] == 1) & (states[first[e.corner[at]]] == at)
    require(bool(single.all()), "a corner is not at its state")


def trimmed(evidence: Evidence) -> Evidence:
    """Evidence without the vectors that the best one at the start does not lead to."""
    states, weights = (part[: int(evidence.belief[0][1])] for part in evidence.belief[1:])
    best = int(evidence.values[:, states].dot(weights).argmax())
    needed = np.zeros(len(evidence.values), bool)
    fresh = np.array([best])
    while len(fresh):
        needed[fresh] = True
        fresh = np.unique(evidence.successor[fresh])
        fresh = fresh[~needed[fresh]]
    place = np.cumsum(needed) - 1
    return evidence._replace(
        values=evidence.values[needed],
        action=evidence.action[needed],
        successor=place[evidence.successor[needed]],
    )


def to_arrays(evidence: Evidence) -> dict[str, np.ndarray]:
    """The evidence as named arrays, for a file; empty ones are left out."""
    named: dict[str, np.ndarray] = {}
    for name, part in evidence._asdict().items():
        named |= {f"{name}.{i}": each for i, each in enumerate(part)} if name in PARTS else {name: part}
    return {name: np.asarray(part) for name, part in named.items() if part is not None and np.size(part)}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Evidence:
    """The evidence that `to_arrays` took apart."""
    empty = np.zeros(0, np.int64)

    def part(name: str) -> Any:
        if name in PARTS:
            return tuple(arrays.get(f"{name}.{i}", empty) for i in range(3))
        return arrays.get(name)

    return Evidence(**{name: part(name) for name in Evidence._fields})  # `typed` refuses what is missing
