"""Every kind of file that is read again, with bytes changed or cut off."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jatpo.disk import Checkpoints
from jatpo.errors import JatpoError
from jatpo.evaluate.results_store import Store
from jatpo.evaluate.trials import Trials
from jatpo.report import results
from jatpo.tables import Table
from tests.chaos.work import COMMANDS

ROWS = [{"domain": "a", "mean": 0.5}, {"domain": "b", "mean": None}]
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
    """Chunks, manifests, tables, checkpoints of solutions and fits."""
    place = setting.folder / "kept"
    trials = Trials(*(np.arange(128) % 7,) * 2, *(np.linspace(0, 1, 128),) * 2, records={})

    def opened() -> tuple[Store, list]:
        store = Store(place, "evaluate", {}, (notes := []).append)
        store.open_part("a", {"horizon": 5})
        store.open_agent("a", "atpo", {"solutions": {}})
        return store, notes

    store, _ = opened()
    store.save("a", "atpo", 0, trials)
    store.write_table("summary", Table(ROWS))
    checkpoint = Checkpoints(setting.folder / "checkpoints", {"key": 1})
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
        again = Checkpoints(setting.folder / "checkpoints", {"key": 1}, (notes := []).append)
        found = again.load(
            "one", lambda meta, arrays: (meta, {name: a.tolist() for name, a in arrays.items()})
        )
        whole = ({"seconds": 1.5}, {"x": np.arange(50.0).tolist(), "n": 3})
        return None if found == whole or (found is None and notes) else "read as data"

    looks = [
        (path, kept_checkpoint)
        for path in (setting.folder / "checkpoints" / "one").rglob("*")
        if path.is_file()
    ]
    looks += [(place / "chunks" / "a" / "atpo" / "000000.npz", chunk)] * len(looks)
    looks += [(place / "manifest.json", manifest), (place / "summary.json", table)] * (len(looks) // 2)
    looks = [look for look in looks if look[0].stat().st_size]
    snapshot = _snapshot(setting.folder)
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
            _restore(setting.folder, snapshot)
        if not setting.more():
            return


def _same(found: Trials | None, trials: Trials) -> str | None:
    if found is None:
        return "nothing is read and nothing is said"
    same = all(np.array_equal(one, other) for one, other in zip(found[:4], trials[:4], strict=True))
    return None if same else "read as data"


def _snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _restore(folder: Path, snapshot: dict[Path, bytes]) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in snapshot]:
        path.unlink()
    for path, whole in snapshot.items():
        if not path.exists() or path.read_bytes() != whole:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(whole)


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
