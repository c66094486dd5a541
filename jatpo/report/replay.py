"""Replays as HTML: a section for a page of many, or a page of its own that needs nothing else.

`assets` goes into a page once; every `section` holds the data of its episodes. The style takes the page's
variables --paper --ink --muted --line where there are such.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files

from jatpo.report.content_policy import with_policy
from jatpo.report.episode import Episode

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}
{css}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{section}
<footer>{footer}</footer>
</main>
<script>
{js}</script>
</body>
</html>
"""
STYLE = """:root { color-scheme: light dark; --page: #ffffff; --text: #1d2126; --soft: #59626d; }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme="light"]) { --page: #15181c; --text: #e8eaed; --soft: #a3acb6; }
}
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; --page: #15181c; --text: #e8eaed; --soft: #a3acb6; }
body { margin: 0; background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 100rem; margin: 0 auto; padding: 1rem clamp(.8rem, 3vw, 2rem) 2rem; }
h1 { margin: .2rem 0; font-size: clamp(1.3rem, 4vw, 1.7rem); line-height: 1.25; text-wrap: balance; }
p.lead, footer { margin: 0; color: var(--soft); }
footer { font-size: .85rem; border-top: 0; }
section.replay { margin-top: .6rem; }
"""


def assets() -> tuple[str, str]:
    """The style sheet and the script that a page with replays includes once."""
    folder = files("jatpo.report")
    css, js = (folder.joinpath(f"replay.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return css, js


def section(episodes: Sequence[Episode], heading: str = "Replay", level: int = 2) -> str:
    """An HTML fragment with its data: play, pause, steps, slider; keys while the focus is in it.

    Without a heading ("") it is named for assistive technology alone.
    """
    name = html.escape(heading)
    title = f"<h{level}>{name}</h{level}>\n" if heading else ""
    return (
        f'<section class="replay" aria-label="{name or "Replay"}">\n{title}'
        '<div class="replay-body"><noscript>The replay needs JavaScript.</noscript></div>\n'
        f'<script type="application/json" class="replay-data">{embedded(episodes)}</script>\n</section>\n'
    )


def embedded(episodes: Sequence[Episode]) -> str:
    """JSON that can stand in a script element: no `<` or `&` in it, and no separators that break lines."""
    text = json.dumps(
        [episode.to_json() for episode in episodes],
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def page(episode: Episode) -> str:
    """A standalone page with one replay."""
    css, js = assets()
    parts = {
        "title": html.escape(f"{episode.agent} in {episode.title}"),
        "lead": html.escape(summary(episode)),
        "footer": "Keys: ← → one step, Home and End, space to play and pause.",
    }
    return with_policy(
        PAGE.format(**parts, style=STYLE, css=css, js=js, section=section([episode], heading=""))
    )


def summary(episode: Episode) -> str:
    """The episode in one or two sentences."""
    steps = "1 step" if episode.num_steps == 1 else f"{episode.num_steps} steps"
    text = f"An episode of {steps} that earned {episode.returns[-1]:g}."
    if episode.posterior is None or episode.knows != "library":
        return text
    end = episode.posterior[-1, episode.truth]
    return f"{text} At its end the agent gave the true model a probability of {end:.0%}."
