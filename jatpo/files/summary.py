"""What is worth knowing about a model: sizes, sparsity, reach, memory in each storage, and what looks odd."""

from __future__ import annotations

from typing import Any

import numpy as np

from jatpo import memory
from jatpo.files.decimals import shortest
from jatpo.files.model_builder import blocked_peak
from jatpo.model import POMDP, Sparse
from jatpo.validate import Coordinates


def summary(model: POMDP) -> dict[str, Any]:
    """The facts of a model by name, in terms of JSON's own types; bytes are of the stored precision."""
    sparse = model.to_sparse()
    a, x, y, _ = sparse.transition
    rows = model.num_actions * model.num_states
    reached = reachable(sparse.initial > 0, x, y)
    facts = {
        "states": model.num_states,
        "actions": model.num_actions,
        "observations": model.num_observations,
        "discount": float(shortest(np.asarray(model.discount).reshape(1))[0]),
        "transition_entries": len(a),
        "transition_density": len(a) / (rows * model.num_states),
        "most_successors": _longest(sparse.transition, model.num_states),
        "observation_entries": len(sparse.observation[0]),
        "observation_density": len(sparse.observation[0]) / (rows * model.num_observations),
        "observation_classes": None,
        "start_states": int((sparse.initial > 0).sum()),
        "reachable_states": int(reached.sum()),
        "absorbing_states": int(absorbing(sparse, model.num_actions).sum()),
        "reward_least": float(sparse.reward.min()),
        "reward_most": float(sparse.reward.max()),
        "storage": model.storage,
        "dense_bytes": _dense_bytes(model),
        "blocked_bytes": None,
    }
    facts.update(_blocked_facts(model, sparse))
    facts["warnings"] = odd(model, sparse, reached)
    return facts


def reachable(start: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The states [X] that some actions lead to from `start` [X], over transitions x -> y."""
    order = np.argsort(x, kind="stable")
    successor = y[order]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(x, minlength=len(start)))])
    seen = start.copy()
    frontier = np.flatnonzero(start)
    while len(frontier):
        count = bounds[frontier + 1] - bounds[frontier]
        place = np.arange(count.sum()) + np.repeat(bounds[frontier] - np.cumsum(count) + count, count)
        after = np.unique(successor[place])
        frontier = after[~seen[after]]
        seen[frontier] = True
    return seen


def absorbing(sparse: Sparse, num_actions: int) -> np.ndarray:
    """The states [X] that every action leaves as they are."""
    _, x, y, _ = sparse.transition
    stays = np.bincount(x[x == y], minlength=len(sparse.initial))
    leaves = np.bincount(x[x != y], minlength=len(sparse.initial))
    return (leaves == 0) & (stays == num_actions)


def odd(model: POMDP, sparse: Sparse, reached: np.ndarray) -> list[str]:
    """Warnings about what is valid but may be a mistake."""
    found = []
    unreached = np.flatnonzero(~reached)
    if len(unreached):
        found.append(f"{len(unreached)} states are never reached, such as '{model.states[unreached[0]]}'")
    _, y, z, _ = sparse.observation
    unseen = np.flatnonzero(np.bincount(z[reached[y]], minlength=model.num_observations) == 0)
    if len(unseen):
        found.append(f"{len(unseen)} observations are never made, such as '{model.observations[unseen[0]]}'")
    if sparse.reward.min() == sparse.reward.max():
        found.append(f"the reward is {sparse.reward.min():g} for every state and action")
    if sparse.discount == 1:
        found.append("the discount is 1: values of the infinite horizon may not exist")
    return found


def _longest(coordinates: Coordinates, num_rows: int) -> int:
    return int(np.bincount(coordinates[0] * num_rows + coordinates[1]).max(initial=0))


def _dense_bytes(model: POMDP) -> int:
    itemsize = np.dtype(model.dtype).itemsize
    kernels = memory.dense_bytes(model.num_states, model.num_actions, model.num_observations, itemsize)
    return kernels + (model.num_states * (model.num_actions + 1) + 1) * itemsize


def _blocked_facts(model: POMDP, sparse: Sparse) -> dict[str, Any]:
    """Classes of observation rows and bytes in blocked storage, if that can be built here."""
    sizes = (model.num_actions, model.num_states, model.num_observations)
    if blocked_peak(sparse.transition, sparse.observation, sizes) > memory.SHARE * memory.free_bytes():
        return {}
    blocked = model.with_storage("blocked")
    return {"observation_classes": blocked.observation.num_classes, "blocked_bytes": blocked.nbytes}
