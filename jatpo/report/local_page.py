"""The pages of `jatpo serve` as HTML; every text that comes from elsewhere is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from jatpo.report import replay
from jatpo.report.episode import Episode

ASSETS = {
    "/serve.css": "text/css",
    "/replay.css": "text/css",
    "/replay.js": "text/javascript",
    "/serve.js": "text/javascript",
}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/serve.css"><link rel="stylesheet" href="/replay.css">
<title>{title}</title>
</head>
<body>
<header><a href="/">jatpo</a></header>
<main>
<h1>{title}</h1>
{body}
</main>
{script}</body>
</html>
"""


def asset(path: str) -> str:
    """The text of a style sheet or script."""
    return files("jatpo.report").joinpath(path.strip("/")).read_text(encoding="utf-8")


def _page(title: str, body: str, script: str = "") -> str:
    tag = f'<script src="/{script}"></script>\n' if script else ""
    return PAGE.format(title=escape(title), body=body, script=tag)


def _options(names: Sequence[str], chosen: str = "") -> str:
    return "".join(
        f'<option value="{escape(name)}"{" selected" if name == chosen else ""}>{escape(name)}</option>'
        for name in names
    )


def start(names: Sequence[str], agents: Sequence[str]) -> str:
    """The choice of library, agent and seed."""
    library = f'<label>Library <select name="library">{_options(names)}</select></label>'
    seed = '<label>Seed <input name="seed" type="number" min="0" step="1" value="0" required></label>'
    agent = f'<label>Agent <select name="agent">{_options(agents, "atpo")}</select></label>'
    body = (
        "<p>A library that has not been solved before is solved first, which can take from seconds to minutes.</p>"
        f'<form action="/watch"><h2>Watch an agent</h2>{library}{agent}{seed}<button>Watch</button></form>'
        f'<form action="/play"><h2>Play yourself</h2><p>You are the ad hoc agent: you see what it sees, and ATPO '
        f"advises you.</p>{library}{seed}<button>Play</button></form>"
    )
    return _page("Ad hoc teamwork, step by step", body)


def watch(episode: Episode) -> str:
    """An episode, step by step."""
    body = f"<p>{escape(replay.summary(episode))}</p>{replay.section([episode], heading='')}"
    return _page(f"{episode.agent} in {episode.title}", body, "replay.js")


def play(fields: Mapping[str, str], names: Sequence[str]) -> str:
    """The page of an episode by hand; its script fills it."""
    library = fields.get("library", names[0] if names else "")
    seed = fields.get("seed", "0")
    body = (
        f'<div id="game" data-library="{escape(library)}" data-seed="{escape(seed)}">'
        '<p id="message" role="status">Preparing: the library is solved if it has not been before.</p>'
        '<div class="columns"><section><h2>You</h2><dl id="facts"></dl><div id="actions"></div>'
        '<p><label><input type="checkbox" id="reveal"> Show the true model and state</label></p>'
        '<pre id="truth" hidden></pre><button id="again" type="button">New episode</button></section>'
        '<section><h2>What ATPO believes</h2><h3>Posterior over models</h3><ul id="posterior" class="bars"></ul>'
        '<h3>Most probable states</h3><ul id="likely" class="bars"></ul></section></div></div>'
    )
    return _page(f"You in {library}", body, "serve.js")


def failure(text: str) -> str:
    """An error as a page."""
    return _page("This did not work", f'<p role="alert">{escape(text)}</p><p><a href="/">Back</a></p>')
