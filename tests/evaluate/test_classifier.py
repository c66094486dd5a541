"""The recurrent classifier: its network against loops, training that learns and resumes, and the agent that uses it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jatpo
from agent_tasks import same_size
from jatpo.disk import Checkpoints
from jatpo.errors import JatpoError
from jatpo.evaluate import classifier, recurrent_network
from jatpo.evaluate.agents import ATPO, RecurrentATPO
from jatpo.evaluate.classifier import Training, train
from jatpo.library import Library
from jatpo.simulators import Exact, SimulatorLibrary
from random_models import build

SHORT = Training(histories=1024, of_round=512, passes=4, batch=64, hidden=16, rate=1e-2)


@pytest.fixture(scope="module")
def small():
    """Three random models with policies."""
    library = Library.from_models([build(each, "dense") for each in same_size(3, seed=8)], horizon=12)
    return jatpo.solve_library(library, jatpo.QMDP(), key=jax.random.key(0), stop=jatpo.Stop())


@pytest.fixture(scope="module")
def trained(small):
    return train(small.library, small, jax.random.key(1), SHORT)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_one_step_of_the_network_by_hand():
    network = recurrent_network.random_network(jax.random.key(0), 4, 3, 2, 5)
    x, h = np.array([0.5, -1, 0, 2], np.float32), np.array([0.3, -0.7], np.float32)
    w, a, u = (np.asarray(part, float) for part in network[:3])
    reset, update, candidate = np.split(x @ w + a[1], 3)
    own_reset, own_update, own_candidate = np.split(h @ u, 3)
    stay = sigmoid(update + own_update)
    fresh = np.tanh(candidate + sigmoid(reset + own_reset) * own_candidate)
    found = recurrent_network.advance(network, jnp.asarray(h), jnp.int32(1), jnp.asarray(x))
    np.testing.assert_allclose(found, stay * h + (1 - stay) * fresh, atol=1e-6)
    assert recurrent_network.scores(network, found).shape == (5,)


def test_it_learns_which_model_is_true(trained):
    network, curve = trained
    assert [row["histories"] for row in curve] == [512, 1024]
    assert curve[0]["loss"] < np.log(3) + 0.1
    assert curve[-1]["loss"] < 0.8 * np.log(3)
    assert all(np.isfinite(part).all() for part in network)


def test_the_same_key_trains_the_same_network_and_resumes(small, trained, tmp_path):
    kept = Checkpoints(tmp_path, {"training": "short"})

    def stop(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small.library, small, jax.random.key(1), SHORT, kept, stop)
    resumed = train(small.library, small, jax.random.key(1), SHORT, kept)
    assert resumed[1] == trained[1]
    for one, other in zip(resumed[0], trained[0], strict=True):
        np.testing.assert_array_equal(one, other)
    played = []
    train(small.library, small, jax.random.key(1), SHORT, kept, played.append)
    assert not played


def test_histories_that_end_count_until_then(small, trained):
    library = SimulatorLibrary.from_tables(small.library)
    truth, actions, seen, counted = classifier.play(jax.random.key(0), ATPO(), small.library, small, 4)
    network = trained[0]
    half = counted.at[:, 3:].set(False)
    changed = seen.at[:, 3:].set(0)
    for n in range(4):
        one = classifier.history_loss(network, library, truth[n], actions[n], seen[n], half[n])
        other = classifier.history_loss(network, library, truth[n], actions[n], changed[n], half[n])
        assert one == other > 0


@pytest.mark.parametrize("simulated", (False, True))
def test_the_agent_mixes_by_the_trained_posterior(small, trained, simulated):
    library = SimulatorLibrary.from_tables(small.library) if simulated else small.library
    scenario = jatpo.evaluate.simulator_scenario.scenario_of(library)
    agent = RecurrentATPO(filter=Exact())
    given = {"policies": small["policies"], "classifier": trained[0]}
    record = ("posterior", "actions", "observations")
    run = jatpo.rollout(jax.random.key(2), agent, scenario, given, trials=256, record=record)
    posterior = run.records["posterior"]
    np.testing.assert_allclose(posterior.sum(axis=2), 1, atol=1e-5)
    np.testing.assert_allclose(posterior[:, 0], 1 / 3, atol=1e-6)
    own = posterior[np.arange(256), :, run.truth]
    assert own[:, -1].mean() > own[:, 0].mean() + 0.1
    features = recurrent_network.features_of(SimulatorLibrary.from_tables(small.library), jnp.int32(0))
    assert features.shape == (small.library.num_observations,)
    hidden = recurrent_network.first_state(trained[0])
    for step in range(3):
        one_hot = jax.nn.one_hot(run.records["observations"][0, step], features.shape[0], dtype=jnp.float32)
        hidden = recurrent_network.advance(
            trained[0], hidden, jnp.int32(run.records["actions"][0, step]), one_hot
        )
        by_hand = jax.nn.softmax(recurrent_network.scores(trained[0], hidden))
        np.testing.assert_allclose(posterior[0, step + 1], by_hand, atol=1e-5)


def test_a_model_outside_the_prior_stays_outside(small, trained):
    player = jatpo.evaluate.Player(
        RecurrentATPO(filter=Exact()),
        small.library,
        {"policies": small["policies"], "classifier": trained[0]},
        prior=[0.5, 0, 0.5],
    )
    player.reset()
    player.observe(0, 1)
    assert player.posterior[1] == 0 and abs(player.posterior.sum() - 1) < 1e-6


def test_the_bayesian_posterior_has_the_lower_log_loss(small, trained):
    """On the trials that ATPO plays, the classifier's own kind of histories."""
    truth, actions, seen, counted = classifier.play(jax.random.key(5), ATPO(), small.library, small, 512)
    library = SimulatorLibrary.from_tables(small.library)
    losses = jax.vmap(classifier.history_loss, in_axes=(None, None, 0, 0, 0, 0))
    learned = float(losses(trained[0], library, truth, actions, seen, counted).mean())
    run = jatpo.rollout(
        jax.random.key(5), ATPO(), jatpo.Scenario(small.library), small, trials=512, record=("posterior",)
    )
    exact = float(-np.log(run.records["posterior"][np.arange(512), 1:, run.truth]).mean())
    assert exact < learned


def test_wrong_training():
    for wrong in ({"passes": 0}, {"rate": float("nan")}, {"histories": 100}, {"batch": 100}):
        with pytest.raises(JatpoError):
            Training(**wrong)
    assert dataclasses.replace(SHORT, histories=2048).rounds == 4
