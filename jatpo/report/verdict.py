"""In two sentences: what ATPO does, and whether the paper's claim holds in these numbers.

The claim is that ATPO assists unknown teammates in unknown tasks effectively. It is taken to hold in a domain when
ATPO does better than acting at random (paired, the whole 95 % interval above 0) and comes at least `NEAR` per cent
of the way from random to value iteration, as far as the interval allows. The paper's own figures are 84 to 100 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jatpo.report.results import Results, Row

NEAR = 80.0
WHAT = (
    "ATPO joins a team it does not know for a task it does not know: from nothing but its own actions and "
    "observations it infers which model of its library it is in, and acts by the mixture of the models' policies, "
    "weighted by how probable each has become."
)


class Verdict(NamedTuple):
    """Whether the claim holds; the domains where it does, where not, and where there are too few trials."""

    holds: list[str]
    fails: list[str]
    open: list[str]
    sentence: str
    where: str  # the part of the sentence that says where it holds
    notes: list[str]


def judge(results: Results) -> Verdict:
    """The verdict on a run."""
    ours = {row["domain"]: row for row in results["summary"] if row["agent"] == "atpo"}
    held: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for domain, row in ours.items():
        held[_holds(row, _row_of(results, domain, "random"))].append(domain)
    sentence = _sentence(results, list(ours.values()), held)
    where = _where(held, len(ours)) if ours else ""
    return Verdict(held[True], held[False], held[None], sentence, where, _notes(results))


def _row_of(results: Results, domain: str, agent: str) -> Row:
    return next((row for row in results.of("summary", domain) if row["agent"] == agent), {})


def _holds(ours: Row, random: Row) -> bool | None:
    low, high = random.get("atpo_minus_low"), random.get("atpo_minus_high")
    if low is None or high is None or ours.get("relative_high") is None:
        return None
    if ours["relative_high"] < NEAR or high <= 0:
        return False
    return True if low > 0 else None


def _sentence(results: Results, ours: Sequence[Row], held: dict[bool | None, list[str]]) -> str:
    count = len(ours)
    if not count:
        return "ATPO was not among the agents of this run, so the paper's claim is not tested here."
    reached = [row for row in ours if row.get("relative") is not None]
    parts = [f"The paper's claim, that this serves an unknown team well, {_where(held, count)}"]
    if reached:
        theirs = [row["published_relative"] for row in reached if row.get("published_relative") is not None]
        paper = f" (the paper: {_span(theirs)})" if theirs else ""
        parts.append(
            f": ATPO comes {_span([row['relative'] for row in reached])}{paper} of the way from acting at random to "
            f"an agent that knows the task and sees everything"
        )
    others = [_row_of(results, row["domain"], "random_picker") for row in ours]
    better = sum(row.get("atpo_minus_low") is not None and row["atpo_minus_low"] > 0 for row in others)
    parts.append(f", does measurably better than mixing without inferring in {better} of {count}")
    compared = [row for row in results["summary"] if row.get("compatible") is not None]
    if compared:
        fitting = sum(bool(row["compatible"]) for row in compared)
        parts.append(
            f", and {fitting} of {len(compared)} mean returns agree with the published ones (within three standard "
            "errors)"
        )
    return "".join(parts) + "."


def _where(held: dict[bool | None, list[str]], count: int) -> str:
    if len(held[True]) == count:
        return (
            "holds in "
            + ({1: "the one domain", 2: "both domains"}.get(count, f"all {count} domains"))
            + " here"
        )
    if len(held[None]) == count:
        return "is undecided with so few trials"
    text = f"holds in {len(held[True])} of {count} domains here"
    if held[False]:
        text += f", fails in {', '.join(held[False])}"
    if held[None]:
        text += f", and is undecided with so few trials in {', '.join(held[None])}"
    return text


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"


def _notes(results: Results) -> list[str]:
    """Remarks needed to interpret the numbers."""
    notes = []
    for row in results["effects"]:
        if row["rules"] == results.run.get("rules") and row["distinguishable"] < row["pairs"]:
            if row["distinguishable"]:
                what = f"only {row['distinguishable']} of its {row['pairs']} pairs of models can be distinguished"
                notes.append(f"{row['domain']} tests identification only in part: under these rules {what}.")
            else:
                what = "no observation distinguishes any two of its models"
                notes.append(f"{row['domain']} does not test identification: under these rules {what}.")
    for domain in results.domains():
        mix = next((row["mix"] for row in results.of("summary", domain) if row.get("mix")), "uniform")
        if mix != "uniform":
            notes.append(
                f"{domain}: true models are weighted {mix}, as they were drawn in the published trials. An interval is "
                "too narrow where the few trials of one model all end alike; more trials fix that."
            )
    return notes
