"""Libraries of one's own: directories, TOML files, and everything a command accepts for a domain name."""

import re
from pathlib import Path

import numpy as np
import pytest

from jatpo.errors import JatpoError
from jatpo.files import load, read_policy, read_pomdp, write_pomdp
from jatpo.library import Library
from jatpo.model import POMDP

DATA = Path(__file__).parent.parent / "data"
TIGER = (DATA / "tiger.POMDP").read_text()


def lopsided(text=TIGER):
    """Tiger with another ear, and with one more state."""
    states = (
        text.replace("tiger-right\nactions", "tiger-right asleep\nactions")
        .replace("0.85", "0.9")
        .replace("0.15", "0.1")
    )
    return states.replace("0.1 0.9\n", "0.1 0.9\n0.5 0.5\n").replace(
        "R: listen", "R: open-left : asleep : * : * 5\nR: listen"
    )


@pytest.fixture
def folder(tmp_path):
    """A directory with two models, one of which has a policy, and a file that is neither."""
    (tmp_path / "b.POMDP").write_text(lopsided())
    (tmp_path / "a.pomdp").write_text(TIGER)
    (tmp_path / "a.alpha").write_bytes((DATA / "tiger.alpha").read_bytes())
    (tmp_path / "notes.txt").write_text("not a model")
    return tmp_path


def test_a_directory_is_a_library(folder):
    library = load(folder)
    assert isinstance(library, Library)
    assert library.name == folder.name
    assert library.labels == ("a", "b")
    assert [model.num_states for model in library.members] == [2, 3]
    assert library.prior.tolist() == [0.5, 0.5]
    assert library.horizon == 50
    assert library.domain is None
    assert library.notes == ()
    assert library.policies[1] is None
    assert library.policies[0].vectors.tolist() == read_policy(DATA / "tiger.alpha").vectors.tolist()
    assert library.origins[1].file == str(folder / "b.POMDP")
    assert library.num_models == 2


def test_a_manifest_names_models_policies_and_settings(folder):
    manifest = folder / "mine.toml"
    manifest.write_text("""
        name = "mine"
        prior = [0.25, 0.75]
        horizon = 7
        beliefs = 20
        tolerance = 0.5

        [[model]]
        file = "b.POMDP"
        label = "three states"

        [[model]]
        file = "a.pomdp"
        policy = "a.alpha"
    """)
    library = load(str(manifest))
    assert (library.name, library.horizon, library.labels) == ("mine", 7, ("three states", "a"))
    assert (library.published.beliefs, library.published.tolerance) == (20, 0.5)
    assert library.prior.tolist() == [0.25, 0.75]
    assert [policy is None for policy in library.policies] == [True, False]


def test_a_manifest_in_a_directory_comes_first(folder):
    (folder / "library.toml").write_text('[[model]]\nfile = "b.POMDP"')
    assert load(folder).labels == ("b",)


def test_a_manifest_may_mix_domains_rules_and_overrides(tmp_path):
    (tmp_path / "mix.toml").write_text("""
        [[model]]
        domain = "gridworld"
        model = 3
        [[model]]
        domain = "gridworld"
        model = 0
        rules = "as_written"
        overrides = { noise = 0.1 }
        [[model]]
        domain = "gridworld"
    """)
    from jatpo import domains

    library = load(tmp_path / "mix.toml")
    assert library.num_models == 6
    assert library.domain == "gridworld"
    expected = [domains.make("gridworld", 3), domains.make("gridworld", 0, "as_written", noise=0.1)]
    for mine, theirs in zip(library.members, [*expected, *domains.library("gridworld")], strict=True):
        assert mine.content_hash() == theirs.content_hash()
    assert library.origins[1].overrides == {"noise": 0.1}
    assert library.labels[0] == domains.get("gridworld").labels()[3]


