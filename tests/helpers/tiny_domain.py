"""A domain of three small models and a stand-in for the solver, for tests of commands and experiments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

NAME = "three-doors"
HORIZON = 6


def describe(model: int, *, noise: float = 0.2):
    """The prize is behind door `model` of three; hearing tells the door with 1 - noise. Opening ends it."""
    from jatpo.domains.description import Description

    doors, listen = 3, 3
    transition = np.zeros((4, 5, 5))  # states: at the door, prize, absorbing
    observation = np.zeros((4, 5, 3))
    transition[:, :3] = np.eye(5)[:3]
    for door in range(doors):
        transition[door, door, :] = np.eye(5)[3 if door == model else 0]
    transition[listen, :3] = 0.5 * np.eye(5)[:3] + 0.5 * np.roll(np.eye(5)[:3], 1, axis=0)
    transition[:, 3:] = np.eye(5)[4]
    hear = np.full((3, 3), noise / 2) + (1 - 1.5 * noise) * np.eye(3)
    observation[:, :3] = hear
    observation[:, 3:] = np.eye(3)[0]
    reward = np.full((5, 4), -1.0)
    reward[3], reward[4] = 10, 0
    initial = np.array([1, 1, 1, 0, 0]) / 3
    names = [*(f"door {x}" for x in range(3)), "prize", "absorbing"]
    actions = [*(f"open {x}" for x in range(3)), "listen"]
    return Description.from_dense(
        transition,
        observation,
        reward,
        initial,
        0.9,
        states=names,
        actions=actions,
        observations=["a", "b", "c"],
    )


@contextlib.contextmanager
def registered() -> Iterator[str]:
    """The domain under its name, for a while."""
    from jatpo.domains import DOMAINS, register

    register(NAME, summary="three doors", models=3, horizon=HORIZON, beliefs=50)(describe)
    try:
        yield NAME
    finally:
        DOMAINS.remove(NAME)


def stand_in(patch):
    """Have the alpha vectors of QMDP instead of solved ones."""
    from jatpo.evaluate.solved import PROVIDERS

    patch.setattr(PROVIDERS, "_entries", dict(PROVIDERS._entries))
    PROVIDERS.add("policies", stand_in_policies)


def stand_in_policies(solved):
    """QMDP's alpha vectors instead of solved ones."""
    import jax.numpy as jnp

    from jatpo.solve.policy import Policy

    q = solved["q"]
    actions = jnp.broadcast_to(jnp.arange(q.shape[2], dtype=jnp.int32), (q.shape[0], q.shape[2]))
    return Policy(jnp.swapaxes(q, 1, 2), actions)
