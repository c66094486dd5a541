"""Policies that act for the most probable state, against the beliefs of the oracle and a loop over actions."""

import jax.numpy as jnp
import numpy as np
import pytest

from agent_tasks import call, examples, filtered, keys, possible_history, ready
from jatpo.beliefs import Dense, Support
from jatpo.evaluate.agents import LikeliestState, StateATPO, StateCommit, StateInformed
from jatpo.evaluate.agents.belief_policies import state_actions
from jatpo.mdp import TIE
from oracles import atpo as oracle


def first_best(q, belief):
    """The first action within a tie of the best, in the most probable state with an action that is worse."""
    state = max(
        (state for state in range(len(belief)) if max(q[state]) - min(q[state]) > TIE),
        key=lambda state: belief[state],
    )
    return next(action for action, value in enumerate(q[state]) if value >= max(q[state]) - TIE)


@pytest.mark.parametrize("length", [1, 5])
def test_each_model_acts_for_its_most_probable_state(length, x64):
    models = examples(seed=1)
    prior = np.array([0.5, 0.2, 0.3])
    task = ready(models, "blocked", prior, needs=("q", "state_actions"))
    histories = [possible_history(models, prior, length, seed) for seed in range(6)]
    memory, known = filtered(task, StateATPO(), histories)
    found = np.asarray(call(StateATPO(), "act", keys(6), known, memory))
    q = np.asarray(task.solved["q"])
    for n, (actions, seen) in enumerate(histories):
        posterior, beliefs, _ = oracle.joint_history(models, prior, actions, seen)
        wanted = np.zeros(q.shape[2])
        for k, belief in enumerate(beliefs):
            if belief is not None and posterior[k] > 0:
                wanted[first_best(q[k], belief)] += posterior[k]
        np.testing.assert_allclose(found[:, n], wanted, atol=1e-10)


def test_they_need_values_of_states_and_no_solved_models():
    assert StateATPO().needs == StateInformed().needs == ("state_actions",)
    assert StateCommit().needs == ("state_actions", "q")
    assert (StateInformed().knows, StateCommit().policy) == ("true model", LikeliestState())


def test_a_state_in_which_all_actions_are_as_good_does_not_decide():
    q = np.array([[1.0, 2.0, 2.0], [5.0, 5.0, 5.0], [3.0, 1.0, 0.0]])
    table = state_actions(jnp.asarray(q))
    assert table.tolist() == [1, -1, 0]
    belief = jnp.array([0.3, 0.5, 0.2])
    for representation, held in (
        (Dense(), belief),
        (Support(3), Support(3).compact(belief, jnp.zeros(()))[0]),
    ):
        assert int(representation.likeliest(held, table >= 0)) == 0
        assert int(representation.likeliest(held, table >= 3)) == 0  # none
    assert int(Dense().mode(belief)) == 1