def test_match_by_name_reorders_actions_observations_and_policies(folder):
    swapped = TIGER.replace("actions: listen open-left open-right", "actions: open-right listen open-left")
    swapped = swapped.replace("hear-left hear-right", "hear-right hear-left").replace(
        "0.85 0.15", "0.15 0.85", 1
    )
    swapped = swapped.replace("0.15 0.85\n0.15 0.85", "0.15 0.85\n0.85 0.15")
    (folder / "b.POMDP").write_text(swapped)
    (folder / "b.alpha").write_text("0\n10 -100\n1\n-1 -1\n2\n-100 10\n")
    entry = '[[model]]\nfile = "a.pomdp"\n[[model]]\nfile = "b.POMDP"\npolicy = "b.alpha"\n'
    (folder / "library.toml").write_text(entry)
    with pytest.raises(
        JatpoError, match=r"action 0 is 'open-right' in model 'b' and 'listen' in model 'a': write"
    ):
        load(folder)
    (folder / "library.toml").write_text(f'match = "name"\n{entry}')
    library = load(folder)
    assert library.members[1].content_hash() == library.members[0].content_hash()
    assert library.members[1].actions == library.members[0].actions
    assert library.members[1].observations == library.members[0].observations
    assert library.policies[1].actions.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("open-right", "knock"), "the actions of model 'b' differ .*model 'b' has no action 'open-right'"),
        (
            ("hear-right", "silence"),
            "the observations of model 'b' differ .*model 'b' has no observation 'hear-right'",
        ),
        (("hear-left hear-right", "3"), "model 'b' has 3 observations and model 'a' has 2: they must agree"),
        ((" open-right\n", "\n"), r"model 'b' has 2 actions and model 'a' has 3 \(model 'b' has no action"),
        (("open-left open-right", "open-right open-left"), 'or set match = "name" in a TOML library'),
    ],
)
def test_models_that_differ_in_their_interface(change, message, folder):
    text = TIGER.replace(*change)
    text = "\n".join(line for line in text.splitlines() if "0.85" not in line)
    text = text.replace("O: listen\n", "O: * uniform\n").replace("T: open-right uniform", "T: * uniform")
    text = "\n".join(
        line
        for line in text.splitlines()
        if not ("open-right" in line and ": " in line[:3] and change[1] != "open-right open-left")
    )
    (folder / "b.POMDP").write_text(text)
    with pytest.raises(JatpoError, match=message):
        load(folder)


def test_numbered_interfaces_need_only_agree_in_size(folder):
    (folder / "b.POMDP").write_text(
        "discount: 1 values: cost states: 5 actions: 3 observations: 2 T: * identity O: * uniform"
    )
    assert load(folder).num_models == 2


def test_dust_becomes_a_note(tmp_path):
    (tmp_path / "d.POMDP").write_bytes((DATA / "dust.POMDP").read_bytes())
    library = load(tmp_path)
    assert len(library.notes) == 1
    assert library.notes[0].startswith(
        f"{tmp_path / 'd.POMDP'}: 2 rows of transition were off by up to 4.0e-06"
    )


MANIFESTS = [
    ("name = ", "lib.toml is not a TOML file"),
    ("nmae = 'x'", "unknown key 'nmae'; did you mean 'name'"),
    ("name = 3", "has name = 3, expected text"),
    ("horizon = 0", "has horizon = 0, expected a whole number from 1 on"),
    ("horizon = true", "has horizon = True, expected a whole number from 1 on"),
    ("tolerance = -1", "has tolerance = -1, expected a positive number"),
    ("prior = 'x'", "has prior = 'x', expected a list of numbers"),
    ("model = 3", r"has model = 3, expected \[\[model\]\] tables"),
    ("match = 'place'\n[[model]]\nfile = 'a.pomdp'", "match = 'place' is unknown: use match = \"name\""),
    ("name = 'empty'", "'empty' has no models"),
    (
        "prior = [1]\n[[model]]\nfile='a.pomdp'\n[[model]]\nfile='b.POMDP'",
        r"the prior of lib has shape \(1,\)",
    ),
    (
        "prior = [0.5, 0.6]\n[[model]]\nfile='a.pomdp'\n[[model]]\nfile='b.POMDP'",
        "the prior of lib sums to 1.1",
    ),
    ("[[model]]", "model 0 names neither a file nor a domain: give one of them"),
    ("[[model]]\nfile = 'a'\ndomain = 'b'", "model 0 names a file and a domain: give one of them"),
    (
        "[[model]]\nfile = 'a.pomdp'\nrules = 'as_run'",
        "model 0 is a file and cannot have 'rules': that is for domains",
    ),
    ("[[model]]\nfile = 'none.POMDP'", r"none\.POMDP"),
    ("[[model]]\nfile = 'a.pomdp'\npolicy = 'none.alpha'", r"none\.alpha"),
    ("[[model]]\ndomain = 'gridwold'", "no domain is called 'gridwold'; did you mean 'gridworld'"),
    ("[[model]]\ndomain = 'gridworld'\nmodel = 99", "domain 'gridworld' has no model 99"),
    ("[[model]]\ndomain = 'gridworld'\nrules = 'as_is'", "'as_is'"),
    ("[[model]]\ndomain = 'gridworld'\noverrides = { nois = 1 }", "'nois'"),
    (
        "[[model]]\ndomain = 'gridworld'\nlabel = 'x'",
        "model 0 stands for 4 models and has one policy or label",
    ),
]


