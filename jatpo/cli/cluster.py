"""`jatpo cluster`: look at a cluster before long work starts on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jatpo.cli.engines import Engines
from jatpo.cli.options import Json
from jatpo.cli.output import print_json
from jatpo.cli.solving import note_listener, print_notes
from jatpo.errors import JatpoError
from jatpo.tables import Table

app = typer.Typer(help="Clusters of workers for --scheduler and --workers.")


@app.callback()
def cluster() -> None:
    """Clusters of workers for --scheduler and --workers."""


@app.command("check")
def check(
    scheduler: Annotated[
        str | None, typer.Option(help="Address of the scheduler, as in tcp://host:8786.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Or this number of workers on this machine.")
    ] = None,
    shared: Annotated[
        Path | None, typer.Option(help="Also check that all workers have and can write this directory.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that the workers agree with this command in versions, settings and directories; exit with 2 if not."""
    if scheduler is None and workers is None:
        raise JatpoError("no cluster is named: give --scheduler tcp://HOST:8786 or --workers N")
    Engines(scheduler, workers).check()
    from jatpo.cluster.agreement import COLUMNS, check
    from jatpo.cluster.dask_engine import connected, local_workers

    listen = note_listener(json)
    here = local_workers(workers, on_event=listen) if workers is not None else None
    with here or connected(scheduler or "", common_files=shared is not None, on_event=listen) as engine:
        found = check(engine, shared)
    if json:
        print_json({"workers": found.rows, "problems": found.problems})
    else:
        print(Table(list(found.rows), COLUMNS))
        print_notes(found.problems)
    if found.problems:
        raise typer.Exit(2)
    if not json:
        print("\nall workers agree")
