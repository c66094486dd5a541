"""Overcooked: situations worked out by hand from the rules."""

import pytest

from domain_worlds import RULES, in_both_worlds, near

pytestmark = in_both_worlds
# Models: 0 optimal, 1 upper, 2 lower, 3 random. The random cook shows each of its four actions with 1/4.


def kitchen(helper: str, cook: str, balconies: str, pan: str) -> str:
    return f"helper {helper} cook {cook} balconies {balconies} pan {pan}"


@pytest.mark.parametrize(
    ("here", "action", "after"),
    [
        # both put on the top balcony: the helper is first, the cook keeps its onion (the pan is full)
        (
            kitchen("top onion", "top onion", "nothing nothing", "cooked"),
            "act",
            {
                kitchen("top nothing", "top onion", "onion nothing", "cooked"): 0.75,
                kitchen("top nothing", "bottom onion", "onion nothing", "cooked"): 0.25,
            },
        ),
        # the helper does not: the cook's act puts its onion there
        (
            kitchen("top onion", "top onion", "nothing nothing", "cooked"),
            "noop",
            {
                kitchen("top onion", "top onion", "nothing nothing", "cooked"): 0.5,
                kitchen("top onion", "bottom onion", "nothing nothing", "cooked"): 0.25,
                kitchen("top onion", "top nothing", "onion nothing", "cooked"): 0.25,
            },
        ),
        # the cook takes what lay there at the start; the helper found the balcony full and keeps its onion
        (
            kitchen("top onion", "top nothing", "plate nothing", "0"),
            "act",
            {
                kitchen("top onion", "top nothing", "plate nothing", "0"): 0.5,
                kitchen("top onion", "bottom nothing", "plate nothing", "0"): 0.25,
                kitchen("top onion", "top plate", "nothing nothing", "0"): 0.25,
            },
        ),
        # the cook cannot take what the helper puts there in the same step
        (
            kitchen("bottom plate", "bottom nothing", "nothing nothing", "1"),
            "act",
            {
                kitchen("bottom nothing", "bottom nothing", "nothing plate", "1"): 0.75,
                kitchen("bottom nothing", "top nothing", "nothing plate", "1"): 0.25,
            },
        ),
        # different balconies do not disturb each other
        (
            kitchen("top plate", "bottom onion", "nothing nothing", "0"),
            "act",
            {
                kitchen("top nothing", "bottom onion", "plate nothing", "0"): 0.5,
                kitchen("top nothing", "top onion", "plate nothing", "0"): 0.25,
                kitchen("top nothing", "bottom nothing", "plate onion", "0"): 0.25,
            },
        ),
    ],
)
@pytest.mark.parametrize("rules", RULES)
def test_overcooked_one_balcony_in_the_same_step(world, here, action, after, rules):
    assert world("overcooked", 3, rules).transition(here, action) == near(after)


@pytest.mark.parametrize(
    ("helper", "balconies", "action", "helper_after", "balconies_after"),
    [
        ("top nothing", "plate nothing", "act", "top onion", "plate nothing"),  # the supply: onions on top
        ("bottom nothing", "nothing nothing", "act", "bottom plate", "nothing nothing"),  # plates below
        ("bottom onion", "nothing nothing", "act", "bottom nothing", "nothing onion"),
        ("bottom onion", "nothing plate", "act", "bottom onion", "nothing plate"),  # its balcony is full
        ("top plate", "nothing onion", "up", "top plate", "nothing onion"),  # nothing beyond the edge
        ("top plate", "nothing onion", "down", "bottom plate", "nothing onion"),
        ("bottom plate", "nothing onion", "up", "top plate", "nothing onion"),
        ("bottom plate", "nothing onion", "down", "bottom plate", "nothing onion"),
        ("bottom plate", "nothing nothing", "noop", "bottom plate", "nothing nothing"),
    ],
)
def test_overcooked_helper(world, helper, balconies, action, helper_after, balconies_after):
    """The cook holds the soup in the top row, where its act does nothing: only down changes it."""
    chances = world("overcooked", 3).transition(kitchen(helper, "top soup", balconies, "1"), action)
    assert chances == near(
        {
            kitchen(helper_after, "top soup", balconies_after, "1"): 0.75,
            kitchen(helper_after, "bottom soup", balconies_after, "1"): 0.25,
        }
    )


