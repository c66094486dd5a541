"""The options that hand work to other processes and machines, and the engine they stand for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.engine import Engine
    from jatpo.events import OnEvent

KINDS: Mapping[str, Any] = {
    "scheduler": Annotated[
        str | None,
        typer.Option(
            help="Compute on the workers of this Dask scheduler, as in tcp://host:8786; default: this process."
        ),
    ],
    "workers": Annotated[
        int | None, typer.Option(min=1, help="Compute on this number of Dask workers on this machine.")
    ],
    "shared": Annotated[
        Path | None,
        typer.Option(
            help="With --scheduler: a directory that all machines share, for solutions and chunks; default: send "
            "them through the scheduler."
        ),
    ],
    "distributed": Annotated[
        bool | None,
        typer.Option(
            "--distributed",
            help="Run as one of several processes that jax.distributed joins, as under srun.",
        ),
    ],
}


class Engines(NamedTuple):
    """What was chosen with the options of `KINDS`."""

    scheduler: str | None = None
    workers: int | None = None
    shared: Path | None = None
    distributed: bool | None = None

    def check(self) -> None:
        """Refuse options that exclude each other, before any work."""
        chosen = [
            name
            for name in ("scheduler", "workers", "distributed")
            if getattr(self, name) not in (None, False)
        ]
        if len(chosen) > 1:
            raise JatpoError(f"--{' and --'.join(chosen)} exclude each other: give one of them")
        if self.shared is not None and not self.scheduler:
            raise JatpoError("--shared is for --scheduler: local workers have this machine's files")

    @property
    def solutions(self) -> Path | None:
        """Where solutions are kept if nothing else was said."""
        return self.shared / "solutions" if self.shared else None

    @property
    def chunks(self) -> Path | None:
        """Where workers keep chunks of trials."""
        return self.shared.absolute() / "chunks" if self.shared else None

    @contextlib.contextmanager
    def engine(self, on_event: OnEvent) -> Iterator[Engine | None]:
        """The engine to compute on; None for this process. With several processes, all but the first end in here."""
        self.check()
        if self.scheduler is not None:
            from jatpo.cluster.dask_engine import connected

            with connected(self.scheduler, common_files=self.shared is not None, on_event=on_event) as engine:
                yield engine
        elif self.workers is not None:
            from jatpo.cluster.starting_engine import starting_workers

            with starting_workers(self.workers, on_event=on_event) as engine:
                yield engine
        elif self.distributed:
            from jatpo.cluster.process_engine import joined

            with joined(on_event=on_event) as engine:
                if engine is None:  # it has computed for the first process until that had no more work
                    raise typer.Exit
                yield engine
        else:
            yield None
