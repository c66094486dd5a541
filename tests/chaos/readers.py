"""Every reader of jatpo with files that it takes and the words of its language, for the fuzzer to change."""

import contextlib
import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from jatpo.disk import sealed
from tests.chaos.work import HISTORIES, LIBRARY, STUDY, TIGER

DATA = Path(__file__).parent.parent / "data"
MODELS = ("dust.POMDP", "forms.POMDP", "include.POMDP", "mdp.POMDP", "tiger.POMDP")
NUMBERS = "0 1 -1 2.5 1e999 nan inf 99999999999999999999 null true "
ROWS = [
    {"domain": "ntu", "agent": agent, "mean": 1.5, "std": 1.0, "low": 1.0, "high": 2.0, "published_mean": 1.0}
    | {
        "published_std": 0.5,
        "compatible": True,
        "trials": 8,
        "discounted": 1.0,
        "rules": "as_run",
        "won": None,
    }
    | {"seconds": 0.1, "step": 3, "value": 0.5, "size": 2, "scenario": "a", "median_steps_sure": None}
    for agent in ("perseus", "atpo")
]
MANIFEST = {"format": 2, "experiment": "evaluate", "settings": {"seed": 1}, "parts": {}, "tables": {}}
GAME = '{"library": "tigers.toml", "seed": 1, "game": "GAME", "action": 0, "reveal": true}'


class Kind(NamedTuple):
    """One kind of input: right ones, the words of its language, and what reads a file of it in a directory."""

    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...]
    reader: Callable[[Path], Callable[[Path], object]]


def _cassandra(_: Path) -> Callable[[Path], object]:
    from jatpo.files import read_pomdp

    return read_pomdp


def _policy(_: Path) -> Callable[[Path], object]:
    from jatpo.files import read_policy

    return read_policy


def _library(folder: Path) -> Callable[[Path], object]:
    from jatpo.files import load

    (folder / "sharp.POMDP").write_text(TIGER)
    (folder / "two.alpha").write_text("0\n1 2\n")
    return load


def _histories(_: Path) -> Callable[[Path], object]:
    from jatpo.learn.jsonl import read_histories

    return lambda path: read_histories(path, ["left", "right"], ["left", "right"])


def _study(folder: Path) -> Callable[[Path], object]:
    from jatpo.cli.experiments import registered
    from jatpo.evaluate.study_file import read_study

    registered()
    (folder / "tigers.toml").write_text(LIBRARY)
    return read_study


def _manifest(folder: Path) -> Callable[[Path], object]:
    """The manifest of a directory of results, opened for more results and for figures."""
    from jatpo.errors import JatpoError
    from jatpo.evaluate.results_store import Store, place_for
    from jatpo.report import results

    place = folder / "manifest"
    place.mkdir()

    def read(path: Path) -> None:
        path.replace(place / "manifest.json")
        place_for(place, "evaluate", {"seed": 1})
        with contextlib.suppress(JatpoError):
            results.load(place)
        store = Store(place, "evaluate", {"seed": 1})
        store.read_table("summary")

    def cleaned(path: Path) -> None:
        try:
            read(path)
        finally:
            for aside in place.glob("*.damaged"):
                aside.unlink()

    return cleaned


def _tables(folder: Path) -> Callable[[Path], object]:
    """Tables with right digests and any content, as `jatpo plot` reads them."""
    from jatpo.cli import plot
    from jatpo.disk import digest_json, sealed
    from jatpo.evaluate.results_store import identity_of
    from jatpo.report import results
    from jatpo.report.figures import FIGURES

    names = list(FIGURES)
    place = folder / "tables"
    place.mkdir()
    identity = identity_of("evaluate", {})

    def read(path: Path) -> None:
        data = path.read_bytes()
        try:
            rows = json.loads(data)
            known = digest_json(rows)
        except (ValueError, RecursionError):
            known = ""
        tables = {name: [known] for name in results.TABLES}
        (place / "manifest.json").write_text(json.dumps(sealed({**identity, "tables": tables})))
        for name in tables:
            (place / f"{name}.json").write_bytes(data)
        found = results.load(place)
        plot.drawn(names[len(data) % len(names)], found, place)

    return read


def _page(folder: Path) -> Callable[[Path], object]:
    from jatpo.report import beyond_tables

    return lambda path: beyond_tables.write_page(path, {"beyond": ROWS})


