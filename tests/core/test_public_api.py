"""The public names of jatpo, and the quickstart of the README."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jatpo
from jatpo.errors import JatpoError

README = Path(__file__).parent.parent.parent / "README.md"


def quickstart():
    """The first Python that a reader of the README sees."""
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]


@pytest.mark.parametrize("name", jatpo.__all__)
def test_every_public_name_is_there(name):
    assert getattr(jatpo, name) is not None
    assert name in dir(jatpo)


def test_there_are_few_public_names_and_no_others_are_shown():
    assert 30 <= len(jatpo.__all__) <= 40
    assert set(dir(jatpo)) == set(jatpo.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        jatpo.nonsense  # noqa: B018


def test_importing_jatpo_is_light():
    code = "import sys, jatpo; dir(jatpo); print('jax' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def run(code):
    """The names that the code leaves behind, and what it prints."""
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return names, printed.getvalue()


@pytest.fixture(scope="module")
def shortened():
    """The quickstart with less time and fewer trials."""
    code = quickstart().replace("seconds=10", "stages=1").replace("trials=1000", "trials=4")
    assert code.count("stages=1") == 1 and code.count("trials=4") == 1
    return run(code)


def test_the_quickstart_compares_three_agents_and_plays_one(shortened):
    names, printed = shortened
    assert set(names["trials"]) == {"atpo", "perseus", "random"}
    assert all(name in printed for name in names["trials"])
    assert names["player"].posterior.shape == (4,)


def test_reprs_are_short(shortened):
    names, _ = shortened
    found = [names[name] for name in ("library", "solved", "scenario", "player")]
    found += [jatpo.compare(names["trials"]), names["trials"]["atpo"], names["library"].member(0)]
    assert [len(repr(each).splitlines()) <= 10 for each in found] == [True] * len(found)


@pytest.mark.slow
def test_the_quickstart_runs_as_printed():
    names, printed = run(quickstart())
    returns = {name: trials.returns.mean() for name, trials in names["trials"].items()}
    assert returns["random"] < returns["atpo"] <= returns["perseus"] + 1
    assert "atpo" in printed


def test_a_player_needs_no_more_than_two_names(monkeypatch, tmp_path):
    """The first lines of the README: what is missing is solved."""
    import tiny_domain

    tiny_domain.stand_in(monkeypatch)
    with tiny_domain.registered() as name:
        player = jatpo.agent("atpo", name)
        player.observe(player.act(), 0)  # the first episode begins by itself
        assert player.posterior.shape == (3,)
        with pytest.raises(JatpoError, match="sees the state"):
            jatpo.agent("value_iteration", name, true_model=0).act()
