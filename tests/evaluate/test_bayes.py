"""The agent that acts by the joint problem: its choice by hand, its value by simulation, and its certificate."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent_tasks import Ready
from jatpo.evaluate.agents import ATPO, Bayes, Context, bayes, catalogue
from jatpo.evaluate.agents.atpo import Mixture
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.solved import Solved, SolveOptions, load_solved
from jatpo.events import Event
from jatpo.files import load
from jatpo.library import Library
from jatpo.solve import Anytime, choose_for
from jatpo.solve import Request as SolverRequest
from jatpo.solve.first_bounds import first_bounds, rounding_of
from jatpo.solve.policy import Policy
from random_models import Example, build, plain
from small_pomdps import tiger
from solving import chosen, solve

SMALL = {"walkers": 16, "steps": 20, "keep": 128}
QUICK = chosen(Anytime, gap=1e-3, stages=12, **SMALL)
BRIEF = SolverRequest("anytime", gap=1e-3, stages=2, settings={**SMALL, "off_policy": 0.125})


def keys(count: int):
    return jax.random.split(jax.random.key(0), count)


def known(library: Library, joint: Policy, prior, alone: Policy | None = None) -> Context:
    """What the agent knows; the single models' policies `alone` claim nothing unless they are given."""
    actions = jnp.arange(library.num_actions, dtype=jnp.int32)
    if alone is None:
        low = jnp.full((library.num_models, 1, library.num_states), -1e3, joint.vectors.dtype)
        alone = Policy(low, jnp.zeros((library.num_models, 1), jnp.int32))
    solved = {"joint": joint, "policies": alone}
    return Context(actions, library, jnp.asarray(prior), solved)


def two_models() -> list[Example]:
    random = np.random.default_rng(0)
    return [plain(random, size, 3, 4, zeros=0.3) for size in (4, 2)]


# ---------------------------------------------------------------- the choice


def test_the_action_of_the_best_vector(x64):
    """By plain sums over models and states, padding left out."""
    random = np.random.default_rng(1)
    library = Library.from_models([build(model) for model in two_models()])
    vectors, actions = random.normal(size=(7, 6)), random.integers(3, size=7)
    joint = bayes.spread(Policy(jnp.asarray(vectors), jnp.asarray(actions, jnp.int32)), library)
    assert joint.vectors.shape == (7, 2, 4) and not joint.vectors[:, 1, 2:].any()
    posterior = random.dirichlet(np.ones(2), size=5).T
    beliefs = random.dirichlet(np.ones(4), size=(2, 5)).swapaxes(1, 2)
    beliefs[1, 2:] = 0
    beliefs[1] /= beliefs[1].sum(axis=0)
    nothing = jnp.zeros(5, jnp.int32)
    memory = Mixture(jnp.asarray(beliefs), jnp.log(jnp.asarray(posterior)), jnp.zeros(5), nothing)
    chances = Bayes().act(keys(5), known(library, joint, posterior), bayes.Watched(memory, nothing))
    scores = bayes.scores(joint, bayes.joint_beliefs(memory))
    for n in range(5):
        belief = library.join(posterior[:, n], beliefs[:, :, n])
        wanted = [sum(vectors[v, i] * belief[i] for i in range(6)) for v in range(7)]
        np.testing.assert_allclose(scores[:, n], wanted, atol=1e-12)
        assert chances[actions[np.argmax(wanted)], n] == 1


@pytest.mark.parametrize(("certain", "wanted"), [(0.9, 1), (0.999, 2)])
def test_a_model_that_is_all_but_certain_is_followed(certain, wanted, x64):
    """Its own vector, with the worst case elsewhere, against that of the joint problem: by hand."""
    library = Library.from_models([build(model) for model in two_models()])
    joint = bayes.spread(Policy(jnp.full((1, 6), 10.0), jnp.array([1], jnp.int32)), library)
    alone = Policy(jnp.full((2, 1, 4), 12.0), jnp.full((2, 1), 2, jnp.int32))
    prior = jnp.array([[certain], [1 - certain]])
    context = known(library, joint, prior, alone)
    memory = Bayes().init(keys(1), context, None)
    found = bayes.alone_values(context, memory.mixture)
    for k, (own, other) in enumerate([(certain, 1 - certain), (1 - certain, certain)]):
        model = library.model(1 - k)
        count = int(np.asarray(library.state_mask)[1 - k].sum())
        worst = float(np.min(model.reward[:count])) / (1 - float(model.discount))
        assert found[k, 0] == pytest.approx(own * 12 + other * worst)
    chances = Bayes().act(keys(1), context, memory)
    assert chances[wanted if found.max() > 10 else 1, 0] == 1 and (found.max() > 10) == (wanted == 2)


