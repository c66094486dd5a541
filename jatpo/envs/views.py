"""What a person sees of a hidden state: the map of a domain as text or picture, or the state's name."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from jatpo import domains
from jatpo.errors import unknown
from jatpo.files import UserLibrary

MODES = ("ansi", "rgb_array")
INCHES = 4


def checked_mode(mode: str | None) -> str | None:
    """A render mode, or None for none at all; raises on any other word."""
    if mode not in (None, *MODES):
        raise unknown("render mode", mode, MODES)
    return mode


class Views:
    """The scenes of a library's models, made when first asked for."""

    def __init__(self, library: UserLibrary) -> None:
        self._library = library
        self._scenes: dict[int, domains.Scene] = {}

    def render(self, mode: str | None, model: int, state: int) -> str | np.ndarray | None:
        """A state of a model as text ("ansi") or as an image [height, width, 3] ("rgb_array")."""
        if mode == "ansi":
            return domains.render_text(self._scene(model), state)
        return self._picture(self._scene(model), state) if mode == "rgb_array" else None

    def _scene(self, model: int) -> domains.Scene:
        if model not in self._scenes:
            origin = self._library.origins[model]
            self._scenes[model] = (
                domains.Scene(self._library.models[model].states)
                if origin.domain is None
                else domains.scene(
                    origin.domain, origin.model or 0, origin.rules or "as_run", **origin.overrides
                )
            )
        return self._scenes[model]

    @cached_property
    def _canvas(self):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        return FigureCanvasAgg(Figure(figsize=(INCHES, INCHES)))

    def _picture(self, scene: domains.Scene, state: int) -> np.ndarray:
        self._canvas.figure.clear()
        domains.draw(self._canvas.figure.add_subplot(), scene, state)
        self._canvas.draw()
        return np.array(self._canvas.buffer_rgba())[..., :3].copy()
