"""Where compiled programs are kept between processes, so that each is compiled once on a machine."""

from __future__ import annotations

import platform
from collections.abc import MutableMapping

from jatpo.user_cache import user_cache

DIRECTORY, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def keep_compiled_programs(environment: MutableMapping[str, str]) -> None:
    """Let jax keep what it compiles, in the user's cache directory, unless `environment` says otherwise.

    jax reads the environment when it is imported.
    """
    place = user_cache() / f"compiled-{platform.node() or 'here'}"  # a program suits one machine
    environment.setdefault(DIRECTORY, str(place))
    environment.setdefault(SHORTEST, "0.2")
