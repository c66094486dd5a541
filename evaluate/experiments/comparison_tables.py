"""The comparison as it is printed: columns that have something to say, agents that differ, notes on the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jatpo.tables import NOT_AVAILABLE, Column, Row, Table, distinct_endings, interval_text, number_text

NEAR = 0.1  # bounds are worth a comparison where their gap is at most this share of the larger one
COLUMNS = (
    Column("domain"),
    Column("agent"),
    Column("mean", align="right"),
    Column("std", align="right", optional=True),
    Column("interval", "95 % interval", align="right"),
    Column("discounted", short="disc.", align="right", optional=True),
    Column("published", align="right", optional=True),
    Column("compatible", short="comp.", align="right", optional=True),
    Column("relative", "relative %", align="right", optional=True),
    Column("published_relative", "published %", align="right", optional=True),
)
PAIRED = (
    Column("domain"),
    Column("agent", "rival"),
    Column("difference", align="right"),
    Column("interval", "95 % interval", align="right"),
)
OVERALL = (
    Column("agent"),
    Column("iqm", "interquartile mean", "z.3f", short="IQM"),
    Column("iqm_interval", "95 % interval", align="right"),
    Column("mean", format="z.3f", optional=True),
    Column("improvement", format="z.3f"),
    Column("improvement_interval", "95 % interval", align="right", optional=True),
)


def shown(tables: Mapping[str, Table], baseline: str) -> list[Table]:
    """The comparison, the paired differences, and the measures over several domains."""
    rows = tables["summary"].rows
    found = [_compared(rows)]
    pairs = [_pair(row) for row in rows if row.get("baseline_minus") is not None and not row["same_as"]]
    name = "ATPO" if baseline == "atpo" else baseline
    if pairs:
        found.append(Table(pairs, PAIRED, f"{name} minus rival, paired"))
    if "aggregate" in tables:
        found.append(_over_domains(tables["aggregate"].rows, name))
    return found


def _compared(rows: Sequence[Row]) -> Table:
    near = {row["domain"]: row for row in rows if row["mean"] is not None and bounds_are_near(row)}
    lines = [_line(row, row["domain"] in near) for row in rows if not row.get("same_as")]
    columns = [each for each in COLUMNS if any(line[each.key] is not None for line in lines)]
    names = distinct_endings(row["domain"] for row in rows)
    notes = [_bounds_note(names[domain], row) for domain, row in near.items()]
    for domain, name in names.items():
        same = {
            row["agent"]: row["same_as"] for row in rows if row["domain"] == domain and row.get("same_as")
        }
        if same:
            pairs = ", ".join(f"{agent} with {first}" for agent, first in same.items())
            notes.append(f"{name} has one model, so these agents coincide and are not listed: {pairs}")
    return Table(lines, columns, notes=notes)


def bounds_are_near(row: Row) -> bool:
    """Whether a row has bounds of a solver that are close to each other."""
    lower, upper = row.get("lower"), row.get("upper")
    if lower is None or upper is None or not math.isfinite(upper - lower):
        return False
    return upper - lower <= NEAR * max(abs(lower), abs(upper))


def _bounds_note(name: str, row: Row) -> str:
    return (
        f"{name}: mean is the undiscounted return over {row['horizon']} steps; compare the discounted return with "
        f"the solver's bounds, {row['lower']:.4g} to {row['upper']:.4g}, for the best agent that knows the model and "
        "has an infinite horizon"
    )


def _line(row: Row, near: bool) -> Row:
    """A row as people read it."""
    paper = row["published_mean"]
    blank: Row = dict.fromkeys(column.key for column in COLUMNS)
    published = None if paper is None else f"{paper:z.2f} ± {row['published_std']:z.2f}"
    named: Row = {**blank, "domain": row["domain"], "agent": row["agent"], "published": published}
    if row["mean"] is None:
        return {**named, "mean": NOT_AVAILABLE}
    shares = {
        name: None if row.get(name) is None else number_text(row[name], "z.1f")
        for name in ("relative", "published_relative")
    }
    return {
        **named,
        "mean": f"{row['mean']:z.2f}",
        "std": number_text(row["std"]),
        "interval": interval_text(row["low"], row["high"]),
        "discounted": f"{row['discounted_mean']:z.2f}" if near else None,
        "compatible": row["compatible"],
        **shares,
    }


def _pair(row: Row) -> Row:
    interval = interval_text(row["baseline_minus_low"], row["baseline_minus_high"], "+z.2f")
    named = {"domain": row["domain"], "agent": row["agent"]}
    return {**named, "difference": f"{row['baseline_minus']:+z.2f}", "interval": interval}


def _over_domains(rows: Sequence[Row], baseline: str) -> Table:
    lines = []
    for row in rows:
        line = {name: row[name] for name in ("agent", "iqm", "mean", "improvement")}
        for name in ("iqm", "improvement"):
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            line[f"{name}_interval"] = interval_text(low, high, "z.3f")
        lines.append(line)
    notes = [
        f"improvement: the probability that a trial of {baseline} scores higher than one of the agent; "
        "intervals by a bootstrap over trials (16,384 at most) within each domain"
    ]
    count = rows[0]["domains"] if rows else 0
    return Table(lines, OVERALL, f"Scores over {count} domains (random 0, value iteration 1)", notes)
