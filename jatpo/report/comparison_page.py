"""The comparison as a Markdown page (docs/results.md): every cell, how it fits, and what does not."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from jatpo.disk import write_whole
from jatpo.tables import Table, interval_text, number_text
from jatpo.version import __version__

LABELS = {
    "value_iteration": "value iteration",
    "random_picker": "random picker",
    "atpo": "ATPO",
    "bopa": "BOPA",
    "perseus": "Perseus",
}
Row = Mapping[str, Any]


def write_page(
    path: str | os.PathLike[str], tables: Mapping[str, Sequence[Row]], settings: Mapping[str, Any]
) -> None:
    """Write the page whole or not at all."""
    write_whole(path, page(tables["summary"], settings))


def page(rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
    """The whole page."""
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    parts = [_head(rows, settings), _overview(rows, domains), _misfits(rows)]
    parts += [_domain(name, [row for row in rows if row["domain"] == name]) for name in domains]
    return "\n\n".join(part for part in parts if part) + "\n"


def label(agent: str) -> str:
    """An agent's name for people."""
    return LABELS.get(agent, agent)


def _head(rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
    compared = [row for row in rows if row["compatible"] is not None]
    fitting = sum(bool(row["compatible"]) for row in compared)
    names = " ".join(dict.fromkeys(row["domain"] for row in rows))
    options = f"--trials {settings['trials']} --seed {settings['seed']} --rules {settings['rules']}"
    options += f" --preset {settings['preset']} --page docs/results.md"
    return "\n".join(
        [
            "# Results",
            "",
            f"Made by `jatpo evaluate {names} {options}` (jatpo {__version__}; {settings['solver']}).",
            "",
            f"{settings['trials']} trials for each agent and domain, the same worlds for all agents. A cell "
            "is compatible with the paper when the means differ by at most three standard errors, ours and "
            f"theirs (32 trials) together: **{fitting} of {len(compared)}** cells are.",
        ]
    )


def _overview(rows: Sequence[Row], domains: Sequence[str]) -> str:
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    cells = {(row["domain"], row["agent"]): row for row in rows}
    lines = [[name, *(_cell(cells.get((name, agent))) for agent in agents)] for name in domains]
    return f"## Mean returns, ours (published)\n\n{_markdown(['domain', *map(label, agents)], lines)}"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    theirs = "" if row["published_mean"] is None else f" ({row['published_mean']:z.1f})"
    if row["mean"] is None:
        return f"N.A.{theirs}"
    text = f"{row['mean']:z.1f}{theirs}"
    return f"**{text}**" if row["compatible"] is False else text


def _misfits(rows: Sequence[Row]) -> str:
    found = [row for row in rows if row["compatible"] is False]
    if not found:
        return ""
    words = (
        "The last column says how often 32 of our own trials, drawn at random, have a mean as far off: where a "
        "few trials fail badly, a small sample without them has a high mean and a small error at once."
    )
    head = ["domain", "agent", "ours", "published", "difference in standard errors", "p-value"]
    lines = []
    for row in found:
        theirs = f"{row['published_mean']:z.2f} ± {row['published_std']:z.2f}"
        ours = f"{row['mean']:z.2f} ± {number_text(row['std'])}"
        measures = [f"{row['deviation']:+z.1f}", f"{100 * row['chance']:.2g} %"]
        lines.append([row["domain"], label(row["agent"]), ours, theirs, *measures])
    return f"## Cells that do not fit\n\n{words}\n\n{_markdown(head, lines)}"


def _domain(name: str, rows: Sequence[Row]) -> str:
    head = ["agent", "mean", "std", "95 % interval", "published", "compatible", "relative %", "ATPO minus it"]
    mix = next((row["mix"] for row in rows if row.get("mix", "uniform") != "uniform"), None)
    words = f"True models weighted {mix}, as in the published trials.\n\n" if mix else ""
    return f"## {name}\n\n{words}{_markdown(head, [_agent_cells(row) for row in rows])}"


def _agent_cells(row: Row) -> list[str]:
    theirs = (
        "" if row["published_mean"] is None else f"{row['published_mean']:z.2f} ± {row['published_std']:z.2f}"
    )
    if row["mean"] is None:
        return [label(row["agent"]), f"N.A.: {row['reason']}", "", "", theirs, "", "", ""]
    fits = {True: "yes", False: "no", None: ""}[row["compatible"]]
    relative = "" if row.get("relative") is None else f"{row['relative']:z.1f}"
    paired = ""
    if row.get("atpo_minus") is not None:
        ends = interval_text(row["atpo_minus_low"], row["atpo_minus_high"], "+z.2f")
        paired = f"{row['atpo_minus']:+z.2f} ({ends})"
    numbers = [f"{row['mean']:z.2f}", number_text(row["std"]), interval_text(row["low"], row["high"])]
    return [label(row["agent"]), *numbers, theirs, fits, relative, paired]


def _markdown(headers: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return Table.of(headers, lines).to_markdown().rstrip()
