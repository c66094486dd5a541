"""Situations worked out by hand from the rules: what is common to all domains, and gridworld.

The noise is 0.2. Gridworld's states read `agent column,row teammate column,row`; row 0 is the top.
"""

import pytest

from domain_worlds import RULES, in_both_worlds, near

pytestmark = in_both_worlds


@pytest.mark.parametrize(
    ("name", "model", "goal"),
    [
        ("gridworld", 0, "agent 0,3 teammate 0,4"),
        ("pursuit-task", 0, "teammate 0,2 prey 0,1"),
        ("ntu", 0, "agent 1,4 teammate 1,1"),
        ("abandoned-power-plant", 0, "robot 4 human 2 done 111"),
        ("overcooked", 3, "delivered"),
    ],
)
@pytest.mark.parametrize("rules", RULES)
def test_the_hundred_is_paid_once_then_the_absorbing_state_for_ever(world, name, model, goal, rules):
    domain = world(name, model, rules)
    assert domain.reward(goal) == 100.0
    assert domain.reward("absorbing") == 0.0
    assert domain.states[-1] == "absorbing"
    for action in domain.actions:
        assert domain.transition(goal, action) == {"absorbing": 1.0}
        assert domain.transition("absorbing", action) == {"absorbing": 1.0}
    assert {domain.reward(state) for state in domain.states} == {100.0, 0.0, -1.0}
    assert domain.start.get("absorbing", 0.0) == domain.start.get(goal, 0.0) == 0.0


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("gridworld", "...."),
        ("mit", "...."),
        ("pursuit-task", "teammate 0 prey 0"),
        ("abandoned-power-plant", "-1"),
        ("overcooked", "absorbing"),
    ],
)
@pytest.mark.parametrize("rules", RULES)
def test_the_absorbing_state_is_seen_for_certain(world, name, symbol, rules):
    domain = world(name, 0, rules)
    for action in domain.actions:
        assert domain.observation(action, "absorbing") == {symbol: 1.0}


@pytest.mark.parametrize(
    ("name", "rules", "discount"),
    [
        ("gridworld", "as_run", 0.95),
        ("pursuit-both", "as_run", 0.95),
        ("abandoned-power-plant", "as_run", 0.90),
        ("abandoned-power-plant", "as_written", 0.95),
        ("overcooked", "as_run", 0.95),
        ("ntu", "as_run", 0.95),
    ],
)
def test_discounts(world, name, rules, discount):
    assert world(name, 0, rules).discount == pytest.approx(discount, abs=1e-6)


# Gridworld: model 0 has its goals on 0,4 and 0,3; model 2 on 4,2 and 4,4; model 8 on 4,4 and 4,2.


@pytest.mark.parametrize("rules", RULES)
def test_gridworld_a_move_into_the_border_stays_for_certain(world, rules):
    domain = world("gridworld", 0, rules)
    here = "agent 0,0 teammate 0,4"  # the teammate is on its goal and stays
    for action in ("up", "left", "stay"):
        assert domain.transition(here, action) == {here: 1.0}
    assert domain.transition(here, "right") == near({"agent 1,0 teammate 0,4": 0.8, here: 0.2})
    assert domain.transition(here, "down") == near({"agent 0,1 teammate 0,4": 0.8, here: 0.2})


def test_gridworld_the_teammate_slips_only_as_run_and_independently(world):
    here = "agent 0,0 teammate 2,4"  # the teammate goes left to its nearest goal 0,4
    assert world("gridworld", 0, "as_run").transition(here, "right") == near(
        {
            "agent 1,0 teammate 1,4": 0.64,
            "agent 1,0 teammate 2,4": 0.16,
            "agent 0,0 teammate 1,4": 0.16,
            "agent 0,0 teammate 2,4": 0.04,
        }
    )
    assert world("gridworld", 0, "as_written").transition(here, "right") == near(
        {"agent 1,0 teammate 1,4": 0.8, "agent 0,0 teammate 1,4": 0.2}
    )


