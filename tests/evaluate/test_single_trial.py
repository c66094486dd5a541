"""The interval of a single trial is unknown: no table shows it as a number, nor as NaN."""

import csv
import io
import json
import math

import numpy as np
import pytest

from jatpo.evaluate import aggregates
from jatpo.tables import Column, Table, format_cell, interval_text, number_text

COMMAND = ("evaluate", "three-doors", "--agents", "atpo,value-iteration,random", "--trials", "1", "-q")


@pytest.fixture
def printed(call):
    """What a command that succeeds prints."""

    def printing(*arguments):
        code, out, _ = call(*arguments)
        assert code == 0
        return out

    return printing


@pytest.mark.parametrize("form", [(), ("--markdown",), ("--latex",)])
def test_tables_for_people(form, printed):
    for _ in range(2):  # played, then read from the results
        out = printed(*COMMAND, *form)
        assert "nan" not in out.lower() and ".. " not in out
        assert "None" not in out and "null" not in out


def test_data_for_programs(printed):
    rows = json.loads(printed(*COMMAND, "--json"))
    names = ("std", "error", "low", "high", "relative_low", "atpo_minus_low", "baseline_minus_high")
    assert len(rows) == 3
    assert all(row[name] is None for row in rows for name in names)
    lines = list(csv.DictReader(io.StringIO(printed(*COMMAND, "--csv"))))
    assert all(line[name] == "" for line in lines for name in names)


def test_two_trials_have_an_interval(printed):
    rows = json.loads(printed(*COMMAND[:-3], "--trials", 2, "-q", "--json"))
    assert all(row["low"] is not None and row["high"] is not None for row in rows)


def test_measures_over_domains():
    returns = {name: {"a": np.array([1.0]), "b": np.array([2.0]), "c": np.array([1.5])} for name in "xy"}
    rows = aggregates.summarise(aggregates.scores_of(returns, "a", "b"), "c", repetitions=20)
    assert all(math.isnan(row["iqm_low"]) and math.isnan(row["iqm_high"]) for row in rows)
    assert all(row["improvement"] is None or math.isnan(row["improvement_low"]) for row in rows)


def test_a_report_of_a_single_trial(printed, tmp_path):
    printed("reproduce", "three-doors", "--trials", 1, "--out", tmp_path / "run", "-q")
    page = (tmp_path / "run" / "report.html").read_text()
    assert ">nan" not in page.lower() and "None to" not in page


def test_unknown_numbers_are_a_dash_everywhere():
    table = Table([{"x": math.nan}, {"x": None}, {"x": 1.0}], [Column("x", format=".2f")])
    assert [line.strip() for line in str(table).splitlines()] == ["x", "-", "-", "1.00"]
    assert "nan" not in table.to_latex() + table.to_markdown() + table.to_csv() + table.to_json()
    assert format_cell(math.nan) == number_text(None) == interval_text(math.nan, 1.0) == "-"
    assert interval_text(-1, 2, "+.1f", " to ") == "-1.0 to +2.0"
