"""`jatpo convert`, `jatpo info` and `jatpo check` as a user meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jatpo.cli import app, main
from jatpo.files import read_policy, read_pomdp

DATA = Path(__file__).parent.parent / "data"
TIGER = str(DATA / "tiger.POMDP")


@pytest.fixture
def jatpo(capsys, monkeypatch):
    """Run one command line in this process: exit code, output, errors."""
    commands = [app.Command("Files", name, "jatpo.cli.files", name) for name in ("convert", "info", "check")]
    monkeypatch.setattr(app, "COMMANDS", tuple(commands))

    def run(*arguments):
        code = main.run([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def test_the_module_is_light():
    script = (
        "import sys, jatpo.cli.files, jatpo.files; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_convert_a_model(jatpo, tmp_path):
    code, out, err = jatpo("convert", TIGER, tmp_path / "copy.POMDP")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path / 'copy.POMDP'}: 2 states, 3 actions, 2 observations\n"
    assert read_pomdp(tmp_path / "copy.POMDP").content_hash() == read_pomdp(TIGER).content_hash()


def test_convert_a_model_of_a_domain(jatpo, tmp_path):
    from jatpo import domains

    code, _, _ = jatpo("convert", "gridworld:1", tmp_path / "g.POMDP", "--rules", "as_written")
    assert code == 0
    model = domains.make("gridworld", 1, "as_written")
    again = read_pomdp(tmp_path / "g.POMDP")
    assert (again.content_hash(), again.states) == (model.content_hash(), model.states)


def test_convert_policies_both_ways(jatpo, tmp_path):
    assert jatpo("convert", DATA / "tiger.policy", tmp_path / "t.alpha")[0] == 0
    code, out, _ = jatpo("convert", tmp_path / "t.alpha", tmp_path / "t.policy")
    assert code == 0
    assert out.endswith("t.policy: 3 vectors over 2 states\n")
    assert (
        read_policy(tmp_path / "t.policy").vectors.tolist()
        == read_policy(DATA / "tiger.alpha").vectors.tolist()
    )


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (TIGER, "x.txt", "'.txt' of x.txt"),
        (TIGER, "x.alpha", "'.alpha' of x.alpha"),
        (
            DATA / "tiger.alpha",
            "x.POMDP",
            "'.POMDP' of x.POMDP",
        ),
        (
            "gridworld",
            "x.POMDP",
            "'gridworld' has 4 models",
        ),
        (DATA, "x.POMDP", "model 'forms' has 3 actions and model 'dust' has 1: they must agree"),
        ("none.POMDP", "x.POMDP", "no domain or file is called 'none.POMDP'"),
        (TIGER, "none/x.POMDP", "there is no directory"),
    ],
)
def test_what_cannot_be_converted(source, target, message, jatpo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = jatpo("convert", source, target)
    assert (code, out) == (2, "")
    assert err.startswith("jatpo: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_info_in_words(jatpo):
    code, out, err = jatpo("info", TIGER)
    assert (code, err) == (0, "")
    facts = dict(line.split("  ", 1) for line in out.splitlines()[2:])
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["states"] == "2"
    assert facts["transition"] == "10 non-zeros, 83.3 % of all, at most 2 successors"
    assert facts["observation classes"] == "3"
    assert facts["reward"] == "-100 to 10"
    assert facts["dense memory"] == "132 B"


def test_info_as_json(jatpo):
    code, out, err = jatpo("info", DATA / "dust.POMDP", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["notes"][0].endswith("were off by up to 4.0e-06 and renormalised")
    (model,) = found["models"]
    assert model["states"] == 2
    assert model["blocked_bytes"] > 0
    assert model["warnings"] == []


def test_info_says_what_is_odd(jatpo, tmp_path):
    path = tmp_path / "odd.POMDP"
    path.write_text(
        "discount: 1 values: reward states: a b c actions: 1 observations: x y start: a\n"
        "T: 0 : a : b 1 T: 0 : b : b 1 T: 0 : c : a 1 O: 0 : * : x 1"
    )
    _, out, _ = jatpo("info", path, "--json")
    (model,) = json.loads(out)["models"]
    assert (model["reachable_states"], model["absorbing_states"], model["start_states"]) == (2, 1, 1)
    assert model["warnings"] == [
        "1 states are never reached, such as 'c'",
        "1 observations are never made, such as 'y'",
        "the reward is 0 for every state and action",
        "the discount is 1: values of the infinite horizon may not exist",
    ]
    _, out, _ = jatpo("info", path)
    assert "odd: 1 states are never reached, such as 'c'" in out


def test_info_of_a_library_has_a_line_for_each_model(jatpo):
    code, out, _ = jatpo("info", "abandoned-power-plant")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "abandoned-power-plant: 2 models"
    assert "105" in lines[2]
    assert "97" in lines[3]


def test_check(jatpo, tmp_path):
    assert jatpo("check", TIGER) == (0, "ok: tiger, 2 states, 3 actions, 2 observations\n", "")
    assert jatpo("check", DATA / "tiger.policy") == (0, "ok: 3 vectors over 2 states\n", "")
    bad = tmp_path / "bad.POMDP"
    bad.write_text(Path(TIGER).read_text().replace("0.85", "0.8"))
    code, out, err = jatpo("check", bad)
    assert (code, out) == (2, "")
    assert err.startswith(
        f"jatpo: {bad}: observation[a=0 (listen), y=0 (tiger-left)] sums to 0.95, expected 1"
    )
    bad.write_text(Path(TIGER).read_text().replace("identity", "identiy"))
    code, out, err = jatpo("check", bad)
    assert (code, out) == (2, "")
    assert err.startswith(
        f"jatpo: {bad}:9: found 'identiy', expected 4 numbers for a matrix of T or 'uniform'"
    )


def test_dust_is_a_note_and_no_warning(jatpo):
    code, out, err = jatpo("check", DATA / "dust.POMDP")
    assert (code, out) == (0, "ok: dust, 2 states, 1 actions, 2 observations\n")
    assert err.startswith("jatpo: note: ")
    assert "dust.POMDP: 2 rows of transition" in err
    assert "Warning" not in err
