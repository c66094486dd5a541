"""How the solvers' kernels are compiled.

XLA's newer fusion of loops on a CPU takes twice as long to compile these kernels, and they run slower: gathers
and short sums over the last axis are most of what they do. XLA also cuts a program into 32 parts to compile them in
threads; with two parts all of them together take a third less processor time. The options may go in later versions of
XLA, so they are given to those that they were measured with.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

MEASURED_BEFORE = (0, 11)  # version of jax
OPTIONS: Mapping[str, object] = (
    {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 2}
    if jax.__version_info__ < MEASURED_BEFORE
    else {}
)


def jit(function: Callable, **options: Any) -> Any:
    """`jax.jit` for a solver's kernel."""
    return jax.jit(function, compiler_options=dict(OPTIONS), **options)


@contextlib.contextmanager
def ahead(*tasks: Callable[[], Any]) -> Iterator[None]:
    """Run `tasks`, which call kernels on blank input, in threads beside the body: so they are compiled when needed."""
    double = bool(jax.config.read("jax_enable_x64"))

    def work(task: Callable[[], Any]) -> None:
        with jax.enable_x64(double):  # a thread does not inherit it
            task()

    threads = [threading.Thread(target=work, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()
