"""What every experiment must do, ours and one from outside the package."""

import dataclasses
import json
from pathlib import Path

import pytest

import tiny_domain
import tiny_team
from jatpo.cli.experiments import command_of, registered
from jatpo.cli.main import run as run_command
from jatpo.errors import JatpoError
from jatpo.evaluate.case import Stage
from jatpo.evaluate.experiment import EXPERIMENTS, Config, Experiment, register, run
from jatpo.learn import FitSettings
from jatpo.registry import load_extension
from jatpo.solve import Request

OUTSIDE = Path(__file__).parent / "outside" / "horizons.py"
load_extension(OUTSIDE)
registered()
ALL = EXPERIMENTS.names()
TRIALS = 3
QUICK = {
    "adapt": {
        "scenarios": ("left-out",),
        "models": (0,),
        "episodes": (2,),
        "rounds": 1,
        "fit": FitSettings(steps=2),
    },
    "filters": {"particles": (8,), "filters": ("exact", "merged"), "at": 3},
    "library-scaling": {"sizes": (2,)},
    "misspecified": {"factors": (2.0,)},
    "off-policy": {"shares": (0.5,), "rounds": 1},
    "scale": {"particles": (8,), "proposals": ("exact", "merged")},
    "simulators": {"particles": (8,)},
    "tune": {"steps": 2, "batch": 4},
    "horizons": {"horizons": (2, 4)},
}
AGENTS = {
    "beyond": ("perseus", "atpo", "map"),
    "filters": ("particle_atpo",),
    "scale": ("particle_atpo",),
    "simulators": ("particle_atpo", "random"),
}


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Two small domains, the second with a teammate that can be learned, and an empty place for solutions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JATPO_CACHE", raising=False)
    with tiny_domain.registered() as doors, tiny_team.registered() as team:
        yield doors, team


class Play:
    """An experiment on the small domains."""

    def __init__(self, name, small):
        self.experiment = EXPERIMENTS.get(name)(**QUICK.get(name, {}))
        self.sources = small[1:] if name == "adapt" else small if name == "tune" else small[:1]
        self.agents = AGENTS.get(name)

    def __call__(self, store=None, on_event=lambda event: None, seed=0, trials=TRIALS, solver="qmdp"):
        config = Config(trials=trials, seed=seed, request=Request(solver))
        return run(self.experiment, self.sources, self.agents, config, store, on_event)


@pytest.fixture(params=ALL)
def play(request, small):
    return Play(request.param, small)


def rows_of(tables):
    """The rows without what a clock measured."""
    measured = ("decision_us", "solve_s", "library_seconds", "joint_seconds")
    return {
        name: [{key: value for key, value in row.items() if key not in measured} for row in table.rows]
        for name, table in tables.items()
    }


def test_one_from_outside_is_among_them():
    ours = {"adapt", "beyond", "evaluate", "identification", "library-scaling", "loss-bound"}
    assert ours | {"filters", "misspecified", "off-policy", "scale", "simulators", "tune", "horizons"} == set(
        ALL
    )


@pytest.mark.parametrize("name", ALL)
def test_the_protocol(name):
    kind = EXPERIMENTS.get(name)
    assert issubclass(kind, Experiment) and kind.name == name
    assert kind() == kind() and dataclasses.is_dataclass(kind)
    assert kind.summary() and kind.agents and kind.trials > 0 and kind.columns
    assert kind().title(Stage("ntu", label={"off_policy": 0.5}))
    assert command_of(kind).__doc__
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind().anything = 1


def test_it_runs_resumes_and_refuses(play, tmp_path):
    """Interrupted after the first piece of work and resumed, its tables are those of a run without a store."""
    tables = play()
    whole, shown = rows_of(tables), play.experiment.shown(tables)
    assert shown and all(len(table) for table in shown)
    assert all(whole[name] for name in play.experiment.main())
    streamed = {name: len(whole.pop(name)) for name in play.experiment.streams}  # with a store, on disk only

    def stop(event):
        if not event.title.startswith("solving") and event.done >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "r", stop)
    finished = []
    assert rows_of(play(tmp_path / "r", finished.append)) == whole
    progress = [event for event in finished if not event.note]
    assert (progress[-1].done, progress[-1].total) == (progress[-1].total, progress[-1].total)
    for table, rows in whole.items():
        assert not rows or len(json.loads((tmp_path / "r" / f"{table}.json").read_text())) == len(rows)
    for table, count in streamed.items():
        assert count and len((tmp_path / "r" / f"{table}.csv").read_text().splitlines()) == count + 1
    chunks = {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("*.npz")}
    assert rows_of(play(tmp_path / "r")) == whole
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("*.npz")} == chunks
    with pytest.raises(JatpoError, match="seed is 0 there and 1 here"):
        play(tmp_path / "r", seed=1)


def test_the_manifest_names_every_policy_played(play, tmp_path):
    play(tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert manifest["experiment"] == play.experiment.name
    agents = [agent for part in manifest["agents"].values() for agent in part.values()]
    digests = [digest for agent in agents for digest in agent["solutions"].values()]
    assert agents and digests and all(isinstance(digest, str) and len(digest) == 16 for digest in digests)


def test_another_seed_gives_other_trials(play):
    """With enough trials that equal tables would be no accident."""
    one, same, other = (rows_of(play(seed=seed, trials=40)) for seed in (0, 0, 1))
    assert one == same
    assert one != other


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("name", ALL)
def test_every_experiment_is_a_command(name, capsys):
    assert run_command(["experiment", name, "--help"]) == 0
    out = capsys.readouterr().out
    options = [each.name for each in dataclasses.fields(EXPERIMENTS.get(name)) if "help" in each.metadata]
    assert all(f"--{option}" in out for option in (*options, "trials", "seed", "out", "json"))


def test_the_outside_experiment_is_a_command_with_its_option(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JATPO_EXTENSIONS", str(OUTSIDE))
    assert run_command(["experiment"]) == 0
    assert "horizons" in capsys.readouterr().out
    arguments = ["experiment", "horizons", small[0], "--horizons", "2,3", "--solver", "qmdp", "--trials", "5"]
    assert run_command([*arguments, "-q", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["horizon"], row["agent"]) for row in rows] == [
        (2, "atpo"),
        (2, "random"),
        (3, "atpo"),
        (3, "random"),
    ]
    assert json.loads((tmp_path / "results" / "horizons" / "horizons.json").read_text()) == rows
    chunks = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.npz")}
    assert run_command([*arguments[:-2], "--trials", "4", "-q"]) == 0
    assert "results are in" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.npz")} == chunks
    assert run_command([*arguments[:3], "--horizons", "2,x", "-q"]) == 2
    assert "--horizons: '2,x'" in capsys.readouterr().err


def test_a_built_in_name_cannot_be_replaced():
    with EXPERIMENTS.restored(), pytest.raises(JatpoError, match="'beyond'"):
        register(type("Other", (Experiment,), {"name": "beyond"}))
