"""The abandoned power plant: situations worked out by hand from the rules. The noise is 0.2."""

import pytest

from domain_worlds import RULES, in_both_worlds, near

pytestmark = in_both_worlds
# Rooms 0-1, 1-2, 1-3, 3-4. Bits: rooms 0, 1, 4 (exploration, model 0), rooms 2, 4 (cleanup, model 1).


@pytest.mark.parametrize("rules", RULES)
def test_plant_missing_neighbours_become_the_lowest(world, rules):
    """Room 3 leads to 1 and 4, so "third" is room 1; room 0 leads to 1 only. The human in 0 goes to 1."""
    domain = world("abandoned-power-plant", 0, rules)
    here = "robot 3 human 0 done 110"
    to_one = {"robot 1 human 1 done 110": 0.8, "robot 3 human 1 done 110": 0.2}
    assert domain.transition(here, "first") == near(to_one)
    assert domain.transition(here, "third") == near(to_one)
    assert domain.transition(here, "second") == near(
        {"robot 4 human 1 done 111": 0.8, "robot 3 human 1 done 110": 0.2}
    )
    for action in ("first", "second", "third"):
        assert domain.transition("robot 0 human 0 done 100", action) == near(
            {"robot 1 human 1 done 110": 0.8, "robot 0 human 1 done 110": 0.2}
        )


@pytest.mark.parametrize("rules", RULES)
def test_plant_third_neighbour_of_the_hub(world, rules):
    """From room 1: 0, 2, 3. The human in 3 moves on to 4 and ends the exploration."""
    domain = world("abandoned-power-plant", 0, rules)
    here = "robot 1 human 3 done 110"
    for action, room in [("first", 0), ("second", 2), ("third", 3)]:
        assert domain.transition(here, action) == near(
            {f"robot {room} human 4 done 111": 0.8, "robot 1 human 4 done 111": 0.2}
        )


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("action", ["stay", "locate-human", "locate-robot"])
def test_plant_locating_leaves_the_robot_where_it_is_and_the_human_walks_on(world, rules, action):
    domain = world("abandoned-power-plant", 0, rules)
    assert domain.start == {"robot 0 human 0 done 100": 1.0}
    assert domain.transition("robot 0 human 0 done 100", action) == {"robot 0 human 1 done 110": 1.0}
    assert domain.transition("robot 0 human 1 done 110", action) == {"robot 0 human 3 done 110": 1.0}
    assert domain.transition("robot 0 human 3 done 110", action) == {"robot 0 human 4 done 111": 1.0}


@pytest.mark.parametrize("rules", RULES)
def test_plant_a_room_is_clean_only_when_both_are_in_it(world, rules):
    domain = world("abandoned-power-plant", 1, rules)
    assert domain.start == {"robot 0 human 0 done 00": 1.0}
    here = "robot 1 human 1 done 00"  # room 2 first: five steps instead of six
    assert domain.transition(here, "second") == near(
        {"robot 2 human 2 done 10": 0.8, "robot 1 human 2 done 00": 0.2}
    )
    assert domain.transition(here, "stay") == {"robot 1 human 2 done 00": 1.0}
    assert "robot 2 human 2 done 00" not in domain.states
    assert "robot 2 human 4 done 00" in domain.states


@pytest.mark.parametrize("rules", RULES)
def test_plant_the_human_takes_the_first_of_its_optimal_actions(world, rules):
    """Room 4 is left and the robot two rooms away: waiting in 4 and a walk to 3 and back are equally good.
    The first optimal pair in robot-major order is (third, first), so the human walks.
    """
    domain = world("abandoned-power-plant", 1, rules)
    here = "robot 1 human 4 done 10"
    assert domain.transition(here, "stay") == {"robot 1 human 3 done 10": 1.0}
    assert domain.transition(here, "third") == near(
        {"robot 3 human 3 done 10": 0.8, "robot 1 human 3 done 10": 0.2}
    )


def test_plant_contradictory_states_are_left_out(world):
    explore = world("abandoned-power-plant", 0)
    assert len(explore.states) == 105
    assert "robot 0 human 3 done 010" not in explore.states
    assert "robot 2 human 4 done 000" not in explore.states
    assert "robot 2 human 3 done 000" in explore.states
    assert len(world("abandoned-power-plant", 1).states) == 97


def test_plant_answers_to_locate(world):
    here = "robot 1 human 3 done 110"
    as_run = world("abandoned-power-plant", 0, "as_run")
    others = {"-1": 0.04, "0": 0.04, "2": 0.04, "4": 0.04}
    assert as_run.observation("locate-human", here) == near({"3": 0.8, "1": 0.04, **others})
    assert as_run.observation("locate-robot", here) == near({"1": 0.8, "3": 0.04, **others})
    as_written = world("abandoned-power-plant", 0, "as_written")
    assert as_written.observation("locate-human", here) == near({"3": 0.8, "-1": 0.2})
    assert as_written.observation("locate-robot", here) == near({"1": 0.8, "-1": 0.2})


@pytest.mark.parametrize(
    ("here", "as_run"),
    [
        ("robot 0 human 2 done 100", {"0": 0.8, "-1": 0.2}),  # one neighbour: symbols -1 and 0, 0 being right
        ("robot 1 human 2 done 110", {"1": 0.8, "-1": 0.2 / 3, "0": 0.2 / 3, "2": 0.2 / 3}),
        ("robot 2 human 2 done 000", {"2": 2 / 3, "-1": 1 / 6, "0": 1 / 6}),  # 0.8, 0.2, 0.2, normalised
        ("robot 3 human 2 done 000", {"3": 8 / 11, "-1": 1 / 11, "0": 1 / 11, "1": 1 / 11}),
        ("robot 4 human 2 done 001", {"4": 2 / 3, "-1": 1 / 6, "0": 1 / 6}),
    ],
)
@pytest.mark.parametrize("action", ["first", "third", "stay"])
def test_plant_readings_after_a_move_or_a_stay(world, here, as_run, action):
    room = here.split()[1]
    assert world("abandoned-power-plant", 0, "as_run").observation(action, here) == near(as_run)
    assert world("abandoned-power-plant", 0, "as_written").observation(action, here) == near(
        {room: 0.8, "-1": 0.2}
    )
