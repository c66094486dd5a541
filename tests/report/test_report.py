"""The report page, its tables, figures, style and verdict, from rows written by hand."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from jatpo.cli.main import run
from jatpo.disk import digest_json, sealed
from jatpo.errors import JatpoError
from jatpo.report import html_tables, page, style, verdict
from jatpo.report.figures import FIGURES
from jatpo.report.panels import assemble, draw_panel
from jatpo.report.results import NUMBERS, Results, load
from jatpo.report.schedule import Schedule, Step
from report_rows import contrast, made, write


class Reader(HTMLParser):
    """Checks that elements are closed in order, collects identifiers and addresses."""

    EMPTY = ("meta", "link", "br", "input", "img", "hr")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [
            value for key, value in attributes if key in ("href", "src", "xlink:href") and value
        ]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else():
    text = page.page(made())
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert all(address.startswith(("#", "data:")) for address in reader.addresses)
    inner = {address[1:] for address in reader.addresses if address.startswith("#")}
    assert inner <= set(reader.ids)
    assert "@import" not in text and "url(http" not in text


def test_text_from_outside_is_escaped():
    results = made(bopa={"mean": None, "reason": '<b>"no"</b>'})
    results.run["command"] = "jatpo reproduce </script><script>alert(1)</script>"
    text = page.page(results)
    assert "<b>&quot;no" not in text and "&lt;b&gt;" in text
    assert "<script>alert" not in text
    data = re.search(r'id="results">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["run"]["command"] == results.run["command"]


def test_cells_show_ours_the_interval_and_the_published():
    text = html_tables.returns(made(perseus={"compatible": False}, bopa={"mean": None, "reason": "no"}))
    cells = re.findall(r'<td data-label="([^"]+)"[^>]*>(.*?)</td>', text)
    found = {label: re.sub(r"<[^>]+>", " ", cell).split() for label, cell in cells}
    assert found["ATPO"] == ["76.25", "74.25", "to", "78.25", "77.25", "±", "3.00", "✓"]
    assert found["Perseus"][-1] == "✗"
    assert found["BOPA"] == ["N.A."]


def test_differences_are_coloured_by_their_interval():
    changes = {"perseus": {"atpo_minus_low": -1.0}, "random": {"atpo_minus": -9.0, "atpo_minus_high": -4.0}}
    changes["random"]["atpo_minus_low"] = -14.0
    text = html_tables.differences(made(**changes))
    kinds = dict(re.findall(r'data-label="minus ([^"]+)"[^>]*><span class="(\w+)"', text))
    assert (kinds["BOPA"], kinds["Perseus"], kinds["random"]) == ("better", "even", "worse")


def test_a_download_holds_the_rows():
    rows = [{"a": 1.5, "b": 'x, "y"\n&', "c": 0}, {"a": None, "b": "ü", "c": 1}]
    link = html_tables.download("some", rows, ("a", "b"))
    address = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', link)[1]
    read = list(csv.DictReader(io.StringIO(unquote(address))))
    assert read == [{"a": "1.5", "b": 'x, "y"\n&'}, {"a": "", "b": "ü"}]


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "table"])
def test_figures_are_svg_in_the_colours_of_the_page(name):
    with style.styled():
        figure = FIGURES[name](made())
        text = style.to_inline(draw_panel(figure.panels[0]), "some", "a label")
    tree = ElementTree.fromstring(text)
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert ids and all(each.startswith("some-") for each in ids)
    assert "currentColor" in text
    assert not any(colour in text for colour in (style.INK, style.MUTED, style.GRID, "#000000", "#ffffff"))
    words = " ".join("".join(node.itertext()) for node in tree.iter() if node.tag.endswith("text"))
    assert figure.panels[0].title in words
    assert set(figure.columns) <= {column for row in figure.rows for column in row}


@pytest.mark.parametrize(("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_figures_are_the_same_bytes_every_time(format, start):
    with style.styled():
        first, again = (style.to_bytes(assemble(FIGURES["posterior"](made())), format) for _ in range(2))
    assert first.startswith(start)
    assert first == again


def test_figures_without_data_are_none():
    empty = Results({}, {}, {})
    assert [name for name, make in FIGURES.items() if make(empty) is not None] == []
    assert "Library scaling" in page.page(empty)


@pytest.mark.parametrize("paper", ["#ffffff", "#14171c"])
def test_series_stand_out_on_both_papers(paper):
    colours = [mark.colour for mark in style.AGENTS.values() if mark.colour not in style.PAGE]
    assert len(colours) == 5
    assert all(contrast(colour, paper) >= 3 for colour in colours)
    assert len({mark.marker for mark in style.AGENTS.values()}) == len(style.AGENTS)


def test_the_verdict_says_where_the_claim_holds():
    good = verdict.judge(made())
    assert (good.holds, good.fails, good.open) == (["ntu"], [], [])
    assert "holds in the one domain here" in good.sentence
    assert "6 of 6 mean returns agree" in good.sentence
    (note,) = good.notes
    assert note.startswith("ntu ") and "identification" in note
    assert verdict.judge(made(random={"atpo_minus_low": -1.0})).open == ["ntu"]
    assert verdict.judge(made(atpo={"relative_high": 79.0})).fails == ["ntu"]
    worse = {"atpo_minus": -2.0, "atpo_minus_low": -3.0, "atpo_minus_high": -1.0}
    assert "fails in ntu" in verdict.judge(made(random=worse)).sentence


def test_results_that_cannot_be_read_are_told(tmp_path):
    with pytest.raises(JatpoError, match="holds no results"):
        load(tmp_path)
    write(tmp_path)
    assert load(tmp_path).domains() == []
    (tmp_path / "summary.json").write_text("[{")
    with pytest.raises(JatpoError, match=r"summary\.json cannot be read"):
        load(tmp_path)
    for damaged in ('[["a"]]', '[{"domain": "other"}]', '{"domain": 1}'):
        (tmp_path / "summary.json").write_text(damaged)
        with pytest.raises(JatpoError, match=r"summary\.json is not as it was written"):
            load(tmp_path)
    (tmp_path / "summary.json").unlink()
    for damaged in ("{}", "null", "[]", '{"digest": "0"}'):
        (tmp_path / "manifest.json").write_text(damaged)
        with pytest.raises(JatpoError, match=r"manifest\.json is not as it was written"):
            load(tmp_path)


def test_plot_draws_what_there_is(tmp_path, capsys):
    write(tmp_path, summary=made()["summary"])
    assert run(["plot", str(tmp_path), "--format", "pdf", "--out", str(tmp_path / "drawn")]) == 0
    drawn = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert drawn == ["differences.pdf", "relative.pdf", "returns.pdf", "table.pdf"]
    assert len(capsys.readouterr().out.splitlines()) == 4
    for arguments, message in (
        (("--figure", "scaling"), "no data for the figure 'scaling'"),
        (("--figure", "return"), "did you mean 'returns'"),
        (("--format", "jpg"), "format"),
    ):
        assert run(["plot", str(tmp_path), *arguments]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"rows": 1}, "not a list of objects"),
        ([1, 2], "not a list of objects"),
        ([[]], "not a list of objects"),
        ("text", "not a list of objects"),
        ([{"domain": "x"}], "row 0 of .* has no 'agent'"),
        ([{"domain": "x", "agent": "y", "mean": 1.0}], "has no 'low'"),
        ([{"agent": ["y"]}], "'y'.* as 'agent', not a text"),
        ([{"mean": {}}], "as 'mean', not a number"),
    ],
)
def test_tables_of_the_wrong_shape_are_refused(rows, message, tmp_path, capsys):
    whole = [{"domain": "x", "agent": "y", **dict.fromkeys(NUMBERS)}]
    partial = isinstance(rows, list) and rows and isinstance(rows[0], dict) and "domain" not in rows[0]
    content = [{**whole[0], **rows[0]}] if partial else rows
    (tmp_path / "summary.json").write_text(json.dumps(content))
    manifest = {"format": 2, "tables": {"summary": [digest_json(content)]}}
    (tmp_path / "manifest.json").write_text(json.dumps(sealed(manifest)))
    with pytest.raises(JatpoError, match=message):
        load(tmp_path)
    assert run(["plot", str(tmp_path)]) == 2
    assert "summary.json" in capsys.readouterr().err


def test_a_figure_whose_table_has_other_columns_is_refused(tmp_path, capsys):
    rows = [{"domain": "x", "agent": "y", "step": 1}]
    for name in ("summary", "times"):
        (tmp_path / f"{name}.json").write_text("[]" if name == "summary" else json.dumps(rows))
    manifest = {"format": 2, "tables": {"summary": [digest_json([])], "times": [digest_json(rows)]}}
    (tmp_path / "manifest.json").write_text(json.dumps(sealed(manifest)))
    assert run(["plot", str(tmp_path), "--figure", "times"]) == 2
    assert "the figure 'times' cannot be drawn" in capsys.readouterr().err


def test_a_schedule_learns_its_pace():
    now = [0.0]
    steps = [Step("solve", "a", 10), Step("play", "b", 10), Step("solve", "c", 20)]
    schedule = Schedule(steps, clock=lambda: now[0])
    assert (schedule.done, schedule.left) == (0, 40)
    schedule.begin()
    now[0] = 19
    schedule.advance(0.5)  # 5 of 10 expected seconds took 19: pace (19 + 5) / (5 + 5)
    assert schedule.done == pytest.approx(5 / 40)
    assert schedule.left == pytest.approx(5 * 2.4 + 10 + 20 * 2.4)
    now[0] = 21
    schedule.begin()
    assert schedule.left == pytest.approx(10 + 20 * 26 / 15)
    schedule.begin()  # the second was there already, and tells nothing
    assert (schedule.number, schedule.step.title) == (3, "c")
    assert schedule.left == pytest.approx(20 * 26 / 15)
    schedule.end()
    assert (schedule.done, schedule.left) == (1, 0)
