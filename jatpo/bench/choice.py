"""The domains that a benchmark runs on."""

from __future__ import annotations

from collections.abc import Sequence

from jatpo import domains

ALL = "all"


def chosen_domains(names: Sequence[str]) -> list[str]:
    """The names of domains, each once; `all` stands for all of them."""
    every = [each for name in names for each in (domains.names() if name == ALL else (name,))]
    return list(dict.fromkeys(domains.get(name).name for name in every))
