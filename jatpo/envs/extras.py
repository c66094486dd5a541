"""Packages that are not installed with jatpo: one sentence where one is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from jatpo.errors import JatpoError


class MissingExtra(JatpoError, ImportError):
    """A package that an environment needs is not installed."""


def require(package: str, extra: str) -> ModuleType:
    """The package `package`, which jatpo's extra `extra` installs for the environments of that name."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtra(
            f"jatpo.envs.{extra} needs the package {package}: install it with pip install 'jatpo[{extra}]'"
        ) from None
