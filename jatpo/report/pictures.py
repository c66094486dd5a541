"""The two pictures of the README: a moment of a replay, and the table of returns."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jatpo.disk import write_whole
from jatpo.errors import JatpoError
from jatpo.report import style
from jatpo.report.episode import Episode
from jatpo.report.figures import table
from jatpo.report.gif import picture
from jatpo.report.panels import assemble
from jatpo.report.results import Results

PAPER = "#ffffff"
PROBABLE = 0.6  # posterior of the true model at the moment that is shown
SHOWN = "gridworld"


def draw_pictures(
    directory: str | os.PathLike[str], results: Results, episodes: Sequence[Episode]
) -> tuple[Path, Path]:
    """Write replay.png and results.png; the paths of both."""
    folder = Path(directory)
    made = table(results)
    if not episodes or made is None:
        raise JatpoError("no episode or result to draw: reproduce at least one domain")
    episode = next((each for each in episodes if each.title == SHOWN), episodes[0])
    with style.styled():
        write_whole(folder / "results.png", _small(style.to_bytes(assemble(made), "png", PAPER)))
    write_whole(folder / "replay.png", _small(_moment(episode)))
    return folder / "replay.png", folder / "results.png"


def _moment(episode: Episode) -> bytes:
    return style.to_bytes(picture(episode, informative_moment(episode)), "png", PAPER)


def informative_moment(episode: Episode) -> int:
    """The first time at which the true model is probable, before the end."""
    last = max(episode.num_steps - 1, 0)
    if episode.posterior is None:
        return last // 2
    reached = np.flatnonzero(episode.posterior[:, episode.truth] >= PROBABLE)
    return min(int(reached[0]), last) if len(reached) else last // 2


def _small(png: bytes) -> bytes:
    """The same picture with a palette of 128 colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(colors=128, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
