"""Teammates that are not in the agent's library: left out of it, noisy, or changed.

    left-out    the world is a model of the domain that the library lacks
    noisy       the teammate of a model acts at random now and then; the library holds all models as they were
    changed     the domain is built with other parameters; the library holds all models as they were

Where task and teammate change together (gridworld's models differ in their goals, so left out means both), learning
the teammate cannot learn the task: the reward is nothing that the agent sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jatpo import domains
from jatpo.domains import World
from jatpo.errors import JatpoError, unknown
from jatpo.model import POMDP

SCENARIOS = ("left-out", "noisy", "changed")


@dataclass(frozen=True, eq=False)
class Stranger:
    """A world that the agent has no model of; `library` are the numbers of the models that it has."""

    scenario: str
    model: int
    world: POMDP
    library: tuple[int, ...]


def strangers(
    name: str,
    scenarios: Sequence[str],
    rules: str = "as_run",
    share: float = 0.5,
    changes: Mapping[str, Any] | None = None,
    models: Sequence[int] | None = None,
) -> list[Stranger]:
    """The strangers of a domain, for each scenario and each of `models` (all without it).

    `share` of its actions a noisy teammate takes at random; `changes` are parameters of the domain's builder.
    """
    _check(name, scenarios, share, changes)
    domain = domains.get(name)
    every = tuple(range(domain.models))
    found = []
    for scenario in scenarios:
        for model in every if models is None else models:
            if scenario == "left-out":
                world, library = _world(name, model, rules), tuple(k for k in every if k != model)
            elif scenario == "noisy":
                world, library = noisy(_world(name, model, rules), share), every
            else:
                world, library = _world(name, model, rules, **(changes or {})), every
            found.append(Stranger(scenario, model, world.describe().pomdp(), library))
    return found


def noisy(world: World, share: float) -> World:
    """The same world, with a teammate that takes `share` of its actions at random; where nobody acts, nobody does."""
    policy = np.asarray(world.teammate)
    acting = policy.sum(axis=-1, keepdims=True) > 0
    mixed = np.where(acting, (1 - share) * policy + share / policy.shape[-1], 0.0)
    return dataclasses.replace(world, policy=lambda: mixed)


def _world(name: str, model: int, rules: str, **changes: Any) -> World:
    built = domains.get(name).structure(model, rules, **changes)
    if not isinstance(built, World):
        raise JatpoError(
            f"domain '{name}' gives a {type(built).__name__} and no World: its teammate cannot be learnt"
        )
    return built


def _check(name: str, scenarios: Sequence[str], share: float, changes: Mapping[str, Any] | None) -> None:
    for scenario in scenarios:
        if scenario not in SCENARIOS:
            raise unknown("scenario", scenario, SCENARIOS)
    if not 0 <= share <= 1:
        raise JatpoError(f"a teammate cannot act at random {share:g} of the time: give a share from 0 to 1")
    if "changed" in scenarios and not changes:
        raise JatpoError("the scenario 'changed' needs to know what changes: give --change PARAMETER=VALUE")
    if "left-out" in scenarios and domains.get(name).models < 2:
        raise JatpoError(f"domain '{name}' has one model: leaving it out leaves nothing")
