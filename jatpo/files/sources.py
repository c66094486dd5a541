"""`jatpo.load`: a library from whatever names one, a domain, one of its models, a file or a directory.

What follows a domain and a colon is the number of a model, parameters of the builder, or both:

    gridworld    gridworld:2    gridworld:size=16    gridworld:2,size=16,noise=0.1
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from jatpo import domains
from jatpo.errors import LONGER, JatpoError, RenormalisedWarning, nearest, shown
from jatpo.files import formats
from jatpo.files.combine import combine
from jatpo.files.manifest import read_manifest, read_model
from jatpo.files.policies import read_policy
from jatpo.files.writer import write_pomdp  # noqa: F401 - registers the format
from jatpo.library import Library, require_tables
from jatpo.simulators import SimulatorLibrary, simulator_catalogue
from jatpo.simulators.simulator_catalogue import SIMULATORS

MANIFEST = "library.toml"
ALL = "all"

Source = str | os.PathLike[str] | Library


def load(source: Source, *, rules: str = "as_run", pool: bool = False) -> Library:
    """The library that `source` names; a library is returned as it is.

    A domain (``gridworld``), one of its models (``gridworld:2``), a domain with other parameters
    (``gridworld:size=16``), a .POMDP file, a directory of such files or a TOML file. `rules` and `pool` are for
    domains. What was corrected on reading is in `notes`.
    """
    if isinstance(source, Library | SimulatorLibrary):
        return cast(Library, source)  # of tables or of simulators: callers distinguish them by `simulated`
    text = os.fspath(source)
    check_source(text)
    name = text.partition(":")[0]
    if simulator_catalogue.known(text):
        return cast(Library, simulator_catalogue.build(text))
    if name in domains.known():
        _, model, parameters = domains.parse(text)
        library = domains.library(name, rules, pool=pool, model=model, **parameters)
        return library.with_name(text) if parameters else library
    return _noted(Path(text), rules)


def load_tables(source: Source, *, rules: str = "as_run", pool: bool = False) -> Library:
    """`load`, for what needs the numbers of the models: a library of simulators is refused."""
    library = load(source, rules=rules, pool=pool)
    require_tables(library)
    return library


def check_source(text: str) -> None:
    """Refuse a name that is neither a domain's nor a file's; nothing is read."""
    name = text.partition(":")[0]
    if name not in domains.known() and name not in SIMULATORS and not os.path.exists(text):
        hint = nearest(name, domains.known()) or "; 'jatpo domains' lists the domains"
        raise JatpoError(f"no domain or file is called '{shown(text, LONGER)}'{hint}")


def named_sources(names: Sequence[str]) -> list[str]:
    """The domains, files and libraries named, each once; `all` stands for all domains. Unknown ones are refused."""
    chosen: list[str] = []
    for name in names:
        if name != ALL:
            check_source(name)
        chosen += domains.names() if name == ALL else [name]
    return list(dict.fromkeys(chosen))


def _noted(place: Path, rules: str) -> Library:
    """The library at `place`, with what was renormalised on reading as its notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RenormalisedWarning)
        library = _read(place, rules)
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, RenormalisedWarning)]
    for warning in caught:
        if not issubclass(warning.category, RenormalisedWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return library.with_notes(notes)


def _read(place: Path, rules: str) -> Library:
    if place.is_dir():
        return read_manifest(place / MANIFEST, rules) if (place / MANIFEST).is_file() else _directory(place)
    form = formats.find(place, "model", "library")
    return formats.read(place, form, rules) if form.holds == "library" else _file(place)


def _directory(place: Path) -> Library:
    """The model files of a directory in the order of their names."""
    files = sorted(file for file in place.iterdir() if file.is_file() and formats.holds(file) == "model")
    if not files:
        kinds = ", ".join(formats.suffixes("model"))
        raise JatpoError(f"directory {place} has no model files ({kinds}) and no {MANIFEST}: add one of them")
    return combine([_file(file) for file in files], name=place.resolve().name)


def _file(file: Path) -> Library:
    """A model with the policy of the same name next to it, if there is one."""
    library = read_model(file)
    places = (file.with_suffix(suffix) for suffix in formats.suffixes("policy"))
    beside = next((place for place in places if place.is_file()), None)
    if beside is None:
        return library
    return library.with_policies([read_policy(beside, library.member(0))])


domains.DOMAINS.share_names(SIMULATORS)
formats.FORMATS.protect()  # those imported above are built in
