"""Learning from histories: likelihoods with gradients, and fits of noise, priors and teammates (docs/learning.md).

The names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jatpo.learn.baum_welch import em
    from jatpo.learn.fitting import FitSettings, Fitted, fit
    from jatpo.learn.histories import Histories, History
    from jatpo.learn.jsonl import read_histories, write_histories
    from jatpo.learn.likelihood import (
        log_evidence,
        log_evidences,
        log_likelihood,
        log_likelihoods,
        posterior,
    )
    from jatpo.learn.noise_level import Noise
    from jatpo.learn.prior import Prior
    from jatpo.learn.simulation import simulate
    from jatpo.learn.support import with_probabilities
    from jatpo.learn.teammate import Teammate

_HOME = {
    "FitSettings": "fitting",
    "Fitted": "fitting",
    "Histories": "histories",
    "History": "histories",
    "Noise": "noise_level",
    "Prior": "prior",
    "Teammate": "teammate",
    "em": "baum_welch",
    "fit": "fitting",
    "log_evidence": "likelihood",
    "log_evidences": "likelihood",
    "log_likelihood": "likelihood",
    "log_likelihoods": "likelihood",
    "posterior": "likelihood",
    "read_histories": "jsonl",
    "simulate": "simulation",
    "with_probabilities": "support",
    "write_histories": "jsonl",
}

__all__ = [
    "FitSettings",
    "Fitted",
    "Histories",
    "History",
    "Noise",
    "Prior",
    "Teammate",
    "em",
    "fit",
    "log_evidence",
    "log_evidences",
    "log_likelihood",
    "log_likelihoods",
    "posterior",
    "read_histories",
    "simulate",
    "with_probabilities",
    "write_histories",
]


def __dir__() -> list[str]:
    return sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.learn' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.learn.{_HOME[name]}"), name)