def _request(folder: Path) -> Callable[[Path], object]:
    """A request to `jatpo serve`, with a game that is under way."""
    from jatpo.evaluate.solved import SolveOptions
    from jatpo.report.local_games import LocalGames
    from jatpo.report.local_server import Handler

    for name in ("sharp", "deaf"):
        (folder / f"{name}.POMDP").write_text(TIGER)
    library = folder / "tigers.toml"
    library.write_text(LIBRARY)
    games = LocalGames([str(library)], "as_run", SolveOptions(directory=folder / "solutions"))
    game = games.new({"library": str(library), "seed": 0})["game"]
    server = SimpleNamespace(
        hosts={"127.0.0.1:80"}, names=[str(library)], agents=["atpo"], show=_no_page, games=games
    )
    server.busy = threading.Lock()
    changes = ((b"GAME", str(game).encode()), (b"tigers.toml", str(library).encode()))

    def read(path: Path) -> None:
        data = path.read_bytes()
        for old, new in changes:
            data = data.replace(old, new)
        Handler(Connection(data), ("127.0.0.1", 1), server)  # type: ignore[arg-type]

    return read


def _no_page(fields: object) -> str:
    from jatpo.evaluate.agents.catalogue import choose_agents
    from jatpo.report.local_games import _whole

    choose_agents([fields.get("agent", "atpo")])  # type: ignore[attr-defined]
    return str(_whole("seed", fields.get("seed", "0")))  # type: ignore[attr-defined]


