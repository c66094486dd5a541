"""Agents with beliefs of every representation: nothing is lost, rollouts agree, and what cannot be is refused."""

from fractions import Fraction

import jax
import numpy as np
import pytest

import random_models
from agent_tasks import ready, same_size
from jatpo import beliefs
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import ATPO, Bayes, Commit, agent_class, catalogue
from jatpo.evaluate.player import Player
from jatpo.evaluate.player import agent as agent_by
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.solved import Solved
from jatpo.simulators import Particles

HINT = Fraction(17, 20)  # of the observation that names the hidden state
REPRESENTATIONS = {
    "scaled": beliefs.Scaled(),
    "support": beliefs.Support(5),
    "compacting": beliefs.Compacting(3, 0.0),
}
RELATIVES = {"atpo": ATPO, "commit": Commit, "bayes": Bayes}


def hidden_sign():
    """One model whose two states never change; action 0 bets on the first, action 1 on the second."""
    sensor = np.array([[HINT, 1 - HINT], [1 - HINT, HINT]], float)
    half = np.array([0.5, 0.5])
    model = random_models.Example(np.stack([np.eye(2)] * 2), np.stack([sensor] * 2), np.eye(2), half, 0.9)
    return ready([model], "blocked", policies=[(np.eye(2), np.arange(2))])


def odds_after(hints):
    """Of the second state against the first, exactly."""
    against = int(np.sum(np.asarray(hints) == 0))
    return (HINT / (1 - HINT)) ** (len(hints) - 2 * against)


def believed(agent, hints):
    """The player's belief in the second state after every hint."""
    task = hidden_sign()
    player, found = Player(agent, task.library, task.solved), []
    player.reset()
    for hint in hints:
        player.observe(0, int(hint))
        found.append(player.beliefs[0])
    return np.array(found), player


def test_a_static_state_comes_back_after_equal_hints():
    """70 hints for the first state, 70 for the second, and three more; dense beliefs stay certain of the first."""
    hints = [0] * 70 + [1] * 73
    found, player = believed(ATPO(belief=beliefs.Scaled()), hints)
    wanted = [float(odds_after(hints[: t + 1]) / (1 + odds_after(hints[: t + 1]))) for t in range(len(hints))]
    np.testing.assert_allclose(found[:, 1], wanted, rtol=1e-4, atol=1e-37)
    assert player.probabilities[1] > 0.999
    assert player.report()["effective_size"].tolist() == [2]
    lost, player = believed(ATPO(), hints)
    assert lost[-1].tolist() == [1, 0] and player.probabilities[0] == 1


def test_players_by_name_lose_nothing():
    """In a loop without a horizon; an agent that is given is taken as it is, and so is one of a user."""
    task = hidden_sign()
    solved = Solved(task.library, task.solved)
    player = agent_by("atpo", solved)
    player.reset()
    for hint in [0] * 70 + [1] * 73:
        player.observe(0, hint)
    assert player.beliefs[0, 1] == pytest.approx(1, abs=0.01)
    for name in ("commit", "lookahead", "bayes", "soft_atpo", "perseus"):
        assert catalogue.without_horizon(catalogue.get(name), 20_000).belief == beliefs.Scaled()
    assert catalogue.without_horizon(ATPO(floor=1e-8), 2).belief == beliefs.Dense()
    assert catalogue.without_horizon(ATPO(), 20_001).belief == beliefs.Dense()
    assert agent_by(ATPO(), solved).agent.belief == beliefs.Dense()

    @agent_class
    class Own(ATPO):
        pass

    assert catalogue.without_horizon(Own(), 2).belief == beliefs.Dense()


