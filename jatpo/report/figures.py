"""The figures of the report: `FIGURES[name](results)` gives a `Figure`, or None where there is nothing to show.

A page shows every panel as a picture of its own, so that they flow with its width; `panels.assemble` puts them into one
figure for a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jatpo.evaluate import published, statistics
from jatpo.report.beyond_figure import figure as beyond
from jatpo.report.domain_figures import aggregate, profile
from jatpo.report.panels import Draw, Figure, Panel, categories, curve, figure_of, interval
from jatpo.report.results import Results, Row
from jatpo.report.style import INK, MUTED, PUBLISHED, Mark, mark


def returns(results: Results) -> Figure | None:
    """Mean returns with their intervals, ours and the published, one panel for each domain."""
    names = results.domains()
    panels = [
        Panel(name, _returns_panel([row for row in results.of("summary", name) if row["mean"] is not None]))
        for name in names
    ]
    columns = ("domain", "agent", "mean", "low", "high", "published_mean", "published_std")
    legend = [Mark(INK, "o", "ours, 95 % interval"), PUBLISHED]
    return figure_of("returns", "Mean returns", panels, legend, columns, results["summary"])


def _returns_panel(rows: Sequence[Row]) -> Draw:
    def draw(axes: Any) -> None:
        for place, row in enumerate(rows):
            interval(axes, row["mean"], row["low"], row["high"], place - 0.14, mark(row["agent"]))
            if row["published_mean"] is not None:
                trials = published.load()["trials"]
                reach = statistics.quantile(trials - 1) * row["published_std"] / math.sqrt(trials)
                theirs = row["published_mean"]
                interval(axes, theirs, theirs - reach, theirs + reach, place + 0.2, PUBLISHED, hollow=True)
        categories(axes, [mark(row["agent"]).label for row in rows])
        axes.set_xlabel("return")

    return draw


def relative(results: Results) -> Figure | None:
    """How far ATPO comes from random (0 %) to value iteration (100 %) in every domain."""
    rows = [row for row in results["summary"] if row["agent"] == "atpo" and row.get("relative") is not None]
    ours, theirs = mark("atpo"), PUBLISHED

    def draw(axes: Any) -> None:
        axes.axvline(100, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
        for place, row in enumerate(rows):
            interval(axes, row["relative"], row["relative_low"], row["relative_high"], place - 0.12, ours)
            if row["published_relative"] is not None:
                axes.plot(
                    row["published_relative"],
                    place + 0.18,
                    theirs.marker,
                    color=theirs.colour,
                    mfc="none",
                    ms=5,
                )
        categories(axes, [row["domain"] for row in rows])
        axes.set_xlim(
            min([0, *(row["relative_low"] for row in rows)]),
            max([104, *(row["relative_high"] for row in rows)]),
        )
        axes.set_xlabel("per cent (random 0, value iteration 100)")

    columns = ("domain", "relative", "relative_low", "relative_high", "published_relative")
    size = (4.2, 0.9 + 0.36 * max(len(rows), 2))
    panels = [Panel("ATPO's relative performance", draw, size)] if rows else []
    legend = [Mark(ours.colour, ours.marker, "ATPO, 95 % interval"), theirs]
    return figure_of("relative", "Relative performance", panels, legend, columns, rows)


def differences(results: Results) -> Figure | None:
    """ATPO minus each other agent, trial by trial."""
    rows = [row for row in results["summary"] if row.get("atpo_minus") is not None]

    def panel(name: str) -> Panel:
        mine = [row for row in rows if row["domain"] == name]

        def draw(axes: Any) -> None:
            axes.axvline(0, color=INK, linewidth=1)
            for place, row in enumerate(mine):
                low, high = row["atpo_minus_low"], row["atpo_minus_high"]
                interval(axes, row["atpo_minus"], low, high, place, mark(row["agent"]))
            categories(axes, [mark(row["agent"]).label for row in mine])
            axes.set_xlabel("ATPO's return minus the other agent's")

        return Panel(name, draw)

    names = list(dict.fromkeys(row["domain"] for row in rows))
    columns = ("domain", "agent", "atpo_minus", "atpo_minus_low", "atpo_minus_high")
    return figure_of("differences", "Paired differences", [panel(name) for name in names], [], columns, rows)


def posterior(results: Results) -> Figure | None:
    """The probability of the true model over time."""
    return _curves(results, "posterior", "probability", "probability of the true model")


def entropy(results: Results) -> Figure | None:
    """The normalised entropy of the posterior over time."""
    return _curves(results, "entropy", "entropy", "normalised entropy")


def _curves(results: Results, figure: str, what: str, label: str) -> Figure | None:
    def panel(name: str) -> Panel:
        rows = results.of("curves", name)
        paper = published.true_model_probability(name) if figure == "posterior" else {}

        def draw(axes: Any) -> None:
            for agent in dict.fromkeys(row["agent"] for row in rows):
                curve(axes, [row for row in rows if row["agent"] == agent], what, mark(agent))
            last = max((row["step"] for row in rows), default=0)
            look = {"color": PUBLISHED.colour, "mfc": "none", "ms": 5, "clip_on": False, "zorder": 3}
            for step, value in paper.items():
                at = last if step == "end" else int(step)
                if at <= last:  # a shorter episode has no place for it
                    axes.plot(at, value, PUBLISHED.marker, **look)
            axes.set_ylim(-0.03, 1.05)
            axes.set_xlim(0, last)
            axes.set_xlabel("step")
            axes.set_ylabel(label)

        return Panel(name, draw)

    agents = dict.fromkeys(row["agent"] for row in results["curves"])
    legend = [mark(agent)._replace(marker="line") for agent in agents]
    if figure == "posterior":
        legend.append(PUBLISHED._replace(label="published (ATPO)"))
    columns = ("domain", "agent", "step", what, f"{what}_low", f"{what}_high")
    panels = [panel(name) for name in results.domains("curves")]
    return figure_of(figure, label.capitalize(), panels, legend, columns, results["curves"])


def scaling(results: Results) -> Figure | None:
    """ATPO's relative performance as the library grows."""
    rows = [row for row in results["scaling"] if row["agent"] == "atpo" and row.get("relative") is not None]
    rows = sorted(rows, key=lambda row: row["size"])
    ours = mark("atpo")

    def draw(axes: Any) -> None:
        sizes = [row["size"] for row in rows]
        axes.fill_between(
            sizes,
            [row["relative_low"] for row in rows],
            [row["relative_high"] for row in rows],
            color=ours.colour,
            alpha=0.18,
            linewidth=0,
        )
        axes.plot(sizes, [row["relative"] for row in rows], ours.marker + "-", color=ours.colour, ms=4)
        theirs = [(row["size"], row["published_relative"]) for row in rows if row["published_relative"]]
        for size, value in theirs:
            axes.plot(size, value, PUBLISHED.marker, color=PUBLISHED.colour, mfc="none", ms=4)
        axes.set_xlabel("models in the library")
        axes.set_ylabel("per cent (value iteration 100)")

    columns = (
        "domain",
        "size",
        "agent",
        "trials",
        "mean",
        "relative",
        "relative_low",
        "relative_high",
        "published_relative",
    )
    panels = [Panel("ATPO as its library grows", draw, (4.2, 2.7))] if rows else []
    legend = [ours._replace(marker="line", label="ATPO, 95 % interval"), PUBLISHED]
    return figure_of("scaling", "Library scaling", panels, legend, columns, results["scaling"])