class Connection:
    """What a request handler takes for a socket: a text that was sent, and a place for the answer."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def makefile(self, *_: object, **__: object) -> io.BytesIO:
        """What was sent."""
        return io.BytesIO(self._sent)

    def sendall(self, data: bytes) -> None:
        """Drop the answer."""

    def settimeout(self, seconds: float | None) -> None:
        """There is nothing to wait for."""


def _peer(_: Path) -> Callable[[Path], object]:
    """What other solvers print."""
    from jatpo.bench.peers import read_pomdpsol, read_scikit_decide

    def read(path: Path) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        (read_scikit_decide if "bounds" in text else read_pomdpsol)(text)

    return read


def _option(_: Path) -> Callable[[Path], object]:
    """Texts on the command line that have a form of their own: sources, lists of numbers, settings, beliefs."""
    from jatpo import domains
    from jatpo.beliefs.named_belief import representation
    from jatpo.evaluate import option_fields
    from jatpo.files.sources import check_source
    from jatpo.solve.stopping import parse_settings

    readers = {
        "source": check_source,
        "domain": domains.parse,
        "sizes": option_fields.integers,
        "shares": option_fields.numbers,
        "set": lambda text: parse_settings([text]),
        "belief": representation,
    }

    def read(path: Path) -> None:
        kind, _, text = path.read_bytes().decode("utf-8", "replace").partition(" ")
        readers.get(kind, check_source)(text)

    return read


def _words(text: str, between: str = " ") -> tuple[bytes, ...]:
    return tuple(word.encode("utf-8", "replace") for word in text.split(between))


KINDS = {
    "POMDP": Kind(
        (TIGER.encode(), *((DATA / name).read_bytes() for name in MODELS)),
        _words(
            "T : O R * uniform identity reset start: include exclude states: discount: values: cost reward 0.5 1 -1 "
            "1e999 nan 99999999999 left listen # \x00 é + - 1_0 0x1 \n"
        ),
        _cassandra,
    ),
    "alpha": Kind(
        (b"0\n1 2\n\n1\n3 -4.5e3\n", (DATA / "tiger.alpha").read_bytes()),
        _words("0 1 2 -1 1e999 nan 99999999999999999999 \n \n\n listen x"),
        _policy,
    ),
    "policy": Kind(
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<Policy version="0.1" type="value">\n<AlphaVector '
            b'vectorLength="2" numObsValue="1" numVectors="2">\n<Vector action="0" obsValue="0">9.5 -1 </Vector>\n'
            b'<SparseVector action="1" obsValue="0"><Entry>1 2.5</Entry></SparseVector>\n</AlphaVector>\n</Policy>\n',
            (DATA / "tiger.policy").read_bytes(),
        ),
        _words(
            '<Policy </Policy> <AlphaVector vectorLength="2" numVectors="1" > <Vector action="0" obsValue="0"> '
            '</Vector> <SparseVector <Entry> </Entry> 0 1 2.5 -1 1e999 & &lt; <!DOCTYPE <?xml encoding="utf-16" ?> '
            'vectorLength="99999999"'
        ),
        _policy,
    ),
    "toml": Kind(
        (
            LIBRARY.encode(),
            b'prior = [0.5, 0.5]\nmatch = "name"\n[[model]]\nfile = "sharp.POMDP"\npolicy = "two.alpha"\nlabel = "a"\n'
            b'[[model]]\nfile = "sharp.POMDP"\n',
        ),
        _words(
            'name = "x" [[model]] file = "sharp.POMDP" domain = "gridworld" model = 0 [ ] { } prior = 0.5 nan inf '
            "1e400 9999999999999999999999 horizon = overrides = { width = 3 } self = noise = 2 \n \n ' \" . , policy = "
            'match = "two.alpha" label = rules = beliefs = tolerance ='
        ),
        _library,
    ),
    "jsonl": Kind(
        (HISTORIES.encode(),),
        _words('{ } [ ] "actions" : "observations" "left" , \\ud800 \n ' + NUMBERS),
        _histories,
    ),
    "study": Kind(
        (STUDY.encode(), STUDY.replace('"evaluate"', '"misspecified"').encode() + b"factors = [0.5, 2]\n"),
        _words(
            'name = "x" [[experiments]] "evaluate" "identification" "library-scaling" sizes = [2, 4] factors = [ ] { } '
            'libraries = ["tigers.toml"] agents = ["atpo"] seeds = [0, 1] trials = rules = "as_run" preset = [solve] '
            "seconds = gap = stages = solver = settings = { capacity = 9 } nan 1e400 9999999999999999999999 \n \n ' , ."
        ),
        _study,
    ),
    "manifest": Kind(
        (json.dumps(sealed(MANIFEST)).encode(), json.dumps(MANIFEST).encode()),
        _words('{ } [ ] "format" : "tables" "parts" "agents" "digest" "settings" , "summary" ' + NUMBERS),
        _manifest,
    ),
    "tables": Kind(
        (json.dumps(ROWS).encode(),),
        _words(
            '{ } [ ] null, {}, [], 1e999, "x", -1, "mean" : "domain" "agent" "low" "rules" "trials" , "ntu" '
            + NUMBERS
        ),
        _tables,
    ),
    "page": Kind(
        (
            b"# Beyond\n\n<!-- beyond: returns -->\n<!-- end -->\n\n<!-- beyond: discounted -->\n<!-- end -->\n"
            b"<!-- beyond: times -->\n<!-- end -->\n",
        ),
        _words("<!-- beyond: returns --> <!-- end --> discounted times joint \n \xe9 # |"),
        _page,
    ),
    "request": Kind(
        (
            b"GET /watch?library=tigers.toml&agent=atpo&seed=3 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\nGET /serve.css HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
            b"POST /play/act HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(GAME)).encode()
            + b"\r\n\r\n"
            + GAME.encode(),
            b"POST /play/act HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Type: application/json\r\nContent-Length: 9000"
            b"\r\n\r\n" + GAME.encode(),
        ),
        _words(
            "GET POST HEAD / /watch /play /play/new /play/act ? & = %00 %FF library seed agent HTTP/1.1 HTTP/0.9 "
            "HTTP/2.0 Host: 127.0.0.1:80 Content-Length: Content-Type: application/json Origin: Expect: 100-continue "
            '\r\n \r\n\r\n { } [ "action" "game" "seed" : ' + NUMBERS
        ),
        _request,
    ),
    "peer": Kind(
        (
            b"Loading\n Time   |#Trial |#Backup |LBound    |UBound    |Precision  |#Alphas |#Beliefs\n-----\n"
            b" 0.1 0 0 -20 92.8 112.8 3 1\n 0.5 5 50 16.3 25.6 9.2 7 13\n------\n",
            b"something\nbounds 0.1 -20 92.8\nbounds 0.5 1 2\n",
        ),
        _words("bounds Time #Trial --- | \n 0.1 -20 1e5 " + NUMBERS),
        _peer,
    ),
    "option": Kind(
        (
            b"source gridworld:2,size=4",
            b"domain gridworld:size=16,noise=0.1",
            b"sizes 2-5,9",
            b"shares 0.5,2",
            b"set capacity=16384",
            b"belief support=64",
        ),
        _words(
            "source domain sizes shares set belief gridworld : , = - size noise support compacting dense true "
            + NUMBERS
        ),
        _option,
    ),
}
