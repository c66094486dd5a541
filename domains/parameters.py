"""The named parameters of a domain's builder, read from its signature, and the two presets called rule sets.

A builder is `def build(model, *, noise: Annotated[Probability, "help"] = 0.2, ...)`. Its defaults, with the
decorator's `as_run`, are the preset `as_run`; the decorator's `as_written` says what differs in the other.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from jatpo.errors import LONGER, JatpoError, nearest, shown, unknown

RULES = ("as_run", "as_written")
Number = int | float | bool | str
UNIT = "a number from 0 to 1"
Probability = Annotated[float, UNIT]
Values = Mapping[str, Any]  # of a builder's parameters, by name
_MISSING = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """One named parameter: its meaning, its value under each rule set, and its allowed values."""

    name: str
    help: str
    as_run: Any
    as_written: Any
    kind: Any = None

    @property
    def differs(self) -> bool:
        """Whether the two rule sets disagree."""
        return self.as_run != self.as_written

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words."""
        return tuple(_words(self.kind))

    def to_json(self) -> Mapping[str, object]:
        """Name, meaning and both presets in terms of JSON's own types."""
        presets = {"as_run": self.as_run, "as_written": self.as_written, "differs": self.differs}
        return {"name": self.name, "help": self.help, **presets, "choices": list(self.choices)}

    def value(self, rules: str) -> Any:
        """The value under a rule set."""
        return getattr(self, rules)

    def check(self, domain: str, value: Any) -> Any:
        """`value`, if it is allowed."""
        if self.kind is None or _fits(self.kind, value):
            return value
        hint = nearest(value, self.choices) if isinstance(value, str) else ""
        hint = hint or f"; expected {_expected(self.kind)}"
        raise JatpoError(f"{self.name}={value!r} does not fit domain '{domain}'{hint}")


def read(builder: Callable, as_run: Mapping[str, Any], as_written: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a builder, by name."""
    hints = get_type_hints(builder, include_extras=True)
    signature = list(inspect.signature(builder).parameters.values())[1:]
    found = [part for part in signature if part.kind is not inspect.Parameter.VAR_KEYWORD]
    names = [part.name for part in found]
    for preset in (as_run, as_written):
        for name in preset:
            if name not in names:
                raise unknown("parameter of the builder", name, names)
    parameters = {}
    for part in found:
        value = as_run.get(part.name, part.default)
        if value is _MISSING:
            raise JatpoError(f"builder '{builder.__name__}' has no default for '{part.name}': give it one")
        kind, text = _annotation(hints.get(part.name))
        parameters[part.name] = Parameter(part.name, text, value, as_written.get(part.name, value), kind)
    return parameters


def _annotation(hint: Any) -> tuple[Any, str]:
    """The type and the help text of `Annotated[type, "help"]`."""
    if get_origin(hint) is not Annotated:
        return hint, ""
    kind, *notes = get_args(hint)
    texts = [note for note in notes if isinstance(note, str) and note != UNIT]
    return (Probability if UNIT in notes else kind), (texts[-1] if texts else "")


def resolve(
    domain: str, parameters: Mapping[str, Parameter], rules: str, overrides: Mapping[str, Any]
) -> Values:
    """The values of a rule set with `overrides` put in; unknown rules, names and values are errors."""
    if rules not in RULES:
        raise unknown("rule set", str(rules), RULES)
    for name in overrides:
        if name not in parameters:
            choices = ", ".join(parameters) or "none"
            hint = nearest(name, parameters) or f"; it has {choices}"
            raise JatpoError(f"domain '{domain}' has no parameter '{name}'{hint}")
    values = {name: parameter.value(rules) for name, parameter in parameters.items()}
    return values | {name: parameters[name].check(domain, value) for name, value in overrides.items()}


def parse(text: str) -> tuple[str, int | None, Mapping[str, Number]]:
    """A domain's name, the number of a model or None, and parameters: `gridworld:2,size=16` in parts."""
    name, colon, rest = text.partition(":")
    model, parameters = None, {}
    for part in rest.split(",") if colon else ():
        key, sign, value = part.partition("=")
        if sign:
            parameters[key.strip().replace("-", "_")] = _value(value.strip())
        elif model is None and part.isascii() and part.isdigit() and len(part) < 10:
            model = int(part)
        else:
            raise JatpoError(
                f"'{shown(text, LONGER)}' names no model: write a number after the colon, as in "
                f"'{shown(name)}:0', or parameters, as in '{shown(name)}:noise=0.1'"
            )
    return name, model, parameters


def _value(text: str) -> Number:
    """A number, true or false, or the word itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _options(kind: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _words(kind: Any) -> list[str]:
    """The literal words a type allows."""
    return [word for option in _options(kind) if get_origin(option) is Literal for word in get_args(option)]


def _fits(kind: Any, value: Any) -> bool:
    return any(_fits_one(option, value) for option in _options(kind))


def _fits_one(kind: Any, value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == Probability:
        return number and 0 <= value <= 1
    if kind is float:
        return number
    if kind is int:
        return number and value == int(value)
    if kind in (bool, str, type(None)):
        return isinstance(value, kind)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, (tuple, list))
    return True


def _expected(kind: Any) -> str:
    """The allowed values in words."""
    plain = {float: "a number", int: "a whole number", bool: "True or False", str: "text"}
    plain |= {Probability: UNIT, type(None): "None"}
    names = []
    for option in _options(kind):
        if get_origin(option) is Literal:
            names += [repr(word) for word in get_args(option)]
        elif get_origin(option) is tuple:
            names.append("a tuple")
        else:
            names.append(plain.get(option, str(option)))
    return " or ".join(names)
