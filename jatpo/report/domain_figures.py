"""Figures over several domains at once: interquartile means, probabilities of improvement, performance profiles."""

from __future__ import annotations

from typing import Any

from jatpo.report.panels import Figure, Panel, categories, figure_of, interval
from jatpo.report.results import Results
from jatpo.report.style import INK, MUTED, mark


def aggregate(results: Results) -> Figure | None:
    """The interquartile mean of each agent's scores, and the probability that the baseline improves on it."""
    rows = results["aggregate"]
    better = [row for row in rows if row["improvement"] is not None]

    def means(axes: Any) -> None:
        for place, row in enumerate(rows):
            interval(axes, row["iqm"], row["iqm_low"], row["iqm_high"], place, mark(row["agent"]))
        categories(axes, [mark(row["agent"]).label for row in rows])
        axes.set_xlabel("score (random 0, value iteration 1)")

    def improvement(axes: Any) -> None:
        axes.axvline(0.5, color=INK, linewidth=1)
        for place, row in enumerate(better):
            ends = row["improvement_low"], row["improvement_high"]
            interval(axes, row["improvement"], *ends, place, mark(row["agent"]))
        categories(axes, [mark(row["agent"]).label for row in better])
        axes.set_xlim(0, 1)
        axes.set_xlabel("probability of improvement")

    if not rows:
        return None
    panels = [Panel("Interquartile mean", means, (4.2, 2.6))]
    if better:
        panels.append(Panel(f"{mark(rows[0]['baseline']).label} against", improvement, (4.2, 2.6)))
    columns = ("agent", "iqm", "iqm_low", "iqm_high", "improvement", "improvement_low", "improvement_high")
    return figure_of("aggregate", "Over all domains", panels, [], columns, rows)


def profile(results: Results) -> Figure | None:
    """The share of trials that score above each threshold."""
    rows = results["profile"]
    agents = list(dict.fromkeys(row["agent"] for row in rows))

    def draw(axes: Any) -> None:
        for agent in agents:
            mine, look = [row for row in rows if row["agent"] == agent], mark(agent)
            scores = [row["score"] for row in mine]
            low, high = ([row[f"share_{end}"] for row in mine] for end in ("low", "high"))
            axes.fill_between(scores, low, high, color=look.colour, alpha=0.18, linewidth=0)
            axes.plot(scores, [row["share"] for row in mine], look.line, color=look.colour)
        axes.axvline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_ylim(-0.03, 1.05)
        axes.set_xlabel("score (random 0, value iteration 1)")
        axes.set_ylabel("share of trials above it")

    panels = [Panel("Performance profile", draw, (5.2, 3.2))] if rows else []
    legend = [mark(agent)._replace(marker="line") for agent in agents]
    columns = ("agent", "score", "share", "share_low", "share_high")
    return figure_of("profile", "Performance profile", panels, legend, columns, rows)
