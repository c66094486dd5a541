"""A finite-state controller made of alpha vectors: what following them is worth, whatever solver they are from.

A node of the controller is a vector with its action and, for each observation, the vector to continue with: the one
that is best after that observation from the belief at which the vector was first met on the way from the start. Any
choice of successors is a policy, so its value is a true lower bound. The values are found by sweeps over the nodes;
what the sweeps leave is covered by the residual that `jatpo.certify` computes.

Shapes: V vectors, X states, Z observations, C nodes.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from scipy import sparse

from jatpo.model import Sparse

WORK = 4e9  # products that may go into finding successors
SWEPT = 2e10  # products that may go into sweeps
SIZE = 40_000_000  # values that a controller may have
SMALL = 1e-12  # relative change of a sweep after which another is not worth it


class Controller(NamedTuple):
    """Values, action and successor of each node; node 0 is for the initial belief."""

    values: np.ndarray  # [C, X]
    action: np.ndarray  # [C]
    successor: np.ndarray  # [C, Z]


class _Parts(NamedTuple):
    """A model as matrices, one for each action."""

    transition: list[sparse.csr_array]  # [X, X]
    observation: list[sparse.csc_array]  # [X, Z]


def follow_vectors(
    model: Sparse, num_observations: int, vectors: np.ndarray, actions: np.ndarray
) -> Controller:
    """The controller of `vectors` [V, X] with `actions` [V], as far as the work allows.

    Vectors that were met and not looked at any more repeat their action.
    """
    parts = _matrices(model, num_observations)
    X = len(model.initial)
    start = _best(vectors, np.flatnonzero(model.initial), model.initial[model.initial > 0])
    place, met, follow = {start: 0}, [start], {}
    queue = [(-1.0, 0, model.initial)]
    left = WORK
    while queue:
        reach, node, belief = heapq.heappop(queue)
        a = int(actions[met[node]])
        arrived = belief @ parts.transition[a]
        follow[node] = np.full(num_observations, node)
        for z in range(num_observations):
            column = slice(*parts.observation[a].indptr[z : z + 2])
            y, mass = parts.observation[a].indices[column], parts.observation[a].data[column]
            joint = arrived[y] * mass
            if joint.sum() <= 0 or left <= 0:
                continue
            chosen = _best(vectors, y[joint > 0], joint[joint > 0])
            left -= len(vectors) * int((joint > 0).sum())
            if chosen not in place and (len(met) + 1) * X <= SIZE:
                place[chosen] = len(met)
                met.append(chosen)
                after = np.zeros(X)
                after[y] = joint / joint.sum()
                heapq.heappush(queue, (reach * model.discount * joint.sum(), place[chosen], after))
            follow[node][z] = place.get(chosen, node)
    successor = np.stack([follow[node] for node in range(len(met))])
    action = actions[met].astype(np.int64)
    return Controller(_evaluate(model, parts, vectors[met], action, successor), action, successor)


def _best(vectors: np.ndarray, states: np.ndarray, weights: np.ndarray) -> int:
    """The vector with the largest product with a sparse belief."""
    return int((vectors[:, states].dot(weights)).argmax())


def _matrices(model: Sparse, num_observations: int) -> _Parts:
    X, A = model.reward.shape
    transition, observation = [], []
    for a in range(A):
        x, y, p = (part[model.transition[0] == a] for part in model.transition[1:])
        transition.append(sparse.csr_array((p, (x, y)), (X, X)))
        y, z, p = (part[model.observation[0] == a] for part in model.observation[1:])
        observation.append(sparse.csc_array((p, (y, z)), (X, num_observations)))
    return _Parts(transition, observation)


def _evaluate(
    model: Sparse, parts: _Parts, values: np.ndarray, action: np.ndarray, successor: np.ndarray
) -> np.ndarray:
    """About the values of a controller [C, X], by sweeps from `values`.

    The last change is taken for geometric, which ends most of what is left (MacQueen 1967).
    """
    entries = sum(part.nnz for part in (*parts.transition, *parts.observation)) / len(parts.transition)
    most = max(2, int(SWEPT / (len(action) * entries)))
    for _ in range(most):
        new = np.empty_like(values)
        for a in np.unique(action):
            nodes = np.flatnonzero(action == a)
            new[nodes] = _push(model, parts, int(a), successor[nodes], values)
        change = new - values
        values = new
        low, high = float(change.min()), float(change.max())
        values += model.discount / (1 - model.discount) * (low + high) / 2 if high * low > 0 else 0.0
        if (high - low) / (1 - model.discount) <= SMALL * max(1.0, float(np.abs(values).max())):
            break
    return values


def _push(model: Sparse, parts: _Parts, a: int, successor: np.ndarray, values: np.ndarray) -> np.ndarray:
    """R_a + γ P_a Σ_z O_a(z) values[successor(z)] [n, X]."""
    arrived = np.zeros((len(successor), values.shape[1]))
    seen = parts.observation[a]
    for z in range(successor.shape[1]):
        column = slice(*seen.indptr[z : z + 2])
        y = seen.indices[column]
        arrived[:, y] += seen.data[column] * values[successor[:, z, None], y]
    return model.reward[:, a] + model.discount * (parts.transition[a] @ arrived.T).T
