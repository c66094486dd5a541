"""The mazes: situations worked out by hand from the rules. The noise is 0.2, in cit 0.1."""

import pytest

from domain_worlds import in_both_worlds, near

pytestmark = in_both_worlds
#     ntu ###S##    as_written: goals 1,1 and 1,4 in model 0; 1,1 and 4,4 in model 2; 1,4 and 4,1 in model 3
#         #G..G#    as_run: all four goals in every model
#         S.##.#
#         #.##.S
#         #G..G#
#         ##S###


@pytest.mark.parametrize(
    ("here", "action", "after"),
    [
        # the teammate pushes left at the agent: it may not enter the agent's cell, even if the agent leaves
        ("agent 1,1 teammate 2,1", "stay", {"agent 1,1 teammate 2,1": 1.0}),
        ("agent 1,1 teammate 2,1", "down", {"agent 1,2 teammate 2,1": 0.8, "agent 1,1 teammate 2,1": 0.2}),
        # face to face they cannot swap: the teammate did not leave, so the agent is blocked for certain
        ("agent 1,1 teammate 2,1", "right", {"agent 1,1 teammate 2,1": 1.0}),
        # in single file the agent may enter the cell the teammate has just left
        ("agent 3,1 teammate 2,1", "left", {"agent 2,1 teammate 1,1": 0.8, "agent 3,1 teammate 1,1": 0.2}),
        # both want 1,1: the teammate moves first and gets it
        ("agent 1,2 teammate 2,1", "up", {"agent 1,2 teammate 1,1": 1.0}),
        # walls and the border
        ("agent 2,1 teammate 1,4", "up", {"agent 2,1 teammate 1,4": 1.0}),
        ("agent 0,2 teammate 1,4", "left", {"agent 0,2 teammate 1,4": 1.0}),
        # the agent slips, the teammate does not
        ("agent 2,1 teammate 1,2", "right", {"agent 3,1 teammate 1,1": 0.8, "agent 2,1 teammate 1,1": 0.2}),
    ],
)
def test_maze_corridor_as_written(world, here, action, after):
    assert world("ntu", 0, "as_written").transition(here, action) == near(after)


@pytest.mark.parametrize(
    ("here", "action", "after"),
    [
        # one step from the end: the teammate goes to 4,1 for certain, and nobody slips
        ("agent 1,1 teammate 3,1", "stay", {"agent 1,1 teammate 4,1": 1.0}),
        ("agent 1,1 teammate 3,1", "right", {"agent 2,1 teammate 4,1": 1.0}),
        ("agent 2,1 teammate 3,1", "right", {"agent 3,1 teammate 4,1": 1.0}),
        # the agent is two steps from 4,1, so the teammate on 1,1 has time to spare: each of its five actions
        # belongs to one optimal pair (with the agent's right); its right, into the agent's cell, is no move
        ("agent 2,1 teammate 1,1", "stay", {"agent 2,1 teammate 1,1": 0.8, "agent 2,1 teammate 1,2": 0.2}),
        ("agent 2,1 teammate 1,1", "right", {"agent 3,1 teammate 1,1": 0.8, "agent 3,1 teammate 1,2": 0.2}),
        # the agent gets into 1,1 only if the teammate went down before it
        ("agent 2,1 teammate 1,1", "left", {"agent 2,1 teammate 1,1": 0.8, "agent 1,1 teammate 1,2": 0.2}),
        # the teammate has to make room: from 3,1 it goes left for good (2 steps), the agent sits on 4,1
        ("agent 4,1 teammate 3,1", "stay", {"agent 4,1 teammate 2,1": 1.0}),
        ("agent 4,1 teammate 3,1", "left", {"agent 3,1 teammate 2,1": 1.0}),
    ],
)
@pytest.mark.parametrize("model", [0, 3])
def test_maze_corridor_as_run(world, model, here, action, after):
    assert world("ntu", model, "as_run").transition(here, action) == near(after)


@pytest.mark.parametrize(
    ("name", "model", "teammate", "after"),
    [
        ("ntu", 2, "4,1", "3,1"),  # three steps to 1,1 and to 4,4: the goal that comes first
        ("ntu", 2, "1,4", "1,3"),
        ("ntu", 3, "1,1", "1,2"),  # 1,4 comes before 4,1: by column, then row
        ("ntu", 3, "4,4", "3,4"),
        ("ntu", 0, "1,4", "1,4"),  # at a goal it stays
        ("mit", 0, "1,2", "1,1"),  # 14,0 and 14,4 are equally far: 14,0
        # ten steps to 14,0 and to 16,2: 14,0; paths to it start up or right: up
        ("mit", 1, "7,3", "7,2"),
        ("mit", 0, "7,3", "8,3"),  # eight steps to 14,4, ten to 14,0
    ],
)
def test_maze_ties_of_the_teammate_as_written(world, name, model, teammate, after):
    agent = {"ntu": "0,2", "mit": "0,2"}[name]
    chances = world(name, model, "as_written").transition(f"agent {agent} teammate {teammate}", "stay")
    assert chances == {f"agent {agent} teammate {after}": 1.0}


def goal_cells(domain) -> set[str]:
    return {state.split()[1] for state in domain.states if domain.reward(state) == 100.0}


