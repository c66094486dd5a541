"""Parametrisations, fits by gradient and by EM: against enumeration, against each other, and the truth."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny_domain
import tiny_team
from jatpo import domains
from jatpo.errors import JatpoError
from jatpo.evaluate import Scenario
from jatpo.evaluate.agents import catalogue
from jatpo.learn import FitSettings, Histories, History, Noise, Prior, Teammate, em, fit, simulate
from jatpo.learn.expected_counts import expect
from jatpo.learn.parametrisation import batched_log_likelihoods
from jatpo.learn.teammate import groups
from jatpo.library import Library
from oracles import learning as oracle
from random_models import build, plain

GRID = {"width": 2, "height": 2, "goals": ((0, 0), (1, 1))}


@pytest.fixture
def meeting():
    with tiny_team.registered() as name:
        yield name


def histories_of(models, horizon=8, count=300, seed=0, **options):
    scenario = Scenario(models, **options)
    return simulate(jax.random.key(seed), catalogue.get("random"), scenario, {}, horizon, count)


def dense(model):
    arrays = model.to_dense()
    return arrays.transition, arrays.observation, arrays.initial


def close(model, other, tolerance=1e-6):
    for one, two in zip(dense(model), dense(other), strict=True):
        np.testing.assert_allclose(one, two, atol=tolerance)
    np.testing.assert_allclose(model.reward, other.reward, atol=tolerance)


# Parametrisations


@pytest.mark.parametrize("level", [0.02, 0.37, 0.9])
def test_the_noise_of_a_domain_is_the_domain_at_that_level(level, meeting):
    names = {"abandoned-power-plant": {}, "gridworld": GRID, meeting: {}}
    for name, overrides in names.items():
        noise = Noise.of_domain(name, [0], level=level, **overrides)
        assert float(noise.value(noise.start())) == pytest.approx(level, rel=1e-6)
        (model,) = noise.models(noise.start())
        world = domains.get(name).structure(0, noise=level, **overrides)
        usual = domains.get(name).structure(0, **overrides).teammate
        close(model, domains.to_pomdp(world.mmdp.pomdp(usual, world.sensor, world.observations)))
        assert model.states == world.mmdp.states


def test_the_noise_of_several_models_is_padded_like_a_library():
    noise = Noise.of_domain("abandoned-power-plant", level=0.25)  # 105 and 97 states
    models = noise.models(noise.start())
    assert [model.num_states for model in models] == [105, 97]
    for k, model in enumerate(models):
        world = domains.get("abandoned-power-plant").structure(k, noise=0.25)
        usual = domains.get("abandoned-power-plant").structure(k).teammate
        close(model, domains.to_pomdp(world.mmdp.pomdp(usual, world.sensor, world.observations)))


def test_the_noise_of_a_file_is_a_share_of_random_readings():
    model = plain(np.random.default_rng(0), 4, 2, 5, zeros=0.5)
    noise = Noise.of_models([build(model)], level=0.3)
    (found,) = noise.models(noise.start())
    np.testing.assert_allclose(dense(found)[1], 0.7 * model.observation + 0.3 / 5, atol=1e-6)
    np.testing.assert_allclose(dense(found)[0], model.transition, atol=1e-6)


def test_a_domain_without_noise():
    with pytest.raises(JatpoError, match="domain 'overcooked' has no parameter 'noise' to learn"):
        Noise.of_domain("overcooked")


def test_noise_that_is_not_smooth():
    def jumps(model, *, noise=0.1):
        level = 0.2 if noise < 0.5 else 0.4
        return tiny_domain.describe(model, noise=level)

    domains.register("jumps", models=1)(jumps)
    try:
        with pytest.raises(JatpoError, match=r"observations of jumps:0\b"):
            Noise.of_domain("jumps")
    finally:
        domains.DOMAINS.remove("jumps")


@pytest.mark.parametrize("name", ["grid", "meeting", "plant"])
def test_a_teammates_model_is_that_of_the_joint_dynamics(name, meeting):
    domain, overrides = {
        "grid": ("gridworld", GRID),
        "meeting": (meeting, {}),
        "plant": ("abandoned-power-plant", {}),
    }[name]
    world = domains.get(domain).structure(0, **overrides)
    teammate = Teammate.of_world(world)
    random = np.random.default_rng(1)
    rows = random.dirichlet(np.ones(teammate.initial.shape[-1]), teammate.initial.shape[:2])
    model = jax.jit(Teammate.model_of)(teammate, jnp.asarray(rows, jnp.float32))
    close(model, domains.to_pomdp(world.mmdp.pomdp(rows[0], world.sensor, world.observations)), 2e-6)
    (start,) = teammate.models(teammate.start())
    acts = 0.95 * world.teammate + 0.05 / rows.shape[2]
    close(start, domains.to_pomdp(world.mmdp.pomdp(acts, world.sensor, world.observations)), 2e-6)
    assert start.names == domains.to_pomdp(world.mmdp.pomdp(acts, world.sensor, world.observations)).names


def test_a_teammate_that_answers_the_agents_action():
    world = domains.get("overcooked").structure(1)
    assert world.teammate.ndim == 3 and (world.teammate != world.teammate[0]).any()
    teammate = Teammate.of_world(world, soften=1e-6)
    assert teammate.initial.shape == (4, 1730, 4)
    close_to = domains.to_pomdp(world.describe())
    found = jax.jit(Teammate.model_of)(teammate, teammate.initial).to_sparse()
    _, _, y, p = close_to.to_sparse().transition
    kept = found.transition[3] > 1e-4
    np.testing.assert_array_equal(found.transition[2][kept], y)
    np.testing.assert_allclose(found.transition[3][kept], p, atol=1e-5)


def test_states_share_rows_by_their_variables():
    names = ("agent 0,0 teammate 0,1", "agent 1,0 teammate 0,1", "agent 1,0 teammate 1,1", "absorbing")
    np.testing.assert_array_equal(groups(names, "teammate"), [0, 0, 1, 2])
    np.testing.assert_array_equal(groups(names, "agent"), [0, 1, 1, 2])
    np.testing.assert_array_equal(groups(names, "teammate, agent"), [0, 1, 2, 3])
    with pytest.raises(
        JatpoError, match=r"no variable of the states is called 'teamate'; did you mean 'teammate'\?"
    ):
        groups(names, "teamate")


def test_features_begin_at_the_start_and_reach_others(meeting):
    teammate = Teammate.of_domain("gridworld", by="features", **GRID)
    np.testing.assert_allclose(teammate.weights(teammate.start()), teammate.initial, rtol=1e-6)
    assert float(teammate.divergence(teammate.start())) == pytest.approx(0, abs=1e-6)
    right = jnp.zeros_like(teammate.start()).at[3].set(20.0)
    assert float(jnp.min(teammate.weights(right)[..., 3])) > 0.99
    assert float(teammate.divergence(right)) > 1


@pytest.mark.parametrize("what", ["noise", "teammate", "features", "prior"])
def test_gradients_by_parameters_are_those_of_finite_differences(what, meeting, x64):
    part = {
        "noise": lambda: Noise.of_domain(meeting, level=0.2),
        "teammate": lambda: Teammate.of_domain(meeting),
        "features": lambda: Teammate.of_domain(meeting, by="features"),
        "prior": lambda: Prior.of_library(Library.from_models(domains.library(meeting), [0.3, 0.7])),
    }[what]()
    batch = Histories.from_list([History(np.array([0, 0, 1]), np.array([1, 1, 2])), History([1, 1], [0, 0])])
    data = part.prepare(batch)

    @jax.jit
    def objective(params):
        score = jnp.sum(part.log_likelihoods_of(part.weights(params), data))
        return score - 0.7 * part.divergence(params)

    random = np.random.default_rng(0)
    point = jnp.asarray(part.start() + random.normal(scale=0.3, size=part.start().shape))
    wanted = oracle.differences(lambda params: float(objective(jnp.asarray(params))), point)
    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(jax.jit(jax.grad(objective))(point), wanted, rtol=1e-5, atol=1e-8)


# EM


def test_expected_replies_are_those_of_the_enumeration(meeting, x64):
    world = domains.get(meeting).structure(0)
    teammate = Teammate.of_world(world, soften=0.3)
    histories = [
        History(np.array([0, 1]), np.array([1, 0])),
        History(np.array([1, 1, 0]), np.array([0, 0, 2])),
    ]
    _, counts = expect(teammate, teammate.start(), teammate.prepare(Histories.from_list(histories)))
    sure = [np.broadcast_to(np.eye(2)[u], (4, 2)) for u in range(2)]
    each = [dense(domains.to_pomdp(world.mmdp.pomdp(one, world.sensor, world.observations))) for one in sure]
    moves, (_, observation, initial) = np.stack([one[0] for one in each]), each[0]
    policy = np.asarray(teammate.initial[0])
    wanted = sum(oracle.choice_counts(policy, moves, observation, initial, *history) for history in histories)
    np.testing.assert_allclose(counts[0], wanted, atol=1e-9)
    assert float(counts.sum()) == pytest.approx(5)  # as many as there are steps


def test_expected_failures_are_those_of_the_enumeration(x64):
    model = plain(np.random.default_rng(2), 3, 2, 3)
    noise = Noise.of_models([build(model)], level=0.3)
    history = History(np.array([0, 1, 1]), np.array([2, 0, 1]))
    _, counts = expect(noise, noise.start(), noise.prepare(Histories.from_list([history])))
    kernels = [model.observation, np.full_like(model.observation, 1 / 3)]
    failed, total = oracle.failure_counts(0.3, kernels, model.transition, model.initial, *history)
    assert float(counts[1][1]) == pytest.approx(failed, rel=1e-9)
    assert float(counts[1].sum()) == pytest.approx(total, rel=1e-9)
    again = noise.value(noise.maximise(counts, jnp.asarray(0.0)))
    assert float(again) == pytest.approx(failed / total, rel=1e-9)


def full(**options):
    """Settings under which a fit goes all the way, on all histories at once."""
    return FitSettings(
        **{"held_out": 0.0, "batch": 10_000, "rate": 0.1, "patience": 60, "improvement": 0, **options}
    )


@pytest.mark.parametrize("trust", [0.0, 5.0])
@pytest.mark.parametrize("what", ["noise", "teammate", "prior"])
def test_em_and_gradient_find_the_same_likelihood(what, trust, meeting):
    models = domains.library(meeting).members
    library = Library.from_models(models)
    part = {
        "noise": lambda: Noise.of_domain(meeting, level=0.4),
        "teammate": lambda: Teammate.of_domain(meeting),
        "prior": lambda: Prior.of_library(library),
    }[what]()
    histories = histories_of(models, count=60, weights=[0.8, 0.2])
    by_em = em(part, histories, iterations=400, tolerance=1e-7, trust=trust)
    by_gradient = fit(part, histories, full(trust=trust, steps=400))

    def objective(found):
        return found.log_likelihood - trust / 60 * float(part.divergence(found.params))

    rounds = [row["objective"] for row in by_em.curve]
    assert all(later > earlier - 1e-5 for earlier, later in pairwise(rounds))  # up to rounding in float32
    assert by_em.log_likelihood > by_em.start_log_likelihood + 0.01 or trust
    assert objective(by_gradient) == pytest.approx(objective(by_em), abs=1e-3)


def test_features_have_no_em(meeting):
    part = Teammate.of_domain(meeting, by="features")
    with pytest.raises(JatpoError, match="weights of features have no closed form for EM: use fit"):
        em(part, histories_of(domains.library(meeting), count=5))


# Fits


def test_a_known_noise_is_found(meeting):
    histories = histories_of([domains.make(meeting, noise=0.3)], count=1500)
    noise = Noise.of_domain(meeting, [0])
    found = fit(noise, histories, FitSettings(rate=0.2, trust=0, batch=256, steps=60))
    assert float(noise.level) == pytest.approx(0.1)
    assert float(noise.value(found.params)) == pytest.approx(
        0.3, abs=0.05
    )  # 4 standard errors of 1500 readings
    assert found.held_out > found.start_held_out


def test_a_known_prior_is_found(meeting):
    models = domains.library(meeting).members
    prior = Prior.of_library(Library.from_models(models))
    histories = histories_of(models, count=600, weights=[0.85, 0.15])
    found = fit(prior, histories, full(trust=0))
    np.testing.assert_allclose(prior.value(found.params), [0.85, 0.15], atol=0.08)
    np.testing.assert_allclose(prior.library(found.params).prior, prior.value(found.params))
    close(prior.models(found.params)[1], models[1])


def test_a_known_teammate_is_found(meeting):
    """One that alternates, from one that always goes left."""
    truth = domains.make(meeting, 0, habit="alternate")
    histories = histories_of([truth], count=500)
    teammate = Teammate.of_domain(meeting)
    found = fit(teammate, histories, FitSettings(rate=0.3))
    policy = np.asarray(teammate.value(found.params))[0]
    assert policy[0, 1] > 0.9 and policy[1, 0] > 0.9  # the other side, from either
    assert np.asarray(teammate.initial)[0, 0, 1] < 0.03
    exact = Teammate.of_domain(meeting, habit="alternate", soften=1e-6)
    best = float(np.mean(batched_log_likelihoods(exact, exact.start(), exact.prepare(histories))))
    assert found.log_likelihood == pytest.approx(best, abs=0.1)
    assert found.start_log_likelihood < best - 0.5


def test_little_data_cannot_ruin_a_teammate(meeting):
    """Three episodes of the teammate we start from leave it nearly as it was; without trust they do not."""
    models = domains.library(meeting).members
    few, many = histories_of([models[0]], count=3, seed=1), histories_of([models[0]], count=200, seed=2)
    teammate = Teammate.of_domain(meeting, soften=0.2)
    data = teammate.prepare(many)

    def score(params):
        return float(np.mean(batched_log_likelihoods(teammate, params, data)))

    start = score(teammate.start())
    trusting = fit(teammate, few, full(trust=10, steps=200))
    assert score(trusting.params) > start - 0.02
    moved = np.abs(teammate.weights(trusting.params) - teammate.initial).max()
    careless = fit(teammate, few, full(trust=0, steps=200))
    assert np.abs(teammate.weights(careless.params) - teammate.initial).max() > 2 * moved
    unvisited = 3  # the absorbing state, in which nobody acts
    np.testing.assert_allclose(teammate.weights(trusting.params)[0, unvisited], [0.5, 0.5], atol=1e-4)


def test_the_start_stays_when_nothing_is_better_on_held_out_histories(meeting):
    models = domains.library(meeting).members
    prior = Prior.of_library(Library.from_models(models, [0.5, 0.5]))
    histories = histories_of(models, count=60)
    found = fit(prior, histories, FitSettings(rate=50.0, steps=20, patience=2, trust=0))
    assert found.stopped == "no improvement in 10 steps"
    np.testing.assert_array_equal(found.params, prior.start())
    assert found.held_out == found.start_held_out


def test_the_same_seed_gives_the_same_result(meeting):
    part = Noise.of_domain(meeting)
    histories = histories_of(domains.library(meeting, noise=0.3), count=40)
    settings = FitSettings(steps=10, batch=8)
    one, same, other = (fit(part, histories, settings, seed=seed) for seed in (3, 3, 4))
    assert float(one.params) == float(same.params) and one.curve == same.curve
    assert float(one.params) != float(other.params)


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop_at", [5, 15])
def test_a_fit_that_is_stopped_goes_on_to_the_same_result(stop_at, meeting, tmp_path):
    part = Noise.of_domain(meeting)
    histories = histories_of(domains.library(meeting, noise=0.3), count=40)
    settings = FitSettings(steps=30, batch=8)
    whole = fit(part, histories, settings)
    steps = []

    def interrupt(event):
        assert event.total == 30 and set(event.figures) == {"train", "held_out"}
        if event.done == stop_at:
            raise Stop

    with pytest.raises(Stop):
        fit(part, histories, settings, directory=tmp_path, on_event=interrupt)
    resumed = fit(
        part, histories, settings, directory=tmp_path, on_event=lambda event: steps.append(event.done)
    )
    assert steps[0] == stop_at + 5  # what was done is not done again
    assert float(resumed.params) == float(whole.params)
    assert resumed.curve == whole.curve and resumed.stopped == whole.stopped
    steps.clear()
    again = fit(
        part, histories, settings, directory=tmp_path, on_event=lambda event: steps.append(event.done)
    )
    assert steps == [] and float(again.params) == float(whole.params)


def test_a_damaged_checkpoint_is_set_aside_and_reported(meeting, tmp_path):
    part = Prior.of_library(Library.from_models(domains.library(meeting)))
    histories = histories_of(domains.library(meeting), count=20)
    settings = FitSettings(steps=10)
    whole = fit(part, histories, settings, directory=tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:5])
    notes = []
    again = fit(
        part, histories, settings, directory=tmp_path, on_event=lambda event: notes.append(event.note)
    )
    np.testing.assert_array_equal(again.params, whole.params)
    assert [note for note in notes if note] == notes[:1] and "step-000010" in notes[0]


def test_impossible_histories_are_refused(meeting):
    part = Prior.of_library(Library.from_models([domains.make(meeting, 0)]))
    never = Histories.from_list([History(np.array([0, 0]), np.array([2, 0]))])  # met, and yet not
    with pytest.raises(JatpoError, match=r"history 0\b"):
        fit(part, never)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"steps": 0}, "steps"),
        ({"held_out": 1.0}, r"held_out .*1\.0"),
        ({"rate": 0.0}, r"rate .*0\.0"),
        ({"trust": -1.0}, r"trust .*-1\.0"),
    ],
)
def test_bad_settings(options, part):
    with pytest.raises(JatpoError, match=part):
        FitSettings(**options)
