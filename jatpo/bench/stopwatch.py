"""Seconds of a call and bytes of this process."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Seconds(NamedTuple):
    """Seconds of the first call, which may compile, and of the fastest one after it."""

    first: float
    best: float


def time_calls(
    function: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter
) -> Seconds:
    """Time `function` once and then `repeats` times."""
    spans = []
    for _ in range(repeats + 1):
        began = clock()
        function()
        spans.append(clock() - began)
    return Seconds(spans[0], min(spans[1:]))


def peak_bytes() -> int:
    """The most memory this process has held so far; 0 where the system does not report it."""
    try:
        resource = importlib.import_module("resource")  # not on Windows
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
