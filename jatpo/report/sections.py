"""The sections of the report: a few words, a table, a figure, and the data of both to download."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import NamedTuple

from jatpo.report import html_tables, style
from jatpo.report.beyond_figure import html as beyond_html
from jatpo.report.figures import FIGURES
from jatpo.report.panels import Figure, draw_panel
from jatpo.report.results import Results
from jatpo.report.style import Mark

MARKERS = {
    "o": '<circle cx="12" cy="8" r="4"/>',
    "D": '<path d="M12 4l4 4-4 4-4-4z" fill="none"/>',
    "line-": '<path d="M2 8h20"/>',
    "line--": '<path d="M2 8h20" stroke-dasharray="5 3"/>',
}


class Section(NamedTuple):
    """An anchor, a title and HTML."""

    name: str
    title: str
    text: str


def returns(results: Results) -> Section | None:
    """Table 3."""
    if not results["summary"]:
        return None
    text = (
        "<p>The undiscounted return of an episode: our mean with its 95&nbsp;% interval, below it the paper's "
        'mean ± standard deviation. <b class="fits">✓</b>: the two means differ by at most three standard errors, '
        'both counted; <b class="misfit">✗</b>: by more. Value iteration sees the state and knows the task, '
        "Perseus knows the task, ATPO and the random picker know neither; BOPA sees the state.</p>"
    )
    body = html_tables.returns(results) + html_tables.download("returns", results["summary"])
    return Section("returns", "Table 3: returns", text + body + figure(results, "returns"))


def relative(results: Results) -> Section | None:
    """Table 4."""
    if not any(row.get("relative") is not None for row in results["summary"]):
        return None
    text = (
        "<p>How far an agent comes from acting at random (0&nbsp;%) to value iteration (100&nbsp;%), with its "
        "95&nbsp;% interval, and the paper's figure below.</p>"
    )
    columns = ("domain", "agent", "relative", "relative_low", "relative_high", "published_relative")
    body = html_tables.relative(results) + html_tables.download("relative", results["summary"], columns)
    return Section("relative", "Table 4: relative performance", text + body)


def paired(results: Results) -> Section | None:
    """ATPO minus each other agent."""
    if not any(row.get("atpo_minus") is not None for row in results["summary"]):
        return None
    text = (
        "<p>ATPO's return minus another agent's, trial by trial with common random numbers: the mean and its "
        '95&nbsp;% interval. <span class="better">Green</span> where the whole interval is above 0, '
        '<span class="worse">red</span> where it is below.</p>'
    )
    columns = ("domain", "agent", "atpo_minus", "atpo_minus_low", "atpo_minus_high")
    body = html_tables.differences(results) + html_tables.download("differences", results["summary"], columns)
    return Section("differences", "ATPO minus other agents", text + body + figure(results, "differences"))


def overall(results: Results) -> Section | None:
    """Measures over several domains."""
    if not results["aggregate"]:
        return None
    text = (
        "<p>A score is a return scaled to 0 for random actions and 1 for value iteration, of agents that play in all "
        "domains. The interquartile mean leaves out the lowest and the highest quarter of the trials. The probability "
        "of improvement is that of a trial of ATPO scoring higher than one of the agent. The profile shows the share "
        "of trials above each score. Intervals are 95&nbsp;% bootstrap intervals.</p>"
    )
    body = figure(results, "aggregate") + figure(results, "profile")
    return Section("overall", "Over all domains", text + body)


def identification(results: Results) -> Section | None:
    """The posterior of the true model and the entropy over time."""
    if not results["curves"]:
        return None
    text = (
        "<p>How probable the agent finds the true model as time goes by, and how undecided it is (entropy 1: all "
        "models are equally probable, 0: certain). Means over the trials with 95&nbsp;% intervals; the paper's "
        "figures are ATPO's. Steps are medians over the trials.</p>"
    )
    body = html_tables.identification(results) + html_tables.download(
        "identification", results["identification"]
    )
    body += figure(results, "posterior") + figure(results, "entropy")
    return Section("identification", "Identification", text + body)


def scaling(results: Results) -> Section:
    """The library scaling, or how to get it."""
    if not results["scaling"]:
        text = (
            "<p>Not part of this run: it needs all 32 models of gridworld solved, which takes some minutes. "
            f"<code>{escape(_with_sizes(results))}</code> adds it.</p>"
        )
    else:
        text = (
            "<p>Each trial draws its true model and the rest of its library from the 32 models of gridworld; the "
            "true model is the same for all sizes, and each library holds the smaller ones.</p>"
        ) + figure(results, "scaling")
    return Section("scaling", "Library scaling", text)


def _with_sizes(results: Results) -> str:
    text = results.run.get("command", "jatpo reproduce")
    if "gridworld" not in results.run.get("domains", ()):
        text = text.replace("jatpo reproduce", "jatpo reproduce gridworld", 1)
    return f"{text} --sizes 2-32"


def beyond(results: Results) -> Section | None:
    """Rules that do better than ATPO, and the best possible."""
    if not results["beyond"]:
        return None
    body = beyond_html(results) + html_tables.download("beyond", results["beyond"])
    return Section("beyond", "Beyond ATPO", body + figure(results, "beyond"))


def times(results: Results) -> Section | None:
    """Table 2."""
    if not results["times"]:
        return None
    text = (
        "<p>Seconds to build the models of a domain and to solve them all. The published times are from the authors' "
        "machine, ours from this one, so the ratio reflects both the program and the machine. Models that are equal "
        "are solved once.</p>"
    )
    body = html_tables.times(results) + html_tables.download("times", results["times"])
    return Section("times", "Table 2: set-up and solving", text + body + figure(results, "times"))


def bounds(results: Results) -> Section | None:
    """What the solver proves."""
    if not results["solutions"]:
        return None
    text = (
        "<p>The best discounted value that any policy can have at the start of a model lies between these bounds: "
        "the solved policy attains the lower one, and the upper one is proved.</p>"
    )
    body = html_tables.bounds(results) + html_tables.download("solutions", results["solutions"])
    return Section("bounds", "Solver bounds", text + body)


def rules(results: Results) -> Section | None:
    """What the rule sets differ in and what that changes."""
    if not results["effects"]:
        return None
    text = (
        "<p>The program behind the published tables (<code>as_run</code>) differs from the paper's text "
        f"(<code>as_written</code>). This run is <code>{escape(str(results.run.get('rules')))}</code>. What the "
        "difference does to the exact expected returns, and to whether models can be distinguished at all:</p>"
    )
    body = html_tables.effects(results) + html_tables.download("effects", results["effects"])
    if results["rules"]:
        link = html_tables.download("rules", results["rules"])
        body += f"<h3>The rules that differ</h3>{html_tables.rules(results)}{link}"
    return Section("rules", "As run and as written", text + body)


def again(results: Results) -> Section:
    """Commands and settings to reproduce it."""
    run, manifest = results.run, results.manifest
    commands = {
        run.get("command", ""): "this report",
        "jatpo reproduce": "all eleven domains and the library scaling",
        "jatpo reproduce NAME --trials 1024": "sharper intervals",
        "jatpo watch NAME": "an episode, step by step",
        "jatpo plot DIRECTORY": "the figures as files",
    }
    facts = {
        name: run.get(key) for name, key in (("seed", "seed"), ("rules", "rules"), ("filters", "preset"))
    }
    facts["solver"] = run.get("solver")
    facts["versions"] = ", ".join(
        f"{name} {manifest.get(name)}" for name in ("jatpo", "jax", "numpy", "backend")
    )
    facts["models"] = "; ".join(_hashes(results, name) for name in results.domains("solutions"))
    items = "".join(f"<li><code>{escape(text)}</code>: {what}</li>" for text, what in commands.items())
    listed = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    return Section("again", "Reproduce it", f'<ul class="commands">{items}</ul><dl>{listed}</dl>')


def _hashes(results: Results, name: str) -> str:
    found = dict.fromkeys(row["hash"] for row in results.of("solutions", name))
    return f"{name} {' '.join(found)}"


SECTIONS: tuple[Callable[[Results], Section | None], ...] = (
    returns,
    relative,
    paired,
    overall,
    identification,
    scaling,
    beyond,
    times,
    bounds,
    rules,
    again,
)


def figure(results: Results, name: str) -> str:
    """A figure as inline SVG with its key and data; inside `style.styled`."""
    made = FIGURES[name](results)
    if made is None:
        return ""
    drawn = "".join(_panel(made, number) for number in range(len(made.panels)))
    alone = len(made.panels) == 1
    title = "" if alone else f"<b>{made.title}</b>"
    keys = "".join(_key(mark) for mark in made.legend)
    link = html_tables.download(f"figure-{name}", made.rows, made.columns, "CSV")
    panels = f'<div class="panels{" single" if alone else ""}">{drawn}</div>'
    return f'<figure id="figure-{name}"><figcaption>{title}{keys}{link}</figcaption>{panels}</figure>'


def _panel(figure: Figure, number: int) -> str:
    panel = figure.panels[number]
    label = escape(f"{figure.title}: {panel.title}")
    return f"<div>{style.to_inline(draw_panel(panel), f'{figure.name}-{number}', label)}</div>"


def _key(mark: Mark) -> str:
    colour = style.PAGE.get(mark.colour, mark.colour)
    shape = MARKERS.get(f"line{mark.line}" if mark.marker == "line" else mark.marker, MARKERS["o"])
    look = f'fill="{colour}" stroke="{colour}" stroke-width="2" aria-hidden="true"'
    return f'<span class="key"><svg viewBox="0 0 24 16" {look}>{shape}</svg>{escape(mark.label)}</span>'
