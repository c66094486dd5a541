"""QMDP and value iteration at discounts near 1: converged only where they are, and what is missing otherwise."""

import jax
import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.evaluate.solved import Solved, SolveOptions
from jatpo.library import Library
from jatpo.solve import QMDP, Status, Stop, ValueIteration, initial_bounds, notes, solve_models
from oracles import mdp
from random_models import Example, build, example

KINDS = (QMDP, ValueIteration)


def corridor(cells: int, discount: float) -> Example:
    """The first action walks away from the reward at the end, the second one towards it."""
    place = np.arange(cells)
    walk = np.zeros((2, cells, cells))
    walk[0, place, np.maximum(place - 1, 0)] = walk[1, place, np.minimum(place + 1, cells - 1)] = 1
    reward = np.zeros((cells, 2))
    reward[-1, 1] = 1.0
    return Example(walk, np.ones((2, cells, 1)), reward, np.eye(cells)[0], discount)


def exact(truth: Example) -> np.ndarray:
    """q* [X, A] by policy iteration with dense solves."""
    states = np.arange(len(truth.reward))
    policy = truth.reward.argmax(axis=1)
    while True:
        step = np.eye(len(states)) - truth.discount * truth.transition[policy, states]
        values = np.linalg.solve(step, truth.reward[states, policy])
        q = truth.reward + truth.discount * np.einsum("axy,y->xa", truth.transition, values)
        better = q.max(axis=1) > q[states, policy] + 1e-10 * np.abs(q).max()
        if not better.any():
            return q
        policy = np.where(better, q.argmax(axis=1), policy)


def solve(kind, truth, dtype=np.float32, on_event=lambda event: None, **options):
    model = build(truth, dtype=dtype)
    return solve_models([model], kind(**options), Stop(), key=jax.random.key(0), on_event=on_event)[0]


@pytest.mark.parametrize("discount", [0.999, 0.99999, 0.9999999])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plain", "hard zeros"])
def test_converged_means_converged(name, kind, discount):
    truth = example(name)._replace(discount=discount)
    found, q = solve(kind, truth), exact(truth)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.policy.vectors, q.T, rtol=1e-6)
    best = (truth.initial @ q).max() if kind is QMDP else truth.initial @ q.max(axis=1)
    assert best * (1 - 1e-9) <= found.upper <= best * (1 + 1e-6)


def test_the_oracle_agrees_with_sweeps():
    truth = example("hard zeros")
    np.testing.assert_allclose(exact(truth), mdp.optimal(truth.transition, truth.reward, truth.discount)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_that_is_reached_is_reported(kind, monkeypatch):
    monkeypatch.setattr(initial_bounds, "SWEEPS", 2)
    truth, heard = corridor(40, 0.999), []
    found = solve(kind, truth, on_event=heard.append, sweeps=5)
    assert found.status is Status.SWEEPS_DONE and not found.status.complete
    [note] = [event.note for event in heard if event.note]
    assert "its values are up to" in note
    excess = float(note.split("up to ")[1].split()[0])
    over = np.asarray(found.policy.vectors) - exact(truth).T
    assert over.min() >= -1e-3 and over.max() <= excess * 1.06
    [sentence] = notes([found], ["x"])
    assert "sweep limit reached" in sentence and "--set sweeps=N" in sentence
    enough = solve(kind, truth, sweeps=50)
    assert enough.status is Status.CONVERGED
    np.testing.assert_allclose(enough.policy.vectors, exact(truth).T, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_discount_one_is_refused(kind):
    with pytest.raises(JatpoError, match="discount 1"):
        solve(kind, example("plain")._replace(discount=1.0))


@pytest.mark.parametrize("sweeps", [0, -1, 1.5, 1 << 40])
def test_an_impossible_number_of_sweeps(sweeps):
    with pytest.raises(JatpoError, match="sweeps must be a whole number"):
        ValueIteration(sweeps=sweeps)


@pytest.mark.parametrize(
    ("discount", "said"),
    [(0.99, None), (0.99999, "bound on the error: "), (1.0, "bound on the error: none (discount 1)")],
)
def test_values_for_agents_say_what_is_missing(discount, said):
    heard = []
    library = Library.from_models([build(example("plain")._replace(discount=discount))], labels=["a model"])
    Solved(library, options=SolveOptions(on_event=heard.append))["q"]
    found = [event.note for event in heard if event.note]
    assert len(found) == (said is not None)
    for note in found:
        assert said in note and note.startswith("a model: value iteration stopped, sweep limit reached")
