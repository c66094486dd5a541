"""`Solution.certify` and `jatpo certify`: true intervals for every solver, and no belief in what is on disk."""

import itertools
import json
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from jatpo import POMDP
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.evidence import from_arrays, to_arrays, trimmed
from jatpo.solve import SOLVERS, Request, Solution, choose, solve_models
from jatpo.solve.certification import build_evidence, check_evidence
from jatpo.solve.evidence_store import load_evidence, save_evidence
from jatpo.solve.policy import Policy
from jatpo.solve.problem import prepare
from oracles import rational_value
from random_models import build
from small_pomdps import tiger
from solving import states_of

TIGER = Path(__file__).parent.parent / "data" / "tiger.POMDP"
OURS = ("graph", "perseus", "qmdp", "value-iteration")


def solved(model, name: str = "graph", stages: int = 4, **options) -> Solution:
    limits = {"stages": stages} if "stages" in SOLVERS.get(name).limits else {}
    choice = choose(Request(name, **limits), num_models=1, horizon=20)
    return solve_models([model], *choice, key=jax.random.key(0), **options)[0]


@cache
def layered(seed: int) -> POMDP:
    """A model whose value is known exactly; `stored` is how jatpo has it."""
    found = rational_value.layered(np.random.default_rng([seed, 5]))
    return POMDP.from_sparse(*found, num_observations=int(found.observation[2].max()) + 1)


@cache
def value_of(model: POMDP) -> Fraction:
    """The value of a model of `layered`, as it was given."""
    return rational_value.layered_value(model.exact())


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("seed", range(3))
def test_the_certified_interval_contains_the_value(name, seed):
    model = layered(seed)
    found = solved(model, name, stages=2)
    for exact in (False, True):
        proved = found.certify(model, exact=exact, seconds=0.1)
        assert Fraction(proved.lower) <= value_of(model) <= Fraction(proved.upper)
        assert proved.level == ("exact" if exact else "checked")


def test_vectors_that_claim_too_much_lend_their_actions_only():
    model = layered(1)
    found = solved(model, "perseus")
    size = float(np.abs(model.reward).max())
    policy = Policy(found.policy.vectors + 1e3 * size, found.policy.actions)
    proved = replace(found, policy=policy).certify(model, seconds=0.1)
    assert Fraction(proved.lower) <= value_of(model)


def test_a_controller_of_good_vectors_earns_what_they_claim():
    """Without any search, the lower bound is that of the vectors."""
    model = build(tiger())
    found = solved(model, "graph", stages=12)
    evidence = build_evidence(model, found.policy, seconds=0.0)
    assert check_evidence(model, evidence).lower > found.lower - 0.05 > 19