@pytest.mark.parametrize(("text", "message"), MANIFESTS, ids=[case[0][:40] for case in MANIFESTS])
def test_bad_manifests(text, message, folder):
    (folder / "lib.toml").write_text(text)
    with pytest.raises(JatpoError, match=message):
        load(folder / "lib.toml")


def test_domains_by_name():
    library = load("abandoned-power-plant", rules="as_written")
    from jatpo import domains

    domain = domains.get("abandoned-power-plant")
    assert library.num_models == 2
    assert library.domain == library.name == "abandoned-power-plant"
    assert (library.horizon, library.published.beliefs) == (domain.horizon, domain.beliefs)
    assert (library.published.tolerance, library.published.noise) == (domain.tolerance, domain.noise)
    assert library.labels == domain.labels("as_written")
    for mine, theirs in zip(
        library.members, domains.library("abandoned-power-plant", "as_written"), strict=True
    ):
        assert mine.content_hash() == theirs.content_hash()


def test_one_model_of_a_domain_and_the_pool():
    library = load("ntu:5")
    assert library.name == "ntu:5"
    assert (library.num_models, library.origins[0].model) == (1, 5)
    assert load("ntu").num_models == 4
    assert load("ntu", pool=True).num_models == 6


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gridwrld", "'gridwrld'; did you mean 'gridworld'"),
        ("./nowhere", "'./nowhere'"),
        ("ntu:x", "'ntu:x' names no model: write a number after the colon, as in 'ntu:0'"),
        ("ntu:", "'ntu:' names no model"),
        ("ntu:-1", "'ntu:-1' names no model"),
        ("ntu:6", "domain 'ntu' has no model 6; choose from 0 to 5"),
    ],
)
def test_names_that_resolve_to_nothing(source, message):
    with pytest.raises(JatpoError, match=message):
        load(source)


def test_places_that_are_no_library(tmp_path):
    with pytest.raises(JatpoError, match=re.escape(str(tmp_path))):
        load(tmp_path)
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(JatpoError, match=r"'.txt'"):
        load(tmp_path / "x.txt")
    for name in ("none.toml", "none.POMDP"):
        with pytest.raises(JatpoError, match=name):
            load(tmp_path / name)


def test_a_single_file_is_a_library_of_one(tmp_path):
    library = load(DATA / "tiger.POMDP")
    assert (library.name, library.num_models) == ("tiger", 1)
    assert library.policies[0] is not None  # tiger.alpha lies next to it


def test_a_library_of_padded_models_keeps_numbers(folder):
    stacked = load(folder)
    np.testing.assert_array_equal(np.asarray(stacked.state_mask), [[True, True, False], [True] * 3])


def test_a_written_domain_is_a_library(tmp_path):
    from jatpo import domains

    for k, model in enumerate(domains.library("abandoned-power-plant")):
        write_pomdp(model, tmp_path / f"{k}.POMDP")
    library = load(tmp_path)
    assert isinstance(library.members[0], POMDP)
    assert library.members[1].states == domains.make("abandoned-power-plant", 1).states


def test_reading_a_model_alone_agrees(folder):
    assert load(folder).member(0).content_hash() == read_pomdp(DATA / "tiger.POMDP").content_hash()
