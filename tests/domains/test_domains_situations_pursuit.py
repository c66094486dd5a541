"""Pursuit: situations worked out by hand from the rules. Positions are relative to the agent.

The noise is 0.2 in pursuit-task and 0.15 in the other two.
"""

import pytest

from domain_worlds import RULES, in_both_worlds, near

pytestmark = in_both_worlds
# pursuit-both models: 0 n/s, 1 w/e, 2 sw/ne, 3 nw/se with the greedy teammate, 4-7 the same, teammate-aware.


def prey_moves(teammate: str, prey: tuple[int, int]) -> dict[str, float]:
    """Five equally likely successors, the agent staying and no coordinate leaving -2..2."""
    x, y = prey
    cells = [(x, y - 1), (x, y + 1), (x - 1, y), (x + 1, y), (x, y)]
    return {f"teammate {teammate} prey {column},{row}": 0.2 for column, row in cells}


def test_pursuit_wrap(world):
    here = "teammate 2,-1 prey 2,0"  # the teammate stands north of the prey and stays; the agent goes left
    torus = world("pursuit-task", 0, "as_written").transition(here, "left")
    assert torus == near(  # 3 -> -2 and, when the prey goes right, 4 -> -1
        {
            "teammate -2,-1 prey -2,-1": 0.2,
            "teammate -2,-1 prey -2,1": 0.2,
            "teammate -2,-1 prey 2,0": 0.2,
            "teammate -2,-1 prey -1,0": 0.2,
            "teammate -2,-1 prey -2,0": 0.2,
        }
    )
    program = world("pursuit-task", 0, "as_run").transition(here, "left")
    assert program == near(  # 3 -> -1 and 4 -> -2
        {
            "teammate -1,-1 prey -1,-1": 0.2,
            "teammate -1,-1 prey -1,1": 0.2,
            "teammate -1,-1 prey 2,0": 0.2,
            "teammate -1,-1 prey -2,0": 0.2,
            "teammate -1,-1 prey -1,0": 0.2,
        }
    )


def test_pursuit_wrap_on_the_negative_side(world):
    here = "teammate -2,-1 prey -2,0"  # the agent goes right
    torus = world("pursuit-task", 0, "as_written").transition(here, "right")
    assert torus == near(  # -3 -> 2, -4 -> 1
        {
            "teammate 2,-1 prey 2,-1": 0.2,
            "teammate 2,-1 prey 2,1": 0.2,
            "teammate 2,-1 prey 1,0": 0.2,
            "teammate 2,-1 prey -2,0": 0.2,
            "teammate 2,-1 prey 2,0": 0.2,
        }
    )
    program = world("pursuit-task", 0, "as_run").transition(here, "right")
    assert program == near(  # -3 -> 1, -4 -> 2
        {
            "teammate 1,-1 prey 1,-1": 0.2,
            "teammate 1,-1 prey 1,1": 0.2,
            "teammate 1,-1 prey 2,0": 0.2,
            "teammate 1,-1 prey -2,0": 0.2,
            "teammate 1,-1 prey 1,0": 0.2,
        }
    )


@pytest.mark.parametrize(
    ("model", "rules", "captured"),
    [
        (0, "as_written", {"teammate 0,2 prey 0,1", "teammate 0,-2 prey 0,-1"}),
        (
            0,  # as_run also wraps the teammate at distance 3 from the prey to distance 1
            "as_run",
            {
                "teammate 0,2 prey 0,1",
                "teammate 0,-2 prey 0,-1",
                "teammate 0,-2 prey 0,1",
                "teammate 0,2 prey 0,-1",
            },
        ),
        (1, "as_written", {"teammate 2,0 prey 1,0", "teammate -2,0 prey -1,0"}),
        (2, "as_written", {"teammate 2,-2 prey 1,-1", "teammate -2,2 prey -1,1"}),
        (3, "as_written", {"teammate 2,2 prey 1,1", "teammate -2,-2 prey -1,-1"}),
        (
            3,
            "as_run",
            {f"teammate {dx},{dy} prey {p},{p}" for dx in (-2, 2) for dy in (-2, 2) for p in (-1, 1)},
        ),
    ],
)
def test_pursuit_captures_and_starts(world, model, rules, captured):
    domain = world("pursuit-task", model, rules)
    assert {state for state in domain.states if domain.reward(state) == 100.0} == captured
    assert len(domain.start) == 625 - len(captured)
    assert not captured & domain.start.keys()
    assert list(domain.start.values()) == pytest.approx([1 / len(domain.start)] * len(domain.start), abs=1e-7)


