"""Several models as one POMDP whose hidden state is (model, state): model 0's states first, without padding.

Nothing leads from one model to another. Its belief is p(k) b_k(x), one model after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jatpo.errors import JatpoError
from jatpo.model import POMDP
from jatpo.validate import Coordinates


def joint_model(models: Sequence[POMDP], prior: np.ndarray) -> POMDP:
    """The joint model of `models` with the initial belief prior x initial beliefs."""
    parts = [model.exact() for model in models]
    discounts = [part.discount for part in parts]
    if len(set(discounts)) > 1:
        listed = ", ".join(f"{discount:.6g}" for discount in discounts)
        raise JatpoError(f"the models have discounts {listed}: a joint model needs one discount for all")
    first = np.cumsum([0, *(model.num_states for model in models)])
    storages = {model.storage for model in models}
    return POMDP.from_sparse(
        _concatenated([_shifted(part.transition, first[k], (1, 2)) for k, part in enumerate(parts)]),
        _concatenated([_shifted(part.observation, first[k], (1,)) for k, part in enumerate(parts)]),
        np.concatenate([part.reward for part in parts]),
        np.concatenate([part.initial * prior[k] for k, part in enumerate(parts)]),
        parts[0].discount,
        num_observations=models[0].num_observations,
        states=_states(models),
        actions=models[0].names.actions,
        observations=models[0].names.observations,
        storage=storages.pop() if len(storages) == 1 else "blocked",
        dtype=models[0].dtype,
    )


def _states(models: Sequence[POMDP]) -> list[str] | None:
    """Names of the joint states, if the models have any."""
    if all(model.names.states is None for model in models):
        return None
    return [f"{k}: {state}" for k, model in enumerate(models) for state in model.states]


def _shifted(coordinates: Coordinates, by: int, columns: tuple[int, ...]) -> Coordinates:
    """`coordinates` with the states in `columns` renumbered from `by` on."""
    moved = list(coordinates)
    for column in columns:
        moved[column] = moved[column] + by
    return moved[0], moved[1], moved[2], moved[3]


def _concatenated(parts: Sequence[Coordinates]) -> Coordinates:
    """The coordinates of all `parts` in one."""
    a, first, second, p = (np.concatenate(column) for column in zip(*parts, strict=True))
    return a, first, second, p