@pytest.mark.slow
def test_ten_thousand_steps_of_the_player_lose_nothing():
    """70 equal hints, 70 opposite ones, long runs of both and noise, against float64."""
    hints = np.random.default_rng(0).integers(0, 2, 10_000)
    hints[:6140] = np.repeat([0, 1, 0, 1], [70, 70, 3000, 3000])
    found, player = believed(ATPO(belief=beliefs.Scaled()), hints)
    net = np.cumsum(2 * hints - 1)
    ratio = np.log(float(HINT / (1 - HINT)))
    wanted = 1 / (1 + np.exp(np.clip(-net * ratio, -700, 700)))
    assert np.abs(net).max() == 3000
    np.testing.assert_allclose(found[:, 1], wanted, atol=1e-3)
    assert player.posterior.tolist() == [1] and player.report()["impossible"] == 0


@pytest.fixture(scope="module")
def team():
    needs = ("policies", "q", "joint")
    return ready(same_size(3, seed=8), "blocked", needs=needs)


@pytest.mark.parametrize(
    ("name", "agent"),
    [*((name, "atpo") for name in REPRESENTATIONS), ("scaled", "commit"), ("support", "bayes")],
)
def test_with_room_for_all_states_rollouts_are_those_of_dense_beliefs(name, agent, team):
    """The same actions, and beliefs and posterior equal up to rounding; the contract suite has all agents."""
    record = ["actions", "probabilities", "posterior", "beliefs"]
    plain, held = (
        rollout(jax.random.key(0), made, *team, 5, trials=6, record=record)
        for made in (RELATIVES[agent](), RELATIVES[agent](belief=REPRESENTATIONS[name]))
    )
    np.testing.assert_array_equal(held.records["actions"], plain.records["actions"])
    for part in record[1:]:
        np.testing.assert_allclose(held.records[part], plain.records[part], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(held.returns, plain.returns, rtol=1e-6)


def test_a_list_that_is_too_short_reports_what_is_missing(team):
    record = ["effective_size", "missing", "beliefs"]
    held = rollout(
        jax.random.key(0), ATPO(belief=beliefs.Support(2)), *team, 4, trials=3, record=record
    ).records
    assert held["missing"].shape == held["effective_size"].shape == (3, 5, 3)
    assert (held["effective_size"] <= 2).all() and (held["missing"] > 0).any()
    assert ((held["beliefs"] > 0).sum(axis=3) == held["effective_size"]).all()
    roomy = rollout(jax.random.key(0), ATPO(belief=beliefs.Support(5)), *team, 4, trials=3, record=record)
    assert not roomy.records["missing"].any()


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_an_impossible_observation_leaves_the_predicted_beliefs(name):
    models = [random_models.example("never seen", seed) for seed in range(3)]
    task = ready(models, "blocked")
    plain, held = (
        Player(agent, task.library, task.solved) for agent in (ATPO(), ATPO(belief=REPRESENTATIONS[name]))
    )
    for player in (plain, held):
        player.reset()
        for action, seen in [(0, 0), (1, 2), (2, 1)]:
            player.observe(action, seen)
    assert held.report()["impossible"] == plain.report()["impossible"] == 1
    assert held.report()["log_evidence"] == -np.inf
    np.testing.assert_allclose(held.beliefs, plain.beliefs, atol=1e-6)
    np.testing.assert_allclose(held.posterior, plain.posterior, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "storage", "message"),
    [
        (
            {"belief": beliefs.Scaled(), "floor": 1e-8},
            "blocked",
            r"Scaled\(\) takes no floor, and floor=1e-08",
        ),
        ({"belief": "scaled"}, "blocked", "'scaled' cannot hold beliefs of tables"),
        ({"belief": Particles(10)}, "blocked", "cannot hold beliefs of tables"),
        ({"belief": beliefs.Support(4)}, "dense", "needs lists of successors.*storage 'dense'"),
        ({"belief": beliefs.Compacting(4)}, "dense", "needs lists of successors"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(parameters, storage, message):
    task = ready(same_size(2), storage)
    for run in (
        lambda agent: rollout(jax.random.key(0), agent, *task, 2, trials=2),
        lambda agent: Player(agent, task.library, task.solved),
    ):
        with pytest.raises(JatpoError, match=message):
            run(ATPO(**parameters))
