"""Engines that compute units of work elsewhere: Dask workers, or the processes of `jax.distributed` (docs/cluster.md).

    with jatpo.cluster.connected("tcp://host:8786") as engine:
        run(Comparison(), "gridworld", config=Config(trials=100_000, engine=engine))

The names below are loaded on first use: Dask is an optional part, `pip install 'jatpo[cluster]'`.
"""

from __future__ import annotations

import importlib

_HOME = {
    "connected": "dask_engine",
    "local_workers": "dask_engine",
    "DaskEngine": "dask_engine",
    "joined": "process_engine",
    "ProcessEngine": "process_engine",
    "check": "agreement",
}


def __dir__() -> list[str]:
    return sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'jatpo.cluster' has no attribute '{name}'")
    return getattr(importlib.import_module(f"jatpo.cluster.{_HOME[name]}"), name)
