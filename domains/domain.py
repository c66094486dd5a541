"""A domain: what it is called, how large its library is, and which function builds its models.

    @register("two-doors", summary="...", models=2, horizon=20)
    def two_doors(model, *, noise=0.1): ...

A builder returns a `World`, a `Description` or a `POMDP`. Users register theirs the same way (`jatpo.registry`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from jatpo.domains import parameters as parameter
from jatpo.domains.description import Description
from jatpo.domains.movers import TwoMovers
from jatpo.domains.parameters import RULES, Parameter, Probability, Values
from jatpo.domains.places import Stage
from jatpo.domains.structure import World
from jatpo.errors import JatpoError
from jatpo.registry import Registry

__all__ = [
    "DOMAINS",
    "RULES",
    "Domain",
    "Probability",
    "describe",
    "get",
    "known",
    "load",
    "names",
    "register",
]

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
    steps_hook: Callable[..., int] | None = None
    listed: bool = True  # among `all`

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

    def steps(self, rules: str = "as_run", **overrides: Any) -> int:
        """The horizon of models with these parameters."""
        return self.horizon if self.steps_hook is None else self.steps_hook(**self.values(rules, **overrides))

    def changed(self, **overrides: Any) -> Domain:
        """The domain with other parameters in both rule sets, as `gridworld:size=16` names it."""
        values = self.values("as_run", **overrides)
        parameters = {
            name: replace(part, as_run=values[name], as_written=values[name]) if name in overrides else part
            for name, part in self.parameters.items()
        }
        text = ",".join(f"{name}={value}" for name, value in overrides.items())
        return replace(
            self, name=f"{self.name}:{text}", parameters=parameters, horizon=self.steps(**overrides)
        )

    def differences(self) -> tuple[Parameter, ...]:
        """The parameters in which the two rule sets disagree."""
        return tuple(part for part in self.parameters.values() if part.differs)

    def structure(self, model: int = 0, rules: str = "as_run", **overrides: Any) -> Any:
        """What the builder returns for a model: a `World` for the built-in domains."""
        values = self.values(rules, **overrides)
        count = len(self.labels(rules, **overrides))
        if not isinstance(model, (int, np.integer)) or not 0 <= model < count:
            raise JatpoError(f"domain '{self.name}' has no model {model!r}; choose from 0 to {count - 1}")
        try:
            return self.builder(int(model), **values)
        except (JatpoError, MemoryError):
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> JatpoError:
        """The error of a builder that raised, with the line of its file where it did."""
        file = self.builder.__code__.co_filename if hasattr(self.builder, "__code__") else None
        lines = [part.lineno for part in traceback.extract_tb(error.__traceback__) if part.filename == file]
        place = f" ({file}, line {lines[-1]})" if lines else ""
        return JatpoError(f"the builder of '{self.name}' raised {type(error).__name__}: {error}{place}")

    def description(self, model: int = 0, rules: str = "as_run", **overrides: Any) -> Description:
        """A model as a checked NumPy `Description`."""
        return self.described(self.structure(model, rules, **overrides))

    def described(self, built: Any) -> Description:
        """What the builder returned as a checked `Description`."""
        if isinstance(built, World | TwoMovers):
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
get, known, load = DOMAINS.get, DOMAINS.names, DOMAINS.load


def names() -> tuple[str, ...]:
    """The names of the domains that `all` stands for; `known()` are all that have a name."""
    return tuple(name for name in known() if get(name).listed)


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
    steps: Callable[..., int] | None = None,
    listed: bool = True,
    as_run: Mapping[str, Any] | None = None,
    as_written: Mapping[str, Any] | None = None,
) -> Callable[[Builder], Builder]:
    """Decorator that enters a builder `(model, **parameters)` under `name` and returns it as it is.

    `labels(**parameters)` names every model of the pool, `stage(model, **parameters)` gives a picture to a
    builder that returns no `World`, `steps(**parameters)` a horizon that grows with a parameter. Built-in
    names cannot be registered again. One that is not `listed` is known by its name and no part of `all`.
    """

    def enter(builder: Builder) -> Builder:
        found = parameter.read(builder, as_run or {}, as_written or {})
        text = summary or (builder.__doc__ or "").strip().split("\n")[0]
        domain = Domain(
            name, text, builder, found, models, horizon, beliefs, tolerance, labels, stage, steps, listed
        )
        DOMAINS.add(name, domain)
        return builder

    return enter
