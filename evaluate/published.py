"""The paper's numbers, for comparison (`published.json`: Ribeiro, Martinho, Sardinha, Melo, ECAI 2023)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Published(NamedTuple):
    """A published mean return, its standard deviation and number of trials."""

    mean: float
    std: float
    trials: int


@cache
def load() -> Mapping[str, Any]:
    """The whole file."""
    return json.loads(files("jatpo.evaluate").joinpath("published.json").read_text(encoding="utf-8"))


def result(domain: str, agent: str) -> Published | None:
    """The published result of an agent in a domain; None where there is none."""
    found = load()["returns"].get(domain, {}).get(agent)
    return Published(found["mean"], found["std"], load()["trials"]) if found else None


def relative(domain: str, agent: str) -> float | None:
    """The published relative performance in per cent (random = 0, value iteration = 100)."""
    worst, best, ours = (result(domain, name) for name in ("random", "value_iteration", agent))
    if worst is None or best is None or ours is None:
        return None
    return 100 * (ours.mean - worst.mean) / (best.mean - worst.mean)


def mix(domain: str) -> list[int] | None:
    """How many trials each model had, where the published runs did not draw them uniformly."""
    if domain != "overcooked":
        return None
    counts = load()["overcooked_trials_per_model"]
    return [counts[str(k)] for k in range(len(counts))]


def true_model_probability(domain: str) -> dict[int | str, float]:
    """The published posterior of the true model, by step."""
    found = load()["correct_model_probability"]
    return dict(zip(found["steps"], found[domain], strict=True)) if domain in found else {}


def scaling(size: int) -> float | None:
    """ATPO's published relative performance in per cent with a library of `size` models."""
    return load()["library_scaling_relative_percent"].get(str(size))
