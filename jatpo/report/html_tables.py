"""The tables of the report as HTML, each with its data as a CSV file to download.

Every cell carries the heading of its column (`data-label`): on a narrow screen rows become cards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from jatpo.report.results import Results, Row
from jatpo.report.style import mark
from jatpo.tables import Table, interval_text

LONGEST = 20  # rows of a table that is not folded
NOTHING = '<span class="none">–</span>'


class Column(NamedTuple):
    """A heading and what stands below it, as HTML."""

    heading: str
    cell: Callable[[Row], str]
    number: bool = True


def download(
    name: str, rows: Sequence[Row], columns: Sequence[str] | None = None, text: str = "This table as CSV"
) -> str:
    """A link that saves rows as a CSV file; nothing is fetched."""
    data = quote(Table(rows, columns or ()).to_csv())
    return f'<a class="csv" download="{escape(name)}.csv" href="data:text/csv;charset=utf-8,{data}">{escape(text)}</a>'


def table(name: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Rows under headings; the first column names the row."""
    head = "".join(f'<th scope="col"{_class(c)}>{c.heading}</th>' for c in columns)
    body = "".join(f"<tr>{_line(columns, row)}</tr>" for row in rows)
    made = f'<div class="wide"><table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    return made if len(rows) <= LONGEST else f"<details><summary>{len(rows)} rows</summary>{made}</details>"


def _line(columns: Sequence[Column], row: Row) -> str:
    first, *others = columns
    cells = [f'<th scope="row">{first.cell(row)}</th>']
    for column in others:
        cells.append(f'<td data-label="{column.heading}"{_class(column)}>{column.cell(row)}</td>')
    return "".join(cells)


def _class(column: Column) -> str:
    return ' class="number"' if column.number else ""


def field(name: str, format: str = "") -> Callable[[Row], str]:
    """A cell with the value of a field, formatted; a dash where there is none."""

    def cell(row: Row) -> str:
        value = row.get(name)
        return NOTHING if value is None else escape(f"{value:{format}}" if format else str(value))

    return cell


def seconds(value: float | None) -> str:
    """Seconds with two significant digits."""
    if value is None:
        return NOTHING
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s".replace(",", " ")


def times(results: Results) -> str:
    """Table 2: what it takes to set up and solve each domain's library."""

    def ratio(name: str) -> Callable[[Row], str]:
        return lambda row: NOTHING if row[name] is None else f"{row[name]:,.0f} ×".replace(",", " ")

    columns = [
        Column("domain", field("domain"), False),
        Column("models", field("models")),
        Column("set-up, published", lambda row: seconds(row["published_setup"])),
        Column("set-up, ours", lambda row: seconds(row["setup"])),
        Column("faster by", ratio("setup_ratio")),
        Column("solving, published", lambda row: seconds(row["published_solve"])),
        Column("solving, ours", lambda row: seconds(row["solve"])),
        Column("faster by ", ratio("solve_ratio")),
    ]
    return table("table-times", columns, results["times"])


def returns(results: Results) -> str:
    """Table 3: mean return with its interval, and the published one below."""
    return _matrix("table-returns", results, _return_cell)


def relative(results: Results) -> str:
    """Table 4: per cent of the way from random to value iteration."""
    return _matrix("table-relative", results, _relative_cell)


def _matrix(name: str, results: Results, cell: Callable[[Row | None], str]) -> str:
    """Domains down, agents across."""
    agents = list(dict.fromkeys(row["agent"] for row in results["summary"]))
    found = {(row["domain"], row["agent"]): row for row in results["summary"]}

    def column(agent: str) -> Column:
        return Column(mark(agent).label, lambda row: cell(found.get((row["domain"], agent))))

    columns = [Column("domain", field("domain"), False), *map(column, agents)]
    return table(name, columns, [{"domain": domain} for domain in results.domains()])


def _return_cell(row: Row | None) -> str:
    if row is None or row["mean"] is None:
        reason = escape(row.get("reason") or "the trials do not cover every model") if row else ""
        return f'<span class="none" title="{reason}">N.A.</span>'
    ours = _value(row["agent"], f"{row['mean']:z.2f}")
    interval = f'<small class="interval">{interval_text(row["low"], row["high"], between=" to ")}</small>'
    if row["published_mean"] is None:
        return f"{ours}{interval}"
    fits = row.get("compatible")
    sign = {True: '<b class="fits">✓</b>', False: '<b class="misfit">✗</b>', None: ""}[fits]
    theirs = f"{row['published_mean']:z.2f} ± {row['published_std']:z.2f}"
    return f'{ours}{interval}<small class="paper">{theirs} {sign}</small>'


