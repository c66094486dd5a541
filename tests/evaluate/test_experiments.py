"""The experiments by their numbers: sessions that resume, rows by hand, what a wrong library costs."""

import jax
import numpy as np
import pytest

import tiny_domain
from jatpo.errors import JatpoError
from jatpo.evaluate import published, rollout
from jatpo.evaluate.agents import Random
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.experiment import Config, run
from jatpo.evaluate.experiments import (
    Comparison,
    Identification,
    LossBound,
    Misspecified,
    Scaling,
    comparison,
    identification,
    misspecified,
)
from jatpo.evaluate.option_fields import integers, numbers
from jatpo.evaluate.results_store import Store
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.session import Cell, Played, Session
from jatpo.evaluate.solved import SolveOptions, load_solved
from jatpo.evaluate.trials import Trials
from jatpo.files import load as load_library
from jatpo.report import comparison_page
from jatpo.solve import Request

QUICK = Request("qmdp")


@pytest.fixture
def tiny():
    with tiny_domain.registered() as name:
        yield name


def case_of(name, agents=("atpo",), trials=10):
    chosen = choose_agents(agents)
    return Case(Stage(name), load_solved(name, chosen, options=SolveOptions(QUICK)), tuple(chosen), trials)


def rows_of(experiment, name, agents, table=None, seed=0, **config):
    tables = run(experiment, name, agents, Config(seed=seed, request=QUICK, **config))
    return tables[table or next(iter(tables))].rows


# ---------------------------------------------------------------- sessions


@pytest.mark.bits
def test_an_interrupted_session_resumes_where_it_was(tiny, tmp_path):
    case = case_of(tiny, trials=3 * rollout.CHUNK + 5)
    cells = Comparison().cells(case)
    (whole,) = Session(0).play(cells)
    kept, heard = Store(tmp_path / "r", "evaluate", {"seed": 0}), []

    def stop(event):
        if event.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Session(0, kept, stop).play(cells)
    assert [kept.has(tiny, "atpo", chunk) for chunk in range(4)] == [True, True, False, False]
    (resumed,) = Session(0, kept, heard.append).play(cells)
    assert [(event.done, event.figures.get("stored")) for event in heard] == [
        (0, None),
        (2, 2),
        (3, None),
        (4, None),
    ]
    jax.tree.map(np.testing.assert_array_equal, resumed.trials, whole.trials)
    (fewer,) = Session(0, kept).play([case_of(tiny, trials=10).cell(cells[0].agent)])
    np.testing.assert_array_equal(fewer.trials.returns, whole.trials.returns[:10])
    assert kept.manifest["seconds"][f"{tiny}/atpo"] > 0


def test_progress_is_that_of_all_cells(tiny):
    case, heard = case_of(tiny, ("atpo", "random"), 2 * rollout.CHUNK), []
    session = Session(0, None, lambda event: heard.append((event.done, event.total, event.figures["agent"])))
    session.play(Comparison().cells(case))
    assert heard == [(0, 4, "atpo"), (1, 4, "atpo"), (2, 4, "atpo"), (3, 4, "random"), (4, 4, "random")]
    heard.clear()
    session.play(Scaling((2, 3)).cells(case_of(tiny, ("atpo", "random"))))
    assert heard == [(0, 3, "random"), (1, 3, "random"), (2, 3, "atpo"), (3, 3, "atpo")]


def test_agents_join_a_directory_and_changed_ones_are_set_aside(tiny, tmp_path):
    config = Config(trials=10, request=QUICK)
    for names in (["random"], ["random", "value_iteration", "atpo"]):
        run(Comparison(), tiny, names, config, tmp_path / "r")
    kept = Store(tmp_path / "r", "evaluate", Comparison().settings(config))
    assert set(kept.manifest["agents"][tiny]) == {"random", "value_iteration", "atpo"}
    (other,) = choose_agents(["atpo"], "as_run")
    others = sorted((tmp_path / "r" / "chunks" / tiny / "random").iterdir())
    heard = []
    Session(0, kept, heard.append).play([case_of(tiny).cell(other)])
    (note,) = [event.note for event in heard if event.note]
    assert "agent atpo in three-doors has changed" in note and "floor is 0.0 there and 1e-08 here" in note
    assert (tmp_path / "r" / "chunks" / tiny / "atpo.before-1").is_dir()
    assert sorted((tmp_path / "r" / "chunks" / tiny / "random").iterdir()) == others
    heard.clear()
    Session(0, kept, heard.append).play([case_of(tiny).cell(other)])
    assert not any(event.note for event in heard)


def test_trials_must_be_at_least_one(tiny):
    with pytest.raises(JatpoError, match="0 trials"):
        Session(0).play([case_of(tiny, trials=0).cell(choose_agents(["random"])[0])])