@pytest.mark.parametrize(
    ("name", "model", "as_written", "as_run"),
    [
        ("ntu", 0, {"1,1", "1,4"}, {"1,1", "1,4", "4,1", "4,4"}),
        ("ntu", 2, {"1,1", "4,4"}, {"1,1", "1,4", "4,1", "4,4"}),
        ("ntu", 5, {"4,1", "4,4"}, {"1,1", "1,4", "4,1", "4,4"}),
        ("mit", 0, {"14,0", "14,4"}, {"14,0", "14,4"}),
        ("mit", 1, {"14,0", "16,2"}, {"14,0", "14,4", "16,2"}),
        ("mit", 2, {"14,4", "16,2"}, {"14,0", "14,4", "16,2"}),
        ("isr", 0, {"0,7", "3,6"}, {"0,7", "3,6"}),
        ("isr", 2, {"3,6", "5,1"}, {"3,6", "5,1"}),
        ("pentagon", 0, {"0,8", "7,3"}, {"0,8", "7,3"}),
        ("pentagon", 1, {"0,8", "10,4"}, {"0,8", "10,4"}),
        ("cit", 0, {"8,5", "10,4"}, {"8,5", "10,4"}),
        ("cit", 2, {"10,4", "13,7"}, {"10,4", "13,7"}),
    ],
)
def test_maze_goals_of_a_task(world, name, model, as_written, as_run):
    for rules, goals in [("as_written", as_written), ("as_run", as_run)]:
        domain = world(name, model, rules)
        assert goal_cells(domain) == goals
        solved = {f"agent {one} teammate {other}" for one in goals for other in goals if one != other}
        assert {state for state in domain.states if domain.reward(state) == 100.0} == solved


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("ntu", ["3,0", "0,2", "5,3", "2,5"]),
        ("isr", ["3,0", "8,3", "0,5", "3,9"]),
        ("mit", ["2,0", "0,2", "2,4"]),
        ("pentagon", ["1,0", "9,0"]),
        ("cit", ["10,10", "0,11", "4,11"]),
    ],
)
def test_maze_starts(world, name, cells):
    pairs = {f"agent {one} teammate {other}" for one in cells for other in cells if one != other}
    assert world(name).start == near(dict.fromkeys(pairs, 1 / len(pairs)))
    written = world(name, 0, "as_written")
    assert len(written.start) == len(written.states) - 1 - 2  # all but absorbing and the two solved ones
    assert list(written.start.values()) == pytest.approx(
        [1 / len(written.start)] * len(written.start), abs=1e-7
    )


def test_maze_sensor(world):
    corridor = "agent 2,1 teammate 3,1"  # walls above and below, the teammate on the right
    as_run = world("ntu").observation("left", corridor)
    assert len(as_run) == 27
    assert as_run["##.T"] == pytest.approx(0.512, abs=1e-6)
    assert (
        as_run["T#.T"] == as_run[".#.T"] == as_run["##.#"] == as_run["##.."] == pytest.approx(0.064, abs=1e-6)
    )
    as_written = world("ntu", 0, "as_written").observation("left", corridor)
    assert len(as_written) == 8
    assert as_written["##.."] == as_written[".#.T"] == pytest.approx(0.128, abs=1e-6)
    border = world("ntu").observation("left", "agent 0,2 teammate 4,4")  # left of 0,2 is the map's border
    assert border["###."] == pytest.approx(0.512, abs=1e-6)
    junction = world("mit").observation("left", "agent 15,2 teammate 1,1")
    assert junction == near({"..#.": 0.8, "....": 0.1, "..T.": 0.1})
    quieter = world("cit").observation("left", "agent 4,2 teammate 3,0")  # a wall on the left, noise 0.1
    assert quieter == near({"..#.": 0.9, "....": 0.05, "..T.": 0.05})


def coincide(one, other) -> bool:
    return one.start == other.start and all(
        one.reward(state) == other.reward(state)
        and one.transition(state, action) == other.transition(state, action)
        and one.observation(action, state) == other.observation(action, state)
        for state in one.states
        for action in one.actions
    )


def test_all_tasks_of_ntu_coincide_as_run_and_none_as_written(world):
    as_run = [world("ntu", model, "as_run") for model in range(6)]
    assert all(coincide(as_run[0], other) for other in as_run[1:])
    as_written = [world("ntu", model, "as_written") for model in range(6)]
    assert not any(coincide(as_written[i], as_written[j]) for i in range(6) for j in range(i))


def test_two_tasks_of_mit_coincide_as_run(world):
    zero, one, two = (world("mit", model, "as_run") for model in range(3))
    assert coincide(one, two)
    assert not coincide(zero, one)
    assert not coincide(world("mit", 1, "as_written"), world("mit", 2, "as_written"))


@pytest.mark.parametrize(
    ("name", "hopeless"), [("ntu", 0), ("isr", 6), ("mit", 6), ("pentagon", 3), ("cit", 6)]
)
def test_maze_hopeless_starts_as_written(world, name, hopeless):
    """Between 0.1 and 0.4 % of the starts of the four larger mazes lead nowhere, and they stay in."""
    domain = world(name, 0, "as_written")
    before: dict[str, set[str]] = {}
    for state in domain.states:
        for action in domain.actions:
            for after in domain.transition(state, action):
                before.setdefault(after, set()).add(state)
    frontier = [state for state in domain.states if domain.reward(state) == 100.0]
    solvable = set(frontier)
    while frontier:
        new = before.get(frontier.pop(), set()) - solvable
        solvable |= new
        frontier.extend(new)
    lost = domain.start.keys() - solvable
    assert len(lost) == hopeless
    if hopeless:
        assert 0.001 < len(lost) / len(domain.start) < 0.004
