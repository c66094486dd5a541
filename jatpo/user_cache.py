"""Where jatpo keeps files that it can make again: the cache directory that the platform gives a user."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """jatpo's folder in the user's cache directory: that of XDG, macOS or Windows."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(root) / "jatpo" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "jatpo"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jatpo"