@pytest.mark.parametrize(
    ("cook", "balconies", "pan", "after"),
    [
        ("top plate", "nothing nothing", "cooked", ("top soup", "nothing nothing", "0")),
        ("top plate", "nothing nothing", "2", ("top nothing", "plate nothing", "2")),  # not cooked: put away
        ("top plate", "onion nothing", "2", None),  # not cooked, balcony full: nothing
        ("bottom plate", "nothing nothing", "cooked", ("bottom nothing", "nothing plate", "cooked")),
        ("top onion", "nothing nothing", "0", ("top nothing", "nothing nothing", "1")),
        ("top onion", "plate nothing", "1", ("top nothing", "plate nothing", "2")),
        ("top onion", "nothing nothing", "2", ("top nothing", "nothing nothing", "cooked")),
        ("top onion", "plate nothing", "cooked", None),
        ("bottom onion", "nothing nothing", "0", ("bottom nothing", "nothing onion", "0")),
        ("bottom onion", "nothing plate", "0", None),
        ("top nothing", "onion plate", "0", ("top onion", "nothing plate", "0")),
        ("bottom nothing", "onion plate", "0", ("bottom plate", "onion nothing", "0")),
        ("bottom nothing", "onion nothing", "cooked", None),
        ("top soup", "nothing nothing", "0", None),
    ],
)
def test_overcooked_cook_acts(world, cook, balconies, pan, after):
    """Of the random cook's row: the part of act, the helper doing nothing."""
    helper = "top onion"
    here = kitchen(helper, cook, balconies, pan)
    row, hand = cook.split()
    elsewhere = kitchen(helper, f"{'bottom' if row == 'top' else 'top'} {hand}", balconies, pan)
    if after is None:
        expected = {here: 0.75, elsewhere: 0.25}
    else:
        expected = {here: 0.5, elsewhere: 0.25, kitchen(helper, *after): 0.25}
    assert world("overcooked", 3).transition(here, "noop") == near(expected)


@pytest.mark.parametrize("action", ["up", "down", "noop", "act"])
def test_overcooked_delivery_replaces_the_whole_state(world, action):
    """The optimal cook with the soup in the bottom row acts, whatever the helper does."""
    here = kitchen("top onion", "bottom soup", "nothing plate", "2")
    assert world("overcooked", 0).transition(here, action) == {"delivered": 1.0}
    assert world("overcooked", 1, "as_written").transition(here, action) == {"delivered": 1.0}
    assert world("overcooked", 2, "as_written").transition(here, action) == {"delivered": 1.0}


def test_overcooked_starts_and_observations(world):
    domain = world("overcooked", 2, "as_written")
    assert domain.start == near(
        {
            kitchen(f"{helper} nothing", f"{cook} nothing", "nothing nothing", "0"): 0.25
            for helper in ("top", "bottom")
            for cook in ("top", "bottom")
        }
    )
    assert len(domain.states) == 1730
    assert domain.states[-2:] == ["delivered", "absorbing"]
    for state in (domain.states[0], domain.states[777], "delivered", "absorbing"):
        assert domain.observation("noop", state) == {state: 1.0}


def test_overcooked_stubborn_cooks_as_written(world):
    here = kitchen("top nothing", "bottom nothing", "nothing plate", "cooked")  # a plate in front of the cook
    takes = kitchen("top nothing", "bottom plate", "nothing nothing", "cooked")
    leaves = kitchen("top nothing", "top nothing", "nothing plate", "cooked")
    assert world("overcooked", 0).transition(here, "noop") == {takes: 1.0}
    assert world("overcooked", 1, "as_written").transition(here, "noop") == {leaves: 1.0}  # upper goes up
    assert world("overcooked", 2, "as_written").transition(here, "noop") == {takes: 1.0}
    # once there they act, even on an empty balcony; lower goes down
    assert world("overcooked", 1, "as_written").transition(leaves, "noop") == {leaves: 1.0}
    assert world("overcooked", 2, "as_written").transition(leaves, "noop") == {here: 1.0}


def test_overcooked_stubborn_cooks_with_full_hands_are_optimal(world):
    soup = kitchen("top onion", "top soup", "nothing nothing", "0")
    for model in (0, 1, 2):
        assert world("overcooked", model, "as_written").transition(soup, "noop") == {
            kitchen("top onion", "bottom soup", "nothing nothing", "0"): 1.0
        }
    plate = kitchen(
        "top onion", "bottom plate", "nothing nothing", "cooked"
    )  # lower, too, goes up to the pan
    for model in (0, 1, 2):
        assert world("overcooked", model, "as_written").transition(plate, "noop") == {
            kitchen("top onion", "top plate", "nothing nothing", "cooked"): 1.0
        }
