"""Libraries of simulators that commands know by name, with parameters: `torus-pursuit` or `torus-pursuit:size=6`.

    @register("two-rooms", summary="...", horizon=30)
    def two_rooms(size: int = 4, noise: float = 0.1) -> SimulatorLibrary: ...

The parameters of the function are those that may stand after the colon, comma-separated.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jatpo.errors import JatpoError, unknown
from jatpo.library import HORIZON
from jatpo.registry import Registry
from jatpo.simulators.simulator_library import SimulatorLibrary

Builder = Callable[..., SimulatorLibrary]
Value = int | float | str


@dataclass(frozen=True)
class SimulatorDomain:
    """A function that builds libraries, and what people may know of it."""

    name: str
    summary: str
    builder: Builder
    horizon: int

    @property
    def defaults(self) -> Mapping[str, Value]:
        """The parameters and their defaults."""
        return {name: each.default for name, each in inspect.signature(self.builder).parameters.items()}

    def build(self, **parameters: Value) -> SimulatorLibrary:
        """The library with these parameters."""
        known = self.defaults
        for name in parameters:
            if name not in known:
                raise unknown(f"parameter of {self.name}", name, known)
        made = self.builder(
            **{name: _cast(self.name, name, known[name], parameters[name]) for name in parameters}
        )
        given = ",".join(f"{name}={value}" for name, value in parameters.items())
        name = f"{self.name}:{given}" if given else self.name
        return dataclasses.replace(made, name=name, horizon=self.horizon)


SIMULATORS: Registry[SimulatorDomain] = Registry("simulator domain")


def register(name: str, *, summary: str = "", horizon: int = HORIZON) -> Callable[[Builder], Builder]:
    """Decorator that enters a function of parameters with defaults, which returns a library."""

    def enter(builder: Builder) -> Builder:
        text = summary or (builder.__doc__ or "").strip().split("\n")[0]
        SIMULATORS.add(name, SimulatorDomain(name, text, builder, horizon))
        return builder

    return enter


def build(text: str) -> SimulatorLibrary:
    """The library of a name with parameters, such as `torus-pursuit:size=6,agents=2`."""
    name, _, given = text.partition(":")
    parameters: dict[str, Value] = {}
    for part in filter(None, given.split(",")):
        key, sign, value = part.partition("=")
        if not sign:
            raise JatpoError(
                f"'{part}' in '{text}' is not a parameter: write name=value, as in {name}:size=6"
            )
        parameters[key.strip()] = value.strip()
    return SIMULATORS.get(name).build(**parameters)


def known(text: str) -> bool:
    """Whether the part before the colon is the name of a library of simulators."""
    return text.partition(":")[0] in SIMULATORS


def _cast(domain: str, name: str, default: Value, value: Value) -> Value:
    """A parameter in the type of its default."""
    kind = type(default)
    try:
        return kind(value)
    except ValueError as error:
        what = "a whole number" if kind is int else "a number"
        raise JatpoError(f"{name} of {domain} must be {what}, got '{value}'") from error
