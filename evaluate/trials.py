"""The results of trials, and how agents compare that played the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jatpo.errors import JatpoError, unknown
from jatpo.evaluate import statistics
from jatpo.tables import Column, Table


class Trials(NamedTuple):
    """Results of trials, on the host. `records` holds what was asked for, by name."""

    trial: np.ndarray  # [N]
    truth: np.ndarray  # [N], the true model
    returns: np.ndarray  # [N], undiscounted
    discounted: np.ndarray  # [N]
    records: dict[str, np.ndarray]


def concatenate(parts: Sequence[Trials]) -> Trials:
    """The trials of several chunks in one."""
    if not parts:
        raise JatpoError("there are no trials: ask for at least one")
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def take(results: Trials, wanted: np.ndarray) -> Trials:
    """The trials with the numbers `wanted`, in that order."""
    order = np.argsort(results.trial)
    place = order[np.searchsorted(results.trial[order], wanted)]
    return jax.tree.map(lambda leaf: leaf[place], results)


def compare(trials: Mapping[str, Trials], baseline: str = "atpo") -> Table:
    """A table of mean returns with 95 % intervals, and each agent minus the `baseline`, trial by trial.

    All agents must have played the same trials: the same key, scenario and numbers.
    """
    if not isinstance(trials, Mapping):
        raise JatpoError(f"trials must be given by agent, as {{'atpo': trials}}, got {type(trials).__name__}")
    if baseline not in trials:
        raise unknown("agent to compare with", baseline, trials)
    base = trials[baseline]
    rows = []
    for name, run in trials.items():
        if not (np.array_equal(run.trial, base.trial) and np.array_equal(run.truth, base.truth)):
            raise JatpoError(
                f"agent '{name}' played other trials than '{baseline}': give both the same key, scenario and trials"
            )
        ours = statistics.estimate(run.returns)
        row = {"agent": name, "trials": len(run.trial), "mean": ours.mean, "std": ours.std}
        gain = statistics.difference(run.returns, base.returns)
        row |= {"low": ours.low, "high": ours.high, "discounted": float(np.mean(run.discounted))}
        rows.append(row | {"minus": gain.mean, "minus_low": gain.low, "minus_high": gain.high})
    numbers = [Column(key, format="z.2f") for key in ("mean", "std", "low", "high", "discounted")]
    minus = Column("minus", f"minus {baseline}", "+z.2f")
    paired = [Column("minus_low", "low", "+z.2f"), Column("minus_high", "high", "+z.2f")]
    return Table(rows, ["agent", "trials", *numbers, minus, *paired])
