"""Episodes and their replays: the numbers are the rollout's, and every form of a replay holds them."""

import json
import re
from html.parser import HTMLParser

import jax
import numpy as np
import pytest

import tiny_domain
from jatpo.errors import JatpoError
from jatpo.evaluate import choose_agents, register
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.solved import load_solved
from jatpo.report import gif, replay, terminal
from jatpo.report.episode import play, record
from jatpo.report.words import action_words, observation_words

RECORDED = (
    "rewards",
    "actions",
    "observations",
    "probabilities",
    "states",
    "posterior",
    "entropy",
    "beliefs",
)


@pytest.fixture(scope="module", autouse=True)
def stand_in():
    """QMDP's vectors in place of solved ones."""
    with pytest.MonkeyPatch.context() as patch:
        tiny_domain.stand_in(patch)
        yield


@pytest.fixture(scope="module")
def tiny(stand_in):
    """Three doors, for ATPO."""
    with tiny_domain.registered() as name:
        yield load_solved(name, choose_agents(["atpo"]))


@pytest.fixture(scope="module")
def rooms(stand_in):
    """An episode in the power plant, which has a stage and models with different states."""
    return record("abandoned-power-plant", seed=3, trial=2)


def test_an_episode_is_the_trial_of_a_rollout(tiny):
    (agent,) = choose_agents(["atpo"])
    trials = rollout(
        jax.random.key(5),
        agent,
        Scenario(tiny.library),
        tiny,
        tiny.library.horizon,
        trials=range(6, 9),
        record=RECORDED,
    )
    for place, trial in enumerate(trials.trial.tolist()):
        episode = play(tiny, agent, 5, trial=trial)
        steps, moments = episode.num_steps, episode.num_steps + 1
        assert episode.truth == trials.truth[place]
        assert episode.returns[-1] == pytest.approx(trials.returns[place])
        for name in ("rewards", "actions", "observations", "probabilities"):
            np.testing.assert_array_equal(getattr(episode, name), trials.records[name][place, :steps])
        np.testing.assert_array_equal(episode.states, trials.records["states"][place, :moments])
        posterior = trials.records["posterior"][place, :moments]
        np.testing.assert_allclose(episode.posterior, posterior, atol=1e-6)
        leading = trials.records["beliefs"][place][np.arange(moments), episode.leaders]
        np.testing.assert_allclose(episode.beliefs, leading, atol=1e-6)


def test_it_ends_where_nothing_more_can_happen(tiny):
    (agent,) = choose_agents(["atpo"])
    ends = {}
    for trial in range(20):
        episode = play(tiny, agent, 0, trial=trial)
        ends.setdefault(episode.state_name(episode.num_steps), []).append(episode)
    assert all(
        "absorbing" not in [each.state_name(t) for t in range(each.num_steps)] for each in ends["absorbing"]
    )
    assert all(
        each.num_steps == tiny.library.horizon for name in set(ends) - {"absorbing"} for each in ends[name]
    )


def test_it_is_the_same_again_and_other_for_another_seed(tiny):
    one, again, other = (json.dumps(record(tiny, seed=seed).to_json()) for seed in (1, 1, 2))
    assert one == again != other


def test_the_true_model_can_be_chosen(tiny):
    assert [record(tiny, model=k, seed=s).truth for k in range(3) for s in (0, 1)] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(JatpoError, match="no model 3"):
        record(tiny, model=3)
    with pytest.raises(JatpoError, match=r"trial .*-1"):
        record(tiny, trial=-1)


def test_json_holds_the_numbers(rooms):
    told = json.loads(json.dumps(rooms.to_json(), allow_nan=False))
    frames = told["frames"]
    assert len(frames) == told["steps"] + 1 == rooms.num_steps + 1
    assert frames[-1]["return"] == told["return"] == pytest.approx(sum(rooms.rewards))
    for time, frame in enumerate(frames):
        assert frame["posterior"] == pytest.approx(rooms.posterior[time], abs=1e-6)
        assert frame["entropy"] == pytest.approx(rooms.entropy[time], abs=1e-6)
        assert frame["state"] == rooms.state_name(time)
        assert frame["leader"] == int(np.argmax(rooms.posterior[time]))
        stage = told["stages"][str(frame["leader"])]
        scene, belief = rooms.belief(time)
        for who, heat in frame["belief"]["heat"].items():
            places = {place: chance for place, chance in heat}
            expected = scene.stage.marginal(who, belief)
            assert [places.get(n, 0) for n in range(len(stage["places"]))] == pytest.approx(
                expected, abs=1e-3
            )
    assert frames[0]["action"] is None and frames[0]["reward"] is None
    assert frames[1]["action"] == rooms.action_names[rooms.actions[0]]
    assert frames[1]["observation"] == rooms.observation_names[rooms.observations[0]]