def test_pursuit_the_wrap_decides_which_capture_cell_is_nearer(world):
    """The prey is two above the teammate: south of it is one above, north of it three above, which wraps."""
    here, prey = "teammate 1,1 prey 1,-1", (1, -1)
    assert world("pursuit-task", 0, "as_written").transition(here, "stay") == near(prey_moves("1,0", prey))
    # as_run the northern cell (0,-3) reads (0,1): as near as the southern one, and first
    assert world("pursuit-task", 0, "as_run").transition(here, "stay") == near(prey_moves("1,2", prey))


@pytest.mark.parametrize(
    ("model", "after"), [(0, "1,0"), (1, "0,1"), (2, "0,1"), (3, "0,1")]
)  # up; left; (-1,1) and (-1,-1): along dx first
@pytest.mark.parametrize("rules", RULES)
def test_pursuit_greedy_ties_go_to_the_first_side_and_dx_comes_first(world, model, after, rules):
    chances = world("pursuit-task", model, rules).transition("teammate 1,1 prey 1,1", "stay")
    assert chances == near(prey_moves(after, (1, 1)))


def test_pursuit_greedy_walks_over_the_agent(world):
    """Target two to the right, the agent in between: the greedy teammate goes right all the same."""
    here = "teammate -1,0 prey 1,1"
    for rules in RULES:
        assert world("pursuit-both", 0, rules).transition(here, "stay") == near(prey_moves("0,0", (1, 1)))


@pytest.mark.parametrize("rules", RULES)
def test_pursuit_aware_goes_round_the_agent(world, rules):
    """The same situation: straight on is blocked; three steps left round the torus beat four round the agent.
    As run, too: that is the only path of cost 3, so the target is popped at 3 + 2 = 5, all others come at 6.
    """
    chances = world("pursuit-both", 4, rules).transition("teammate -1,0 prey 1,1", "stay")
    assert chances == near(prey_moves("-2,0", (1, 1)))


@pytest.mark.parametrize("rules", RULES)
def test_pursuit_aware_may_enter_its_target_even_where_the_agent_stands(world, rules):
    chances = world("pursuit-both", 4, rules).transition("teammate -1,0 prey 0,1", "stay")
    assert chances == near(prey_moves("0,0", (0, 1)))


@pytest.mark.parametrize("rules", RULES)
def test_pursuit_aware_stays_at_its_target(world, rules):
    chances = world("pursuit-both", 4, rules).transition("teammate 1,0 prey 1,1", "stay")
    assert chances == near(prey_moves("1,0", (1, 1)))


def test_pursuit_aware_as_run_never_finds_a_target_with_a_negative_coordinate(world):
    """Teammate on the prey: its target is north, (0,-1)."""
    here = "teammate 1,1 prey 1,1"
    assert world("pursuit-both", 4, "as_written").transition(here, "stay") == near(prey_moves("1,0", (1, 1)))
    everywhere = {
        state: p / 5
        for teammate in ("1,0", "1,2", "0,1", "2,1", "1,1")
        for state, p in prey_moves(teammate, (1, 1)).items()
    }
    assert world("pursuit-both", 4, "as_run").transition(here, "stay") == near(everywhere)


def teammate_moves(chances: dict[str, float]) -> dict[str, float]:
    """The teammate's part of a row: {its position: probability}."""
    part: dict[str, float] = {}
    for state, p in chances.items():
        position = state.split()[1]
        part[position] = part.get(position, 0.0) + p
    return part


