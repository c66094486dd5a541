"""A whole study in one TOML file: libraries, agents, trials, seeds and experiments.

    name = "walls"
    libraries = ["gridworld", "walls/library.toml"]   # paths are relative to this file
    agents = ["atpo", "perseus", "random"]            # default: each experiment's own
    trials = 256
    seeds = [0, 1]
    rules = "as_run"
    preset = "exact"

    [solve]                                           # as the options of `jatpo solve`
    seconds = 10
    settings = { capacity = 16384 }

    [[experiments]]                                   # default: evaluate alone
    name = "evaluate"
    baseline = "atpo"                                 # the experiment's own options, without --

    [[experiments]]
    name = "identification"
    trials = 64
    libraries = ["gridworld"]

`run_study` keeps every experiment and seed in a directory of its own and resumes there.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jatpo.errors import JatpoError, nearest, shown
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.experiment import EXPERIMENTS, Config, Experiment, chosen_sources, run
from jatpo.events import OnEvent, ignore
from jatpo.files.guard import read_toml
from jatpo.solve import SOLVERS, Request, Stop
from jatpo.tables import Table

Fields = Mapping[str, Any]  # a table of the TOML file
SHARED = ("libraries", "agents", "trials", "seeds", "rules", "preset", "solve")
LARGEST_NUMBER = 1e300
LARGEST_SEED = (1 << 63) - 1
LIMITS = ("solver", "seconds", "gap", "stages", "settings")


@dataclass(frozen=True)
class Part:
    """One experiment of a study with its options."""

    label: str
    experiment: Experiment
    libraries: tuple[str, ...] | None
    agents: tuple[str, ...] | None
    config: Config
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Study:
    """What a file describes."""

    name: str
    parts: tuple[Part, ...]
    text: str = field(repr=False, default="")


@dataclass(frozen=True)
class Finished:
    """One experiment of a study, run with one seed: its tables, and those for people."""

    part: Part
    seed: int
    directory: Path
    tables: Mapping[str, Table]
    shown: Sequence[Table]


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study that a TOML file describes; what is wrong in it is refused before any work."""
    file = Path(path)
    text, found = read_toml(file, "study")
    _check_keys(found, ("name", *SHARED, "experiments"), f"{file}")
    shared = {name: found[name] for name in SHARED if name in found}
    entries = found.get("experiments", [{"name": "evaluate"}])
    if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
        raise JatpoError(f"{file}: experiments must be [[experiments]] tables, each with a name")
    parts: list[Part] = []
    for entry in entries:
        part = _part({**shared, **entry}, file, f"{file}: experiment {shown(str(entry.get('name', '?')))}")
        taken = [each.label for each in parts if each.label.split("#")[0] == part.label]
        parts.append(replace(part, label=f"{part.label}#{len(taken) + 1}") if taken else part)
    return Study(_text(found.get("name", file.stem), f"{file}: name"), tuple(parts), text)


def _part(fields: Fields, file: Path, where: str) -> Part:
    """One experiment, from its own fields and those of the whole study."""
    name = _text(fields.get("name"), f"{where}: name")
    kind = EXPERIMENTS.get(name)
    own = {each.name: each for each in dataclasses.fields(kind) if "help" in each.metadata}  # type: ignore[arg-type]
    _check_keys(fields, ("name", *SHARED, *own), where)
    options = {
        key: _option(each.metadata, each, fields[key], f"{where}: {key}")
        for key, each in own.items()
        if key in fields
    }
    libraries = _list(fields.get("libraries"), str, f"{where}: libraries")
    agents = _list(fields.get("agents"), str, f"{where}: agents")
    trials, seeds = fields.get("trials"), _list(fields.get("seeds", [0]), int, f"{where}: seeds")
    if trials is not None and (type(trials) is not int or trials < 1):
        raise JatpoError(f"{where}: trials must be a whole number of at least 1, got {shown(repr(trials))}")
    if min(seeds) < 0 or max(seeds) > LARGEST_SEED or len(set(seeds)) < len(seeds):
        raise JatpoError(
            f"{where}: seeds must be different whole numbers from 0 to {LARGEST_SEED}, got {shown(repr([*seeds]))}"
        )
    config = Config(
        trials=trials,
        rules=_text(fields.get("rules", "as_run"), f"{where}: rules"),
        preset=_text(fields.get("preset", "exact"), f"{where}: preset"),
        request=_request(fields.get("solve", {}), f"{where}: solve"),
    )
    if libraries is not None:
        libraries = tuple(_source(each, file.parent) for each in libraries)
        chosen_sources(libraries)
    choose_agents(agents or kind.agents, config.preset)
    return Part(kind.name, kind(**options), libraries, agents, config, seeds)


