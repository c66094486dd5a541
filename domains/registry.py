"""The registry of domains: what a domain is called, how large its library is, and which function builds it.

    @register("two-doors", summary="...", models=2, horizon=20)
    def two_doors(model, *, noise=0.1): ...

A builder returns a `World`, a `Description` or a `POMDP`. Files named in the environment variable
JATPO_DOMAINS (separated like PATH) are loaded before a name is looked up.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from jatpo.domains import parameters as parameter
from jatpo.domains.description import Description
from jatpo.domains.parameters import RULES, Parameter, Probability
from jatpo.domains.stage import Stage
from jatpo.domains.world import World
from jatpo.errors import JatpoError, unknown

__all__ = ["RULES", "Domain", "Probability", "get", "load", "names", "register"]

VARIABLE = "JATPO_DOMAINS"
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
        """How many models there are in all."""
        return len(self.labels())

    @property
    def noise(self) -> float:
        """The published noise; 0 for a domain without."""
        return self.parameters["noise"].as_run if "noise" in self.parameters else 0.0

    def discount(self, rules: str = "as_run") -> float:
        """The discount under a rule set."""
        if "discount" in self.parameters:
            return self.values(rules)["discount"]
        return self.description(0, rules).discount

    def values(self, rules: str = "as_run", **overrides: Any) -> dict[str, Any]:
        """The builder's parameters under a rule set, with overrides."""
        return parameter.resolve(self.name, self.parameters, rules, overrides)

    def labels(self, rules: str = "as_run", **overrides: Any) -> tuple[str, ...]:
        """What distinguishes each model of the pool, in words."""
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
        built = self.structure(model, rules, **overrides)
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


_domains: dict[str, Domain] = {}
_loaded: set[str] = set()


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
    builder that returns no `World`. Registering a name again replaces it.
    """

    def enter(builder: Builder) -> Builder:
        if not name or name != name.strip() or any(letter in name for letter in "/\\ "):
            raise JatpoError(f"a domain cannot be called '{name}': use letters, digits and hyphens")
        found = parameter.read(builder, as_run or {}, as_written or {})
        text = summary or (builder.__doc__ or "").strip().split("\n")[0]
        _domains[name] = Domain(
            name, text, builder, found, models, horizon, beliefs, tolerance, labels, stage
        )
        return builder

    return enter


def names() -> tuple[str, ...]:
    """The names of all registered domains."""
    _load_from_environment()
    return tuple(_domains)


def get(name: str) -> Domain:
    """The domain called `name`."""
    _load_from_environment()
    if name not in _domains:
        raise unknown("domain", str(name), _domains)
    return _domains[name]


def load(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Imports a file or module that registers domains; the names it added or replaced."""
    before = dict(_domains)
    text = os.fspath(source)
    if text.endswith(".py") or os.sep in text:
        _import_file(Path(text))
    else:
        try:
            importlib.import_module(text)
        except ModuleNotFoundError as error:
            if error.name != text.split(".")[0] and error.name != text:
                raise
            raise JatpoError(
                f"no module is called '{text}': install it, or give the path of a .py file"
            ) from error
    return tuple(name for name, domain in _domains.items() if before.get(name) is not domain)


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise JatpoError(f"there is no domain file {path}: check the path")
    module_name = f"jatpo_domains_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except JatpoError:
        raise
    except Exception as error:
        raise JatpoError(f"domain file {path} fails with {type(error).__name__}: {error}") from error


def _load_from_environment() -> None:
    for source in os.environ.get(VARIABLE, "").split(os.pathsep):
        if source and source not in _loaded:
            _loaded.add(source)  # first: the file itself may ask for names
            try:
                load(source)
            except BaseException:
                _loaded.discard(source)
                raise
