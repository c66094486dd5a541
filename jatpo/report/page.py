"""The report: one HTML file that holds all it needs and opens from disk."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from jatpo.disk import write_whole
from jatpo.evaluate import published
from jatpo.report import replay, style, verdict
from jatpo.report.content_policy import with_policy
from jatpo.report.episode import Episode
from jatpo.report.results import Results
from jatpo.report.sections import SECTIONS, Section, figure

NAME = "report.html"
PAPER = (
    "Ribeiro, Martinho, Sardinha and Melo, <cite>Making Friends in the Dark: Ad Hoc Teamwork Under Partial "
    "Observability</cite>, ECAI 2023"
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{css}</style>
</head>
<body>
<header>{head}</header>
<nav>{links}</nav>
<main>{body}</main>
<script type="application/json" id="results">{data}</script>
{script}</body>
</html>
"""


def write(directory: str | os.PathLike[str], results: Results, episodes: Sequence[Episode] = ()) -> Path:
    """Write the report into a directory of results, whole or not at all."""
    path = Path(directory) / NAME
    write_whole(path, page(results, episodes))
    return path


def page(results: Results, episodes: Sequence[Episode] = ()) -> str:
    """The whole page."""
    with style.styled():
        head = _head(results)
        sections = [_replays(episodes), *(make(results) for make in SECTIONS)]
    kept = [section for section in sections if section]
    css = files("jatpo.report").joinpath("page.css").read_text(encoding="utf-8")
    replay_css, script = replay.assets() if episodes else ("", "")
    return with_policy(
        PAGE.format(
            title=escape(f"ATPO reproduced: {_names(results)}"),
            css=css + replay_css,
            head=head,
            links="".join(f'<a href="#{section.name}">{section.title}</a>' for section in kept),
            body="".join(f'<section id="{s.name}"><h2>{s.title}</h2>{s.text}</section>\n' for s in kept),
            data=_data(results),
            script=f"<script>\n{script}</script>\n" if script else "",
        )
    )


def _head(results: Results) -> str:
    """Two sentences, one figure, and what this is."""
    found = verdict.judge(results)
    claim = escape(found.sentence).replace(found.where, f"<strong>{found.where}</strong>", 1)
    claim = claim.replace(" %", "&nbsp;%")
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in found.notes)
    return (
        f'<h1>Ad hoc teamwork in the dark, reproduced</h1>\n<p class="lead">{escape(verdict.WHAT)} '
        f'<span id="verdict">{claim}</span></p>\n{notes}{figure(results, "relative")}\n'
        f'<p class="facts">{_facts(results)}<br>The paper: {PAPER}. '
        f"Made by jatpo {escape(str(results.manifest.get('jatpo')))}; "
        '<a href="#again">the commands to make it again</a>, for all eleven domains too.</p>\n'
    )


def _facts(results: Results) -> str:
    run, count = results.run, len(results.domains())
    trials = f"{run.get('trials')} trials for each agent, the same worlds for all"
    return (
        f"{count} domain{'' if count == 1 else 's'}: {escape(_names(results))} · {trials} "
        f"(the paper has {published.load()['trials']}) · rules <code>{escape(str(run.get('rules')))}</code> · "
        f"{escape(str(run.get('finished')))}."
    )


def _names(results: Results) -> str:
    return ", ".join(results.domains())


def _replays(episodes: Sequence[Episode]) -> Section | None:
    if not episodes:
        return None
    text = (
        "<p>One episode of ATPO in each domain, step by step: what happens, what the agent sees of it, and what it "
        "believes.</p>"
    )
    return Section("replays", "Watch it", text + replay.section(episodes, heading=""))


def _data(results: Results) -> str:
    """The settings and the main table for programs that read the page."""
    text = json.dumps({"run": dict(results.run), "summary": list(results["summary"])}, ensure_ascii=False)
    return text.replace("<", "\\u003c")  # no text in it ends or opens an element
