"""Models of domains as `POMDP`s and libraries: the only module of this package that imports jax."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jatpo import validate
from jatpo.domains.description import Description
from jatpo.domains.domain import get
from jatpo.domains.movers import TwoMovers
from jatpo.domains.pairs import LARGE
from jatpo.errors import JatpoError
from jatpo.library import Library, Origin, Published
from jatpo.model import POMDP, Names, Sparse
from jatpo.storage import BlockedObservation, MoversTransition
from jatpo.storage.kernel_protocol import device_array


def to_pomdp(description: Description, **options: Any) -> POMDP:
    """The JAX model of a description, checked once; `options` are its storage and dtype."""
    one = description.checked()
    sparse = Sparse(one.transition, one.observation, one.reward, one.initial, one.discount)
    names = Names(one.states, one.actions, one.observations)
    return POMDP.from_checked(sparse, one.num_observations, names, **options)


def make(name: str, model: int = 0, rules: str = "as_run", **overrides: Any) -> POMDP:
    """Model `model` of domain `name` as a `POMDP`; `overrides` are parameters of its builder."""
    domain = get(name)
    built = domain.structure(model, rules, **overrides)
    if isinstance(built, TwoMovers):
        return of_movers(built)
    return built if isinstance(built, POMDP) else to_pomdp(domain.described(built))


def of_movers(movers: TwoMovers, dtype: np.dtype | type | None = None) -> POMDP:
    """The JAX model of two movers: P as what each of them does, O as its classes."""
    kind = np.dtype(jax.dtypes.canonicalize_dtype(np.float64)) if dtype is None else np.dtype(dtype)
    num_actions, num_classes = len(movers.actions), len(movers.rows)
    transition = MoversTransition.of_lists(movers.agent, movers.teammate, movers.solved, num_actions, kind)
    classes = validate.rows("observation", movers.classes(), (1, *movers.rows.shape), "yz", None, None)
    seen = BlockedObservation.build(classes, (1, num_classes, movers.rows.shape[1]), kind)
    own = np.asarray(seen.kind)[:, movers.kind]
    observation = dataclasses.replace(seen, kind=device_array(own, kind))
    numbers = validate.distribution("initial", movers.initial, len(movers.kind))
    reward, initial, discount = (
        device_array(np.array(part), kind)
        for part in (movers.reward, numbers, validate.discount(movers.discount))
    )
    names = Names(movers.states, movers.actions, movers.observations)
    return POMDP(transition, observation, reward, initial, discount, names)


def library(
    name: str, rules: str = "as_run", pool: bool = False, model: int | None = None, **overrides: Any
) -> Library:
    """The models of the main table, or with `pool` all there are, or only `model`."""
    domain = get(name)
    labels = domain.labels(rules, **overrides)
    count = len(labels) if pool else min(len(labels), domain.models)
    numbers = range(count) if model is None else [model]
    models = [make(name, number, rules, **overrides) for number in numbers]
    small = max(model.num_states for model in models) <= LARGE  # the published settings are for these
    return Library.from_models(
        models,
        name=name if model is None else f"{name}:{model}",
        horizon=domain.steps(rules, **overrides),
        labels=[labels[number] for number in numbers],
        origins=[Origin(domain=name, model=number, rules=rules, overrides=overrides) for number in numbers],
        published=Published(domain.beliefs, domain.tolerance, domain.noise) if small else None,
    )


def with_overrides(library: Library, **overrides: Any) -> Library:
    """The models of a library that come from domains, built with other parameters; a file has none to change."""
    for k, origin in enumerate(library.origins):
        missing = [name for name in overrides if name not in _parameters(origin.domain)]
        if origin.domain is None or missing:
            what = f"domain '{origin.domain}'" if origin.domain else f"model '{library.labels[k]}'"
            raise JatpoError(
                f"{what} has no parameter '{missing[0]}': leave it out, or choose another library"
            )
        both = {**origin.overrides, **overrides}
        model = make(origin.domain, origin.model or 0, origin.rules or "as_run", **both)
        library = library.with_model(k, model, origin=replace(origin, overrides=both))
    return library


def _parameters(domain: str | None) -> Mapping[str, Any]:
    return {} if domain is None else get(domain).parameters