def test_vectors_that_tie_share():
    library = Library.from_models([build(model) for model in two_models()])
    vectors = jnp.ones((3, 6), jnp.float32) * jnp.array([[1.0], [1.0], [0.5]], jnp.float32)
    joint = bayes.spread(Policy(vectors, jnp.array([0, 2, 1], jnp.int32)), library)
    context = known(library, joint, jnp.full((2, 1), 0.5, jnp.float32))
    chances = Bayes().act(keys(1), context, Bayes().init(keys(1), context, None))
    np.testing.assert_allclose(chances[:, 0], [0.5, 0, 0.5])


def test_it_is_registered_and_keeps_what_atpo_keeps():
    agent = catalogue.get("bayes")
    assert (agent.sees, agent.knows, agent.needs) == ("observation", "library", ("joint", "policies"))
    library = Library.from_models([build(model) for model in two_models()])
    context = known(library, Policy(jnp.zeros((1, 2, 4)), jnp.zeros(1, jnp.int32)), jnp.full((2, 3), 0.5))
    ours, theirs = agent.init(keys(3), context, None), ATPO().init(keys(3), context, None)
    observe, filtered = jax.jit(agent.update), jax.jit(ATPO().update)
    for step in range(4):
        actions, seen = jnp.array([0, 1, 2]), jnp.array([step, 3 - step, 1])
        ours = observe(keys(3), context, ours, actions, seen)
        theirs = filtered(keys(3), context, theirs, actions, seen)
    for one, other in zip(ours.mixture, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    for name, value in ATPO().report(context, theirs).items():
        np.testing.assert_array_equal(agent.report(context, ours)[name], value)


# ---------------------------------------------------------------- a claim that nothing keeps


def door(opens: float = 1.0, alike: bool = True, pays: float = -1.0) -> Library:
    """Two models of a door. Action 1 opens it; if it `opens` only now and then, action 0 does so too.

    Shut, action 0 `pays` and the others cost 1. Unless the models are `alike`, a sound tells now and then which it is.
    """
    transition = np.tile(np.eye(2), (3, 1, 1))
    transition[1] = [[1 - opens, opens], [0, 1]]
    transition[0] = transition[0] if opens == 1 else transition[1]
    sounds = np.array([[[1.0, 0, 0, 0]] * 2] * 2)  # model, state, observation
    sounds[:, 1] = [0, 0, 0, 1]
    if not alike:
        sounds[0, 0], sounds[1, 0] = [0.9, 0.1, 0, 0], [0.9, 0, 0.1, 0]
    reward = np.array([[pays, -1.0, -1], [0, 0, 0]])
    return Library.from_models(
        [
            build(Example(transition, np.tile(own, (3, 1, 1)), reward, np.array([1.0, 0]), 0.9))
            for own in sounds
        ]
    )


def acting(library: Library):
    """The agent with a joint vector that wants action 0 whatever comes and claims 0; ATPO would take 1 or 2."""
    joint = bayes.spread(Policy(jnp.zeros((1, 4)), jnp.zeros(1, jnp.int32)), library)
    alone = Policy(jnp.full((2, 1, 2), -1e3), jnp.array([[1], [2]], jnp.int32))
    context = known(library, joint, jnp.full((2, 1), 0.5), alone)
    agent = catalogue.get("bayes")
    act, update = (jax.jit(partial(part, keys(1), context)) for part in (agent.act, agent.update))
    return act, update, agent.init(keys(1), context, None)


@pytest.mark.parametrize(
    ("library", "wanted"),
    [
        (door(), [0, 0.5, 0.5]),
        (door(pays=0.0), [1, 0, 0]),  # it earns what is claimed
        (door(alike=False), [1, 0, 0]),  # it may yet be told
        (door(opens=0.5), [1, 0, 0]),  # it has failed, and may not fail again
    ],
    ids=["indefinitely", "paid", "telling", "slipping"],
)
def test_what_never_changes_anything_is_not_repeated(library, wanted):
    act, update, memory = acting(library)
    np.testing.assert_allclose(act(memory)[:, 0], [1, 0, 0])
    for _ in range(3):
        before, nothing = memory, jnp.zeros(1, jnp.int32)
        memory = update(memory, nothing, nothing)
        np.testing.assert_array_equal(memory.mixture.beliefs, before.mixture.beliefs)
        np.testing.assert_allclose(act(memory)[:, 0], wanted)


def test_it_goes_on_by_its_vectors_when_something_has_changed():
    act, update, memory = acting(door())
    nothing = jnp.zeros(1, jnp.int32)
    memory = update(memory, nothing, nothing)
    assert memory.idle == 0
    memory = update(memory, nothing + 1, nothing + 3)
    assert memory.idle == bayes.NONE
    np.testing.assert_allclose(act(memory)[:, 0], [1, 0, 0])


# ---------------------------------------------------------------- what is claimed is earned


def doors() -> list[Example]:
    """Two tigers that have to be distinguished: one growls where it is, the other where it is not.

    Who takes one for the other opens the wrong door; a third sound, heard now and then, reveals which of them it is.
    """
    plainly, falsely = tiger(0.8, discount=0.8), tiger(0.2, discount=0.8)
    told = []
    for k, model in enumerate((plainly, falsely)):
        sounds = np.zeros((3, 2, 4))
        sounds[:, :, :2] = 0.9 * model.observation
        sounds[:, :, 2 + k] = 0.1
        told.append(model._replace(observation=sounds))
    return told


@pytest.fixture(scope="module")
def solved_doors():
    models = [build(model) for model in doors()]
    library = Library.from_models(models)
    from jatpo.solve.policy import stack

    alone = solve(models, QUICK, jax.random.key(0))
    joint = solve([library.joint()], QUICK, jax.random.key(0))[0]
    found = {
        "policies": stack([each.policy for each in alone], library.num_states),
        "joint": bayes.spread(joint.policy, library),
    }
    return Ready(Scenario(library), found), joint


def test_the_promise_is_kept_and_the_certificate_holds(solved_doors):
    """The agent earns what its vectors claim; no agent that knows only the library passes the upper bound."""
    task, joint = solved_doors
    trials, horizon = 4096, 60
    rest = 100 * 0.8**horizon / 0.2
    found = {
        name: rollout(jax.random.key(1), catalogue.get(name), *task, horizon, trials=trials).discounted
        for name in ("bayes", "atpo", "random_picker", "perseus")
    }
    error = {name: 4 * returns.std() / np.sqrt(trials) for name, returns in found.items()}
    assert found["bayes"].mean() >= joint.lower - error["bayes"] - rest
    for name in ("bayes", "atpo", "random_picker"):
        assert found[name].mean() <= joint.upper + error[name] + rest
    gained = found["bayes"] - found["atpo"]
    assert gained.mean() > 4 * gained.std() / np.sqrt(trials)  # it is worth asking which of the two it is
    assert found["perseus"].mean() > found["bayes"].mean()


def test_a_part_of_the_library(solved_doors):
    """Vectors of the whole serve a trial with one model only: as good as knowing it."""
    task, _ = solved_doors
    certain = task.replace(size=jnp.int32(1))
    ours, informed = (
        rollout(jax.random.key(2), catalogue.get(name), *certain, 40, trials=1024).discounted
        for name in ("bayes", "perseus")
    )
    gap = informed - ours
    assert gap.mean() <= 4 * gap.std() / np.sqrt(len(gap)) + 0.3


# ---------------------------------------------------------------- the provider


def test_the_provider_solves_once(tmp_path):
    """Loaded the second time, the same as by hand, and with the bounds at hand."""
    told: list[Event] = []
    options = SolveOptions(BRIEF, directory=tmp_path, on_event=told.append)
    library = load("abandoned-power-plant")
    first = Solved(library, options=options)["joint"]
    assert told and {now.title for now in told} == {"abandoned-power-plant joint"}
    count = len(told)
    solution = Solved(library, options=options).joint
    assert len(told) == count and solution.lower <= solution.upper
    np.testing.assert_array_equal(first.vectors, bayes.spread(solution.policy, library).vectors)
    start = library.prior[:, None] * library.models.initial
    best, joint = float(jnp.max(bayes.scores(first, start[:, :, None]))), library.joint()
    added = rounding_of(joint, first_bounds(joint).magnitude, at_once=True)  # what float32 may have added
    assert solution.lower - 1e-3 <= best <= solution.lower + added + 1e-3


def test_settings():
    """Rounds, not seconds, unless asked for: the same policy on every machine."""
    library = load("abandoned-power-plant")
    plainly = chosen(Anytime, gap=0.01, stages=12, off_policy=0.5)
    assert choose_for(library, SolverRequest(), joint=True) == plainly
    timed = chosen(Anytime, gap=0.01, seconds=3, off_policy=0.5)
    assert choose_for(library, SolverRequest(seconds=3), joint=True) == timed


def test_it_prepares_like_any_agent(tmp_path):
    options = SolveOptions(BRIEF, directory=tmp_path)
    solved = load_solved("abandoned-power-plant", [catalogue.get("bayes")], options=options)
    assert set(solved) == {"joint", "policies"}
    trials = rollout(
        jax.random.key(0),
        catalogue.get("bayes"),
        Scenario(solved.library),
        solved,
        20,
        trials=8,
        record=("posterior", "entropy"),
    )
    np.testing.assert_allclose(trials.records["posterior"].sum(axis=2), 1, atol=1e-5)
