"""An episode in simulators, as text and as data: states as they are drawn, until the trial is done."""

import io
import json

import numpy as np
import pytest

import jatpo
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import SimulatorATPO
from jatpo.evaluate.solved import Solved
from jatpo.report import episode
from jatpo.report.simulated_episode import observation_text
from jatpo.report.terminal import frame, play
from jatpo.simulators import Particles

NAME = "foraging:size=4,food=1"


@pytest.fixture(scope="module")
def shown():
    solved = Solved(jatpo.load(NAME))
    return episode.play(solved, SimulatorATPO(filter=Particles(16)), seed=1, model=1)


def test_it_is_a_trial_of_the_rollout(shown):
    library = jatpo.load(NAME)
    assert shown.truth == 1 and shown.labels == library.labels
    assert shown.num_steps <= library.horizon and len(shown.states) == shown.num_steps + 1
    assert shown.posterior.shape == (shown.num_steps + 1, library.num_models)
    assert shown.action_names == library.names[0].actions
    first, last = shown.state_name(0), shown.state_name(shown.num_steps)
    assert first.count("\n") == 3 and "A" in first and first != last


def test_it_is_shown_as_text_and_data(shown):
    text = frame(shown, 1)
    assert shown.state_name(1).splitlines()[2].strip() in text
    assert f"true model  {shown.labels[1]}" in text and "posterior over models" in text
    out = io.StringIO()
    play(shown, stream=out)
    assert out.getvalue().count("true model") == shown.num_steps + 1
    data = json.loads(json.dumps(shown.to_json(), allow_nan=False))
    assert data["steps"] == shown.num_steps and data["frames"][0]["state"] == shown.state_name(0)
    assert data["frames"][-1]["posterior"] == pytest.approx(shown.posterior[-1].tolist(), abs=1e-5)


def test_observations_as_text():
    assert observation_text(np.array([True, False, True])) == "101"
    assert observation_text({"a": np.int32(3), "b": np.array([0.5, 2])}) == "3 0.5 2"
    assert len(observation_text(np.zeros(500))) == 80


def test_an_unknown_model_and_an_agent_of_tables(capsys):
    with pytest.raises(JatpoError, match="choose from 0"):
        episode.play(Solved(jatpo.load(NAME)), SimulatorATPO(filter=Particles(16)), model=99)
    assert run(["watch", NAME, "--agent", "atpo"]) == 2
    assert "it plays in libraries of tables" in capsys.readouterr().err
