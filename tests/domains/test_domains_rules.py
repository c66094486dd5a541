"""Every row of every model against the second transcription of the rules, matched by names.

The transcription (oracles/domains) is plain Python and shares nothing with the builders. The default run
takes some models of each domain under both rule sets; `slow` takes all 70 under both.
"""

import pytest

import jatpo.domains
from domain_worlds import RULES, TOLERANCE, assert_same_model, builder, same, transcription
from oracles.domains import MAIN, POOL, transcribe
from oracles.domains.overcooked import options
from oracles.domains.rows import Rows

COINS = [("overcooked", 1, "as_run"), ("overcooked", 2, "as_run")]  # rows chosen by a coin: tested apart

CHOSEN = [
    ("gridworld", 0),
    ("gridworld", 3),
    ("pursuit-task", 0),
    ("pursuit-task", 3),
    ("pursuit-teammate", 1),
    ("pursuit-both", 6),
    ("abandoned-power-plant", 0),
    ("abandoned-power-plant", 1),
    ("ntu", 2),
    ("ntu", 3),
    ("overcooked", 0),
    ("overcooked", 1),
    ("overcooked", 2),
    ("overcooked", 3),
    ("isr", 1),
    ("mit", 0),
    ("mit", 2),
    ("pentagon", 2),
    ("cit", 0),
]
SOME = [case for name, model in CHOSEN for rules in RULES if (case := (name, model, rules)) not in COINS]
ALL = [
    case
    for name, count in POOL.items()
    for model in range(count)
    for rules in RULES
    if (case := (name, model, rules)) not in COINS
]
SIZES = {
    "gridworld": [(626, 5, 81)] * 32,
    "pursuit-task": [(626, 5, 81)] * 4,
    "pursuit-teammate": [(626, 5, 81)] * 2,
    "pursuit-both": [(626, 5, 81)] * 8,
    "abandoned-power-plant": [(105, 6, 6), (97, 6, 6)],
    "ntu": [(241, 5, 81)] * 6,
    "overcooked": [(1730, 4, 1730)] * 4,
    "isr": [(1807, 5, 81)] * 3,
    "mit": [(2163, 5, 81)] * 3,
    "pentagon": [(2653, 5, 81)] * 3,
    "cit": [(4831, 5, 81)] * 3,
}


@pytest.mark.parametrize(("name", "model", "rules"), SOME)
def test_every_row_of_some_models(name, model, rules):
    assert_same_model(builder(name, model, rules), transcription(name, model, rules))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model", "rules"), [case for case in ALL if case not in SOME])
def test_every_row_of_all_other_models(name, model, rules):
    assert_same_model(
        Rows(jatpo.domains.make(name, model=model, rules=rules)), transcribe(name, model, rules)
    )


@pytest.mark.parametrize("model", [1, 2])
def test_rows_of_a_stubborn_cook_as_run_are_stubborn_or_optimal(model):
    found = builder("overcooked", model, "as_run")
    stubborn, optimal = options(model)
    assert found.states == stubborn.states
    assert found.actions == stubborn.actions
    assert found.observations == stubborn.observations
    assert same(found.start, stubborn.start)
    assert found.discount == pytest.approx(0.95, abs=TOLERANCE)
    choices = []
    for state in found.states:
        assert found.reward(state) == stubborn.reward(state)
        for action in found.actions:
            assert found.observation(action, state) == {state: 1.0}
            row = found.transition(state, action)
            as_stubborn = same(row, stubborn.transition(state, action))
            as_optimal = same(row, optimal.transition(state, action))
            assert as_stubborn or as_optimal, f"{state!r} after {action}: {row}"
            if as_stubborn != as_optimal:
                choices.append((action, as_stubborn))
    assert len(choices) > 500
    for action in found.actions:  # one coin for each (action, state): every action's share is near a half
        tosses = [heads for made_by, heads in choices if made_by == action]
        share, deviation = sum(tosses) / len(tosses), 0.5 / len(tosses) ** 0.5
        assert abs(share - 0.5) < 4 * deviation, action


def test_the_coin_of_a_state_is_tossed_for_every_action_anew():
    """Among states where all four rows tell stubborn from optimal, mixed choices must be common (7 in 8)."""
    found = builder("overcooked", 1, "as_run")
    stubborn, optimal = options(1)
    mixed = []
    for state in found.states:
        kinds = []
        for action in found.actions:
            if not same(stubborn.transition(state, action), optimal.transition(state, action)):
                kinds.append(same(found.transition(state, action), stubborn.transition(state, action)))
        if len(kinds) == 4:
            mixed.append(len(set(kinds)) == 2)
    assert len(mixed) > 100
    assert 0.8 < sum(mixed) / len(mixed) < 0.95


@pytest.mark.parametrize("model", [1, 2])
def test_the_coins_are_the_same_in_every_build(model):
    first, second = (jatpo.domains.make("overcooked", model=model).to_sparse() for _ in range(2))
    for one, other in zip(first.transition, second.transition, strict=True):
        assert (one == other).all()


def test_sizes_of_the_seventy_models():
    assert sum(POOL.values()) == 70
    for name, sizes in SIZES.items():
        for rules in RULES:
            wanted = {0: sizes[0], len(sizes) - 1: sizes[-1]}  # the first and the last model
            for model, size in wanted.items():
                found = builder(name, model, rules)
                assert (len(found.states), len(found.actions), len(found.observations)) == size


@pytest.mark.parametrize("name", ["gridworld", "ntu", "pursuit-teammate", "abandoned-power-plant"])
def test_a_library_is_the_models_in_order(name):
    """The main table's models by default, all of them with pool=True."""
    assert len(jatpo.domains.library(name)) == MAIN[name]
    library = jatpo.domains.library(name, rules="as_written", pool=True)
    assert len(library) == POOL[name]
    for model in (0, POOL[name] - 1):
        listed, made = Rows(library.member(model)), builder(name, model, "as_written")
        assert listed.states == made.states
        assert (listed.rewards == made.rewards).all()
        assert all(
            listed.transition(state, action) == made.transition(state, action)
            for state in made.states
            for action in made.actions
        )


@pytest.mark.parametrize(
    ("name", "model", "origin", "number"),
    [("pursuit-teammate", 0, "pursuit-both", 0), ("pursuit-teammate", 1, "pursuit-both", 4)],
)
def test_pursuit_teammate_is_models_0_and_4(name, model, origin, number):
    one, other = builder(name, model, "as_run"), builder(origin, number, "as_run")
    assert (one.rewards == other.rewards).all()
    assert all(
        one.transition(state, action) == other.transition(state, action)
        for state in one.states
        for action in one.actions
    )
