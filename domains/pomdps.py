"""Models of domains as `POMDP`s and libraries: the only module of this package that imports jax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jatpo.domains.description import Description
from jatpo.domains.domain import get
<<<<<<< HEAD
=======
from jatpo.domains.movers import TwoMovers
from jatpo.domains.pairs import LARGE
>>>>>>> c15fdd6 (plan: show and check memory before work starts; lower kernels for accelerators in tests)
from jatpo.errors import JatpoError
from jatpo.library import Library, Origin, Published
from jatpo.model import POMDP, Names, Sparse


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
    return built if isinstance(built, POMDP) else to_pomdp(domain.described(built))


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
        horizon=domain.horizon,
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
