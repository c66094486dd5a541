"""Values in terms of JSON's own types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any


def to_json(value: Any) -> Any:
    """`value` in terms of JSON's own types; named tuples become objects, NumPy and jax arrays lists."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return to_json(value._asdict())
    if hasattr(value, "tolist"):
        return to_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")
