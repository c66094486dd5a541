"""The version, in this one place: the build, ``jatpo --version`` and the changelog's test read it."""

__version__ = "0.2.0"
