"""`python -m tests.chaos.campaign [--short|--long] [--seed N] [--only NAME]`: every guarantee, the tries, the failures.

Each part has a share of the time, or with `--long` and `--tries` a number of tries that it makes however long they
take. A failure is printed with what repeats it; the exit code is 1 if there is one.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jatpo.tables import Table
from tests.chaos import damage, fuzz, kills, places
from tests.chaos.work import COMMANDS, Place

LONG, SHORT = 1200.0, 60.0  # seconds; each part also ends its last try
TARGETS = {"kill": 200, "interrupt": 200, "damage": 10_000, "fuzz": 1_000_000}  # tries of the long campaign
FEW = ("evaluate", "solve graph")  # the commands of the short campaign


@dataclass(frozen=True)
class Part:
    """A guarantee and the tries that look for a failure: each yields what went wrong, or nothing."""

    name: str
    guarantee: str
    share: float  # of the time
    tries: Callable[["Setting"], Iterator[str | None]]
    short: bool = True  # whether it is part of the short campaign


@dataclass
class Setting:
    """What a part works with."""

    random: random.Random
    folder: Path
    caches: Path
    until: float  # seconds that the part has; once it plays, when it ends
    references: kills.References
    names: tuple[str, ...]
    wanted: int | None = None  # tries, whatever time they take
    tries: int = 0
    count: int = 0
    resume: int = 1  # one in so many interrupted commands is given again
    notes: list[str] = field(default_factory=list)  # measurements beside the table

    def place(self) -> Place:
        """A fresh directory; the one before is removed."""
        shutil.rmtree(self.folder / f"try-{self.count - 1}", ignore_errors=True)
        self.count += 1
        return Place(self.folder / f"try-{self.count - 1}", self.caches)

    def more(self) -> bool:
        """Whether another try is due: there is time left, or fewer than wanted were made."""
        return time.monotonic() < self.until if self.wanted is None else self.tries < self.wanted

    def batch(self, most: int) -> tuple[float, int]:
        """When a batch of tries ends, and the number of them, at most `most`."""
        if self.wanted is None:
            return self.until, most
        return float("inf"), min(most, self.wanted - self.tries)


PARTS = (
    Part("kill", "after kill -9 at any moment the same command gives equal results", 0.24, kills.kills),
    Part("stop", "a process that is stopped and continued gives equal results", 0.06, kills.stops, False),
    Part(
        "interrupt",
        "Ctrl-C at any moment: exit code 130 within 2 s, then equal results",
        0.16,
        kills.interrupts,
    ),
    Part("share", "processes that share results and solutions give equal results", 0.08, kills.shares),
    Part("clock", "files from the past and the future change nothing", 0.04, kills.clocks, False),
    Part(
        "disk",
        "a full or read-only disk: one sentence, exit code 2, no draft; a slow one: equal results",
        0.10,
        places.disks,
    ),
    Part("terminal", "any width, encoding and user: no traceback", 0.06, places.terminals),
    Part(
        "damage", "a file with a byte changed or cut off is detected, or it is harmless", 0.10, damage.files
    ),
    Part(
        "solution",
        "a damaged solution is set aside with a note and found again",
        0.02,
        damage.solutions,
        False,
    ),
    Part("program", "a damaged compiled program is compiled again", 0.02, damage.programs, False),
    Part("fuzz", "a mutated or made-up input file gives a result or one sentence", 0.14, fuzz.readers),
)


def main() -> int:
    """Run the parts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="two minutes instead of twenty")
    parser.add_argument("--long", action="store_true", help=f"as many tries as the targets say: {TARGETS}")
    parser.add_argument("--seconds", type=float, help="another time for all")
    parser.add_argument("--tries", type=_tries, action="append", default=[], metavar="NAME=N")
    parser.add_argument(
        "--kept", type=Path, help="a folder for what runs without faults leave, for several campaigns"
    )
    parser.add_argument(
        "--resume", type=int, default=1, help="one in so many interrupted commands is given again"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[part.name for part in PARTS], action="append")
    parser.add_argument("--without", action="append", default=[], metavar="COMMAND", help="leave it out")
    chosen = parser.parse_args()
    seconds = chosen.seconds or (SHORT if chosen.short else LONG)
    parts = [part for part in PARTS if part.name in (chosen.only or [part.name])]
    parts = [part for part in parts if part.short or chosen.only or not chosen.short]
    wanted = {**(TARGETS if chosen.long else {}), **dict(chosen.tries)}
    names = tuple(name for name in (FEW if chosen.short else COMMANDS) if name not in chosen.without)
    total = sum(part.share for part in parts)
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        kept = chosen.kept or Path(folder)
        known = kills.References(kept / "references", kept / "caches")
        for part in parts:
            share = seconds * part.share / total
            setting = Setting(
                random.Random(f"{chosen.seed} {part.name}"),
                Path(folder) / part.name,
                kept / "caches",
                share,
                known,
                names,
            )
            setting.wanted, setting.resume = wanted.get(part.name), chosen.resume
            row, failures = play(part, setting)
            rows.append(row)
            failed |= bool(failures)
            print(
                f"{part.name}: {row['tries']} tries, {row['failures']} failures", file=sys.stderr, flush=True
            )
    print(Table(rows, title=f"seed {chosen.seed}, {seconds:g} s"))
    return int(failed)


def _tries(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in [part.name for part in PARTS] or not number.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=N with one of the parts")
    return name, int(number)


def play(part: Part, setting: Setting) -> tuple[dict, list[str]]:
    """A row of the table, and the failures."""
    began = time.monotonic()
    setting.until += began
    setting.folder.mkdir()
    failures = []
    try:
        for found in part.tries(setting):
            setting.tries += 1
            if found:
                failures.append(found)
                print(f"{part.name}: {found}", file=sys.stderr, flush=True)
    except Exception as error:  # of the campaign: the other parts are worth their tries
        failures.append(f"the campaign stopped here: {type(error).__name__}: {error}")
        print(f"{part.name}: {failures[-1]}", file=sys.stderr)
    for note in setting.notes:
        print(f"{part.name}: {note}", file=sys.stderr)
    shutil.rmtree(setting.folder, ignore_errors=True)
    row = {"part": part.name, "tries": setting.tries, "failures": len(failures), "guarantee": part.guarantee}
    return row | {"seconds": round(time.monotonic() - began)}, failures


if __name__ == "__main__":
    sys.exit(main())
