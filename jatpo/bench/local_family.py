"""A family of random sparse models of any size whose beliefs stay local.

5 actions; 5 successors of each state and action, drawn within 50 states to either side on a ring, with random
probabilities; 20 observations, of which every state has one of 40 random rows (Dirichlet with parameter 0.2, so that
a few observations are probable); normal rewards; ten neighbouring states to start from; discount 0.95.

No array of states by observations is made: states have the number of their row.
"""

from __future__ import annotations

import numpy as np

from jatpo.model import POMDP
from jatpo.storage import BlockedObservation, SuccessorLists
from jatpo.storage.kernel_protocol import device_array, nonzeros

ACTIONS, SUCCESSORS, REACH = 5, 5, 50
READINGS, KINDS, CONCENTRATION = 20, 40, 0.2
DISCOUNT = 0.95


def local_model(states: int, seed: int = 0) -> POMDP:
    """The model with that many states."""
    random = np.random.default_rng([seed, states])
    dtype = np.dtype(np.float32)
    shape = (ACTIONS, states, SUCCESSORS)
    spread = np.sort(random.integers(0, 2 * REACH + 2 - SUCCESSORS, shape), axis=2)
    steps = spread + np.arange(SUCCESSORS) - REACH  # all different
    weight = random.random(shape) + 0.1
    successor = (np.arange(states)[None, :, None] + steps) % states
    transition = SuccessorLists(
        successor=device_array(successor, dtype),
        probability=device_array(weight / weight.sum(axis=2, keepdims=True), dtype),
    )
    rows = random.dirichlet(np.full(READINGS, CONCENTRATION), size=KINDS)
    seen = BlockedObservation.build(nonzeros(rows[None]), (1, KINDS, READINGS), dtype)
    kind = np.asarray(seen.kind)[:, random.integers(KINDS, size=states)]
    observation = BlockedObservation(
        device_array(kind, dtype), seen.symbol, seen.probability, seen.num_symbols
    )
    reward = device_array(random.normal(size=(states, ACTIONS)), dtype)
    initial = np.zeros(states)
    initial[states // 2 : states // 2 + 10] = 0.1
    return POMDP(
        transition, observation, reward, device_array(initial, dtype), device_array(np.array(DISCOUNT), dtype)
    )
