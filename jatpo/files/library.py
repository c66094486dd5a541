"""A library as commands use it: models with one interface, their policies, the prior and the settings.

Models may differ in their states. Their actions and observations must be the same in the same order; with
`match` by name, other orders are brought into that of the first model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jatpo import validate
from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.library import Library
    from jatpo.model import POMDP
    from jatpo.solve.policy import Policy


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: a file, or a model of a domain."""

    file: str | None = None
    domain: str | None = None
    model: int | None = None
    rules: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """One model of a library before it is combined with the others."""

    model: POMDP
    label: str
    origin: Origin
    policy: Policy | None = None


@dataclass(frozen=True)
class Settings:
    """How the models of a library are solved and tried, unless a command says otherwise."""

    horizon: int = 50
    beliefs: int = 1000
    tolerance: float = 0.01
    noise: float | None = None  # published noise of a domain, for the record


DEFAULTS = Settings()


@dataclass(frozen=True, eq=False)
class UserLibrary:
    """K models with the same actions and observations. `domain` is set if they are all from one domain."""

    name: str
    models: tuple[POMDP, ...]
    labels: tuple[str, ...]
    policies: tuple[Policy | None, ...]
    origins: tuple[Origin, ...]
    prior: np.ndarray  # [K]
    settings: Settings = DEFAULTS
    notes: tuple[str, ...] = ()

    @property
    def num_models(self) -> int:
        return len(self.models)

    @property
    def horizon(self) -> int:
        return self.settings.horizon

    @property
    def domain(self) -> str | None:
        """The domain that all models come from, or None."""
        domains = {origin.domain for origin in self.origins}
        return domains.pop() if len(domains) == 1 else None

    def stacked(self) -> Library:
        """The models stacked and padded, with the prior."""
        from jatpo.library import Library

        return Library.from_models(self.models, self.prior)


def combine(
    name: str,
    members: Sequence[Member],
    *,
    prior: Sequence[float] | None = None,
    settings: Settings = DEFAULTS,
    match: str | None = None,
    notes: Sequence[str] = (),
) -> UserLibrary:
    """A library of `members`, checked for one interface."""
    if not members:
        raise JatpoError(f"library {name} has no models: add at least one")
    first = members[0]
    members = [first, *(_fitted(member, first, match) for member in members[1:])]
    uniform = np.full(len(members), 1 / len(members))
    weights = validate.distribution(
        f"the prior of {name}", uniform if prior is None else np.array(prior), len(members)
    )
    parts = ([getattr(member, part) for member in members] for part in ("model", "label", "policy", "origin"))
    models, labels, policies, origins = (tuple(part) for part in parts)
    return UserLibrary(name, models, labels, policies, origins, weights, settings, tuple(notes))


def _fitted(member: Member, first: Member, match: str | None) -> Member:
    """`member` with the actions and observations of the first; refuses one that differs in them."""
    actions, observations = (_order(kind, member, first, match) for kind in ("actions", "observations"))
    if all(np.array_equal(order, np.arange(len(order))) for order in (actions, observations)):
        return member
    model, policy = _reordered(member.model, actions, observations, first.model), member.policy
    if policy is not None:
        policy = policy._replace(actions=policy.actions.at[:].set(actions[np.asarray(policy.actions)]))
    return Member(model, member.label, member.origin, policy)


def _order(kind: str, member: Member, first: Member, match: str | None) -> np.ndarray:
    """For each of the member's actions (or observations) its place among the first model's."""
    ours, theirs = getattr(first.model, kind), getattr(member.model, kind)
    named = all(getattr(part.model.names, kind) is not None for part in (first, member))
    if len(ours) != len(theirs):
        difference = (
            f"model '{member.label}' has {len(theirs)} {kind} and model '{first.label}' has {len(ours)}"
        )
        raise JatpoError(difference + (_missing(kind, member, first) if named else "") + ": they must agree")
    if not named or ours == theirs:
        return np.arange(len(ours))
    missing = _missing(kind, member, first)
    if missing:
        raise JatpoError(
            f"the {kind} of model '{member.label}' differ from those of model '{first.label}'{missing}"
        )
    if match != "name":
        at = next(place for place, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
        difference = f"{kind[:-1]} {at} is '{theirs[at]}' in model '{member.label}' and '{ours[at]}' in model"
        remedy = 'write them in the same order, or set match = "name" in a TOML library'
        raise JatpoError(f"{difference} '{first.label}': {remedy}")
    place = {name: index for index, name in enumerate(ours)}
    return np.array([place[name] for name in theirs])


def _missing(kind: str, member: Member, first: Member) -> str:
    """A clause that names what one of two models lacks."""
    ours, theirs = getattr(first.model, kind), getattr(member.model, kind)
    for mine, other, label in ((theirs, ours, member.label), (ours, theirs, first.label)):
        lacking = [name for name in other if name not in set(mine)]
        if lacking:
            return f" (model '{label}' has no {kind[:-1]} '{lacking[0]}')"
    return ""


def _reordered(model: POMDP, actions: np.ndarray, observations: np.ndarray, first: POMDP) -> POMDP:
    """`model` with action i as actions[i] and observation i as observations[i], named as in `first`."""
    from jatpo.model import POMDP

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
