"""An episode as an animated GIF for talks: one picture for each frame of the replay."""

from __future__ import annotations

import io
import os
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from jatpo.disk import check_file, write_whole
from jatpo.domains import draw
from jatpo.domains.picture import DARK, LIGHT, Palette
from jatpo.report.episode import Episode

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

INCHES = (9.6, 5.0)
SAMPLES = 6  # frames that the palette is chosen by
LAST = 4  # the last picture stays this many times as long


def write_gif(
    path: str | os.PathLike[str], episode: Episode, *, delay: float = 0.8, dark: bool = False, dpi: int = 100
) -> None:
    """Write the episode to `path`, `delay` seconds for each frame; the last one is shown longer."""
    target = check_file(path)
    pictures = frames(episode, dark=dark, dpi=dpi)
    milliseconds = [round(1000 * delay)] * (len(pictures) - 1) + [round(1000 * delay * LAST)]
    data = io.BytesIO()
    options = {"save_all": True, "append_images": pictures[1:], "duration": milliseconds}
    pictures[0].save(data, format="GIF", loop=0, disposal=1, **options)
    write_whole(target, data.getvalue())


def frames(episode: Episode, *, dark: bool = False, dpi: int = 100) -> list[Image]:
    """The pictures of all frames, in a palette of 256 colours common to all."""
    from PIL import Image

    found = [_image(episode, moment, dark, dpi) for moment in range(episode.num_steps + 1)]
    samples = found[:: max(1, len(found) // SAMPLES)]
    sheet = Image.new("RGB", (found[0].width, len(samples) * found[0].height))
    for row, sample in enumerate(samples):
        sheet.paste(sample, (0, row * found[0].height))
    palette = sheet.quantize(colors=255, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    return [_with_paper(picture, palette) for picture in found]


def _with_paper(picture: Image, palette: Image) -> Image:
    """`picture` in the colours of `palette` and that of its own paper, which would be rounded otherwise."""
    from PIL import Image

    paper = np.asarray(picture)[0, 0]
    drawn = np.array(picture.quantize(palette=palette, dither=Image.Dither.NONE))
    drawn[(np.asarray(picture) == paper).all(axis=2)] = 255
    colours = (palette.getpalette() or [])[: 3 * 255]
    made = Image.fromarray(drawn)
    made.putpalette([*colours, *[0] * (3 * 255 - len(colours)), *paper.tolist()])
    return made


def _image(episode: Episode, moment: int, dark: bool, dpi: int) -> Image:
    """One frame in true colours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure = picture(episode, moment, dark=dark, dpi=dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    return Image.frombytes("RGBA", (width, height), bytes(canvas.buffer_rgba())).convert("RGB")


def picture(episode: Episode, moment: int, *, dark: bool = False, dpi: int = 100) -> Figure:
    """One frame as a matplotlib figure: the state, the belief beside it, the posterior and words below."""
    from matplotlib.figure import Figure

    palette = DARK if dark else LIGHT
    figure = Figure(figsize=INCHES, dpi=dpi, facecolor=palette.paper)
    wide, right = (0.47, 0.51) if episode.beliefs is not None else (0.96, 0.51)
    bars = episode.posterior is not None
    low, high = (0.38, 0.5) if bars else (0.2, 0.68)
    axes = figure.add_axes((0.02, low, wide, high))
    leading = episode.belief(moment)
    draw(
        axes,
        episode.scenes[episode.truth],
        int(episode.states[moment]),
        dark=dark,
        title="true state",
        legend=leading is None,
    )
    if leading is not None:
        label = episode.labels[episode.leader(moment) or 0]
        _draw_belief(figure.add_axes((right, low, wide, high)), leading, label, dark)
    _write_words(figure, episode, moment, palette)
    if bars:
        tall = min(0.21, 0.055 * len(episode.labels))
        _draw_bars(figure.add_axes((0.3, 0.235 - tall, 0.62, tall)), episode, moment, palette)
    return figure


def _draw_belief(axes: Axes, leading: Any, label: str, dark: bool) -> None:
    scene, belief = leading
    title = textwrap.shorten(f"belief, if {label}", 60, placeholder="…")
    draw(axes, scene, None, belief=belief, dark=dark, title=title, legend=True)


def _write_words(figure: Figure, episode: Episode, moment: int, palette: Palette) -> None:
    """A line about the episode, one about the step."""
    head = f"{episode.agent} in {episode.title}, step {moment} of {episode.num_steps}"
    figure.text(0.02, 0.955, head, color=palette.ink, fontsize=12, fontweight="bold", va="center")
    earned = f"return {episode.returns[moment]:g}"
    figure.text(0.98, 0.955, earned, color=palette.ink, fontsize=11, va="center", ha="right")
    did, saw = episode.did(moment), episode.saw(moment)
    line = "the start" if did is None else f"did: {did}    saw: {saw or 'nothing'}"
    text = textwrap.shorten(line.replace("    ", " · "), 118, placeholder="…")
    figure.text(
        0.02,
        0.275 if episode.posterior is not None else 0.06,
        text,
        color=palette.ink,
        fontsize=10,
        va="center",
    )


def _draw_bars(axes: Axes, episode: Episode, moment: int, palette: Palette) -> None:
    """The posterior over models; the bar of the true one is coloured and its name marked."""
    assert episode.posterior is not None
    shares = episode.posterior[moment]
    colours = [palette.agent if k == episode.truth else palette.wall for k in range(len(shares))]
    axes.barh(range(len(shares)), shares, color=colours, height=0.72)
    names = [
        textwrap.shorten(label, 34, placeholder="…") + (" (true)" if k == episode.truth else "")
        for k, label in enumerate(episode.labels)
    ]
    size = max(5.0, min(9.0, 60 / len(shares)))
    axes.set_yticks(range(len(shares)), names, fontsize=size, color=palette.ink)
    for k, share in enumerate(shares.tolist()):
        axes.text(share + 0.01, k, f"{share:.0%}", va="center", fontsize=size, color=palette.ink)
    axes.set(xlim=(0, 1), ylim=(len(shares) - 0.4, -0.6), xticks=[], facecolor=palette.paper)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
