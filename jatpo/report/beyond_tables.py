"""The tables of `jatpo experiment beyond` in a Markdown page that is otherwise written by hand, between markers:

<!-- beyond: returns -->
...
<!-- end -->
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jatpo.disk import write_whole
from jatpo.errors import JatpoError
from jatpo.report.beyond_figure import label, number
from jatpo.report.results import Row
from jatpo.tables import Table

Tables = Mapping[str, Sequence[Row]]


def write_page(
    path: str | os.PathLike[str], found: Tables, settings: Mapping[str, object] | None = None
) -> None:
    """Put the tables that have rows between their markers in a Markdown page; a page that is not there is begun."""
    page = Path(path)
    try:
        text = page.read_text(encoding="utf-8") if page.exists() else _empty()
    except UnicodeDecodeError as error:
        raise JatpoError(
            f"{page} is not UTF-8 text: name a Markdown page or one that is not there"
        ) from error
    for name, make in MARKDOWN.items():
        rows = make(found)
        if rows:
            text = _between(text, name, rows, page)
    write_whole(page, text)


def _empty() -> str:
    places = "\n\n".join(f"<!-- beyond: {name} -->\n<!-- end -->" for name in MARKDOWN)
    return f"# Beyond ATPO\n\n{places}\n"


def _between(text: str, name: str, rows: str, page: Path) -> str:
    begin = f"<!-- beyond: {name} -->"
    found = re.search(rf"{re.escape(begin)}\n.*?<!-- end -->", text, flags=re.DOTALL)
    if found is None:
        raise JatpoError(f"{page} has no place for the table: add the lines '{begin}' and '<!-- end -->'")
    return f"{text[: found.start()]}{begin}\n{rows}\n<!-- end -->{text[found.end() :]}"


def _returns(found: Tables) -> str:
    """Mean returns, one line per domain, with the share of the gap recovered."""
    return _each_rules(found, "beyond", "mean return (share of ATPO's gap recovered, per cent)", _return_cell)


def _return_cell(row: Row) -> str:
    """The mean return: bold where it is above ATPO's in the same trials, slanted where it is below."""
    text = f"{row['mean']:z.1f}"
    if row.get("won") is not None and row.get("won_high") is not None:
        text += f" ({row['won']:.0f} ± {row['won_high'] - row['won']:.0f})"
    low, high = (row.get(f"minus_atpo_{end}") for end in ("low", "high"))
    if row["agent"] == "perseus":
        return text
    if low is not None and low > 0:
        return f"**{text}**"
    return f"*{text}*" if high is not None and high < 0 else text


def _discounted(found: Tables) -> str:
    """Discounted returns next to the bounds."""
    proofs = {(row["rules"], row["domain"]): row for row in found.get("certificates", ())}

    def upper(row: Row) -> str:
        return number(proofs.get((row["rules"], row["domain"]), {}).get("upper"), 2)

    more = {"upper bound": upper} if proofs else {}
    return _each_rules(
        found, "beyond", "mean discounted return", lambda row: f"{row['discounted']:z.2f}", more
    )


def _times(found: Tables) -> str:
    """Microseconds of a decision and steps until sure."""
    words = "microseconds of a decision / steps until the true model has 0.9 (median)"
    return _each_rules(
        found, "beyond", words, lambda row: f"{number(row.get('decision_us'), 0)} / {_sure(row)}"
    )


def _sure(row: Row) -> str:
    return "never" if row.get("median_steps_sure") is None else f"{row['median_steps_sure']:.0f}"


def _joint(found: Tables) -> str:
    """What solving cost and what it proved."""
    columns = {
        "domain": lambda row: row["domain"],
        "rules": lambda row: f"`{row['rules']}`",
        "models": lambda row: str(row["models"]),
        "seconds, single models": lambda row: number(row["library_seconds"], 1),
        "seconds, joint": lambda row: number(row["joint_seconds"], 1),
        "vectors": lambda row: str(row["vectors"]),
        "lower bound": lambda row: number(row["lower"], 2),
        "upper bound": lambda row: number(row["upper"], 2),
        "of ATPO's gap, per cent": _attainable,
    }
    lines = [[cell(row) for cell in columns.values()] for row in found.get("certificates", ())]
    return Table.of(list(columns), lines).to_markdown().rstrip() if lines else ""


def _attainable(row: Row) -> str:
    """The share of ATPO's discounted gap that the bounds prove can, and can at most, be won.

    Only where the gap exceeds the sampling error, a twentieth of the informed agent's return.
    """
    informed, base = row.get("informed"), row.get("atpo")
    if informed is None or base is None or informed - base < 0.05 * abs(informed):
        return ""
    shares = (100 * (row[bound] - base) / (informed - base) for bound in ("lower", "upper"))
    return " .. ".join(f"{min(max(share, 0), 100):.0f}" for share in shares)


def _stress(found: Tables) -> str:
    """Returns with a wrong library."""
    return _each_rules(
        found, "stress", "mean return", _plain_cell, name=lambda row: f"{row['domain']}, {row['scenario']}"
    )


def _sizes(found: Tables) -> str:
    """Returns as the library grows."""
    return _each_rules(
        found, "sizes", "mean return", _plain_cell, name=lambda row: f"{row['domain']}, {row['size']} models"
    )


def _plain_cell(row: Row) -> str:
    return _return_cell({**row, "won": None})


MARKDOWN: dict[str, Callable[[Tables], str]] = {
    "returns": _returns,
    "discounted": _discounted,
    "times": _times,
    "joint": _joint,
    "stress": _stress,
    "sizes": _sizes,
}


def _each_rules(
    found: Tables,
    table: str,
    words: str,
    cell: Callable[[Row], str],
    more: Mapping[str, Callable[[Row], str]] | None = None,
    name: Callable[[Row], str] = lambda row: row["domain"],
) -> str:
    """A table for each rule set: one line per domain, one column per agent, and `more` columns of a domain."""
    parts = []
    for rules in dict.fromkeys(row["rules"] for row in found.get(table, ())):
        rows = [row for row in found[table] if row["rules"] == rules]
        head = f"`{rules}`, {_trials(rows)} trials: {words}"
        parts.append(f"{head}\n\n{_wide(rows, cell, more or {}, name)}")
    return "\n\n".join(parts)


def _wide(
    rows: Sequence[Row],
    cell: Callable[[Row], str],
    more: Mapping[str, Callable[[Row], str]],
    name: Callable[[Row], str],
) -> str:
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    cells = {(name(row), row["agent"]): cell(row) for row in rows}
    first = {name(row): row for row in reversed(rows)}
    lines = [
        [
            each,
            *(cells.get((each, agent), "") for agent in agents),
            *(own(first[each]) for own in more.values()),
        ]
        for each in dict.fromkeys(map(name, rows))
    ]
    return Table.of(["domain", *map(label, agents), *more], lines).to_markdown().rstrip()


def _trials(rows: Sequence[Row]) -> str:
    counts = sorted({row["trials"] for row in rows})
    return " to ".join(dict.fromkeys(f"{count:,}" for count in (counts[0], counts[-1])))
