"""A domain: what it is called, how large its library is, and which function builds its models.

    @register("two-doors", summary="...", models=2, horizon=20)
    def two_doors(model, *, noise=0.1): ...

A builder returns a `World`, a `Description` or a `POMDP`. Users register theirs the same way (`jatpo.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from jatpo.domains import parameters as parameter
from jatpo.domains.description import Description
from jatpo.domains.parameters import RULES, Parameter, Probability, Values
from jatpo.domains.places import Stage
from jatpo.domains.structure import World
from jatpo.errors import JatpoError
from jatpo.registry import Registry

__all__ = ["DOMAINS", "RULES", "Domain", "Probability", "describe", "get", "load", "names", "register"]

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class Domain:
    """A domain: how it is named, built, solved and shown. `models` are in its library, `pool` in all."""

    name: str
    summary: str
    builder: Callable[..., Any]
    parameters: Mapping[str, Parameter]
    models: int
    horizon: int
    beliefs: int
    tolerance: float
    naming: Callable[..., tuple[str, ...]] | None = None
    stage_hook: Callable[..., Stage] | None = None

    @property
    def pool(self) -> int:
        """The number of models in the pool."""
        return len(self.labels())

    @property
    def noise(self) -> float:
        """The published noise; 0 for a domain without noise."""
        return self.parameters["noise"].as_run if "noise" in self.parameters else 0.0

    def discount(self, rules: str = "as_run") -> float:
        """The discount under a rule set."""
        if "discount" in self.parameters:
            return self.values(rules)["discount"]
        return self.description(0, rules).discount

    def values(self, rules: str = "as_run", **overrides: Any) -> Values:
        """The builder's parameters under a rule set, with overrides."""
        return parameter.resolve(self.name, self.parameters, rules, overrides)

    def labels(self, rules: str = "as_run", **overrides: Any) -> tuple[str, ...]:
        """The labels of all models of the pool."""
        values = self.values(rules, **overrides)
        if self.naming is None:
            return tuple(f"model {number}" for number in range(self.models))
        return self.naming(**values)

    def differences(self) -> tuple[Parameter, ...]:
        """The parameters in which the two rule sets disagree."""
        return tuple(part for part in self.parameters.values() if part.differs)

    def structure(self, model: int = 0, rules: str = "as_run", **overrides: Any) -> Any:
        """What the builder returns for a model: a `World` for the built-in domains."""
        values = self.values(rules, **overrides)
        count = len(self.labels(rules, **overrides))
        if not isinstance(model, (int, np.integer)) or not 0 <= model < count:
            raise JatpoError(f"domain '{self.name}' has no model {model!r}; choose from 0 to {count - 1}")
        return self.builder(int(model), **values)

    def description(self, model: int = 0, rules: str = "as_run", **overrides: Any) -> Description:
        """A model as a checked NumPy `Description`."""
        return self.described(self.structure(model, rules, **overrides))

    def described(self, built: Any) -> Description:
        """What the builder returned as a checked `Description`."""
        if isinstance(built, World):
            return built.describe()
        if isinstance(built, Description):
            return built.checked()
        if hasattr(built, "to_sparse"):
            return Description.from_pomdp(built).checked()
        found = type(built).__name__
        raise JatpoError(
            f"the builder of '{self.name}' returned a {found}: return a World, a Description or a POMDP"
        )

    def stage(self, model: int = 0, rules: str = "as_run", **overrides: Any) -> Stage | None:
        """Where to draw a model, or None when only state names can be shown."""
        if self.stage_hook is not None:
            return self.stage_hook(model, **self.values(rules, **overrides))
        return getattr(self.structure(model, rules, **overrides), "stage", None)


DOMAINS: Registry[Domain] = Registry("domain")
get, names, load = DOMAINS.get, DOMAINS.names, DOMAINS.load


def describe(name: str, model: int = 0, rules: str = "as_run", **overrides: Any) -> Description:
    """Model `model` of domain `name` in NumPy float64."""
    return get(name).description(model, rules, **overrides)


def register(
    name: str,
    *,
    summary: str = "",
    models: int = 1,
    horizon: int = 50,
    beliefs: int = 1000,
    tolerance: float = 0.01,
    labels: Callable[..., tuple[str, ...]] | None = None,
    stage: Callable[..., Stage] | None = None,
    as_run: Mapping[str, Any] | None = None,
    as_written: Mapping[str, Any] | None = None,
) -> Callable[[Builder], Builder]:
    """Decorator that enters a builder `(model, **parameters)` under `name` and returns it as it is.

    `labels(**parameters)` names every model of the pool, `stage(model, **parameters)` gives a picture to a
    builder that returns no `World`. Built-in names cannot be registered again.
    """

    def enter(builder: Builder) -> Builder:
        found = parameter.read(builder, as_run or {}, as_written or {})
        text = summary or (builder.__doc__ or "").strip().split("\n")[0]
        domain = Domain(name, text, builder, found, models, horizon, beliefs, tolerance, labels, stage)
        DOMAINS.add(name, domain)
        return builder

    return enter
