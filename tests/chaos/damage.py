"""Every kind of file that is read again, with bytes changed or cut off."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jatpo.disk import DAMAGED, Checkpoints, write_whole
from jatpo.errors import JatpoError
from jatpo.evaluate import chunks, shares
from jatpo.evaluate.results_store import MANIFEST, Store
from jatpo.evaluate.trials import Trials
from jatpo.files import read_pomdp
from jatpo.report import results
from jatpo.solve import Request, choose, solve_models
from jatpo.solve.cache import Cache
from jatpo.solve.evidence_store import load_evidence
from jatpo.tables import Table
from tests.chaos.work import COMMANDS, TIGER, Place, fast

ROWS = [{"domain": "a", "mean": 0.5}, {"domain": "b", "mean": None}]
Look = tuple[Path, Callable[[], str | None]]  # a file, and what says what is wrong after it was damaged
PIECE = 50  # damages of one file between two looks at the clock


def damaged(random, whole: bytes) -> bytes:
    """A changed byte, a changed bit, a cut, a hole, or bytes at the end."""
    place, kind = random.randrange(len(whole)), random.randrange(5)
    if kind == 0:
        return whole[:place]
    if kind == 1:
        return whole[:place] + whole[place + random.randrange(1, 9) :]
    if kind == 2:
        return whole + random.randbytes(random.randrange(1, 9))
    changed = bytearray(whole)
    changed[place] ^= 1 << random.randrange(8) if kind == 3 else random.randrange(1, 256)
    return bytes(changed)


def files(setting) -> Iterator[str | None]:
    """Chunks, manifests, tables, checkpoints, solutions and their evidence, chunks that workers share."""
    with tempfile.TemporaryDirectory(dir=fast()) as folder:
        yield from _files(setting, Path(folder))


def _files(setting, folder: Path) -> Iterator[str | None]:
    place = folder / "kept"
    trials = Trials(*(np.arange(128) % 7,) * 2, *(np.linspace(0, 1, 128),) * 2, records={})

    def opened() -> tuple[Store, list]:
        store = Store(place, "evaluate", {}, (notes := []).append)
        store.open_part("a", {"horizon": 5})
        store.open_agent("a", "atpo", {"solutions": {}})
        return store, notes

    store, _ = opened()
    store.save("a", "atpo", 0, trials)
    store.write_table("summary", Table(ROWS))
    checkpoint = Checkpoints(folder / "checkpoints", {"key": 1})
    checkpoint.save("one", {"seconds": 1.5}, {"x": np.arange(50.0), "n": np.int32(3)})

    def chunk() -> str | None:
        kept, notes = opened()
        found = kept.load("a", "atpo", 0)
        return None if found is None and notes else _same(found, trials)

    def manifest() -> str | None:
        kept, notes = opened()
        if _same(kept.load("a", "atpo", 0), trials):
            return "the trials are not read any more"
        return None if notes or kept.read_table("summary") == ROWS else "a table is lost without a word"

    def table() -> str | None:
        try:
            if results.load(place)["summary"] != ROWS:
                return "read as data by the report"
        except JatpoError:
            pass
        kept, notes = opened()
        return None if kept.read_table("summary") == ROWS or notes else "read as data"

    def kept_checkpoint() -> str | None:
        again = Checkpoints(folder / "checkpoints", {"key": 1}, (notes := []).append)
        found = again.load(
            "one", lambda meta, arrays: (meta, {name: a.tolist() for name, a in arrays.items()})
        )
        whole = ({"seconds": 1.5}, {"x": np.arange(50.0).tolist(), "n": 3})
        return None if found == whole or (found is None and notes) else "read as data"

    solved = solution_looks(folder / "solves")
    looks = [
        (path, kept_checkpoint) for path in (folder / "checkpoints" / "one").rglob("*") if path.is_file()
    ]
    looks += [(place / "chunks" / "a" / "atpo" / "000000.npz", chunk)] * len(looks)
    looks += [(place / "manifest.json", manifest), (place / "summary.json", table)] * (len(looks) // 2)
    looks += solved + [worker_look(folder / "shared" / ("0" * 32), trials)] * (len(solved) // 4)
    looks = [look for look in looks if look[0].stat().st_size]
    snapshot = _snapshot(folder)
    while True:
        for _ in range(setting.batch(PIECE)[1]):
            path, look = setting.random.choice(looks)
            whole = path.read_bytes()
            path.write_bytes(damaged(setting.random, whole))
            found = None
            if path.read_bytes() != whole:
                try:
                    found = look()
                except Exception as error:
                    found = f"{type(error).__name__}: {error}"
            yield found and f"{path.name}: {found}"
            _restore(folder, snapshot, path)
        if not setting.more():
            return


def solution_looks(place: Path) -> list[Look]:
    """The files of a solution and of its evidence, each with what reads it."""
    place.mkdir()
    (place / "sharp.POMDP").write_text(TIGER)
    choice = choose(Request("graph", stages=20), num_models=1, horizon=12)
    model = read_pomdp(place / "sharp.POMDP")
    (solution,) = solve_models([model], *choice, key=jax.random.key(0), cache=place)

    def read() -> tuple[object, list]:
        found = Cache(place, (notes := []).append).load_solution(solution.key)
        return found and (np.asarray(found.policy.vectors).tolist(), found.lower, found.upper), notes

    def read_evidence() -> tuple[object, list]:
        found = load_evidence(place, solution.key, (notes := []).append)
        return found and jax.tree.map(np.ndarray.tolist, found), notes

    def look(reader: Callable[[], tuple[object, list]], whole: object) -> str | None:
        found, notes = reader()
        return None if found == whole or (found is None and notes) else "read as data"

    readers = {"solution": read, "evidence": read_evidence}
    looks = {kind: partial(look, reader, reader()[0]) for kind, reader in readers.items()}
    return [
        (path, looks[kind])
        for kind in readers
        for path in (place / solution.key / kind).rglob("*")
        if path.is_file()
    ]


def worker_look(place: Path, trials: Trials) -> Look:
    """A chunk in the directory that workers share; a damaged one is played again."""
    path = place / "000000.npz"
    write_whole(path, chunks.to_bytes(trials, place.name))

    def look() -> str | None:
        found = shares.read_kept(place, 0)
        return None if found is None else _same(found, trials)

    return path, look


def _same(found: Trials | None, trials: Trials) -> str | None:
    if found is None:
        return "nothing is read and nothing is said"
    same = all(np.array_equal(one, other) for one, other in zip(found[:4], trials[:4], strict=True))
    return None if same else "read as data"


def _snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _restore(folder: Path, snapshot: dict[Path, bytes], touched: Path) -> None:
    """Put back what was moved away, damaged or written anew, and remove what was added."""
    for place, _, names in os.walk(folder):
        if place.endswith(DAMAGED):
            shutil.rmtree(place)
            continue
        for path in (Path(place, name) for name in names):
            if path not in snapshot:
                path.unlink()
    for path, whole in snapshot.items():
        if path == touched or path.name == MANIFEST or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(whole)


def programs(setting) -> Iterator[str | None]:
    """A command whose compiled programs were damaged compiles them again, and the next one prints no note of it."""
    name, number = "loss-bound", 0
    caches = setting.folder / "own-caches"
    first = Place(setting.folder / "first", caches)
    code, _, error = first.run(COMMANDS[name])
    assert code == 0, error
    expected = first.left()
    while True:
        kept = [path for path in caches.rglob("*-cache") if path.stat().st_size]
        path = setting.random.choice(kept)
        path.write_bytes(damaged(setting.random, path.read_bytes()))
        for again in (True, False):
            number += 1
            place = Place(setting.folder / f"programs-{number}", caches)
            code, _, error = place.run(COMMANDS[name])
            right = code == 0 and place.left() == expected and (again or not error.strip())
            if not right or not again:
                yield None if right else f"{path.name}: exit code {code}: {error[-300:]}"
            if not right:
                break
        if not setting.more():
            return


def solutions(setting) -> Iterator[str | None]:
    """A command whose solution was damaged finds it again."""
    place = setting.place()
    arguments = [*COMMANDS["solve graph"], "--json"]
    code, out, error = place.run(arguments)
    assert code == 0, error
    expected = [(row["lower"], row["upper"], row["vectors"]) for row in json.loads(out)]
    while True:
        files = [path for path in place.root.glob("solutions/*/solution/**/*") if path.is_file()]
        path = setting.random.choice([path for path in files if path.stat().st_size])
        path.write_bytes(damaged(setting.random, path.read_bytes()))
        code, out, error = place.run(arguments)
        found = [(row["lower"], row["upper"], row["vectors"]) for row in json.loads(out or "[]")]
        right = code == 0 and found == expected
        yield None if right else f"{path.name}: exit code {code}: {error[-300:]}"
        if not setting.more():
            return
