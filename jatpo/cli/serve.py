"""`jatpo serve`: a page on this machine to watch episodes and to play the ad hoc agent by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from jatpo.cli.options import SOURCES, Quiet, Rules, check_rules, domain_names
from jatpo.cli.progress import Progress
from jatpo.cli.solving import DEFAULTS, Solving, solves


@solves
def serve(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help=f"{SOURCES}; default: all domains.", autocompletion=domain_names),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = 8000,
    rules: Rules = "as_run",
    solving: Solving = DEFAULTS,
    quiet: Quiet = False,
) -> None:
    """Show episodes in a browser, on this machine alone: choose a library, an agent and a seed, or play yourself.

    Missing solutions are computed on first use. Stop with Ctrl-C.
    """
    check_rules(rules)

    from jatpo.cli.options import chosen_sources
    from jatpo.evaluate.agents import catalogue
    from jatpo.report.local_games import LocalGames
    from jatpo.report.local_server import LocalServer

    libraries = chosen_sources(names or ["all"])
    with Progress("serving", quiet) as progress:
        games = LocalGames(libraries, rules, solving.options(progress))
        with LocalServer(port, libraries, list(catalogue.names()), games.show, games) as server:
            print(f"open {server.address} in a browser; Ctrl-C ends it", flush=True)
            server.serve_forever()
