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
model = 0                 # without it, all models of the domain
rules = "as_written"
overrides = { noise = 0.1 }
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from jatpo.errors import JatpoError, nearest
from jatpo.files.library import Member, Origin, Settings, UserLibrary, combine

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


def read_manifest(path: Path, rules: str) -> UserLibrary:
    """The library of the TOML file at `path`; `rules` is for domains whose entry names no rule set."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise JatpoError(f"{path} is no TOML file: {error}") from error
    _check(table, TOP, str(path))
    match = table.get("match")
    if match not in (None, "name"):
        raise JatpoError(f"{path}: match = '{match}' is unknown: use match = \"name\" or leave it out")
    members = []
    for number, entry in enumerate(table.get("model", [])):
        members += _members(entry, path, f"{path}: model {number}", rules)
    settings = {key: table[key] for key in ("horizon", "beliefs", "tolerance") if key in table}
    return combine(
        table.get("name", path.stem),
        members,
        prior=table.get("prior"),
        settings=Settings(**settings),
        match=match,
    )


def _members(entry: dict[str, Any], path: Path, where: str, rules: str) -> list[Member]:
    """The models of one [[model]] table."""
    from jatpo.files.policies import read_policy

    _check(entry, ENTRY, where)
    if "file" in entry and "domain" in entry:
        raise JatpoError(f"{where} names a file and a domain: give one of them")
    if "file" not in entry and "domain" not in entry:
        raise JatpoError(f"{where} names neither a file nor a domain: give one of them")
    if "file" in entry:
        for key in ("model", "rules", "overrides"):
            if key in entry:
                raise JatpoError(f"{where} is a file and cannot have '{key}': that is for domains")
        members = [_of_file(entry, path)]
    else:
        members = of_domain(
            entry["domain"], entry.get("model"), entry.get("rules", rules), entry.get("overrides", {})
        )
    if len(members) > 1 and ("policy" in entry or "label" in entry):
        raise JatpoError(
            f"{where} stands for {len(members)} models and has one policy or label: add 'model = 0'"
        )
    (first, *rest) = members
    policy = read_policy(path.parent / entry["policy"], first.model) if "policy" in entry else None
    return [Member(first.model, entry.get("label", first.label), first.origin, policy), *rest]


def _of_file(entry: dict[str, Any], path: Path) -> Member:
    from jatpo.files.reader import read_pomdp

    file = path.parent / entry["file"]
    return Member(read_pomdp(file), file.stem, Origin(file=str(file)))


def of_domain(
    name: str, model: int | None, rules: str, overrides: dict[str, Any], pool: bool = False
) -> list[Member]:
    """A model of a domain, or those of its library, or with `pool` all there are."""
    from jatpo import domains

    labels = domains.get(name).labels(rules, **overrides)
    count = len(labels) if pool else min(len(labels), domains.get(name).models)
    numbers = range(count) if model is None else [model]
    origins = [Origin(domain=name, model=number, rules=rules, overrides=overrides) for number in numbers]
    models = [domains.make(name, number, rules, **overrides) for number in numbers]
    return [
        Member(made, labels[origin.model or 0], origin) for made, origin in zip(models, origins, strict=True)
    ]


def _check(table: dict[str, Any], known: dict[str, str], where: str) -> None:
    """Refuse keys that are unknown and values of the wrong kind."""
    for key, value in table.items():
        if key not in known:
            raise JatpoError(
                f"{where} has a key '{key}' that means nothing{nearest(key, known) or _choose(known)}"
            )
        if not _fits(value, known[key]):
            raise JatpoError(f"{where} has {key} = {value!r}, expected {known[key]}")


def _choose(known: dict[str, str]) -> str:
    return f"; choose from {', '.join(known)}"


def _fits(value: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "a table":
        return isinstance(value, dict)
    if kind == "a positive number":
        return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if kind == "a list of numbers":
        return isinstance(value, list) and all(isinstance(part, int | float) for part in value)
    if kind == "[[model]] tables":
        return isinstance(value, list) and all(isinstance(part, dict) for part in value)
    return isinstance(value, int) and not isinstance(value, bool) and value >= int(kind.split()[-2])
