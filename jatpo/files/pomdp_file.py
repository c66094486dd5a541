"""The model in a Cassandra file as a POMDP, in a storage that fits the machine."""

from __future__ import annotations

import os

from jatpo.files import model_builder
from jatpo.files.naming import Originals
from jatpo.files.preamble import Preamble
from jatpo.files.reader import naming_the_file, read_statements
from jatpo.files.spec import Spec
from jatpo.model import POMDP


def read_pomdp(path: str | os.PathLike[str], *, storage: str = "auto", dtype: type | None = None) -> POMDP:
    """The model in the Cassandra file at `path`.

    Rounding dust in its probabilities is reported as a `RenormalisedWarning` that names the file.
    """
    found = read_statements(path)
    return naming_the_file(
        path, lambda: model(found.preamble, found.specs, found.originals, storage=storage, dtype=dtype)
    )


def model(
    preamble: Preamble, specs: dict[str, Spec], originals: Originals, *, storage: str, dtype: type | None
) -> POMDP:
    """The model that the preamble and the writes of a file describe."""
    found = model_builder.checked_model(preamble, specs, originals)
    with model_builder.in_file(preamble.path):
        if storage == "auto":
            storage = model_builder.fitting_storage(found)
        return POMDP.from_checked(*found, storage, dtype)
