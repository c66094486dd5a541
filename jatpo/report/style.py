"""The one look of all plots: colours, fonts, axes, and how a plot becomes SVG for a page.

Colours are Okabe and Ito's, chosen for colour-blind readers, and to stand out on white and on near-black
(at least 3:1); every agent also has a marker of its own. Backgrounds are transparent. In a page, the ink, muted and
grid colours follow the page's own (`currentColor`, `--muted`, `--line`), so that one plot serves both themes.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

INK, MUTED, GRID = "#1b1f27", "#707683", "#c9cdd6"
PAGE = {INK: "currentColor", MUTED: "var(--muted)", GRID: "var(--line)"}
PANEL = (3.7, 2.5)  # inches


class Mark(NamedTuple):
    """How a series is drawn."""

    colour: str
    marker: str
    label: str
    line: str = "-"


AGENTS = {
    "value_iteration": Mark(INK, "s", "value iteration"),
    "perseus": Mark("#0072b2", "^", "Perseus"),
    "atpo": Mark("#d55e00", "o", "ATPO"),
    "random_picker": Mark("#009e73", "v", "random picker"),
    "bopa": Mark("#cc79a7", "P", "BOPA", "--"),
    "random": Mark("#7f7f7f", "X", "random"),
}
RULES = {
    "map": Mark("#3a8fc4", "<", "most likely model"),
    "vote": Mark("#5b8c00", ">", "vote"),
    "commit": Mark("#c2416b", "H", "commit"),
    "q": Mark("#a06cd5", "p", "q"),
    "lookahead": Mark("#b07d00", "d", "look-ahead"),
    "bayes": Mark(INK, "*", "Bayes-optimal"),
}
OTHERS = ("#56b4e9", "#e69f00", "#0072b2", "#009e73")
PUBLISHED = Mark(MUTED, "D", "published")

SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "jatpo",
    "pdf.fonttype": 42,
    "legend.frameon": False,
}


def mark(agent: str) -> Mark:
    """How an agent is drawn; one that is not the paper's gets a colour by its name."""
    known = {**AGENTS, **RULES}
    if agent in known:
        return known[agent]
    return Mark(OTHERS[sum(agent.encode()) % len(OTHERS)], "h", agent.replace("_", " "))


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Plots made inside have the look."""
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        yield


def new_figure(width: float, height: float) -> Any:
    """A matplotlib figure that belongs to no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def to_bytes(figure: Any, format: str, paper: str = "none") -> bytes:
    """A figure as SVG, PDF or PNG; the same data give the same bytes. `paper` is the background."""
    buffer = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}
    figure.savefig(
        buffer, format=format, dpi=160, facecolor=paper, metadata=dates.get(format, {"Software": None})
    )
    return buffer.getvalue()


def to_inline(figure: Any, name: str, label: str) -> str:
    """A figure as an SVG element for a page: colours follow the theme, identifiers begin with `name`."""
    text = to_bytes(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for colour, variable in PAGE.items():
        text = text.replace(colour, variable)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(|href=")#([^")]+)', rf"\1#{name}-\2", text)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert size is not None
    head = f'<svg role="img" aria-label="{label}" viewBox="0 0 {size[1]} {size[2]}"'
    head += ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)