def _source(name: str, folder: Path) -> str:
    """A library; a path is relative to the file of the study."""
    return str(folder / name) if os.path.exists(folder / name) else name


def _option(metadata: Mapping[str, Any], each: dataclasses.Field[Any], value: Any, where: str) -> Any:
    """The value of an experiment's own option."""
    if metadata["parse"] is not None:
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        try:
            return metadata["parse"](text)
        except JatpoError as error:
            raise JatpoError(f"{where}: {error}") from error
    wanted = type(metadata["text"])
    if wanted is float and type(value) is int:
        value = float(value)
    if metadata["text"] is not None and type(value) is not wanted:
        raise JatpoError(f"{where} must be of type {wanted.__name__}, got {shown(repr(value))}")
    return value


def _request(fields: Fields, where: str) -> Request:
    """How models are solved."""
    if not isinstance(fields, dict):
        raise JatpoError(f"{where} must be a table such as {{ seconds = 10 }}, got {shown(repr(fields))}")
    _check_keys(fields, LIMITS, where)
    for name in ("seconds", "gap", "stages"):
        if name in fields:
            _check_number(fields[name], f"{where}: {name}")
    settings = fields.get("settings", {})
    if not isinstance(settings, dict):
        raise JatpoError(
            f"{where}: settings must be a table such as {{ capacity = 16384 }}, got {shown(repr(settings))}"
        )
    for name, value in settings.items():
        _check_number(value, f"{where}: settings: {shown(name)}")
    Stop(fields.get("seconds", 0.0), fields.get("gap", 0.0), fields.get("stages", 0))
    if "solver" in fields:
        SOLVERS.get(_text(fields["solver"], f"{where}: solver"))
    return Request(**fields)


def _check_keys(fields: Fields, known: Sequence[str], where: str) -> None:
    for key in fields:
        if key not in known:
            name = shown(key)
            hint = nearest(name, known) or f"; known keys: {', '.join(known)}"
            raise JatpoError(f"{where}: unknown key '{name}'{hint}")


def _check_number(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST_NUMBER:
        raise JatpoError(f"{where} must be a finite number, got {shown(repr(value))}")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise JatpoError(f"{where} must be a text, got {shown(repr(value))}")
    return value


def _list(value: Any, kind: type, where: str) -> Any:
    """A tuple of values of one type; None stays None."""
    if value is None:
        return None
    if not isinstance(value, list) or not value or any(type(each) is not kind for each in value):
        raise JatpoError(
            f"{where} must be a list of values of type {kind.__name__}, got {shown(repr(value))}"
        )
    return tuple(value)


def run_study(study: Study, directory: str | os.PathLike[str], on_event: OnEvent = ignore) -> list[Finished]:
    """Run all experiments with all seeds; each has a directory inside `directory`, where the same call resumes."""
    found = []
    for part in study.parts:
        for seed in part.seeds:
            place = Path(directory) / part.label / f"seed-{seed}"
            config = replace(part.config, seed=seed)
            tables = run(part.experiment, part.libraries, part.agents, config, place, on_event)
            found.append(Finished(part, seed, place, tables, part.experiment.shown(tables)))
    return found