@pytest.mark.parametrize(
    ("model", "teammate", "after"),
    [
        (0, "2,1", "1,1"),  # first horizontally
        (1, "4,4", "3,4"),
        (1, "0,4", "1,4"),
        (0, "0,1", "0,2"),  # then vertically
        (0, "0,3", "0,3"),  # stays on a goal
        (1, "1,4", "1,3"),  # 1,1 (three steps) is nearer than 3,2 (four)
        (2, "4,3", "4,2"),  # a tie goes to the first of the pair, 4,2
        (8, "4,3", "4,4"),  # the same cells the other way round: 4,4
        (6, "2,0", "1,0"),  # 0,0 comes before 4,0
    ],
)
def test_gridworld_where_the_teammate_goes(world, model, teammate, after):
    chances = world("gridworld", model, "as_written").transition(f"agent 2,2 teammate {teammate}", "stay")
    assert chances == {f"agent 2,2 teammate {after}": 1.0}


def test_gridworld_has_no_collisions(world):
    domain = world("gridworld", 0, "as_written")
    assert domain.transition("agent 1,4 teammate 2,4", "stay") == {"agent 1,4 teammate 1,4": 1.0}
    assert domain.transition("agent 1,4 teammate 2,4", "right") == near(
        {"agent 2,4 teammate 1,4": 0.8, "agent 1,4 teammate 1,4": 0.2}
    )


@pytest.mark.parametrize("rules", RULES)
def test_gridworld_goals_count_either_way_round_but_not_both_on_one(world, rules):
    domain = world("gridworld", 0, rules)
    assert domain.reward("agent 0,4 teammate 0,3") == domain.reward("agent 0,3 teammate 0,4") == 100.0
    assert domain.reward("agent 0,4 teammate 0,4") == domain.reward("agent 0,3 teammate 0,3") == -1.0


def test_gridworld_starts_anywhere_unsolved(world):
    start = world("gridworld", 0).start
    assert len(start) == 623
    assert start["agent 2,2 teammate 2,2"] == pytest.approx(1 / 623, abs=1e-7)
    assert not {"agent 0,4 teammate 0,3", "agent 0,3 teammate 0,4", "absorbing"} & start.keys()


def test_gridworld_a_failing_sensor_as_run_sees_one_of_the_other_two(world):
    seen = world("gridworld").observation("stay", "agent 0,0 teammate 1,0")  # wall, nothing, wall, teammate
    assert len(seen) == 27
    assert seen["#.#T"] == pytest.approx(0.8**3, abs=1e-6)
    assert seen["..#T"] == seen["T.#T"] == pytest.approx(0.1 * 0.64, abs=1e-6)
    assert seen["#.#."] == seen["#.##"] == pytest.approx(0.1 * 0.64, abs=1e-6)
    assert seen["...."] == seen["T.T#"] == pytest.approx(0.001, abs=1e-6)
    assert all(symbols[1] == "." for symbols in seen)  # nothing is always seen as nothing


def test_gridworld_a_failing_sensor_as_written_sees_nothing(world):
    seen = world("gridworld", 0, "as_written").observation("stay", "agent 0,0 teammate 1,0")
    assert seen == near(
        {
            "#.#T": 0.512,
            "..#T": 0.128,
            "#..T": 0.128,
            "#.#.": 0.128,
            "...T": 0.032,
            "..#.": 0.032,
            "#...": 0.032,
            "....": 0.008,
        }
    )


@pytest.mark.parametrize("teammate", ["2,2", "3,3", "2,4"])
def test_gridworld_the_teammate_is_seen_only_beside_the_agent(world, teammate):
    domain = world("gridworld")
    assert domain.observation("up", f"agent 2,2 teammate {teammate}") == {"....": 1.0}
    assert domain.observation("up", "agent 2,2 teammate 2,1") == near({"T...": 0.8, "....": 0.1, "#...": 0.1})
    assert domain.observation("up", "agent 2,2 teammate 2,3") == near({".T..": 0.8, "....": 0.1, ".#..": 0.1})
