"""Solutions and runs under way on disk: Orbax checkpoints, keyed by the model's content, the settings and the seed.

A checkpoint is written under a name of its own and then renamed, so it is there whole or not at all, and two
processes that solve the same thing cannot harm each other: the first to finish wins. What is read is checked (the
digests of all files, which are written last, format, key) before Orbax sees it; anything damaged or foreign is set
aside under another name, reported, and computed anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jatpo.solve.above import Table
from jatpo.solve.backup import fill
from jatpo.solve.policy import Policy
from jatpo.solve.run import Run
from jatpo.solve.solution import Solution

FORMAT = 4  # to be raised when the layout of checkpoints or what a solver finds has changed
TABLE = ("table_marks", "table_value", "table_action")
SEAL = "seal.json"  # the digest of every other file of a checkpoint
Tree = dict[str, np.ndarray]
Note = Callable[[str], None]


def entry_key(model_hash: str, settings: dict[str, Any], seed: int) -> str:
    """The name under which a solve is kept."""
    text = json.dumps([FORMAT, model_hash, settings, seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Store:
    """One directory of solves. `note` hears of checkpoints that were set aside."""

    def __init__(self, directory: str | Path, note: Note = lambda text: None) -> None:
        self.directory = Path(directory).absolute()
        self.note = note

    def load_solution(self, key: str) -> Solution | None:
        """The finished solution, if there is one."""
        read = self._read(self.directory / key / "solution", key)
        if read is None:
            return None
        meta, tree = read
        policy = Policy(*jax.device_put((tree["alpha"], tree["action"])))
        return Solution(policy=policy, **meta["solution"])

    def save_solution(self, key: str, solution: Solution) -> None:
        """Keep a finished solution, and drop the states of its run."""
        fields = {name: value for name, value in vars(solution).items() if name != "policy"}
        tree = {"alpha": np.asarray(solution.policy.vectors), "action": np.asarray(solution.policy.actions)}
        self._write(self.directory / key / "solution", key, {"solution": fields}, tree)
        for state in self._states(key):
            self._drop(state)

    def load_run(self, key: str) -> Run | None:
        """The newest whole state of a run that was stopped; its `beliefs` may be empty."""
        for state in self._states(key):
            read = self._read(state, key)
            if read is not None:
                meta, tree = read
                alpha = np.asarray(tree["alpha"])
                vectors = fill(alpha, np.asarray(tree["action"]), alpha.shape[1], meta["room"])
                points = {name: jax.device_put(tree[name]) for name in ("beliefs", "value", "vector")}
                table = Table(*(np.asarray(tree[name]) for name in TABLE)) if TABLE[0] in tree else None
                return Run(vectors=vectors, table=table, **points, **meta["run"])
        return None

    def save_run(self, key: str, run: Run, with_beliefs: bool) -> None:
        """Keep the state of a run after a stage; older states go."""
        older = self._states(key)
        count = int(run.vectors.count)
        beliefs = np.asarray(run.beliefs) if with_beliefs else np.zeros((1, 1), np.float32)
        tree = {
            "alpha": np.asarray(run.vectors.alpha[:count]),
            "action": np.asarray(run.vectors.action[:count]),
            "beliefs": beliefs,
            "value": np.asarray(run.value),
            "vector": np.asarray(run.vector),
        }
        if run.table is not None:
            tree |= dict(zip(TABLE, run.table, strict=True))
        names = ("stages", "backups", "seconds", "change", "lower", "stopped", "upper")
        meta = {"run": {name: getattr(run, name) for name in names}, "room": run.vectors.alpha.shape[0]}
        self._write(self.directory / key / f"run-{run.stages:06d}", key, meta, tree)
        for state in older:
            self._drop(state)

    def _states(self, key: str) -> list[Path]:
        """The states of a run, newest first."""
        found = (self.directory / key).glob("run-*")
        return sorted((path for path in found if path.suffix != ".damaged"), reverse=True)

    def _drop(self, path: Path) -> None:
        """Remove a checkpoint, out of sight first: nobody is to find half of one."""
        aside = path.parent / f".draft-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):  # another process was first
            os.rename(path, aside)
        shutil.rmtree(aside, ignore_errors=True)

    def _write(self, path: Path, key: str, meta: dict[str, Any], tree: Tree) -> None:
        import orbax.checkpoint as ocp

        meta = {"format": FORMAT, "key": key, **meta}
        text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        draft = path.parent / f".draft-{uuid.uuid4().hex}"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            ocp.PyTreeCheckpointer().save(draft, {"meta": text, **tree})
            (draft / SEAL).write_text(json.dumps(_digests(draft)))
            with contextlib.suppress(OSError):  # another process was first, with the same content
                os.rename(draft, path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _read(self, path: Path, key: str) -> tuple[dict[str, Any], Tree] | None:
        """Meta data and arrays of a checkpoint; None, and out of the way, if it cannot be trusted."""
        if not path.exists():
            return None
        import orbax.checkpoint as ocp

        try:
            if json.loads((path / SEAL).read_bytes()) != _digests(path):
                raise ValueError("its files are not as they were written")
            tree = dict(ocp.PyTreeCheckpointer().restore(path))
            meta = json.loads(bytes(np.asarray(tree.pop("meta"), np.uint8)))
            if meta["key"] != key or meta["format"] != FORMAT:
                raise ValueError("it was made for another model, other settings or another version")
            return meta, tree
        except Exception as error:
            if not path.exists():  # another process went on and dropped it
                return None
            aside = path.with_name(f"{path.name}-{uuid.uuid4().hex[:8]}.damaged")
            with contextlib.suppress(OSError):
                os.rename(path, aside)
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.note(f"the checkpoint {path} cannot be used ({reason[:200]}): set aside as {aside.name}")
            return None


def _digests(path: Path) -> dict[str, str]:
    """The digest of every file of a checkpoint, but for the seal."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and file.name != SEAL)
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }
