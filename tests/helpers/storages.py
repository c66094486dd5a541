"""The storages that every contract suite runs over: the built-in ones, and one that lives outside the package."""

from pathlib import Path

from jatpo import registry, storage

OUTSIDE = Path(__file__).parent.parent / "contracts" / "outside" / "plain_storage.py"
registry.load_extension(OUTSIDE)
STORAGES = storage.names()
