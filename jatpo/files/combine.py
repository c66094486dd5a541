"""Several libraries in one: models read one by one, with one interface.

Models may differ in their states. Their actions and observations must be the same in the same order; with
`match` by name, other orders are brought into that of the first model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jatpo.interface import KINDS
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.solve.policy import Policy


def combine(parts: Sequence[Library], *, match: str | None = None, **fields: Any) -> Library:
    """One library of the models of all `parts`; `fields` go to `Library.from_models`."""
    models, labels, origins, policies = (
        [item for part in parts for item in getattr(part, name)]
        for name in ("members", "labels", "origins", "policies")
    )
    if match == "name":
        pairs = [_matched(*pair, models[0]) for pair in zip(models, policies, strict=True)]
        models, policies = [model for model, _ in pairs], [policy for _, policy in pairs]
    return Library.from_models(models, labels=labels, origins=origins, policies=policies, **fields)


def _matched(model: POMDP, policy: Policy | None, first: POMDP) -> tuple[POMDP, Policy | None]:
    """The model and its policy with actions and observations in the order of the first, if the names agree."""
    if any(sorted(getattr(model, kind)) != sorted(getattr(first, kind)) for kind in KINDS):
        return model, policy  # to be refused with the names that differ
    actions, observations = (_order(getattr(model, kind), getattr(first, kind)) for kind in KINDS)
    if all(np.array_equal(order, np.arange(len(order))) for order in (actions, observations)):
        return model, policy
    if policy is not None:
        policy = policy._replace(actions=policy.actions.at[:].set(actions[np.asarray(policy.actions)]))
    return _reordered(model, actions, observations, first), policy


def _order(names: Sequence[str], first: Sequence[str]) -> np.ndarray:
    """For each of `names` its place in `first`."""
    place = {name: index for index, name in enumerate(first)}
    return np.array([place[name] for name in names])


def _reordered(model: POMDP, actions: np.ndarray, observations: np.ndarray, first: POMDP) -> POMDP:
    """`model` with action i as actions[i] and observation i as observations[i], named as in `first`."""
    sparse = model.to_sparse()
    a, x, y, p = sparse.transition
    b, u, z, q = sparse.observation
    reward = np.empty_like(sparse.reward)
    reward[:, actions] = sparse.reward
    return POMDP.from_sparse(
        (actions[a], x, y, p),
        (actions[b], u, observations[z], q),
        reward,
        sparse.initial,
        sparse.discount,
        num_states=model.num_states,
        num_actions=model.num_actions,
        num_observations=model.num_observations,
        states=model.names.states,
        actions=first.actions,
        observations=first.observations,
        storage=model.storage,
        dtype=model.dtype,
    )
