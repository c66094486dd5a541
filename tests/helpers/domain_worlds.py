"""Where the hand-checked situations look: the builders and, for the same numbers, the transcription."""

from functools import cache

import pytest

import jatpo.domains
from oracles.domains import transcribe
from oracles.domains.rows import Rows

RULES = ["as_run", "as_written"]


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
