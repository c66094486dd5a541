"""Commands as two processes of jax.distributed on this machine: the same tables, and an end where one is killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dask_processes import free_port
from jatpo.evaluate.results_store import numbers

WITHIN = 240.0  # seconds, after which a process that waits for another is a failure
WORK = ("evaluate", "abandoned-power-plant", "--agents", "random,atpo", "--solver", "qmdp", "--trials")


class Processes:
    """`jatpo ... --distributed` as two processes; the first leads."""

    def __init__(self, folder: Path, *words: str) -> None:
        place = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}", "JAX_NUM_PROCESSES": "2"}
        self.folder, self.words = folder, (*words, "--distributed")
        self.all = [self._begin(number, place) for number in range(2)]

    def codes(self) -> list[int]:
        """The exit codes, after both have ended."""
        end = time.monotonic() + WITHIN
        try:
            return [process.wait(max(end - time.monotonic(), 0.1)) for process in self.all]
        finally:
            for process in self.all:
                process.kill()
                process.wait()

    def printed(self, number: int) -> str:
        """What a process printed on standard output, then on standard error."""
        return "".join((self.folder / f"{kind}-{number}").read_text() for kind in ("output", "errors"))

    def _begin(self, number: int, place: dict[str, str]) -> subprocess.Popen:
        more = {
            "JAX_PROCESS_ID": str(number),
            "JAX_NUM_CPU_DEVICES": "1",
            "JATPO_CACHE": str(self.folder / "s"),
        }
        with (
            open(self.folder / f"output-{number}", "w") as out,
            open(self.folder / f"errors-{number}", "w") as errors,
        ):
            return subprocess.Popen(
                [sys.executable, "-m", "jatpo", *self.words],
                cwd=self.folder,
                env={**os.environ, **place, **more},
                stdout=out,
                stderr=errors,
            )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The directory of a run by one process, by the number of trials."""
    folder, done = tmp_path_factory.mktemp("alone"), {}

    def find(trials: int) -> Path:
        if trials not in done:
            done[trials] = out = folder / str(trials)
            words = [sys.executable, "-m", "jatpo", *WORK, str(trials), "--out", str(out), "--quiet"]
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=WITHIN)
        return done[trials]

    return find


def test_two_processes_have_the_tables_of_one(alone, tmp_path):
    found = Processes(tmp_path, *WORK, "600", "--out", "out")
    assert found.codes() == [0, 0], found.printed(0) + found.printed(1)
    for name in ("summary.csv", "trials.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (alone(600) / name).read_bytes()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    for name in ("random", "atpo"):
        computed = manifest["computed"][f"abandoned-power-plant/{name}"]
        assert sorted(chunk for text in computed.values() for chunk in numbers(text)) == list(range(5))
    assert len(manifest["workers"]) == 2
    assert "2 processes with 2 devices" in found.printed(0)
    outputs = [(tmp_path / f"output-{number}").read_text() for number in range(2)]
    assert outputs[1] == "" and "Gloo" not in outputs[0] and "results are in" in outputs[0]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_the_other_process_ends_when_one_is_killed_and_the_command_resumes(alone, tmp_path, victim):
    found = Processes(tmp_path, *WORK, "40000", "--out", "out")
    end = time.monotonic() + WITHIN
    while not list((tmp_path / "out").glob("chunks/**/*.npz")):
        assert time.monotonic() < end, found.printed(0)
        time.sleep(0.05)
    found.all[victim].kill()
    codes = found.codes()
    assert codes[victim] < 0
    assert codes[1 - victim] != 0
    kept = set((tmp_path / "out").glob("chunks/**/*.npz"))
    again = Processes(tmp_path, *WORK, "40000", "--out", "out")
    assert again.codes() == [0, 0], again.printed(0)
    assert kept <= set((tmp_path / "out").glob("chunks/**/*.npz"))
    assert (tmp_path / "out" / "summary.csv").read_bytes() == (alone(40000) / "summary.csv").read_bytes()
