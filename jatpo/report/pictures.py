"""The two pictures of the README: a moment of a replay, and the table of returns."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate.store import write_whole
from jatpo.report import style
from jatpo.report.episode import Episode
from jatpo.report.figures import table
from jatpo.report.panels import assemble
from jatpo.report.results import Results

PAPER = "#ffffff"
TELLING = 0.6  # the first moment at which the true model is this probable
SHOWN = "gridworld"


def draw_pictures(
    directory: str | os.PathLike[str], results: Results, episodes: Sequence[Episode]
) -> tuple[Path, Path]:
    """Write replay.png and results.png; the paths of both."""
    folder = Path(directory)
    made = table(results)
    if not episodes or made is None:
        raise JatpoError("there is no episode and no result to draw: reproduce at least one domain")
    episode = next((each for each in episodes if each.title == SHOWN), episodes[0])
    with style.styled():
        write_whole(folder / "results.png", _small(style.to_bytes(assemble(made), "png", PAPER)))
    write_whole(folder / "replay.png", _small(_moment(episode)))
    return folder / "replay.png", folder / "results.png"


def _moment(episode: Episode) -> bytes:
    from jatpo.report.gif import picture

    return style.to_bytes(picture(episode, telling_moment(episode)), "png", PAPER)


def telling_moment(episode: Episode) -> int:
    """When the agent begins to see through, but before the end."""
    last = max(episode.num_steps - 1, 0)
    if episode.posterior is None:
        return last // 2
    reached = np.flatnonzero(episode.posterior[:, episode.truth] >= TELLING)
    return min(int(reached[0]), last) if len(reached) else last // 2


def _small(png: bytes) -> bytes:
    """The same picture with a palette of 128 colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(colors=128, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
