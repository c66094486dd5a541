"""`jatpo watch`: an episode step by step, in the terminal, as a page or as a GIF."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jatpo.cli.evaluate import (
    Json,
    Preset,
    Quiet,
    Rules,
    Seconds,
    Solutions,
    check_rules,
    solve_options,
    tell,
)
from jatpo.cli.output import print_json
from jatpo.cli.progress import Progress
from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.report.episode import Episode


def watch(
    name: Annotated[
        str, typer.Argument(help="A domain, one of its models (ntu:1), a .POMDP file or a library.")
    ],
    agent: Annotated[str, typer.Option(help="Who plays, by name.")] = "atpo",
    seed: Annotated[int, typer.Option(min=0, help="Seed of world and agent, as in evaluate.")] = 0,
    trial: Annotated[int, typer.Option(min=0, help="Which trial of an evaluation with this seed.")] = 0,
    model: Annotated[
        int | None, typer.Option(min=0, help="The true model; drawn by the seed without it.")
    ] = None,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    horizon: Annotated[int | None, typer.Option(min=1, help="At most so many steps.")] = None,
    seconds: Seconds = None,
    solutions: Solutions = None,
    html: Annotated[Path | None, typer.Option(help="Write a page that replays it.")] = None,
    gif: Annotated[Path | None, typer.Option(help="Write an animated GIF.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="The GIF in dark colours.")] = False,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds for each frame.")] = 0.5,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Watch one episode: who is where, what the agent does, sees and believes.

    Plays in the terminal unless a file or JSON is asked for. Solves what is missing.
    """
    check_rules(rules)
    for file in (html, gif):
        if file is not None:
            check_writable(file)
    episode = _record(name, agent, seed, trial, model, rules, preset, horizon, seconds, solutions, quiet)
    if html:
        from jatpo.report.replay import page

        _write(html, page(episode))
        _tell(f"the replay is in {html}", json, quiet)
    if gif:
        from jatpo.report.gif import write_gif

        write_gif(gif, episode, delay=max(delay, 0.02), dark=dark)
        _tell(f"the animation is in {gif}", json, quiet)
    if json:
        print_json(episode.to_json())
    elif html is None and gif is None:
        from jatpo.report.terminal import play

        play(episode, delay)


def _record(
    name: str,
    agent: str,
    seed: int,
    trial: int,
    model: int | None,
    rules: str,
    preset: str,
    horizon: int | None,
    seconds: float | None,
    solutions: Path | None,
    quiet: bool,
) -> Episode:
    """Solve what is missing, with progress, and play the trial."""
    from jatpo.report import episode, setting

    player = episode.choose_agent(agent, preset)
    with Progress(f"preparing {name}", quiet=quiet) as progress:
        place = setting.prepare(name, player, rules, solve_options(seconds, solutions, progress))
    tell(place.notes)
    return episode.play(place, player, seed, trial=trial, model=model, horizon=horizon)


def check_writable(file: Path) -> None:
    """Refuse a place that cannot be written, before the work begins."""
    folder = file.absolute().parent
    if file.is_dir():
        raise JatpoError(f"{file} is a directory: name a file in it")
    if not folder.is_dir():
        raise JatpoError(f"there is no directory {folder}: make it first")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise JatpoError(f"{file} cannot be written: choose another place or change its permissions")


def _write(file: Path, text: str) -> None:
    """Write `text` whole or not at all."""
    partial = file.absolute().with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)


def _tell(text: str, json: bool, quiet: bool) -> None:
    """A word on standard output, where JSON does not need it."""
    if not quiet:
        print(text, file=sys.stderr if json else sys.stdout)
