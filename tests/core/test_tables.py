"""Tables: for people on a terminal and in a pipe, and as CSV, JSON, Markdown, LaTeX and pandas."""

import csv
import io
import json
import math
import re
import sys
import types

import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.evaluate.experiments.comparison_tables import OVERALL
from jatpo.tables import Column, Table, interval_text, number_text

COLUMNS = ("domain", "states", "mean", "note")
ROWS = [
    dict(zip(COLUMNS, values, strict=True))
    for values in (
        ("abandoned-power-plant", 1440, 28.0625, None),
        ("ntu", 7, -1.5, "a remark that is long " * 3),
    )
]


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """What a table shows on a terminal of some width, without colours."""

    def show(table, width):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("sys.stdout", Terminal())
        print(table)
        return re.sub(r"\x1b\[[0-9;]*m", "", sys.stdout.getvalue())

    return show


def test_a_piped_table_has_one_line_for_each_row(capsys):
    print(Table(ROWS, title="Models", notes=["read it"]))
    title, heading, *lines, note = capsys.readouterr().out.splitlines()
    assert title == "Models"
    assert heading == "domain                 states   mean  note"
    assert lines[0] == "abandoned-power-plant    1440  28.06  -"
    assert lines[1].startswith("ntu                         7   -1.5  a remark")
    assert (len(lines), note) == (2, "read it")


def test_a_table_on_a_terminal_folds_its_texts(shown):
    text = shown(Table([*ROWS, dict(zip(COLUMNS, ("[bold]", 1, 2.0, "x"), strict=True))]), 60)
    assert "abandoned-power-plant" in text
    assert "[bold]" in text  # text is never taken for markup
    assert max(map(len, text.splitlines())) <= 60


def test_a_table_wider_than_the_terminal_shows_every_value(shown):
    row = {f"figure_{number}": 1234.0 + number for number in range(20)}
    text = shown(Table([{"agent": "atpo", **row}, {"agent": "bopa", **row}], title="wide"), 60)
    assert max(map(len, text.splitlines())) <= 60
    assert len(re.findall(r"\b12\d\d\b", text)) == 40
    assert all(f"figure {number} " in text for number in range(20))


def test_columns_choose_order_header_format_and_side(capsys):
    columns = [
        Column("mean", "mean return", ".1f"),
        Column("states", format=lambda n: f"{n} states", align="left"),
    ]
    print(Table(ROWS, columns))
    assert capsys.readouterr().out.splitlines() == [
        "mean return  states",
        "       28.1  1440 states",
        "       -1.5  7 states",
    ]


def test_numbers_written_as_text_stand_to_the_right(capsys):
    rows = [{"agent": a, "return": r} for a, r in (("atpo", "85.4"), ("bopa", "N.A."), ("random", "101.25"))]
    print(Table(rows))
    assert capsys.readouterr().out.splitlines()[1:] == ["atpo      85.4", "bopa      N.A.", "random  101.25"]


def test_a_number_that_rounds_to_zero_has_no_minus():
    assert interval_text(-0.001, 0.001) == "0.00 .. 0.00" and number_text(-0.5) == "-0.50"
    assert all("-0" not in column.text(-0.0004) for column in OVERALL if isinstance(column.format, str))


def test_lines_of_cells_under_headers():
    table = Table.of(("domain_a", "mean"), [("x", 1.0), ("y", None)], "T")
    assert str(table).splitlines() == ["T", "domain_a  mean", "x            1", "y            -"]
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        Table.of(["a", "b"], [["only one"]])


def test_a_table_without_rows_has_its_heading(capsys):
    print(Table([], ["a", "b"]))
    assert capsys.readouterr().out == "a  b\n"
    assert str(Table([])) == ""


def test_rows_may_lack_keys():
    table = Table([{"a": 1}, {"b": True}])
    assert str(table).splitlines() == ["a  b", "1  -", "-  yes"]
    assert table.to_csv() == "a,b\n1,\n,True\n"
    assert json.loads(table.to_json()) == [{"a": 1}, {"b": True}]


def test_csv_and_json_keep_values_as_they_are():
    rows = [{"name": 'a "b", c', "x": 1 / 3, "y": math.nan, "z": np.float32(0.5)}]
    (read,) = csv.DictReader(io.StringIO(Table(rows).to_csv()))
    assert read == {"name": 'a "b", c', "x": repr(1 / 3), "y": "", "z": "0.5"}
    expected = {"name": 'a "b", c', "x": 1 / 3, "y": None, "z": 0.5}
    assert json.loads(Table(rows).to_json(), parse_constant=pytest.fail) == [expected]
    assert json.loads(Table(rows, ["x"]).to_json()) == [{"x": 1 / 3}]


def test_markdown():
    table = Table(
        [{"agent": "a|b", "mean": 1.25}], [Column("agent"), Column("mean", "mean return")], "T", ["N"]
    )
    assert table.to_markdown() == "**T**\n\n| agent | mean return |\n| --- | ---: |\n| a\\|b | 1.25 |\n\nN\n"


def test_latex():
    lines = Table([{"agent": "a_b & 5%", "mean": 1.25}], title="T").to_latex().splitlines()
    assert lines[:3] == ["% T", r"\begin{tabular}{lr}", r"\toprule"]
    assert r"a\_b \& 5\% & 1.25 \\" in lines


def test_pandas_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(JatpoError, match="pandas"):
        Table(ROWS).to_pandas()


def test_a_data_frame_has_the_keys_as_columns(monkeypatch):
    class DataFrame:
        def from_records(rows, columns):
            return [[row[column] for column in columns] for row in rows]

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=DataFrame))
    assert Table(ROWS, ["domain", "mean"]).to_pandas() == [["abandoned-power-plant", 28.0625], ["ntu", -1.5]]


def test_a_repr_has_at_most_ten_lines():
    table = Table([{"number": number, "text": "x" * 500} for number in range(50)], title="many")
    lines = repr(table).splitlines()
    assert len(lines) == 10 and max(map(len, lines)) <= 120
    assert "50 rows" in lines[-1]
    assert repr(Table([{"a": 1}])) == "a\n1"
