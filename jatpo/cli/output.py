"""What commands print on standard output for programs: strict JSON. Tables for people are `jatpo.tables`."""

from __future__ import annotations

import json
from typing import Any

from jatpo.plain import to_json


def print_json(value: Any) -> None:
    """Print `value` as strict JSON: NaN and infinities become null, arrays become lists."""
    print(json.dumps(to_json(value), indent=2, ensure_ascii=False, allow_nan=False))
