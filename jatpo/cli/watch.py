"""`jatpo watch`: an episode step by step, in the terminal, as a page or as a GIF."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jatpo.cli.options import Json, Preset, Quiet, Rules, check_rules
from jatpo.cli.output import print_json
from jatpo.cli.progress import Progress
from jatpo.cli.solving import DEFAULTS, Solving, solves
from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.report.episode import Episode


@solves
def watch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A domain, one of its models (ntu:1), a .POMDP file or a library."
        ),
    ],
    agent: Annotated[str, typer.Option(help="The agent, by name.")] = "atpo",
    seed: Annotated[int, typer.Option(min=0, help="Seed of environment and agent, as in evaluate.")] = 0,
    trial: Annotated[int, typer.Option(min=0, help="Which trial of an evaluation with this seed.")] = 0,
    model: Annotated[
        int | None, typer.Option(min=0, help="The true model; default: drawn by the seed.")
    ] = None,
    rules: Rules = "as_run",
    preset: Preset = "exact",
    horizon: Annotated[int | None, typer.Option(min=1, help="Maximum number of steps.")] = None,
    solving: Solving = DEFAULTS,
    html: Annotated[Path | None, typer.Option(help="Write a page that replays it.")] = None,
    gif: Annotated[Path | None, typer.Option(help="Write an animated GIF.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Use dark colours in the GIF.")] = False,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds for each frame.")] = 0.5,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Watch one episode: who is where, what the agent does, sees and believes.

    Plays in the terminal unless a file or JSON is asked for. Solves what is missing.
    """
    from jatpo.disk import check_file, write_whole

    check_rules(rules)
    for option, file, suffixes in (("--html", html, (".html", ".htm")), ("--gif", gif, (".gif",))):
        if file is not None:
            check_file(file)
        if file is not None and file.suffix.lower() not in suffixes:
            raise JatpoError(
                f"{option} writes {suffixes[0]} files, got '{file}': end the name in {suffixes[0]}"
            )
    episode = _record(name, agent, seed, trial, model, rules, preset, horizon, solving, quiet)
    if html:
        from jatpo.report.replay import page

        write_whole(html, page(episode))
        _print_path(f"the replay is in {html}", json, quiet)
    if gif:
        from jatpo.report.gif import write_gif

        write_gif(gif, episode, delay=max(delay, 0.02), dark=dark)
        _print_path(f"the animation is in {gif}", json, quiet)
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
    solving: Solving,
    quiet: bool,
) -> Episode:
    """Solve what is missing, with progress, and play the trial."""
    from jatpo.evaluate.solved import load_solved
    from jatpo.files import load
    from jatpo.report import episode

    player = episode.choose_agent(agent, preset)
    with Progress(f"preparing {name}", quiet=quiet) as progress:
        library = load(name, rules=rules)
        episode.check_agent(player, library)
        solved = load_solved(library, [player], options=solving.options(progress))
    return episode.play(solved, player, seed, trial=trial, model=model, horizon=horizon)


def _print_path(text: str, json: bool, quiet: bool) -> None:
    """Print `text`, on standard error where standard output is JSON."""
    if not quiet:
        print(text, file=sys.stderr if json else sys.stdout)
