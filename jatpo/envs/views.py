"""Pictures of a hidden state: the map of a domain as text or picture, or the state's name."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from jatpo import domains
from jatpo.errors import unknown
from jatpo.library import Library

MODES = ("ansi", "rgb_array")
INCHES = 4


def checked_mode(mode: str | None) -> str | None:
    """A render mode, or None; unknown modes are refused."""
    if mode not in (None, *MODES):
        raise unknown("render mode", mode, MODES)
    return mode


class Views:
    """The scenes of a library's models, made on first use."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._scenes: dict[int, domains.Scene] = {}

    def render(self, mode: str | None, model: int, state: int) -> str | np.ndarray | None:
        """A state of a model as text ("ansi") or as an image [height, width, 3] ("rgb_array")."""
        if mode == "ansi":
            return domains.render_text(self._scene(model), state)
        return self._picture(self._scene(model), state) if mode == "rgb_array" else None

    def _scene(self, model: int) -> domains.Scene:
        if model not in self._scenes:
            self._scenes[model] = domains.scene_of(self._library, model)
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
