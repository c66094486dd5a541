"""Tuning ATPO by gradient: it climbs, resumes where it was, and reports whether what it found transfers."""

import json

import jax
import numpy as np
import pytest

import tiny_domain
from jatpo.cli.main import run as run_command
from jatpo.disk import Checkpoints
from jatpo.errors import JatpoError
from jatpo.evaluate import tuning
from jatpo.evaluate.agents import ATPO
from jatpo.evaluate.experiment import Config, run
from jatpo.evaluate.experiments import Tune
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.solved import load_solved

SHORT = tuning.TuneSettings(steps=12, batch=64, rate=0.3)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Two domains of three doors, one of them noisier, and a stand-in for the solver."""
    from jatpo.domains import DOMAINS, register

    tiny_domain.stand_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with tiny_domain.registered() as name:
        noisy = register("noisy-doors", models=3, horizon=tiny_domain.HORIZON, beliefs=50)
        noisy(lambda model, *, noise=0.4: tiny_domain.describe(model, noise=noise))
        yield name, "noisy-doors"
        DOMAINS.remove("noisy-doors")


def trainee(name):
    """A domain to train on."""
    solved = load_solved(name, [ATPO()])
    return tuning.trainee(Scenario(solved.library), solved, 0)


def test_training_climbs(tiny):
    """From a temperature at which actions are nearly random to one that earns more, within the same trials."""
    doors = trainee(tiny[0])
    hot = tuning.TuneSettings(steps=12, batch=64, rate=0.3, temperature=20.0)
    theta, curve = tuning.train([doors], hot, seed=0)
    assert [row["step"] for row in curve] == list(range(12))
    assert float(tuning.agent_of(theta).temperature) < 10
    before, after = (
        rollout(
            jax.random.key(5), tuning.tuned(numbers, "x"), doors.scenario, doors.solved, trials=512
        ).returns.mean()
        for numbers in (hot.start(), theta)
    )
    assert after > before + 0.5


def test_training_resumes_where_it_was_stopped(tiny, tmp_path):
    trainees, kept = [trainee(tiny[0])], Checkpoints(tmp_path, {"training": "x"})
    whole, curve = tuning.train(trainees, SHORT, 0)

    def stop(event):
        if event.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuning.train(trainees, SHORT, 0, kept, stop)
    assert kept.names() == ["step-000005"]
    again, resumed = tuning.train(trainees, SHORT, 0, kept)
    assert resumed == curve
    np.testing.assert_array_equal(again, whole)
    (newest,) = kept.names()
    (tmp_path / newest / "seal.json").unlink()
    assert tuning.train(trainees, SHORT, 0, kept)[1] == curve  # computed anew


def test_the_table_has_every_domain_before_and_after(tiny):
    tables = run(Tune(steps=12, batch=64, rate=0.3), tiny, None, Config(trials=128))
    rows, curves = tables["tune"].rows, tables["training"].rows
    assert {(row["domain"], row["trained_on"]) for row in curves} == {
        (name, source) for name in tiny for source in ("others", "own")
    }
    found = {(row["domain"], row["agent"]): row for row in rows}
    agents = ("atpo", "perseus", "soft_atpo_untrained", "soft_atpo_others", "soft_atpo_own")
    assert set(found) == {(name, agent) for name in tiny for agent in agents}
    for name in tiny:
        base = found[name, "atpo"]
        assert base["minus_atpo"] == 0 and base["temperature"] is None
        row = found[name, "soft_atpo_own"]
        assert row["minus_atpo"] == pytest.approx(row["mean"] - base["mean"])
        assert row["minus_atpo_low"] < row["minus_atpo"] < row["minus_atpo_high"]
        assert found[name, "soft_atpo_untrained"]["temperature"] == 1
    # Trained on the other domain alone, each is the other's own.
    numbers = ("temperature", "temper", "tilt")
    for one, other in (tiny, tiny[::-1]):
        for number in numbers:
            assert found[one, "soft_atpo_others"][number] == found[other, "soft_atpo_own"][number]


def test_the_command_writes_tables_and_resumes(tiny, tmp_path, capsys):
    arguments = (
        "experiment",
        "tune",
        *tiny,
        "--steps",
        "3",
        "--batch",
        "16",
        "--trials",
        "20",
        "--out",
        "kept",
    )
    assert run_command([*arguments, "--quiet", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    files = {path.name for path in (tmp_path / "kept" / "training").iterdir()}
    assert files == {f"{name}-{source}" for name in tiny for source in ("others", "own")}
    assert run_command([*arguments, "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split()[:2] == ["domain", "agent"]
    assert json.loads((tmp_path / "kept" / "tune.json").read_text()) == rows
    assert len(json.loads((tmp_path / "kept" / "training.json").read_text())) == 4 * 3
    assert run_command([*arguments, "--rate", "0.5"]) == 2
    assert "settings.rate is 0.1 there and 0.5 here" in capsys.readouterr().err
    assert run_command(["experiment", "tune", tiny[0], "-q"]) == 2
    assert "at least two domains" in capsys.readouterr().err


def test_bad_settings_are_refused():
    with pytest.raises(JatpoError, match="rate is 0"):
        Tune(rate=0)
    with pytest.raises(JatpoError, match="batch of 1 has no baseline"):
        tuning.TuneSettings(batch=1)