@pytest.mark.parametrize(
    ("model", "here", "right", "down"),
    [
        (4, "teammate 1,0 prey 2,2", "2,0", "1,1"),  # seen from the teammate the agent is at (-1,0)
        (5, "teammate 0,1 prey 2,2", "1,1", "0,2"),  # at (0,-1)
        (5, "teammate -1,1 prey 1,2", "0,1", "-1,2"),  # at (1,-1)
    ],
)
def test_pursuit_aware_an_obstacle_with_a_negative_coordinate_blocks_nothing_as_run(
    world, model, here, right, down
):
    """The target is (1,1) each time and no shortest path meets the agent. As written the first action that
    starts one is down. As run, by hand (cost + estimate after each name): heapify turns [right 2, left 4,
    down 2, up 4] into [down 2, up 4, right 2, left 4]; down is popped, then right, and each pushes the target
    at 4 and the origin at 2; both origins are popped and skipped, then (0,2), then (2,0), and then the target
    that right pushed. Were these obstacles felt, the heap would look different and the move would be down.
    """
    as_run = world("pursuit-both", model, "as_run").transition(here, "stay")
    assert teammate_moves(as_run) == near({right: 1.0})
    as_written = world("pursuit-both", model, "as_written").transition(here, "stay")
    assert teammate_moves(as_written) == near({down: 1.0})


@pytest.mark.parametrize(
    ("here", "after"),
    [
        ("teammate 0,-1 prey 2,0", "1,-1"),  # the agent below the teammate: right
        ("teammate -1,0 prey 1,1", "-1,1"),  # the agent to its right: down
    ],
)
@pytest.mark.parametrize("rules", RULES)
def test_pursuit_aware_takes_the_free_one_of_two_shortest_paths(world, here, after, rules):
    """Model 5 (w/e), target (1,1), with the agent on one of the two cells between."""
    assert teammate_moves(world("pursuit-both", 5, rules).transition(here, "stay")) == near({after: 1.0})


def test_pursuit_aware_as_run_an_obstacle_beside_the_paths_changes_the_heap(world):
    """Model 5 (w/e), target (1,1), the agent at (2,0) from the teammate. By hand: popped are down, right
    (whose own right is blocked), the origin twice, (0,2), (1,4), left, the origin again, and then the target
    that right pushed. With neighbours in action order it would be the one that down pushed.
    """
    here = "teammate -2,0 prey 0,1"
    as_run = world("pursuit-both", 5, "as_run").transition(here, "stay")
    assert teammate_moves(as_run) == near({"-1,0": 1.0})
    as_written = world("pursuit-both", 5, "as_written").transition(here, "stay")
    assert teammate_moves(as_written) == near({"-2,1": 1.0})


def test_pursuit_observation(world):
    """Ids row by row: 0 1 2 above, 3 4 5 beside, 6 7 8 below; 4 is the own cell and what a failure reads."""
    see = world("pursuit-task").observation
    assert see("up", "teammate 0,-1 prey -1,0") == near(
        {
            "teammate 1 prey 3": 0.64,
            "teammate 1 prey 4": 0.16,
            "teammate 4 prey 3": 0.16,
            "teammate 4 prey 4": 0.04,
        }
    )
    assert see("up", "teammate 1,-1 prey 0,0") == near({"teammate 2 prey 4": 0.8, "teammate 4 prey 4": 0.2})
    assert see("up", "teammate 2,0 prey -1,1") == near({"teammate 4 prey 6": 0.8, "teammate 4 prey 4": 0.2})
    assert see("up", "teammate 0,0 prey 1,2") == {"teammate 4 prey 4": 1.0}
    quieter = world("pursuit-teammate").observation("up", "teammate 1,1 prey 0,0")
    assert quieter == near({"teammate 8 prey 4": 0.85, "teammate 4 prey 4": 0.15})
