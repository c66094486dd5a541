"""A library as a TOML file.

name = "two tigers"
prior = [0.5, 0.5]
horizon = 40
match = "name"            # bring actions and observations into the order of the first model

[[model]]
file = "tiger.POMDP"      # next to this file
policy = "tiger.policy"

[[model]]
domain = "gridworld"
model = 0                 # default: all models of the domain
rules = "as_written"
overrides = { noise = 0.1 }
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jatpo import domains
from jatpo.errors import JatpoError, nearest, shown
from jatpo.files import formats
from jatpo.files.combine import combine
from jatpo.files.guard import read_toml
from jatpo.files.policies import read_policy
from jatpo.library import HORIZON, Library, Origin, Published
from jatpo.model import POMDP

MOST_MODELS = 4096
LARGEST = (1 << 31) - 1  # whole numbers
TOP = {
    "name": "text",
    "prior": "a list of numbers",
    "horizon": "a whole number from 1 on",
    "beliefs": "a whole number from 1 on",
    "tolerance": "a positive number",
    "match": "text",
    "model": "[[model]] tables",
}
ENTRY = {
    "file": "text",
    "domain": "text",
    "model": "a whole number from 0 on",
    "rules": "text",
    "overrides": "a table",
    "policy": "text",
    "label": "text",
}


def read_manifest(path: Path, rules: str = "as_run") -> Library:
    """The library of the TOML file at `path`; `rules` is for domains whose entry names no rule set."""
    _, table = read_toml(path, "library")
    _check(table, TOP, str(path))
    match = table.get("match")
    if match not in (None, "name"):
        raise JatpoError(f"{path}: match = '{match}' is unknown: use match = \"name\" or leave it out")
    if len(table.get("model", [])) > MOST_MODELS:
        raise JatpoError(
            f"{path} has {len(table['model'])} [[model]] tables: at most {MOST_MODELS} are possible"
        )
    settings = {key: table[key] for key in ("beliefs", "tolerance") if key in table}
    return combine(
        [
            _entry(entry, path, f"{path}: model {number}", rules)
            for number, entry in enumerate(table.get("model", []))
        ],
        match=match,
        name=table.get("name", path.stem),
        prior=table.get("prior"),
        horizon=table.get("horizon", HORIZON),
        published=Published(**settings) if settings else None,
    )


def _entry(entry: dict[str, Any], path: Path, where: str, rules: str) -> Library:
    """The models of one [[model]] table."""
    _check(entry, ENTRY, where)
    if "file" in entry and "domain" in entry:
        raise JatpoError(f"{where} names a file and a domain: give one of them")
    if "file" not in entry and "domain" not in entry:
        raise JatpoError(f"{where} names neither a file nor a domain: give one of them")
    found = _of_file(entry, path, where) if "file" in entry else _of_domain(entry, rules)
    policy, label = entry.get("policy"), entry.get("label")
    if found.num_models > 1 and (policy or label):
        raise JatpoError(
            f"{where} stands for {found.num_models} models and has one policy or label: add 'model = 0'"
        )
    if label is not None:
        found = found.with_labels([label])
    if policy is not None:
        found = found.with_policies([read_policy(path.parent / policy, found.member(0))])
    return found


def _of_file(entry: dict[str, Any], path: Path, where: str) -> Library:
    for key in ("model", "rules", "overrides"):
        if key in entry:
            raise JatpoError(f"{where} is a file and cannot have '{key}': that is for domains")
    return read_model(path.parent / entry["file"])


def read_model(file: Path) -> Library:
    """A library of the one model in a file of any format."""
    model = formats.read(file, formats.find(file, "model"))
    if not isinstance(model, POMDP):
        raise JatpoError(f"the reader of {file} returned a {type(model).__name__}: return a POMDP")
    return Library.from_models([model], name=file.stem, labels=[file.stem], origins=[Origin(file=str(file))])


def _of_domain(entry: dict[str, Any], rules: str) -> Library:
    overrides = entry.get("overrides", {})
    known = domains.get(entry["domain"]).parameters
    for name in overrides:
        if name not in known:
            hint = nearest(name, known) or f"; choose from {', '.join(known) or 'none'}"
            raise JatpoError(f"domain '{entry['domain']}' has no parameter '{name}'{hint}")
    options = {"model": entry.get("model"), **overrides}
    return domains.library(entry["domain"], entry.get("rules", rules), **options)


def _check(table: dict[str, Any], known: dict[str, str], where: str) -> None:
    """Refuse keys that are unknown and values of the wrong kind."""
    for key, value in table.items():
        if key not in known:
            raise JatpoError(
                f"{where} has an unknown key '{shown(key)}'{nearest(shown(key), known) or _choose(known)}"
            )
        if not _fits(value, known[key]):
            raise JatpoError(f"{where} has {key} = {shown(repr(value))}, expected {known[key]}")


def _choose(known: dict[str, str]) -> str:
    return f"; choose from {', '.join(known)}"


def _fits(value: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "a table":
        return isinstance(value, dict)
    if kind == "a positive number":
        return _is_number(value) and value > 0
    if kind == "a list of numbers":
        return isinstance(value, list) and all(_is_number(part) for part in value)
    if kind == "[[model]] tables":
        return isinstance(value, list) and all(isinstance(part, dict) for part in value)
    return _is_number(value) and isinstance(value, int) and int(kind.split()[-2]) <= value <= LARGEST


def _is_number(value: Any) -> bool:
    """Whether `value` is a number that a float can hold; NaN and infinities are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300


formats.register(formats.Format("library", "library", (".toml",), read_manifest))
