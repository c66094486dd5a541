"""Options and arguments that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from jatpo.errors import JatpoError, unknown

SOURCES = "Domains, files or libraries; 'all': all domains"


def domain_names(incomplete: str) -> list[str]:
    """The domains whose names begin with `incomplete`, for the completion of shells."""
    from jatpo.domains.domain import names

    return [name for name in names() if name.startswith(incomplete)]


Names = Annotated[list[str], typer.Argument(metavar="NAME", help=f"{SOURCES}.", autocompletion=domain_names)]
Model = Annotated[int | None, typer.Option(help="Only this model of each library; default: all models.")]
Pool = Annotated[
    bool,
    typer.Option("--pool", help="All models of a domain's pool; default: those of the paper's main table."),
]
Trials = Annotated[int, typer.Option(min=1, help="Trials for each agent.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of environments and agents.")]
RULES_HELP = "as_run: the rules behind the published tables; as_written: the paper's text"
Rules = Annotated[str, typer.Option(help=f"{RULES_HELP}.")]
Agents = Annotated[
    str | None, typer.Option(help="Agents by name, comma-separated; default: the paper's six.")
]
Preset = Annotated[
    str,
    typer.Option(
        help="exact: filters as in the paper's text; as_run: 1e-8 added, as in the published program."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Directory for results; the same command resumes there; default: results/evaluate; "
        "other settings get a new directory next to it."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]  # of commands that print no table
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


def names_of(agents: str | None) -> list[str] | None:
    """Comma-separated names of agents."""
    if agents is None:
        return None
    found = [name.strip() for name in agents.split(",") if name.strip()]
    if not found:
        raise JatpoError(f"--agents '{agents}' names no agent: give comma-separated names")
    return found


def check_rules(rules: str) -> None:
    """Refuse an unknown rule set at once."""
    from jatpo.domains.parameters import RULES

    if rules not in RULES:
        raise unknown("rule set", rules, RULES)


def chosen_sources(names: Sequence[str]) -> list[str]:
    """The domains, files and libraries named, each once; `all` stands for all domains."""
    from jatpo.files.sources import named_sources

    return named_sources(names)