# ---------------------------------------------------------------- comparison


@pytest.mark.parametrize(
    ("horizon", "trials"), [(10**17, 1), ((1 << 31) - 1, 8), (5, 10**14)], ids=["steps", "longest", "trials"]
)
def test_what_cannot_fit_memory_is_refused_before_it_is_played(tiny, horizon, trials):
    with pytest.raises(JatpoError, match=r"playing .* needs .*B of memory"):
        rollout.rollout(jax.random.key(0), Random(), Scenario(load_library(tiny)), {}, horizon, trials=trials)


@pytest.mark.parametrize(
    "text", ["1-99999999999", "1-99999999999999999999999", "2-x", "", "9" * 5000, "1-9000,1-9000"]
)
def test_lists_of_numbers_are_short(text):
    with pytest.raises(JatpoError) as caught:
        integers(text)
    assert len(str(caught.value)) < 300
    for listed in ("0.5,nan", "1e999", "x" * 5000):
        with pytest.raises(JatpoError, match=r"not finite|not a list"):
            numbers(listed)


def test_the_comparison_has_every_column_and_fits_itself(tiny):
    rows = rows_of(Comparison(), tiny, None, trials=300, seed=1)
    by_agent = {row["agent"]: row for row in rows}
    wanted = {"domain", "agent", "trials", "mean", "std", "low", "high"}
    wanted |= {"published_mean", "published_std", "compatible"}
    assert all(wanted <= set(row) for row in rows)
    assert by_agent["value_iteration"]["relative"] == pytest.approx(100)
    assert by_agent["random"]["relative"] == pytest.approx(0)
    assert by_agent["atpo"]["atpo_minus"] is None
    gap = by_agent["atpo"]["mean"] - by_agent["random"]["mean"]
    assert by_agent["random"]["atpo_minus"] == pytest.approx(gap)
    assert by_agent["atpo"]["published_mean"] is None
    assert by_agent["value_iteration"]["mean"] >= by_agent["atpo"]["mean"] > by_agent["random"]["mean"]


def test_bopa_in_the_power_plant_is_not_available():
    bopa, random = rows_of(Comparison(), "abandoned-power-plant", ["bopa", "random"], trials=10)
    assert bopa["mean"] is None
    assert bopa["compatible"] is None
    assert "different state spaces" in bopa["reason"]
    assert random["published_mean"] == 47.44
    assert "N.A.: the models" in comparison_page.page([bopa, random], page_settings())


def page_settings() -> dict:
    return {"seed": 0, "rules": "as_run", "preset": "exact", "solver": "perseus", "trials": 10}


def test_overcooked_is_weighted_by_the_published_mix(tiny):
    assert published.mix("overcooked") == [7, 6, 5, 14]
    assert published.mix("gridworld") is None
    assert published.result("gridworld", "atpo") == (86.53, 9.12, 32)
    assert published.result("abandoned-power-plant", "bopa") is None
    assert published.relative("gridworld", "atpo") == pytest.approx(89.87, abs=0.01)
    truth = np.repeat(np.arange(4), 8)
    trials = Trials(np.arange(32), truth, 10.0 * truth, 1.0 * truth, {})
    case = case_of(tiny, ["random"])
    overcooked = Case(Stage("overcooked"), case.solved, case.agents, 32)
    (row,) = comparison.summary(overcooked, [Played(case.cell(case.agents[0]), trials)])
    assert row["mean"] == pytest.approx(10 * (6 * 1 + 5 * 2 + 14 * 3) / 32)
    assert row["std"] == pytest.approx(np.std(np.repeat([0.0, 10, 20, 30], [7, 6, 5, 14])))
    assert row["uniform_mean"] == 15
    assert row["mix"] == "7:6:5:14"


def test_the_page_tells_what_does_not_fit():
    row = {"domain": "gridworld", "agent": "atpo", "mean": 50.0, "std": 2.0, "low": 49.0, "high": 51.0}
    row |= {"published_mean": 86.53, "published_std": 9.12, "compatible": False, "deviation": -22.6}
    row["chance"] = 0.0125
    text = comparison_page.page([row], page_settings())
    assert "**0 of 1** cells" in text
    assert "| gridworld | ATPO | 50.00 ± 2.00 | 86.53 ± 9.12 | -22.6 | 1.2 % |" in text
    assert "**50.0 (86.5)**" in text


# ---------------------------------------------------------------- scaling, identification, loss bound


