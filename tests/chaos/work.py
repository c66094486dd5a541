"""Commands that the campaign disturbs, how they are started, and digests of the results that they leave."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PATTERNS = (
    *("out/**/*.csv", "out/**/chunks/**/*.npz", "learned/*", "copy.POMDP", "made.jsonl", "watch.html"),
    "figures/*.svg",
)
START = """import faulthandler, signal
faulthandler.register(signal.SIGUSR2)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from jatpo import interrupts
from jatpo.cli.main import main
interrupts.install()
try:
    open("began", "w").close()
except OSError:  # another user's
    pass
main()
"""
SLOW = """import os, time
def slowly(function):
    def call(*values, **named):
        time.sleep(0.2)
        return function(*values, **named)
    return call
os.fsync, os.replace, os.rename = map(slowly, (os.fsync, os.replace, os.rename))
"""
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT = 600  # seconds after which a command counts as hung
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
trials = 300
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
    "evaluate": f"evaluate tigers.toml --agents atpo,random --trials 3000 --out out {KEPT}",
    "experiment": f"experiment identification tigers.toml --trials 600 --out out {KEPT}",
    "learn": "learn tigers.toml --from histories.jsonl --what prior --method gradient --steps 200 --checkpoints fits "
    "--out learned -q",
    "convert": "convert sharp.POMDP copy.POMDP",
    "certify": f"certify tigers.toml --stages 20 {KEPT}",
    "compare": "compare sharp.POMDP --seconds 0.5 --plot bounds.svg -q",
    "run": "run study.toml --out out -q",
    "watch": "watch tigers.toml --html watch.html -q",
    "reproduce": f"reproduce abandoned-power-plant --trials 4 --out out {KEPT}",
    "simulate": f"learn tigers.toml --simulate 200 --out made.jsonl {KEPT}",
    "plot": "plot out --figure returns --out figures",
    "workers": f"evaluate tigers.toml --agents atpo,random --trials 600 --workers 1 --out out {KEPT}",
    "cluster check": "cluster check --workers 1",
    "adapt": "experiment adapt abandoned-power-plant --scenarios noisy --models 0 --episodes 1 --rounds 1 --stages 4 "
    f"--trials 8 --out out {KEPT}",
    "beyond": f"experiment beyond tigers.toml --trials 8 --stages 4 --out out {KEPT}",
    "library-scaling": "experiment library-scaling ntu --sizes 2 --trials 8 --agents random --out out "
    + KEPT,
    "loss-bound": f"experiment loss-bound tigers.toml --trials 8 --out out {KEPT}",
    "misspecified": "experiment misspecified abandoned-power-plant --factors 2 --agents atpo --trials 8 --out out "
    + KEPT,
    "off-policy": "experiment off-policy tigers.toml --rounds 2 --shares 0,0.5 --trials 8 --out out -q",
    "simulators": "experiment simulators torus-pursuit:size=4,agents=2,teammates=greedy --particles 16 --trials 4 "
    f"--agents particle_atpo,random --out out {KEPT}",
    "tune": "experiment tune tigers.toml abandoned-power-plant --steps 3 --batch 4 --stages 4 --trials 8 --out out "
    + KEPT,
    "serve": f"serve tigers.toml --port 0 {KEPT}",
    "check": "check tigers.toml",
    "info": "info tigers.toml",
    "plan": "plan tigers.toml",
    "domains": "domains ntu --compare",
}
COMMANDS = {name: line.split() for name, line in LINES.items()}
PRINTED = ("check", "info", "domains")  # commands whose result is what they print
BEFORE = {"plot": "evaluate"}  # a command that needs what another one leaves
TIMES = ("seconds", "_us", "_s")  # ends of the names of columns that are other numbers in every run
OTHERWISE = ("manifest.json", "run.json", "times.csv")  # files with times


def fast() -> str | None:
    """Where files take little time: memory, where there is a file system for it."""
    return next((place for place in ("/dev/shm",) if os.access(place, os.W_OK)), None)


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
        (self.root / "study.toml").write_text(STUDY)

    def start(self, arguments: list[str], **options) -> subprocess.Popen:
        """A command under way; Ctrl-C reaches it even where this process ignores it."""
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.caches),
            "JATPO_CACHE": str(self.root / "solutions"),
            "JAX_PLATFORMS": "cpu",
            **options.pop("environment", {}),
        }
        begin = SLOW if options.pop("slow", False) else ""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(
            [sys.executable, "-c", begin + START, *arguments],
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
            return -1, "", f"no end after {LIMIT} s; {_where(process)}"
        text = [(part or b"").decode("utf-8", "replace") for part in (out, error)]
        return process.returncode, *text

    def left(self) -> dict[str, str]:
        """What counts as the result: tables, trials, learned models and policies, by name with digests."""
        found = {}
        for pattern in PATTERNS:
            for path in self.root.glob(pattern):
                if path.name not in OTHERWISE:
                    found[str(path.relative_to(self.root))] = _digest(path)
        for kind in ("solution", "evidence"):
            for path in self.root.glob(f"solutions/*/{kind}"):
                found[f"{kind} {path.parent.name}"] = _policy(path)
        return found

    def drafts(self) -> list[str]:
        """Drafts that were left anywhere."""
        return [str(path.relative_to(self.root)) for path in self.root.rglob(".draft-*")]


def used(number: int) -> float:
    """Processor seconds of a process and of those that it started; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        tasks = [(task / "children").read_text() for task in Path(f"/proc/{number}/task").iterdir()]
    except OSError:
        return 0.0
    own = sum(int(field) for field in fields[11:15]) / TICKS
    return own + sum(used(int(child)) for child in " ".join(tasks).split())


def _where(process: subprocess.Popen) -> str:
    """What a process that does not end has used and where its threads are; it is killed."""
    seconds = used(process.pid)
    process.send_signal(signal.SIGUSR2)
    time.sleep(1)
    process.kill()
    _, error = process.communicate()
    return f"{seconds:.1f} s of processor time used: {error.decode('utf-8', 'replace')}"


def _digest(path: Path) -> str:
    if path.suffix == ".npz":  # the archive holds the time at which it was written
        import numpy as np

        with np.load(path) as stored:
            parts = [name.encode() + stored[name].tobytes() for name in sorted(stored.files)]
        return hashlib.sha256(b"".join(parts)).hexdigest()
    if path.suffix == ".csv":
        return hashlib.sha256(json.dumps(_lasting(path)).encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lasting(path: Path) -> list[dict[str, str]]:
    """The rows of a table without the times that something took."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{name: row[name] for name in row if not name.endswith(TIMES)} for row in rows]


def _policy(path: Path) -> str:
    import numpy as np
    import orbax.checkpoint as ocp

    tree = ocp.PyTreeCheckpointer().restore(path)
    names = sorted(name for name in tree if name != "meta")
    arrays = [name.encode() + np.ascontiguousarray(tree[name]).tobytes() for name in names]
    return hashlib.sha256(b"".join(arrays)).hexdigest()
