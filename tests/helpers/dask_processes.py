"""A scheduler of Dask and its workers as processes of their own, and commands that use them."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path


class Cluster:
    """A scheduler and workers as processes of their own, on loopback."""

    def __init__(self, folder: Path, workers: int, allowed_failures: int = 3) -> None:
        self.folder, self.allowed_failures = folder, allowed_failures
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self.begin_scheduler()
        self.workers = [self.begin_worker() for _ in range(workers)]
        self.commands: list[subprocess.Popen] = []

    def begin_scheduler(self) -> subprocess.Popen:
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0"]
        return self._begin("dask", "scheduler", *place)

    def begin_worker(self, *options: str, **environment: str) -> subprocess.Popen:
        """A worker of one process, which nobody starts again unless an option says so."""
        scratch = ["--local-directory", str(self.folder / "scratch")]
        nanny = [] if "--nanny" in options else ["--no-nanny"]
        words = ["worker", self.address, "--nthreads", "1", *nanny, *scratch, *options]
        return self._begin("dask", *words, **environment)

    def command(self, *words: str) -> subprocess.Popen:
        """`jatpo` with this scheduler."""
        self.commands.append(self._begin("jatpo", *words, "--scheduler", self.address))
        return self.commands[-1]

    def error(self) -> str:
        """What the last command printed on standard error."""
        return (self.folder / "error").read_text()

    def end(self) -> None:
        """End whatever is still running."""
        for process in (*self.commands, *self.workers, self.scheduler):
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def _begin(self, program: str, *words: str, **more: str) -> subprocess.Popen:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(self.allowed_failures),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
            **more,
        }
        with open(self.folder / "error" if program == "jatpo" else os.devnull, "w") as error:
            return subprocess.Popen(
                [sys.executable, "-m", program, *words],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=error,
            )


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