def test_a_process_that_has_to_wait_searches_as_far(monkeypatch):
    """The limit of the search is processor time: on a busy machine the evidence is the same."""
    model = build(tiger())
    found = solved(model, "graph", stages=2)
    evidence = build_evidence(model, found.policy)
    clock = itertools.count(0, 1000)
    monkeypatch.setattr("jatpo.solve.certification.time.monotonic", lambda: float(next(clock)))
    again = build_evidence(model, found.policy)
    monkeypatch.undo()
    for one, other in zip(to_arrays(evidence).values(), to_arrays(again).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_policy_that_is_not_optimal_gets_its_own_value():
    """One vector that always listens: its controller earns -1 / (1 - γ), as the blind policy does."""
    model = build(tiger(discount=0.5))
    policy = Policy(np.zeros((1, 2)), np.zeros(1, int))
    evidence = build_evidence(model, policy, seconds=0.0)
    np.testing.assert_allclose(evidence.values[-1], [-2, -2], atol=1e-9)


def test_refuses_the_solution_of_another_model():
    first, second = layered(0), layered(1)
    with pytest.raises(JatpoError, match="another model"):
        solved(first).certify(second)


# On disk


def test_evidence_is_kept_with_the_solution(tmp_path):
    model = layered(1)
    found = solved(model, cache=tmp_path)
    kept = load_evidence(tmp_path, found.key)
    assert kept is not None and found.evidence is None
    in_memory = solved(model)
    assert in_memory.evidence is not None
    assert found.certify(model, cache=tmp_path) == in_memory.certify(model)


def test_evidence_that_was_built_is_kept(tmp_path):
    model = layered(1)
    found = solved(model, "perseus", cache=tmp_path)
    assert load_evidence(tmp_path, found.key) is None
    first = found.certify(model, cache=tmp_path, seconds=0.1)
    assert load_evidence(tmp_path, found.key) is not None
    assert found.certify(model, cache=tmp_path, seconds=0.0) == first


def test_trimming_keeps_the_interval():
    model = build(tiger())
    choice = choose(Request("graph", stages=8), num_models=1, horizon=20)
    (problem,) = prepare([model])
    evidence = choice.solver.evidence(problem, states_of(problem, choice, jax.random.key(0))[-1])
    assert evidence is not None
    less = trimmed(evidence)
    assert len(less.values) < len(evidence.values)
    assert check_evidence(model, less) == check_evidence(model, evidence)


def test_evidence_survives_a_round_trip():
    evidence = solved(layered(2)).evidence
    assert evidence is not None
    back = from_arrays(to_arrays(evidence))
    for name, part in evidence._asdict().items():
        pairs = (
            zip(part, getattr(back, name), strict=True)
            if isinstance(part, tuple)
            else [(part, getattr(back, name))]
        )
        for first, second in pairs:
            np.testing.assert_array_equal(first, second)


def test_flipped_bytes_on_disk_are_found(tmp_path):
    """Whichever file has changed, the evidence is set aside and reported, and the interval is from new evidence."""
    model = layered(1)
    found = solved(model, stages=2, cache=tmp_path)
    random = np.random.default_rng(0)
    place = tmp_path / found.key / "evidence"
    files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    aside = tmp_path / "whole"
    shutil.copytree(place, aside)
    for file in files:
        shutil.rmtree(place)
        shutil.copytree(aside, place)
        content = bytearray((place / file).read_bytes())
        if not content:
            continue
        content[random.integers(len(content))] ^= 1 << int(random.integers(8))
        (place / file).write_bytes(content)
        notes: list[str] = []
        assert load_evidence(tmp_path, found.key, lambda event, out=notes: out.append(event.note)) is None
        assert len(notes) == 1 and "cannot be used" in notes[0]
        place.mkdir()
    shutil.rmtree(place)
    proved = found.certify(model, cache=tmp_path, seconds=0.0)
    assert Fraction(proved.lower) <= value_of(model) <= Fraction(proved.upper)


def corrupted(random: np.random.Generator, arrays: dict) -> dict:
    """Bits flipped in the numbers of one or two arrays."""
    out = {name: np.array(part) for name, part in arrays.items()}
    for name in random.choice(sorted(out), int(random.integers(1, 3))):
        content = bytearray(out[name].tobytes())
        for _ in range(int(random.integers(1, 4)) if content else 0):
            content[random.integers(len(content))] ^= 1 << int(random.integers(8))
        out[name] = np.frombuffer(bytes(content), out[name].dtype).reshape(out[name].shape)
    return out


@pytest.mark.parametrize("count", (150, pytest.param(3000, marks=pytest.mark.slow)))
def test_evidence_with_flipped_bits_and_a_good_seal_proves_nothing_untrue(count, tmp_path):
    random = np.random.default_rng(count)
    model = layered(1)
    found = solved(model)
    assert found.evidence is not None
    arrays = to_arrays(found.evidence)
    honest = found.certify(model)
    refused = wider = 0
    for number in range(count):
        evidence = from_arrays(corrupted(random, arrays))
        if number % 50 == 0:
            save_evidence(tmp_path, found.key, evidence)
            evidence = load_evidence(tmp_path, found.key)
            assert evidence is not None
        try:
            proved = check_evidence(model, evidence)
        except JatpoError:
            refused += 1
            continue
        assert Fraction(proved.lower) <= value_of(model) <= Fraction(proved.upper)
        wider += proved != honest
    assert refused > count // 5 and wider > count // 20


# The command


@pytest.fixture
def workplace(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JATPO_CACHE", str(tmp_path / "solutions"))
    return tmp_path / "solutions"


GRAPH = ["--solver", "graph", "--stages", "3", "--quiet"]


def test_the_command_solves_checks_and_keeps(workplace, capsys):
    assert run(["certify", str(TIGER), *GRAPH, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["level"] == "checked" and row["claimed_level"] == "float32"
    assert abs(row["lower"] - row["claimed_lower"]) < 1e-8 > abs(row["upper"] - row["claimed_upper"])
    assert row["lower"] <= row["upper"]
    assert {path.name for path in next(workplace.iterdir()).iterdir()} == {"solution", "evidence"}
    assert run(["certify", str(TIGER), *GRAPH, "--json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert {**again, "seconds": 0} == {**row, "seconds": 0}


def test_joint_models_of_both_rule_sets(workplace, capsys):
    assert run(["certify", "abandoned-power-plant", "--joint", "--rules", "both", *GRAPH, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["rules"], row["model"], row["level"]) for row in rows] == [
        ("as_run", "joint", "checked"),
        ("as_written", "joint", "checked"),
    ]


def test_printed_bounds_are_rounded_outward(workplace, capsys):
    assert run(["certify", str(TIGER), *GRAPH, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert run(["certify", str(TIGER), *GRAPH]) == 0
    lower, upper = map(float, re.findall(r"([\d.]+)\s+([\d.]+)\s+checked", capsys.readouterr().out)[0])
    assert row["lower"] - 1e-3 <= lower <= row["lower"] <= row["upper"] <= upper <= row["upper"] + 1e-3


def test_evidence_that_proves_nothing_ends_with_an_error(workplace, capsys):
    assert run(["certify", str(TIGER), *GRAPH, "--json"]) == 0
    entry = next(workplace.iterdir())
    evidence = load_evidence(workplace, entry.name)
    assert evidence is not None
    save_evidence(workplace, entry.name, evidence._replace(action=evidence.action + 7))
    capsys.readouterr()
    assert run(["certify", str(TIGER), *GRAPH]) == 2
    printed = capsys.readouterr()
    assert "refused" in printed.out and "action is out of" in printed.err


def test_a_claim_that_the_certificate_refutes_is_named(workplace, capsys, monkeypatch):
    from jatpo.solve.gap_search import SearchState

    monkeypatch.setattr(SearchState, "upper", property(lambda state: state.lower - 1.0))
    monkeypatch.setattr("jatpo.solve.driver._checked", lambda problem, solution, label: solution)
    monkeypatch.setattr("jatpo.solve.gap_search.advance", lambda state, search, seed, clock: None)
    assert run(["certify", str(TIGER), *GRAPH]) == 0
    assert "below the certified lower bound" in capsys.readouterr().err


def test_wrong_options_of_the_command(workplace, capsys):
    assert run(["certify", str(TIGER), "--joint", "--model", "0"]) == 2
    assert run(["certify", str(TIGER), "--rules", "as_ran"]) == 2
    assert run(["certify", str(TIGER), "--model", "7", *GRAPH]) == 2
