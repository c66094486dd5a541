"""What `jatpo experiment beyond` found, as a figure and as a section of the report.

The figure has discounted returns in per cent of informed Perseus's, so that all domains fit one axis and the
upper bound fits on it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from jatpo.report import html_tables
from jatpo.report.panels import Figure, Panel, categories, interval
from jatpo.report.results import Results, Row
from jatpo.report.style import INK, MUTED, Mark, mark

UPPER = Mark(INK, "|", "upper bound")
COLUMNS = ("domain", "rules", "agent", "discounted", "scaled", "scaled_low", "scaled_high", "upper")


def figure(results: Results) -> Figure | None:
    """Every agent's discounted return and the upper bound, in per cent of informed Perseus; a panel per rule set."""
    rows = [row for row in results["beyond"] if row.get("scaled") is not None]
    panels = [
        Panel(rules, _panel([row for row in rows if row["rules"] == rules]), _size(rows, rules))
        for rules in dict.fromkeys(row["rules"] for row in rows)
    ]
    if not panels:
        return None
    agents = dict.fromkeys(row["agent"] for row in rows if row["agent"] != "perseus")
    informed = Mark(MUTED, "line", "informed Perseus (100)", "--")
    legend = [*(mark(agent) for agent in agents), informed]
    legend += [UPPER] if any(row.get("upper") is not None for row in rows) else []
    title = "Beyond ATPO: discounted return, per cent of informed Perseus"
    return Figure("beyond", title, panels, legend, COLUMNS, rows, columns_of_panels=2)


def _size(rows: Sequence[Row], rules: str) -> tuple[float, float]:
    domains = {row["domain"] for row in rows if row["rules"] == rules}
    return 5.2, 0.9 + 0.62 * max(len(domains), 2)


def _panel(rows: Sequence[Row]) -> Callable[[Any], None]:
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    agents = [name for name in dict.fromkeys(row["agent"] for row in rows) if name != "perseus"]

    def draw(axes: Any) -> None:
        axes.axvline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
        for row in rows:
            place = domains.index(row["domain"])
            if row["agent"] == "perseus":
                _bound(axes, row, place)
                continue
            offset = 0.72 * ((agents.index(row["agent"]) + 0.5) / len(agents) - 0.5)
            interval(
                axes, row["scaled"], row["scaled_low"], row["scaled_high"], place + offset, mark(row["agent"])
            )
        categories(axes, domains)
        axes.set_xlabel("discounted return, per cent of informed Perseus")

    return draw


def _bound(axes: Any, row: Row, place: float) -> None:
    """The upper bound of a domain, as a line across its agents."""
    if row.get("upper") is not None and row["discounted"] > 0:
        at = 100 * row["upper"] / row["discounted"]
        axes.plot([at, at], [place - 0.4, place + 0.4], color=UPPER.colour, linewidth=1.6)


def html(results: Results) -> str:
    """A few words and a table for the report page."""
    text = (
        "<p>The same library and the same filter, other rules to act by: the most likely model's policy, the vote "
        "of all models, look-ahead, and the policy of the joint problem, whose upper bound no agent with this library "
        "can pass. Discounted returns; <b>bold</b>: more than ATPO in the same trials (95&nbsp;%), "
        "<i>slanted</i>: less.</p>"
    )
    rows = results["beyond"]
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    cells = {(row["rules"], row["domain"], row["agent"]): row for row in rows}
    columns = [html_tables.Column("domain", lambda row: escape(row["domain"]), number=False)]
    columns.append(html_tables.Column("rules", lambda row: escape(row["rules"]), number=False))
    columns += [html_tables.Column(label(agent), _html_cell(cells, agent)) for agent in agents]
    columns.append(
        html_tables.Column("upper bound", lambda row: number(row.get("upper"), 2) or html_tables.NOTHING)
    )
    one_each = {(row["rules"], row["domain"]): row for row in rows}
    return text + html_tables.table("beyond-table", columns, list(one_each.values()))


def _html_cell(cells: Mapping[tuple, Row], agent: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        own = cells.get((row["rules"], row["domain"], agent))
        if own is None:
            return html_tables.NOTHING
        text = f"{own['discounted']:z.2f}"
        low, high = (own.get(f"minus_atpo_discounted_{end}") for end in ("low", "high"))
        if low is not None and low > 0:
            return f"<b>{text}</b>"
        return f"<i>{text}</i>" if high is not None and high < 0 else text

    return cell


def label(agent: str) -> str:
    """An agent's name in a table."""
    return "informed Perseus" if agent == "perseus" else mark(agent).label


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