def test_larger_libraries_are_no_easier(tiny):
    agents = ["value_iteration", "atpo", "random"]
    rows = rows_of(Scaling((2, 3)), tiny, agents, trials=500)
    assert [(row["size"], row["agent"]) for row in rows] == [
        (None, "value_iteration"),
        (None, "random"),
        (2, "atpo"),
        (3, "atpo"),
    ]
    assert rows[2]["mean"] > rows[3]["mean"]
    assert 0 < rows[3]["relative"] < 100
    with pytest.raises(JatpoError, match=r"4 models .* 2 to 3"):
        rows_of(Scaling((4,)), tiny, agents)


def test_identification_counts_steps(tiny):
    tables = run(Identification(), tiny, None, Config(trials=300, request=QUICK))
    curves, summaries = tables["curves"].rows, tables["identification"].rows
    assert [row["step"] for row in curves] == [*range(tiny_domain.HORIZON + 1)] * 2
    assert curves[0]["probability"] == pytest.approx(1 / 3)
    assert curves[0]["entropy"] == pytest.approx(1)
    assert curves[tiny_domain.HORIZON]["probability"] > 0.4
    assert {row["agent"] for row in summaries} == {"atpo", "bopa"}
    assert all(0 < row["share_sure"] <= row["share_lead"] <= 1 for row in summaries)


def test_identification_leaves_out_agents_without_a_posterior(tiny):
    """A study gives all of its experiments the same agents."""
    tables = run(Identification(), tiny, ["atpo", "random"], Config(trials=20, request=QUICK))
    atpo, random = tables["identification"].rows
    assert (atpo["agent"], random["agent"]) == ("atpo", "random")
    assert atpo["probability_end"] > 0 and random["reason"] == "it reports no posterior"
    assert {row["agent"] for row in tables["curves"].rows} == {"atpo"}


def test_steps_to_identification_by_hand():
    posterior = np.array([[[0.5, 0.5], [0.4, 0.6], [0.05, 0.95]], [[0.5, 0.5], [0.5, 0.5], [0.8, 0.2]]])
    trials = Trials(np.arange(2), np.array([1, 1]), np.zeros(2), np.zeros(2), {})
    trials = trials._replace(records={"posterior": posterior, "entropy": np.zeros((2, 3))})
    np.testing.assert_array_equal(identification.first_step(identification.leads(trials)), [1, np.nan])
    found = identification.summary(trials)
    assert found["share_lead"] == 0.5
    assert found["share_sure"] == 0.5
    assert found["median_steps_sure"] is None
    assert found["probability_end"] == pytest.approx((0.95 + 0.2) / 2)


def test_the_loss_is_below_its_bound_and_replayed_as_it_was(tiny):
    rows = rows_of(LossBound(), tiny, None, trials=4)
    case = case_of(tiny, trials=4)
    (played,) = Session(0).play([case.cell(case.agents[0], record=("posterior",))])
    run = played.trials
    for row, posterior, truth in zip(rows, run.records["posterior"], run.truth, strict=True):
        divergence = -np.log(posterior[:-1, truth]).sum()
        assert row["divergence"] == pytest.approx(divergence, rel=1e-4)
        assert 0 <= row["loss"] <= row["bound_eta_consistent"]
        assert row["loss"] <= row["bound_eta_paper"]
        assert row["bound_eta_consistent"] < row["bound_eta_paper"]


# ---------------------------------------------------------------- a wrong library


def test_a_wrong_library_costs_and_shows(tiny):
    rows = rows_of(Misspecified((1.0, 2.0)), tiny, ["atpo", "perseus"], trials=400)
    found = {(row["scenario"], row["agent"]): row for row in rows}
    assert {scenario for scenario, _ in found} == {"right", "left out", "noise x 1", "noise x 2"}
    assert found["left out", "atpo"]["minus_right_high"] < 0
    assert found["left out", "perseus"]["minus_right"] == 0
    assert found["right", "atpo"]["roc_area_end"] == 0.5
    assert found["right", "atpo"]["detected_end"] <= 0.05
    assert found["noise x 1", "atpo"]["minus_right"] == 0
    assert found["noise x 2", "atpo"]["roc_area_end"] > 0.55
    assert "roc_area_end" not in found["left out", "perseus"]
    with pytest.raises(JatpoError, match=r"6\.0 times the noise of three-doors is 1\.2"):
        misspecified.scenarios(case_of(tiny), [6.0])


def test_library_of_one_model_has_no_left_out(tiny):
    alone = load_solved(tiny, []).library.select([0])
    case = Case(Stage(alone), load_solved(alone, []), (), 10)
    assert list(misspecified.scenarios(case, ())) == ["right"]


def test_a_cell_says_what_it_is_made_of(tiny):
    case = case_of(tiny)
    cell = case.cell(case.agents[0], horizon=3, label={"size": 2})
    assert isinstance(cell, Cell)
    assert (cell.horizon, cell.made_of["horizon"], cell.made_of["size"]) == (3, 3, 2)
    assert len(cell.made_of["models"]) == 3
