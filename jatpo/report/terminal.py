"""An episode as text: the map, the belief of the leading model beside it, the posterior as bars, and words.

On a terminal one frame is drawn over the other; in a pipe or file the frames follow one another, without
escape codes.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from jatpo.domains import render_text
from jatpo.domains.text import legend
from jatpo.report.episode import Episode

BAR = 24  # characters of a full bar
GAP = 4
BOLD, DIM, BLUE, END = "\x1b[1m", "\x1b[2m", "\x1b[34m", "\x1b[0m"
HIDE, SHOW, WIPE = "\x1b[?25l", "\x1b[?25h", "\x1b[J"


def play(
    episode: Episode,
    delay: float = 0.5,
    stream: TextIO | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show every frame on `stream` (standard output): in place on a terminal, else one after the other."""
    out: TextIO = sys.stdout if stream is None else stream
    if not out.isatty():
        for moment in range(episode.num_steps + 1):
            print(frame(episode, moment), end="\n\n", file=out)
        return
    size = shutil.get_terminal_size()
    colour = "NO_COLOR" not in os.environ
    shown = [frame(episode, moment, size.columns, colour) for moment in range(episode.num_steps + 1)]
    out.write(HIDE)
    try:
        _play_in_place(shown, delay, size.lines, out, sleep)
    finally:
        out.write(SHOW)
        out.flush()


def _play_in_place(
    frames: Sequence[str], delay: float, rows: int, stream: TextIO, sleep: Callable[[float], None]
) -> None:
    """Draw each frame over the one before; those that do not fit on the screen begin at its top."""
    tall = max(text.count("\n") + 1 for text in frames) >= rows
    height = 0
    for number, text in enumerate(frames):
        if number:
            sleep(delay)
            stream.write("\x1b[H\x1b[2J" if tall else f"\x1b[{height}A\r{WIPE}")
        stream.write(text + "\n")
        stream.flush()
        height = text.count("\n") + 1


def frame(episode: Episode, moment: int, width: int = 100, colour: bool = False) -> str:
    """One moment of an episode as lines of text."""

    def paint(text: str, code: str) -> str:
        return f"{code}{text}{END}" if colour else text

    about = [episode.title, episode.agent, f"step {moment} of {episode.num_steps}"]
    parts = [paint(", ".join(about), BOLD), *_words(episode, moment), ""]
    parts += _beside([_truth(episode, moment), *_belief(episode, moment)], width)
    stage = episode.scenes[episode.truth].stage
    parts += [] if stage is None else [paint(legend(stage), DIM)]
    if episode.posterior is not None:
        parts += ["", *_bars(episode, moment, width, paint)]
    return "\n".join(line.rstrip() for line in parts)


def _words(episode: Episode, moment: int) -> list[str]:
    """What was done and seen, what it earned, and which model leads."""
    earned = f"{episode.rewards[moment - 1]:g}" if moment else "none so far"
    facts = {
        "true model": episode.labels[episode.truth],
        "did": episode.did(moment) or "nothing yet",
        "saw": episode.saw(moment) or "nothing",
        "reward": f"{earned}, return {episode.returns[moment]:g}",
    }
    if episode.posterior is not None:
        shares = episode.posterior[moment]
        tied = " (tied)" if (shares == shares.max()).sum() > 1 else ""
        facts["leading"] = f"{episode.labels[int(shares.argmax())]}{tied}"
    return [f"{name:10}  {text}" for name, text in facts.items()]


def _truth(episode: Episode, moment: int) -> list[str]:
    """The state, under a heading."""
    return [
        "true state",
        *render_text(episode.scenes[episode.truth], int(episode.states[moment])).splitlines(),
    ]


def _belief(episode: Episode, moment: int) -> list[list[str]]:
    """The leading model's belief in columns of lines: a map for each person, or one list."""
    found = episode.belief(moment)
    if found is None:
        return []
    scene, belief = found
    skip = 0 if scene.stage is None else len(render_text(scene, None).splitlines())
    lines = render_text(scene, None, belief=belief).splitlines()[skip:]
    people = [] if scene.stage is None else [f"{scene.stage.role(who)}:" for who in scene.stage.uncertain]
    columns: list[list[str]] = []
    for line in lines:
        if line in people:
            columns.append([f"belief: {line[:-1]}"])
        elif columns:
            columns[-1].append(line)
        else:
            columns.append(["belief", line])
    return columns


def _beside(columns: Sequence[Sequence[str]], width: int) -> list[str]:
    """Columns of lines side by side, or below one another where they are too wide."""
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + GAP * (len(columns) - 1) > width:
        return [
            line for number, column in enumerate(columns) for line in ([""] if number else []) + [*column]
        ]
    height = max(map(len, columns))
    filled = [[*column, *[""] * (height - len(column))] for column in columns]
    return [
        (" " * GAP).join(line.ljust(wide) for line, wide in zip(row, widths, strict=True))
        for row in zip(*filled, strict=True)
    ]


def _bars(episode: Episode, moment: int, width: int, paint: Callable[[str, str], str]) -> list[str]:
    """The posterior, a bar for each model; `*` marks the true one."""
    assert episode.posterior is not None
    room = max(8, min(max(map(len, episode.labels)), width - BAR - 12))
    lines = ["posterior over models (* is the true one)"]
    for k, (label, share) in enumerate(zip(episode.labels, episode.posterior[moment].tolist(), strict=True)):
        full = round(share * BAR)
        bar = paint("█" * full, BLUE) + paint("·" * (BAR - full), DIM)
        name = label if len(label) <= room else f"{label[: room - 1]}…"
        lines.append(f"{'*' if k == episode.truth else ' '} {name.ljust(room)} {bar} {share:6.1%}")
    if episode.entropy is not None:
        lines.append(f"  entropy {max(episode.entropy[moment], 0.0):.2f} (0: certain, 1: uniform)")
    return lines
