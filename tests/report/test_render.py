"""States as text and as pictures: everybody stands where the state says, beliefs add up to what is shaded."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

import jatpo.domains as domains
from jatpo.domains.picture import DARK, LIGHT
from jatpo.errors import JatpoError

ONE_OF_EACH = {
    "gridworld": "agent 0,4 teammate 2,3",
    "pursuit-task": "teammate 1,0 prey -1,0",
    "ntu": "agent 3,0 teammate 0,2",
    "abandoned-power-plant": "robot 2 human 3 done 100",
    "overcooked": "helper bottom plate cook top soup balconies onion nothing pan 2",
}


@pytest.fixture
def axes():
    return Figure(figsize=(4, 4)).add_subplot()


def stood(axes):
    """Where the markers are: {colour: (x, y)}."""
    spots = {line.get_color(): line.get_xydata()[0] for line in axes.lines if len(line.get_xydata()) == 1}
    return {colour: tuple(spot) for colour, spot in spots.items()}


def words(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(
    ("name", "picture"),
    [
        (
            "gridworld",
            [
                " .   .   .   .   .",
                " .   .   .   .   .",
                " .   .   .   .   .",
                "[  ] .   T   .   .",
                "[A ] .   .   .   .",
            ],
        ),
        (
            "pursuit-task",
            [
                "  .    .    .    .    .",
                "  .  [   ]  .    .    .",
                "  .    P    A    T    .",
                "  .  [   ]  .    .    .",
                "  .    .    .    .    .",
            ],
        ),
        (
            "ntu",
            [
                "######### A ######",
                "###[ ] .  . [ ]###",
                " T  . ###### . ###",
                "### . ###### .  .",
                "###[ ] .  . [ ]###",
                "###### . #########",
            ],
        ),
        (
            "abandoned-power-plant",
            [
                "0 door                  explored    next to 1",
                "1 baxter                unexplored  next to 0, 2, 3",
                "2 single workbench  R               next to 1",
                "3 double workbench  H               next to 1, 4",
                "4 table                 unexplored  next to 3",
            ],
        ),
        (
            "overcooked",
            [
                "onions        | .             | top: onion    | C(soup)       | pan: 2 of 3",
                "plates        | H(plate)      | bottom        | .             | serve",
            ],
        ),
    ],
)
def test_text(name, picture):
    assert domains.render_text(name, ONE_OF_EACH[name]).splitlines() == picture


def test_text_of_shared_cells_absorbing_states_and_the_empty_stage():
    assert domains.render_text("gridworld", "agent 0,0 teammate 0,0").splitlines()[0] == " AT  .   .   .   ."
    gone = domains.render_text("gridworld", "absorbing")
    assert gone.splitlines()[-1] == "(absorbing)" and "A" not in gone and "T" not in gone
    assert "A" not in domains.render_text("mit") and domains.render_text("mit").count("S") == 3


def test_text_of_a_belief_shades_the_likely_cells():
    scene = domains.scene("gridworld")
    belief = np.zeros(626)
    belief[scene.index("agent 0,0 teammate 4,4")] = 1
    shown = domains.render_text(scene, 0, belief=belief).splitlines()
    assert shown[5:8] == ["agent:", "@@", ""] and shown[-1] == " " * 8 + "@@"
    plant = domains.scene("abandoned-power-plant")
    belief = np.zeros(105)
    belief[[plant.index("robot 0 human 1 done 110"), plant.index("robot 2 human 1 done 010")]] = 0.25, 0.75
    shown = domains.render_text(plant, 0, belief=belief).splitlines()
    assert shown[-2:] == ["robot: 2 single workbench 75%, 0 door 25%", "human: 1 baxter 100%"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("name", "agent", "teammate"),
    [
        ("gridworld", (0, 4), (2, 3)),
        ("pursuit-task", (0, 0), (1, 0)),
        ("ntu", (3, 0), (0, 2)),
        ("abandoned-power-plant", (1.1, 0), (2.2, 1.5)),
        ("overcooked", (1, 1.07), (3, 0.07)),
    ],
)
def test_everybody_stands_in_the_right_place(axes, name, agent, teammate, dark):
    domains.draw(axes, name, ONE_OF_EACH[name], dark=dark, title="here", legend=True)
    palette = DARK if dark else LIGHT
    spots = stood(axes)
    assert spots[palette.agent] == pytest.approx(agent) and spots[palette.teammate] == pytest.approx(teammate)
    assert (palette.prey in spots) == name.startswith("pursuit")
    assert axes.get_title() == "here"
    axes.figure.canvas.draw()


def test_items_and_tasks_are_written(axes):
    domains.draw(axes, "overcooked", ONE_OF_EACH["overcooked"])
    assert {"onion", "plate", "soup", "2 of 3", "serve"} <= set(words(axes)) and "cooked" not in words(axes)
    axes.clear()
    domains.draw(axes, "abandoned-power-plant", "robot 0 human 0 done 00", model=1)
    assert words(axes).count("dirty") == 2 and "unexplored" not in words(axes)


def test_a_belief_is_shaded_by_the_marginals(axes):
    scene = domains.scene("ntu")
    belief = np.zeros(241)
    belief[[scene.index("agent 3,0 teammate 0,2"), scene.index("agent 3,0 teammate 5,3")]] = 0.36, 0.64
    domains.draw(axes, scene, None, belief=belief)
    shaded = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    colours = [patch.get_facecolor()[:3] for patch in shaded]
    assert colours == [to_rgb(LIGHT.agent), to_rgb(LIGHT.teammate), to_rgb(LIGHT.teammate)]
    assert [patch.get_alpha() for patch in shaded] == pytest.approx([0.85, 0.85 * 0.6, 0.85 * 0.8])
    corners = [patch.get_xy().mean(axis=0).round().tolist() for patch in shaded]
    assert corners == [[3, 0], [0, 2], [5, 3]]
    assert not stood(axes)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_marginals_lose_only_the_absorbing_part(name):
    scene = domains.scene(name)
    belief = np.random.default_rng(7).dirichlet(np.ones(len(scene.states)))
    assert scene.stage is not None
    absent = belief[-2:].sum() if name == "overcooked" else belief[-1]
    for who in scene.stage.positions:
        marginal = scene.stage.marginal(who, belief)
        assert marginal.sum() == pytest.approx(1 - absent)
        slow = np.zeros(len(scene.stage.places))
        for state, chance in enumerate(belief):
            snapshot = scene.snapshot(state)
            if who in snapshot.positions:
                slow[snapshot.positions[who]] += chance
        assert marginal == pytest.approx(slow)


def test_models_without_a_stage_show_names(axes):
    plain = domains.Scene(("calm", "storm", "absorbing"))
    assert domains.render_text(plain, 1) == "storm"
    assert domains.render_text(plain, 1, belief=[0.25, 0.75, 0]).splitlines() == [
        "storm",
        " 75.0%  storm",
        " 25.0%  calm",
    ]
    domains.draw(axes, plain, "calm", belief=[0.25, 0.75, 0])
    assert words(axes) == ["calm", "75%  storm", "25%  calm"]


def test_render_writes_files(tmp_path, axes):
    for ending in ("png", "svg", "pdf"):
        assert domains.render("ntu", 3, path=tmp_path / f"state.{ending}") is None
        assert (tmp_path / f"state.{ending}").stat().st_size > 1000
    assert domains.render("ntu", 3) == domains.render_text("ntu", 3)
    domains.render("ntu", 3, axes=axes)
    assert len(stood(axes)) == 2


def test_wrong_states_and_beliefs_are_named():
    scene = domains.scene("ntu")
    with pytest.raises(JatpoError, match="choose from 0 to 240"):
        domains.render_text(scene, 241)
    with pytest.raises(JatpoError, match="no state is called 'agent 0,0'"):
        domains.render_text(scene, "agent 0,0")
    with pytest.raises(JatpoError, match="each of 241 states"):
        domains.render_text(scene, 0, belief=np.ones(10) / 10)
    padded = np.append(domains.describe("ntu").initial, np.zeros(9))
    assert domains.render_text(scene, 0, belief=padded) == domains.render_text(scene, 0, belief=padded[:241])
