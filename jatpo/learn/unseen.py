"""Teammates that are not in the agent's library: left out of it, noisy, or changed.

    left-out    the true model is one that the library lacks
    noisy       the teammate of a model acts at random in a share of its steps; the library has all models as they were
    changed     the domain is built with other parameters; the library has all models as they were

Where task and teammate change together (gridworld's models differ in their goals, so left out means both), learning
the teammate cannot learn the task: the agent does not observe the reward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jatpo import domains
from jatpo.domains import World
from jatpo.errors import JatpoError, unknown
from jatpo.library import Library, Origin
from jatpo.model import POMDP

SCENARIOS = ("left-out", "noisy", "changed")


class Unseen(NamedTuple):
    """A true model that is not in the agent's library; `numbers` are the models that the agent has."""

    scenario: str
    model: int
    truth: POMDP
    numbers: tuple[int, ...]


def unseen_teammates(
    library: Library,
    scenarios: Sequence[str],
    share: float = 0.5,
    changes: Mapping[str, Any] | None = None,
    models: Sequence[int] | None = None,
) -> list[Unseen]:
    """The unseen teammates of a library, for each scenario and each of `models` (default: all).

    A noisy teammate takes `share` of its actions at random; `changes` are parameters of the domains' builders.
    """
    check_scenarios(scenarios, share, changes)
    if "left-out" in scenarios and library.num_models < 2:
        raise JatpoError(
            f"{library.name} has one model: leaving it out leaves nothing, choose another scenario"
        )
    every = tuple(range(library.num_models))
    found = []
    for scenario in scenarios:
        for model in every if models is None else models:
            library.member(model)  # refuses a number that the library does not have
            changed = dict(changes or {}) if scenario == "changed" else {}
            world = _world(library.labels[model], library.origins[model], changed)
            world = noisy(world, share) if scenario == "noisy" else world
            numbers = tuple(k for k in every if k != model) if scenario == "left-out" else every
            found.append(Unseen(scenario, model, domains.to_pomdp(world.describe()), numbers))
    return found


def check_scenarios(scenarios: Sequence[str], share: float, changes: Mapping[str, Any] | None) -> None:
    """Refuse unknown scenarios, a share outside [0, 1], and 'changed' without changes."""
    for scenario in scenarios:
        if scenario not in SCENARIOS:
            raise unknown("scenario", scenario, SCENARIOS)
    if not 0 <= share <= 1:
        raise JatpoError(f"the share of random actions must be in [0, 1], got {share:g}")
    if "changed" in scenarios and not changes:
        raise JatpoError("the scenario 'changed' needs what changes: give --change PARAMETER=VALUE")


def noisy(world: World, share: float) -> World:
    """The same world, with a teammate that takes `share` of its actions at random; where nobody acts, nobody does."""
    policy = np.asarray(world.teammate)
    acting = policy.sum(axis=-1, keepdims=True) > 0
    mixed = np.where(acting, (1 - share) * policy + share / policy.shape[-1], 0.0)
    return dataclasses.replace(world, policy=lambda: mixed)


def _world(label: str, origin: Origin, changes: Mapping[str, Any]) -> World:
    """The builder's world behind a model, with other parameters."""
    if origin.domain is None:
        raise JatpoError(f"model '{label}' comes from no domain: its teammate cannot be learned")
    overrides = {**origin.overrides, **changes}
    built = domains.get(origin.domain).structure(origin.model or 0, origin.rules or "as_run", **overrides)
    if not isinstance(built, World):
        raise JatpoError(
            f"domain '{origin.domain}' returns a {type(built).__name__} and no World: "
            "its teammate cannot be learned"
        )
    return built
