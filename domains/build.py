"""The calls most users need: a model, or a domain's whole library, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jatpo.domains.description import Description
from jatpo.domains.registry import get

if TYPE_CHECKING:
    from jatpo.model import POMDP


def describe(name: str, model: int = 0, rules: str = "as_run", **overrides: Any) -> Description:
    """Model `model` of domain `name` in NumPy float64."""
    return get(name).description(model, rules, **overrides)


def make(name: str, model: int = 0, rules: str = "as_run", **overrides: Any) -> POMDP:
    """Model `model` of domain `name` as a `POMDP`; `overrides` are parameters of its builder."""
    return describe(name, model, rules, **overrides).pomdp()


def library(name: str, rules: str = "as_run", pool: bool = False, **overrides: Any) -> list[POMDP]:
    """The models of the main table, or with `pool` all there are."""
    domain = get(name)
    count = len(domain.labels(rules, **overrides))
    if not pool:
        count = min(count, domain.models)
    return [make(name, model, rules, **overrides) for model in range(count)]