class Scripts(HTMLParser):
    """The texts of the JSON scripts of a page, all tags, and every text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.data, self.tags, self.texts, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = dict(attributes).get("type") if tag == "script" else tag if tag == "style" else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "application/json":
            self.data.append(data)
        elif self.inside is None:
            self.texts.append(data)


def test_a_page_embeds_the_episode(rooms):
    text = replay.page(rooms)
    page = Scripts(text)
    (data,) = page.data
    assert json.loads(data) == [rooms.to_json()]
    assert not re.search(r"(?:src|href)=\"(?!data:)|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    css, js = replay.assets()
    assert css in text and js in text
    assert "</script" not in js and "</style" not in css


def test_names_cannot_break_out_of_a_page(rooms):
    from dataclasses import replace

    bad = "</script><script>alert(1)</script> & <!-- \u2028"
    evil = replace(rooms, title=bad, agent="<img src=x>", labels=(bad, bad))
    text = replay.page(evil)
    page = Scripts(text)
    assert page.tags.count("script") == 2 and "img" not in page.tags
    (data,) = page.data
    assert json.loads(data)[0]["title"] == bad
    assert f"<img src=x> in {bad}" in "".join(page.texts)
    part = replay.section([evil, rooms], heading="<b>")
    assert "<b>" not in part and "&lt;b&gt;" in part
    assert [episode["agent"] for episode in json.loads(Scripts(part).data[0])] == ["<img src=x>", "atpo"]


def test_text_frames_tell_what_happens(rooms):
    text = terminal.frame(rooms, 1)
    assert text.startswith(f"abandoned-power-plant, atpo, step 1 of {rooms.num_steps}\n")
    assert f"did         {rooms.did(1)}\n" in text and f"saw         {rooms.saw(1)}\n" in text
    assert f"* {rooms.labels[rooms.truth]}" in text
    share = rooms.posterior[1, rooms.truth]
    assert f"{share:6.1%}" in text and "\x1b" not in text
    assert re.search(r"^0 door .* belief|^true state +belief$", text, re.MULTILINE)
    assert "\x1b[1m" in terminal.frame(rooms, 1, colour=True)
    narrow = terminal.frame(rooms, 1, width=60)
    assert "\nbelief\n" in narrow


def test_maps_and_beliefs_stand_side_by_side(tiny):
    text = terminal.frame(record(tiny, seed=1), 0)
    assert re.search(r"^true state +belief$", text, re.MULTILINE)
    assert re.search(r"^door \d +33\.3%  door 0$", text, re.MULTILINE)


class Screen:
    """A terminal that remembers what was written."""

    def __init__(self, terminal):
        self.written, self.terminal = [], terminal

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.written.append(text)

    def flush(self):
        pass


def test_a_terminal_shows_one_frame_in_place(rooms, monkeypatch):
    monkeypatch.setenv("LINES", "100")
    screen, waits = Screen(True), []
    terminal.play(rooms, 0.25, screen, waits.append)
    text = "".join(screen.written)
    assert waits == [0.25] * rooms.num_steps
    assert text.startswith("\x1b[?25l") and text.endswith("\x1b[?25h")
    lines = terminal.frame(rooms, 0).count("\n") + 1
    assert f"\x1b[{lines}A\r\x1b[J" in text


def test_the_cursor_comes_back_when_it_is_interrupted(rooms):
    screen = Screen(True)

    def interrupt(seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        terminal.play(rooms, 0.1, screen, interrupt)
    assert screen.written[-1] == "\x1b[?25h"


def test_elsewhere_plain_frames_follow_one_another(rooms, capsys):
    terminal.play(rooms, 60)
    out = capsys.readouterr().out
    assert len(re.findall(r"step \d+ of", out)) == rooms.num_steps + 1
    assert "\x1b" not in out


@pytest.mark.parametrize("dark", [False, True])
def test_a_gif_has_a_picture_for_every_frame(tiny, tmp_path, dark):
    from PIL import Image

    episode = record(tiny, seed=1)
    gif.write_gif(tmp_path / "a.gif", episode, delay=0.3, dark=dark, dpi=40)
    with Image.open(tmp_path / "a.gif") as moving:
        assert moving.n_frames == episode.num_steps + 1
        assert moving.info["duration"] == 300
        corner = moving.convert("RGB").getpixel((2, 2))
        moving.seek(moving.n_frames - 1)
        assert moving.info["duration"] == 1200
    assert corner == ((21, 24, 28) if dark else (255, 255, 255))
    assert list(tmp_path.iterdir()) == [tmp_path / "a.gif"]
    for bad, message in ((tmp_path, "is a directory"), (tmp_path / "no" / "a.gif", "there is no directory")):
        with pytest.raises(JatpoError, match=message):
            gif.write_gif(bad, episode)


def test_a_picture_shows_stage_belief_and_posterior(rooms):
    figure = gif.picture(rooms, 1)
    truth, belief, bars = figure.axes
    assert belief.get_title() == f"belief, if {rooms.labels[rooms.leader(1)]}"
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(rooms.posterior[1])
    assert truth.get_title() == "true state"


@pytest.mark.parametrize("name", ["random", "value_iteration", "bopa", "perseus", "random_picker"])
def test_every_agent_can_be_watched(tiny, name):
    episode = record(tiny.library.name, name, seed=1)
    frame = episode.to_json()["frames"][1]
    assert (frame["posterior"] is None) == (name == "random")
    assert (frame["belief"] is None) == (name in ("random", "value_iteration", "bopa"))
    assert ("posterior" in terminal.frame(episode, 1)) == (name != "random")
    assert frame["saw"] is None if name == "random" else frame["saw"]
    assert len(gif.picture(episode, 1).axes) == 1 + (name != "random") + (frame["belief"] is not None)


def test_a_users_agent_can_be_watched(tiny, registries):
    @register
    class AlwaysFirst:
        name, sees, knows = "always-first", "nothing", "nothing"

        def init(self, key, context, seen):
            return jax.numpy.zeros(())

        def act(self, key, context, memory):
            return jax.numpy.eye(context.actions.shape[0])[0]

        def update(self, key, context, memory, action, seen):
            return memory

    episode = record(tiny, "always-first")
    assert set(episode.actions.tolist()) == {0} and episode.posterior is None


def test_a_solved_library_can_be_watched():
    agents = choose_agents(["value_iteration"])
    episode = record(load_solved("abandoned-power-plant", agents), "value_iteration", seed=3)
    again = record("abandoned-power-plant", "value_iteration", seed=3)
    assert episode.to_json() == again.to_json()
    assert episode.scenes[episode.truth].stage is not None


def test_actions_and_observations_in_words():
    grid, plant = (
        ("up", "down", "left", "right", "stay"),
        ("first", "second", "third", "stay", "locate-human"),
    )
    assert [action_words(name, grid) for name in ("up", "stay")] == ["go up", "stay"]
    assert action_words("second", plant) == "go to the second of the rooms next to it"
    assert action_words("second", ("first", "second")) == "second"
    assert observation_words("#..T", "up", grid) == "wall up; teammate right"
    assert observation_words("##.#", "up", grid) == "wall up, down and right"
    assert observation_words("....", "up", grid) == "nothing next to it"
    assert observation_words("teammate 0 prey 4", "up", grid) == "teammate up left, prey not in sight"
    assert observation_words("2", "locate-human", plant) == "the human is in room 2"
    assert observation_words("-1", "stay", plant) == "no reading of its room"
    assert observation_words("2", "up", grid) == "2"
    kitchen = "helper top nothing cook bottom soup balconies onion nothing pan 2"
    told = "helper top with nothing, cook bottom with soup, onion on the top balcony, pan 2 of 3"
    assert observation_words(kitchen, "act", ("act",)) == told


@pytest.mark.slow
def test_all_domains_can_be_watched():
    from jatpo import domains

    for name in set(domains.names()) - {tiny_domain.NAME}:
        episode = record(name, "random", seed=1, horizon=3)
        told = episode.to_json()
        assert all(frame["snapshot"]["positions"] for frame in told["frames"][:-1])
        assert terminal.frame(episode, 1) and gif.picture(episode, 1)