def _relative_cell(row: Row | None) -> str:
    if row is None or row.get("relative") is None:
        return '<span class="none">N.A.</span>'
    text = _value(row["agent"], f"{row['relative']:z.1f} %")
    if row["agent"] not in ("random", "value_iteration"):
        ends = interval_text(row["relative_low"], row["relative_high"], "z.1f", " to ")
        text += f'<small class="interval">{ends}</small>'
    if row["published_relative"] is not None:
        text += f'<small class="paper">{row["published_relative"]:z.1f} %</small>'
    return text


def _value(agent: str, text: str) -> str:
    return f"<strong>{text}</strong>" if agent == "atpo" else f"<span>{text}</span>"


def differences(results: Results) -> str:
    """ATPO minus each other agent, trial by trial, and the conclusion."""
    agents = [agent for agent in dict.fromkeys(row["agent"] for row in results["summary"]) if agent != "atpo"]
    found = {(row["domain"], row["agent"]): row for row in results["summary"]}

    def cell(row: Row | None) -> str:
        if row is None or row.get("atpo_minus") is None:
            return '<span class="none">N.A.</span>'
        low, high = row["atpo_minus_low"], row["atpo_minus_high"]
        kind = "better" if low > 0 else "worse" if high < 0 else "even"
        middle = f'<span class="{kind}">{row["atpo_minus"]:+z.2f}</span>'
        return f'{middle}<small class="interval">{low:+z.2f} to {high:+z.2f}</small>'

    def column(agent: str) -> Column:
        return Column(f"minus {mark(agent).label}", lambda row: cell(found.get((row["domain"], agent))))

    columns = [Column("domain", field("domain"), False), *map(column, agents)]
    return table("table-differences", columns, [{"domain": domain} for domain in results.domains()])


def bounds(results: Results) -> str:
    """What the solver proves of every model."""
    columns = [
        Column("model", lambda row: escape(f"{row['domain']} {row['model']}"), False),
        Column("what it is", field("label"), False),
        Column("states", field("states")),
        Column("lower", field("lower", "z.2f")),
        Column("upper", field("upper", "z.2f")),
        Column("vectors", field("vectors")),
        Column("stages", field("stages")),
        Column("time", lambda row: seconds(row["seconds"])),
        Column("status", field("status"), False),
    ]
    return table("table-bounds", columns, results["solutions"])


def identification(results: Results) -> str:
    """The probability of the true model after some steps."""

    def at(step: str) -> Callable[[Row], str]:
        def cell(row: Row) -> str:
            text = field(f"probability_{step}", "z.2f")(row)
            theirs = row.get(f"published_{step}")
            return text if theirs is None else f'{text}<small class="paper">{theirs:z.2f}</small>'

        return cell

    def name(row: Row) -> str:
        return escape(f"{row['domain']}, {mark(row['agent']).label}")

    columns = [Column("domain, agent", name, False)]
    columns += [Column(f"step {step}", at(step)) for step in ("5", "10", "20")]
    columns += [
        Column("end", at("end")),
        Column("steps until it leads", field("median_steps_lead", ".0f")),
        Column("steps until 0.9", field("median_steps_sure", ".0f")),
        Column("trials that reach 0.9", lambda row: f"{100 * row['share_sure']:.0f} %"),
    ]
    return table(
        "table-identification", columns, [row for row in results["identification"] if "reason" not in row]
    )


def rules(results: Results) -> str:
    """The parameters in which the rule sets differ."""
    columns = [
        Column("domain", field("domain"), False),
        Column("parameter", lambda row: f"<code>{escape(row['parameter'])}</code>", False),
        Column("as_run", field("as_run"), False),
        Column("as_written", field("as_written"), False),
        Column("meaning", field("meaning"), False),
    ]
    return table("table-rules", columns, results["rules"])


def effects(results: Results) -> str:
    """What the rule sets change: exact returns, and how many pairs of models can be distinguished."""
    found = {(row["domain"], row["rules"]): row for row in results["effects"]}

    def pair(name: str) -> Callable[[Row], str]:
        def cell(row: Row) -> str:
            one, other = (found[row["domain"], rules][name] for rules in ("as_run", "as_written"))
            return f"{one:z.2f} → {other:z.2f}"

        return cell

    def apart(row: Row) -> str:
        one, other = (found[row["domain"], rules] for rules in ("as_run", "as_written"))
        return f"{one['distinguishable']} → {other['distinguishable']} of {one['pairs']}"

    columns = [
        Column("domain", field("domain"), False),
        Column("value iteration, as_run → as_written", pair("value_iteration")),
        Column("random, as_run → as_written", pair("random")),
        Column("pairs of distinguishable models", apart),
    ]
    return table("table-effects", columns, [{"domain": name} for name in results.domains("effects")])
