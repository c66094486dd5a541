"""The state of a fit on disk: an Orbax checkpoint under a name of its own, renamed when it is whole."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FORMAT = 1
PLAIN = ("best_score", "waited", "steps", "stopped", "seconds", "curve")
ARRAYS = ("params", "memory", "best")


def digest(parametrisation: Any, histories: Any, settings: Any, seed: int) -> str:
    """What a fit depends on, in short."""
    state = hashlib.sha256(json.dumps([FORMAT, dataclasses.asdict(settings), seed], sort_keys=True).encode())
    state.update(type(parametrisation).__name__.encode())
    for leaf in jax.tree.leaves((parametrisation, histories)):
        array = np.asarray(leaf)
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:24]


class Checkpoints:
    """The states of one fit in a directory: the newest is the one with the most steps."""

    def __init__(self, directory: str | Path, key: str) -> None:
        self.place = Path(directory).absolute() / f"fit-{key}"

    def save(self, run: Any) -> None:
        """Keep the state of `run`; older ones go."""
        import orbax.checkpoint as ocp

        older = self._found()
        plain = {name: getattr(run, name) for name in PLAIN}
        leaves = jax.tree.leaves([getattr(run, name) for name in ARRAYS])
        tree = {f"leaf{number:04d}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
        tree["plain"] = np.frombuffer(json.dumps(plain).encode(), np.uint8)
        draft = self.place / f".draft-{uuid.uuid4().hex}"
        self.place.mkdir(parents=True, exist_ok=True)
        try:
            ocp.PyTreeCheckpointer().save(draft, tree)
            with contextlib.suppress(OSError):  # another process was first, with the same content
                os.rename(draft, self.place / f"step-{run.steps:08d}")
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        for path in older:
            if path.name != f"step-{run.steps:08d}":
                shutil.rmtree(path, ignore_errors=True)

    def load(self, run: Any) -> None:
        """Bring `run` to the newest state that can be read, if there is one."""
        import orbax.checkpoint as ocp

        for path in self._found():
            try:
                tree = dict(ocp.PyTreeCheckpointer().restore(path))
                plain = json.loads(bytes(np.asarray(tree.pop("plain"), np.uint8)))
                leaves, shape = jax.tree.flatten([getattr(run, name) for name in ARRAYS])
                stored = [jnp.asarray(tree[f"leaf{number:04d}"]) for number in range(len(leaves))]
                if [leaf.shape for leaf in stored] != [np.shape(leaf) for leaf in leaves]:
                    continue
                arrays = jax.tree.unflatten(shape, stored)
            except Exception:
                continue  # half of one, or a foreign one: computed anew
            for name, value in (*plain.items(), *zip(ARRAYS, arrays, strict=True)):
                setattr(run, name, value)
            return

    def _found(self) -> list[Path]:
        """The checkpoints, newest first."""
        return sorted(self.place.glob("step-*"), reverse=True) if self.place.is_dir() else []
