"""`jatpo experiment beyond`: its numbers by hand, the command on a small domain, tables and figure."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import report_rows
import tiny_domain
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.evaluate import statistics
from jatpo.evaluate.agents import catalogue
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.experiment import Config, merge
from jatpo.evaluate.experiment import run as run_experiment
from jatpo.evaluate.experiments import beyond
from jatpo.evaluate.session import Pace, Session
from jatpo.evaluate.solved import load_solved
from jatpo.evaluate.trials import Trials
from jatpo.report import beyond_tables, page, style
from jatpo.report.figures import FIGURES
from jatpo.report.panels import draw_panel
from jatpo.report.results import Results, load
from report_rows import contrast


@pytest.fixture
def tiny(monkeypatch):
    """The tiny domain with a stand-in for the solver."""
    tiny_domain.stand_in(monkeypatch)
    with tiny_domain.registered() as name:
        yield name


def trials(returns, sure=(0, 3, -1, -1), steps=(4, 4, 6, 6)) -> Trials:
    returns = np.asarray(returns, np.float32)
    records = {"steps": np.array(steps), "steps_sure": np.array(sure)}
    return Trials(np.arange(4), np.zeros(4, int), returns, returns / 2, records)


# ---------------------------------------------------------------- numbers by hand


def test_gap_and_share_won_back_by_hand():
    """Perseus earns 10 more than ATPO on average and the rule 4 more: 40 % of the gap."""
    found = {
        "perseus": trials([20, 22, 18, 20]),
        "atpo": trials([10, 11, 9, 10]),
        "map": trials([14, 15, 13, 14]),
    }
    rows = {row["agent"]: row for row in beyond.compare(found)}
    assert rows["map"]["mean"] == 14 and rows["map"]["discounted"] == 7
    assert rows["atpo"]["gap"] == 10 and rows["map"]["gap"] == 6 and rows["perseus"]["gap"] == 0
    assert rows["map"]["minus_atpo"] == 4 and rows["map"]["minus_atpo_low"] == 4  # the same in every trial
    assert rows["map"]["won"] == pytest.approx(40) and rows["map"]["won_discounted"] == pytest.approx(40)
    assert rows["map"]["won_low"] < 40 < rows["map"]["won_high"]
    assert rows["map"]["scaled"] == pytest.approx(70)
    assert "won" not in rows["atpo"] and "won" not in rows["perseus"]


def test_the_interval_of_the_share_is_that_of_repeated_sampling():
    random = np.random.default_rng(0)
    shares, widths = [], []
    for _ in range(600):
        luck = random.normal(size=200)
        base, rule, best = (luck + random.normal(mean, 1, size=200) for mean in (0, 2, 5))
        row = beyond.share_won("won", rule, base, best)
        shares.append(row["won"])
        widths.append(row["won_high"] - row["won_low"])
    assert np.mean(shares) == pytest.approx(40, abs=0.5)
    assert np.mean(widths) == pytest.approx(2 * 1.97 * np.std(shares), rel=0.1)


def test_a_gap_that_may_be_nothing_is_not_divided_by():
    found = {
        "perseus": trials([10, 12, 8, 10]),
        "atpo": trials([12, 10, 10, 8]),
        "map": trials([14, 15, 13, 14]),
    }
    assert beyond.compare(found)[2]["won"] is None


def test_time_to_identification_counts_trials_that_never_got_there():
    rows = beyond.compare({"atpo": trials([1, 2, 3, 4], sure=(0, 3, 5, -1))})
    assert rows[0]["median_steps_sure"] == 4 and rows[0]["share_sure"] == 0.75 and rows[0]["steps"] == 5
    rows = beyond.compare({"atpo": trials([1, 2, 3, 4], sure=(0, -1, -1, -1))})
    assert rows[0]["median_steps_sure"] is None


def test_the_pace_leaves_the_first_round_out():
    now = iter([100.0, 100.1] + [101.0] * 6 + [107.0, 110.0])  # 8 chunks of the first round, then 2
    pace = Pace(clock=lambda: next(now))
    for _ in range(10):
        pace.tick()
    assert pace.seconds() == pytest.approx((110 - 100) / 2)
    assert Pace().seconds() is None


def test_merged_tables_keep_other_rows_and_speeds():
    before = [{"d": 1, "agent": "q", "decision_us": 5.0}, {"d": 2, "agent": "q", "decision_us": 6.0}]
    merged = merge(before, [{"d": 1, "agent": "q", "decision_us": None, "mean": 3}], ("d", "agent"))
    assert merged == [{"d": 1, "agent": "q", "decision_us": 5.0, "mean": 3}, before[1]]
    assert merge(before, [{"d": 1, "agent": "q", "decision_us": 4.0}], ("d", "agent"))[0]["decision_us"] == 4


# ---------------------------------------------------------------- a wrong library


def case_of(name, agents=("atpo",), trials=64) -> Case:
    chosen = choose_agents(agents)
    return Case(Stage(name), load_solved(name, chosen), tuple(chosen), trials)


def test_a_wrong_prior_favours_a_model_that_is_never_true(tiny):
    wrong = beyond.wrong_prior(case_of(tiny).scenario)
    np.testing.assert_allclose(wrong.prior, [10 / 12, 1 / 12, 1 / 12], atol=1e-6)
    assert wrong.weights.tolist() == [0, 0.5, 0.5]


def test_scenarios_of_a_domain(tiny):
    found = beyond.stressed(case_of(tiny), [0.0])
    assert list(found) == ["right", "left out", "noise x 0", "prior 1:10"]


# ---------------------------------------------------------------- the command


def test_the_command_resumes_where_it_was_and_fills_the_page(tiny, tmp_path, capsys):
    out, document = tmp_path / "out", tmp_path / "page.md"
    document.write_text("before\n<!-- beyond: returns -->\nold\n<!-- end -->\nafter\n")
    arguments = ["experiment", "beyond", tiny, "--agents", "perseus,atpo,vote", "--out", str(out), "--quiet"]
    assert run([*arguments, "--trials", "130", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["agent"] for row in rows] == ["perseus", "atpo", "vote"]
    assert all(row["trials"] == 130 and row["rules"] == "as_run" for row in rows)
    kept = {path.name for path in out.iterdir()}
    assert {"manifest.json", "beyond.json", "beyond.csv", "chunks"} <= kept
    chunks = {path: path.stat().st_mtime_ns for path in (out / "chunks").rglob("*.npz")}
    assert run([*arguments, "--trials", "100"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (out / "chunks").rglob("*.npz")} == chunks
    assert "results are in" in capsys.readouterr().out
    with pytest.raises(JatpoError, match="<!-- beyond: discounted -->"):
        beyond_tables.write_page(document, {"beyond": rows})
    assert run(["experiment", "beyond", tiny, "--rules", "as_walked", "--out", str(out)]) == 2
    assert "as_walked" in capsys.readouterr().err


def test_rows_are_those_of_the_trials(tiny):
    """Rows against the trials they are made of, with the same seed."""
    rows = run_experiment(beyond.Beyond(), tiny, ["perseus", "atpo"], Config(trials=64, seed=3))[
        "beyond"
    ].rows
    played = Session(3).play(beyond.Beyond().cells(case_of(tiny, ["perseus", "atpo"])))
    informed, base = (each.trials.returns for each in played)
    assert rows[1]["gap"] == pytest.approx(float((informed - base).astype(float).mean()))
    assert rows[1]["upper"] is None and rows[1]["decision_us"] is None
    assert rows[0]["median_steps_sure"] == 0  # it knows the model


def test_stress_has_a_row_for_every_scenario_and_size(tiny, monkeypatch):
    monkeypatch.setattr(beyond, "POOL", tiny)
    experiment = beyond.Beyond(stress=True, factors=(2.0,), sizes=(2,))
    tables = run_experiment(experiment, tiny, ["perseus", "atpo"], Config(trials=8))
    scenarios = ["right", "left out", "noise x 2", "prior 1:10"]
    assert [row["scenario"] for row in tables["stress"].rows[::2]] == scenarios
    assert [(row["size"], row["agent"]) for row in tables["sizes"].rows] == [(2, "perseus"), (2, "atpo")]
    assert "decision_us" not in tables["stress"].rows[0]


def test_the_certificate_reports_what_was_solved(tiny):
    case = case_of(tiny)
    each = SimpleNamespace(lower=1.0, upper=2.5, num_vectors=7, seconds=3.0, model_hash="a")
    solved = SimpleNamespace(library=case.library, joint=each, solutions=[each, each])
    proof = beyond.certificate(solved)
    assert proof == beyond.Certificate(1.0, 2.5, 7, 3.0, 3.0)  # equal models are counted once
    rows = [{"agent": "perseus", "discounted": 3.0}, {"agent": "atpo", "discounted": 1.0}]
    rows.append({"agent": "map", "discounted": 2.0})
    row = beyond.certificate_row(case, proof, rows)
    assert (row["best_agent"], row["best"], row["atpo"], row["informed"], row["upper"]) == (
        "map",
        2.0,
        1.0,
        3.0,
        2.5,
    )


# ---------------------------------------------------------------- for readers


def written(rows, **tables) -> str:
    return "\n".join(make({"beyond": rows, **tables}) for make in beyond_tables.MARKDOWN.values())


def test_tables_mark_what_is_better_and_worse_than_atpo():
    found = {
        "perseus": trials([20, 22, 18, 20]),
        "atpo": trials([10, 11, 9, 10]),
        "map": trials([14, 15, 13, 14]),
    }
    found["vote"] = trials([8, 9, 7, 8])
    rows = [{"domain": "ntu", "rules": "as_run", "decision_us": 12.4, **row} for row in beyond.compare(found)]
    proof = {"domain": "ntu", "rules": "as_run", "models": 2, "upper": 9.25, "lower": 8.5, "vectors": 3}
    proof |= {"library_seconds": None, "joint_seconds": 1.25, "informed": 10.0, "atpo": 5.0}
    text = written(rows, certificates=[proof], sizes=[{**row, "size": 8} for row in rows])
    line = next(line for line in text.splitlines() if line.startswith("| ntu | 20.0"))
    assert re.fullmatch(
        r"\| ntu \| 20\.0 \| 10\.0 \| \*\*14\.0 \(40 ± \d+\)\*\* \| \*8\.0 \(-20 ± \d+\)\* \|", line
    )
    assert "| domain | informed Perseus | ATPO | most likely model | vote |" in text
    assert "| ntu | 10.00 | 5.00 | 7.00 | 4.00 | 9.25 |" in text
    assert "| ntu | `as_run` | 2 |  | 1.2 | 3 | 8.50 | 9.25 | 70 .. 85 |" in text  # 3.5 and 4.25 of 5
    same = {**proof, "informed": 5.05}  # too little of a gap to speak of shares
    assert "| 8.50 | 9.25 |  |" in written(rows, certificates=[same])
    assert "| ntu, 8 models | 20.0 | 10.0 | **14.0** | *8.0* |" in text
    assert "12 / never" in text


def test_a_page_that_is_not_there_is_begun(tmp_path):
    rows = report_rows.made()["beyond"]
    beyond_tables.write_page(tmp_path / "new.md", {"beyond": rows})
    text = (tmp_path / "new.md").read_text()
    assert "| ntu | 90.0 | 91.0 | 92.0 |" in text
    beyond_tables.write_page(tmp_path / "new.md", {"beyond": rows})
    assert (tmp_path / "new.md").read_text() == text


def test_a_page_that_is_no_text_stays_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_bytes(b"\xff\xfe")
    with pytest.raises(JatpoError, match="not UTF-8 text"):
        beyond_tables.write_page(page, {})
    assert page.read_bytes() == b"\xff\xfe"


def test_the_figure_shows_intervals_and_the_bound():
    rows = report_rows.made()["beyond"]
    with style.styled():
        figure = FIGURES["beyond"](Results({"beyond": rows}, {}, {}))
        axes = draw_panel(figure.panels[0]).axes[0]
    lines = [line.get_xydata().tolist() for line in axes.get_lines()]
    at = 100 * 63.5 / 60
    assert [[at, -0.4], [at, 0.4]] in lines  # across the domain, in per cent of Perseus
    assert any(points[0][0] == 94 and points[1][0] == 99 for points in lines if len(points) == 2)
    assert [mark.label for mark in figure.legend] == [
        "ATPO",
        "Bayes-optimal",
        "informed Perseus (100)",
        "upper bound",
    ]


@pytest.mark.parametrize("paper", ["#ffffff", "#14171c"])
def test_rules_stand_out_on_both_papers(paper):
    marks = [style.mark(name) for name in beyond.AGENTS]
    assert all(contrast(mark.colour, paper) >= 3 for mark in marks if mark.colour not in style.PAGE)
    assert len({mark.marker for mark in marks}) == len(marks)


def test_the_report_has_a_section_where_there_are_results(tmp_path):
    report_rows.write(tmp_path)
    assert 'id="beyond"' not in page.page(load(tmp_path))
    report_rows.write(tmp_path / "beyond", beyond=report_rows.made()["beyond"])
    text = page.page(load(tmp_path))
    assert 'id="beyond"' in text and "upper bound" in text and "figure-beyond" in text


def test_rules_are_agents_like_the_others():
    assert {"map", "vote", "q", "lookahead"} <= set(catalogue.names())
    assert statistics.quantile(10_000) == pytest.approx(1.96, abs=1e-3)
    assert all(agent.floor == 1e-8 for agent in choose_agents(["map", "q"], "as_run"))
