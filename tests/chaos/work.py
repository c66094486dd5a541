"""Commands that the campaign disturbs, how they are started, and digests of the results that they leave."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

START = """import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from jatpo.cli.main import main
main()
"""
LIMIT = 240  # seconds after which a command counts as hung
TIGER = """discount: 0.95
values: reward
states: left right
actions: listen open-left open-right
observations: left right
T: listen identity
T: open-left uniform
T: open-right uniform
O: listen
0.85 0.15
0.15 0.85
O: open-left uniform
O: open-right uniform
R: listen : * : * : * -1
R: open-left : left : * : * -100
R: open-left : right : * : * 10
R: open-right : left : * : * 10
R: open-right : right : * : * -100
"""
LIBRARY = 'name = "tigers"\nhorizon = 12\nbeliefs = 60\ntolerance = 0.001\n' + "".join(
    f'[[model]]\nfile = "{name}.POMDP"\n' for name in ("sharp", "deaf")
)
STUDY = """name = "tigers"
libraries = ["tigers.toml"]
agents = ["atpo", "random"]
trials = 2000
seeds = [0, 1]

[solve]
stages = 20

[[experiments]]
name = "evaluate"
"""
HISTORIES = "".join(
    json.dumps({"actions": [0] * 8, "observations": [(seed >> t) & 1 for t in range(8)]}) + "\n"
    for seed in range(64)
)
KEPT = "--solutions solutions -q"
LINES = {
    "solve": f"solve tigers.toml --stages 40 {KEPT}",
    "solve graph": f"solve sharp.POMDP --solver graph --stages 60 {KEPT}",
    "evaluate": f"evaluate tigers.toml --agents atpo,random --trials 20000 --out out {KEPT}",
    "experiment": f"experiment identification tigers.toml --trials 2000 --out out {KEPT}",
    "learn": "learn tigers.toml --from histories.jsonl --what prior --method gradient --steps 200 --checkpoints fits "
    "--out learned -q",
    "convert": "convert sharp.POMDP copy.POMDP",
}
COMMANDS = {name: line.split() for name, line in LINES.items()}


@dataclass
class Place:
    """A directory with the input of the commands, and the caches that all tries share."""

    root: Path
    caches: Path

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "sharp.POMDP").write_text(TIGER)
        (self.root / "deaf.POMDP").write_text(
            TIGER.replace("0.85 0.15", "0.6 0.4").replace("0.15 0.85", "0.4 0.6")
        )
        (self.root / "tigers.toml").write_text(LIBRARY)
        (self.root / "histories.jsonl").write_text(HISTORIES)

    def start(self, arguments: list[str], **options) -> subprocess.Popen:
        """A command under way; Ctrl-C reaches it even where this process ignores it."""
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.caches),
            "JATPO_CACHE": str(self.root / "solutions"),
            "JAX_PLATFORMS": "cpu",
            **options.pop("environment", {}),
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(
            [sys.executable, "-c", START, *arguments],
            cwd=self.root,
            env=environment,
            **{**pipes, **options},
        )

    def run(self, arguments: list[str], **options) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a command."""
        process = self.start(arguments, **options)
        try:
            out, error = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, error = process.communicate()
            return -1, "", f"no end after {LIMIT} s"
        text = [(part or b"").decode("utf-8", "replace") for part in (out, error)]
        return process.returncode, *text

    def left(self) -> dict[str, str]:
        """What counts as the result: tables, trials, learned models and policies, by name with digests."""
        found = {}
        for pattern in ("out/*.csv", "out/*.json", "out/chunks/**/*.npz", "learned/*", "copy.POMDP"):
            for path in self.root.glob(pattern):
                if path.name != "manifest.json":
                    found[str(path.relative_to(self.root))] = _digest(path)
        for path in self.root.glob("solutions/*/solution"):
            found[f"solution {path.parent.name}"] = _policy(path)
        return found

    def drafts(self) -> list[str]:
        """Drafts that were left anywhere."""
        return [str(path.relative_to(self.root)) for path in self.root.rglob(".draft-*")]


def _digest(path: Path) -> str:
    if path.suffix == ".npz":  # the archive holds the time at which it was written
        import numpy as np

        with np.load(path) as stored:
            parts = [name.encode() + stored[name].tobytes() for name in sorted(stored.files)]
        return hashlib.sha256(b"".join(parts)).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _policy(path: Path) -> str:
    import numpy as np
    import orbax.checkpoint as ocp

    tree = ocp.PyTreeCheckpointer().restore(path)
    arrays = [np.ascontiguousarray(tree[name]).tobytes() for name in ("alpha", "action")]
    return hashlib.sha256(b"".join(arrays)).hexdigest()
