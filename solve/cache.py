"""Solutions and unfinished solves on disk, by the content of the model, the solver, its options, the stop and the seed.

directory/KEY/solution        a finished solve
directory/KEY/evidence        what proves its bounds, if the solver gave it
directory/KEY/run-000012      the state after 12 stages of one that is not finished
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jatpo.disk import Checkpoints
from jatpo.events import OnEvent, ignore
from jatpo.evidence import Evidence
from jatpo.solve.base import Solver
from jatpo.solve.evidence_store import save_evidence
from jatpo.solve.policy import Policy
from jatpo.solve.solution import Solution
from jatpo.solve.stopping import Settings, Status, Stop

FORMAT = 5  # to be raised when the layout of checkpoints or what a solver finds has changed
SOLUTION, RUN = "solution", "run-"


def settings_of(solver: Solver) -> Settings:
    """The options of a solver, by name."""
    return asdict(solver)  # pyright: ignore[reportArgumentType]  # solvers are dataclasses


def entry_key(model_hash: str, solver: Solver, stop: Stop, seed: int) -> str:
    """The name under which a solve is kept; 10 and 10.0 are the same option."""
    options = {name: _number(value) for name, value in settings_of(solver).items()}
    limits = {name: _number(value) for name, value in asdict(stop).items()}
    text = json.dumps([FORMAT, model_hash, solver.name, options, limits, seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class Cache:
    """One directory of solves. Checkpoints that cannot be used are set aside and reported to `on_event`."""

    def __init__(self, directory: str | Path, on_event: OnEvent = ignore) -> None:
        self.directory = Path(directory).absolute()
        self.on_event = on_event

    def _checkpoints(self, key: str) -> Checkpoints:
        return Checkpoints(self.directory / key, {"format": FORMAT, "key": key}, self.on_event)

    def load_solution(self, key: str) -> Solution | None:
        """The finished solution, if there is one."""
        return self._checkpoints(key).load(SOLUTION, _read_solution)

    def save_solution(self, key: str, solution: Solution) -> None:
        """Keep a finished solution, and drop the states of its run."""
        apart = ("policy", "evidence", "worker")
        fields = {name: value for name, value in vars(solution).items() if name not in apart}
        fields |= {"status": solution.status.name, "stop": asdict(solution.stop)}
        arrays = {"alpha": solution.policy.vectors, "action": solution.policy.actions}
        checkpoints = self._checkpoints(key)
        checkpoints.save(SOLUTION, fields, arrays)
        checkpoints.drop(checkpoints.names(RUN))

    def save_evidence(self, key: str, evidence: Evidence) -> None:
        """Keep what proves the bounds of a solution."""
        save_evidence(self.directory, key, evidence, self.on_event)

    def load_run(self, key: str) -> tuple[dict[str, np.ndarray], float] | None:
        """The newest usable state of an unfinished solve as arrays, and the seconds it took."""
        return self._checkpoints(key).load_newest(RUN, lambda meta, arrays: (arrays, meta["seconds"]))

    def save_run(self, key: str, stages: int, seconds: float, arrays: dict[str, np.ndarray]) -> None:
        """Keep the state after a stage; older states go."""
        self._checkpoints(key).save_newest(RUN, stages, {"seconds": seconds}, arrays)


class OwnCache(Cache):
    """A worker's own, beside what it returns: what the disk does not take is not kept, and the work continues."""

    def save_solution(self, key: str, solution: Solution) -> None:
        """Keep a finished solution, if the disk takes it."""
        with contextlib.suppress(OSError):
            super().save_solution(key, solution)

    def save_evidence(self, key: str, evidence: Evidence) -> None:
        """Keep what proves its bounds, if the disk takes it."""
        with contextlib.suppress(OSError):
            super().save_evidence(key, evidence)

    def save_run(self, key: str, stages: int, seconds: float, arrays: dict[str, np.ndarray]) -> None:
        """Keep a state, if the disk takes it."""
        with contextlib.suppress(OSError):
            super().save_run(key, stages, seconds, arrays)


def _read_solution(meta: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Solution:
    policy = Policy(*jax.device_put((arrays["alpha"], arrays["action"])))
    rest = {**meta, "status": Status[meta["status"]], "stop": Stop(**meta["stop"])}
    return replace(Solution(policy, 0.0, 0.0), **rest)
