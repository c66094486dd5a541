"""Where the hand-checked situations look: the builders and, for the same numbers, the transcription."""

from functools import cache

import pytest

import jatpo.domains
from oracles.domains import transcribe
from oracles.domains.rows import Rows

RULES = ["as_run", "as_written"]
TOLERANCE = 1e-6  # models are stored in single precision


@cache
def builder(name: str, model: int = 0, rules: str = "as_run") -> Rows:
    return Rows(jatpo.domains.make(name, model=model, rules=rules))


@cache
def transcription(name: str, model: int = 0, rules: str = "as_run"):
    return transcribe(name, model, rules)


# world(name, model, rules) has transition(state, action), observation(action, state), reward(state), start
in_both_worlds = pytest.mark.parametrize(
    "world", [pytest.param(builder, id="builder"), pytest.param(transcription, id="transcription")]
)


def near(chances: dict[str, float]):
    """Equal supports, probabilities equal to single precision."""
    return pytest.approx(chances, abs=1e-6)


def same(found: dict[str, float], expected: dict[str, float]) -> bool:
    """Equal supports and equal probabilities to single precision."""
    return found.keys() == expected.keys() and all(
        abs(found[k] - p) <= TOLERANCE for k, p in expected.items()
    )


def assert_same_model(found: Rows, expected) -> None:
    assert found.states == expected.states
    assert found.actions == expected.actions
    assert found.observations == expected.observations
    assert found.discount == pytest.approx(expected.discount, abs=TOLERANCE)
    assert same(found.start, expected.start), "start"
    for state in expected.states:
        assert found.reward(state) == expected.reward(state), f"reward in {state}"
        for action in expected.actions:
            for kind, got, wanted in [
                ("transition from", found.transition(state, action), expected.transition(state, action)),
                ("observation in", found.observation(action, state), expected.observation(action, state)),
            ]:
                assert same(got, wanted), f"{kind} {state!r} after {action}: {got}, expected {wanted}"
