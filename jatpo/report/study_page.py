"""The report of a study: one HTML page with the tables of all its experiments and seeds."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from jatpo.disk import write_whole
from jatpo.evaluate.study_file import Finished, Study
from jatpo.plain import to_json
from jatpo.report import html_tables, style
from jatpo.report.content_policy import with_policy
from jatpo.report.page import NAME, PAGE
from jatpo.report.results import load
from jatpo.report.sections import figure
from jatpo.tables import Column, Table
from jatpo.version import __version__

FIGURES = ("returns", "differences", "aggregate", "profile")


def write(directory: str | os.PathLike[str], study: Study, finished: Sequence[Finished]) -> Path:
    """Write the report into the directory of a study, whole or not at all."""
    path = Path(directory) / NAME
    write_whole(path, page(study, finished))
    return path


def page(study: Study, finished: Sequence[Finished]) -> str:
    """The whole page."""
    with style.styled():
        sections = [(_anchor(each), _title(each), _section(each)) for each in finished]
    sections.append(("file", "The file", f"<pre><code>{escape(study.text)}</code></pre>"))
    rows = {_title(each): {name: table.rows for name, table in each.tables.items()} for each in finished}
    data = json.dumps(to_json({"study": study.name, "tables": rows}), ensure_ascii=False)
    return with_policy(
        PAGE.format(
            title=escape(study.name),
            css=files("jatpo.report").joinpath("page.css").read_text(encoding="utf-8"),
            head=f'<h1>{escape(study.name)}</h1>\n<p class="facts">{len(finished)} runs, made by jatpo '
            f"{__version__}.</p>",
            links="".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections),
            body="".join(
                f'<section id="{n}"><h2>{escape(t)}</h2>{text}</section>\n' for n, t, text in sections
            ),
            data=data.replace("<", "\\u003c"),
            script="",
        )
    )


def _title(each: Finished) -> str:
    return each.part.label + (f", seed {each.seed}" if len(each.part.seeds) > 1 else "")


def _anchor(each: Finished) -> str:
    return f"{each.part.label.replace('#', '-')}-{each.seed}"


def _section(each: Finished) -> str:
    """The tables of one run and, where there are some, its figures."""
    tables = "".join(_table(f"{_anchor(each)}-{number}", table) for number, table in enumerate(each.shown))
    results = load(each.directory)
    drawn = "".join(figure(results, name) for name in FIGURES)
    links = "".join(_link(each, name, table) for name, table in each.tables.items() if len(table))
    return (
        f'{tables}{drawn}<ul class="commands">{links}</ul><p class="facts">{escape(str(each.directory))}</p>'
    )


def _link(each: Finished, name: str, table: Table) -> str:
    text = f"{name}: {len(table)} rows as CSV"
    return f"<li>{html_tables.download(f'{_anchor(each)}-{name}', table.rows, None, text)}</li>"


def _table(name: str, table: Table) -> str:
    """A table for people as HTML, with its title and notes."""
    columns = [each for each in table.columns if isinstance(each, Column)]
    cells = [
        html_tables.Column(
            escape(column.title),
            lambda row, column=column: escape(column.text(row.get(column.key))),
            column.align == "right",
        )
        for column in columns
    ]
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return f"{title}{html_tables.table(name, cells, table.rows)}{notes}"