def times(results: Results) -> Figure | None:
    """Seconds to solve each library, the published and ours."""
    rows = [row for row in results["times"] if row["published_solve"] and row["solve"]]
    ours = Mark("#0072b2", "o", "ours")

    def draw(axes: Any) -> None:
        for place, row in enumerate(rows):
            ends = [row["solve"], row["published_solve"]]
            axes.plot(ends, [place, place], color=MUTED, linewidth=1.2)
            axes.plot(ends[0], place, ours.marker, color=ours.colour)
            axes.plot(ends[1], place, PUBLISHED.marker, color=PUBLISHED.colour)
        axes.set_xscale("log")
        categories(axes, [row["domain"] for row in rows])
        axes.set_xlabel("seconds to solve the library")

    columns = ("domain", "published_setup", "setup", "published_solve", "solve", "solve_ratio")
    panels = [Panel("Time to solve", draw, (4.2, 0.9 + 0.32 * max(len(rows), 2)))] if rows else []
    return figure_of("times", "Time to solve", panels, [ours, PUBLISHED], columns, rows)


def table(results: Results) -> Figure | None:
    """Table 3 as a picture: our mean returns, the published ones small beside them."""
    names = results.domains()
    agents = list(dict.fromkeys(row["agent"] for row in results["summary"]))
    cells = {(row["domain"], row["agent"]): row for row in results["summary"]}

    def draw(axes: Any) -> None:
        axes.set_axis_off()
        axes.set_xlim(0, 2.1 + len(agents))
        axes.set_ylim(len(names) + 0.1, -1.15)
        for column, agent in enumerate(agents):
            axes.text(
                2.55 + column, -0.45, mark(agent).label, ha="center", weight="bold", color=mark(agent).colour
            )
        axes.axhline(0, color=MUTED, linewidth=1)
        for line, name in enumerate(names):
            axes.text(0.02, line + 0.55, name, va="center")
            for column, agent in enumerate(agents):
                _table_cell(axes, 2.55 + column, line, cells.get((name, agent)))

    columns = ("domain", "agent", "mean", "low", "high", "published_mean", "published_std", "compatible")
    panels = [Panel("Mean returns, ours over (published)", draw, (8.2, 0.75 + 0.48 * len(names)))]
    return figure_of("table", "Mean returns", panels if names else [], [], columns, results["summary"])


def _table_cell(axes: Any, x: float, line: int, row: Row | None) -> None:
    if row is None or row["mean"] is None:
        axes.text(x, line + 0.55, "N.A.", ha="center", va="center", color=MUTED)
        return
    weight = "bold" if row["agent"] == "atpo" else "normal"
    flag = " !" if row.get("compatible") is False else ""
    axes.text(x, line + 0.36, f"{row['mean']:z.1f}{flag}", ha="center", va="center", weight=weight)
    if row["published_mean"] is not None:
        text = f"({row['published_mean']:z.1f})"
        axes.text(x, line + 0.76, text, ha="center", va="center", color=MUTED, size=8)


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "table": table,
    "returns": returns,
    "relative": relative,
    "differences": differences,
    "posterior": posterior,
    "entropy": entropy,
    "scaling": scaling,
    "times": times,
    "beyond": beyond,
    "aggregate": aggregate,
    "profile": profile,
}
