"""Random keys that a user hands over."""

from __future__ import annotations

from typing import Any

import jax
from jax import Array

from jatpo.errors import JatpoError


def require_key(key: Any) -> Array:
    """`key` if it is one typed key of JAX; a seed and a key of the older kind are refused with the remedy."""
    typed = hasattr(key, "dtype") and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed or key.shape != ():
        given = f"an array of {key.shape} keys" if typed else f"a value of type {type(key).__name__}"
        raise JatpoError(f"key must be one typed random key, as jax.random.key(0) makes it, got {given}")
    return key
