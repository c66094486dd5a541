"""Tables in a real pseudo-terminal: at four widths, with and without colour, in three encodings."""

import random
import re
import string

import pytest

from jatpo.screen import cells, readable
from jatpo.table_layout import Cells, fit, plain
from jatpo.tables import Table, distinct_endings
from pseudo_terminal import screen_of, without_escapes

WIDTHS = (60, 80, 100, 120)
MARK = "=== "
PROGRAM = f"""
import fcntl, struct, sys, termios
from jatpo.screen import never_fail
from jatpo.tables import Column, Table
never_fail(sys.stdout)
rows = [
    {{"domain": f"domain-{{n}}", "states": 62600 + n, "noise": 0.15, "mean ± std": f"{{n}}.25 ± 0.75",
      "interval": f"-{{n}}.125 .. +{{n}}.375", "discount": 0.95, "seconds": 1234.5, "vectors": 4096 + n,
      "what": "two agents that block each other reach two exits — naïvely … of a maze 漢字"}}
    for n in range(1, 13)
]
columns = ["domain", "states", "noise", "mean ± std", "interval", Column("discount", short="disc.", optional=True),
           Column("seconds", optional=True), "vectors", Column("what", optional=True)]
for width in {WIDTHS}:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    for count in (3, 12):
        print("{MARK}" + str(width), count)
        print(Table(rows[:count], columns, title="Domains — all"))
"""


def parts_of(text):
    for part in text.split(MARK)[1:]:
        head, _, body = part.partition("\n")
        width, count = map(int, head.split())
        yield width, count, body.rstrip("\n").split("\n")


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "plain"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_no_number_is_cut_and_no_column_is_missing_in_silence(encoding, colour):
    text, code = screen_of(["-c", PROGRAM], 80, encoding=encoding, colour=colour)
    assert code == 0, text
    assert ("\x1b[" in text) == colour
    seen = list(parts_of(without_escapes(text)))
    assert [(width, count) for width, count, _ in seen] == [(w, c) for w in WIDTHS for c in (3, 12)]
    for width, count, lines in seen:
        assert max(map(cells, lines)) <= width
        tokens = " ".join(lines).split()
        missing = " ".join(lines).partition("left out to fit")[2]
        for number in range(1, count + 1):
            for token in (f"domain-{number}", str(62600 + number), str(4096 + number), f"-{number}.125"):
                assert tokens.count(token) == 1, (width, token)
            assert f"{number}.25" in tokens
        for column, token in {"discount": "0.95", "seconds": "1234", "noise": "0.15"}.items():
            short = {"discount": "disc."}.get(column, column)
            assert tokens.count(token) == (0 if short in missing else count), (width, column)
        assert "0.75" in tokens and ("±" in tokens if encoding != "ascii" else "+/-" in tokens)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_domains_shows_its_numbers(width):
    text, code = screen_of(["-m", "jatpo", "domains"], width, encoding="latin-1")
    lines = without_escapes(text).splitlines()
    assert code == 0 and len(lines) < 60
    noise = next(line for line in lines if line.startswith("pursuit-both")).split()
    assert "0.15" in noise and "626" in noise
    assert max(map(len, lines)) <= width


def random_table(seed):
    chance = random.Random(seed)
    columns = chance.randint(1, 9)

    def word():
        return "".join(chance.choices(string.ascii_letters, k=chance.randint(1, 14)))

    def cell(kind):
        if kind == "number":
            return f"{chance.uniform(-1e4, 1e4):.{chance.randint(0, 4)}f}"
        return " ".join(word() for _ in range(chance.randint(0, 12)))

    kinds = [chance.choice(["number", "text"]) for _ in range(columns)]
    lines = [[cell(kind) for kind in kinds] for _ in range(chance.randint(0, 20))]
    headers = [f"{word()} {number}" for number in range(columns)]
    return Cells(headers, headers, lines, [kind == "number" for kind in kinds], [False] * columns)


@pytest.mark.parametrize("seed", range(40))
def test_every_word_of_a_random_table_is_there(seed):
    """Without optional columns nothing is left out, at any width that holds the longest word of text."""
    table = random_table(seed)
    words = sorted(word for line in table.lines for text in line for word in text.split())
    for width in (*WIDTHS, 500):
        lines = fit(table, width)
        shown = sorted(" ".join(lines).split())
        assert all(shown.count(word) >= words.count(word) for word in words)
        first = max((len(line[0]) for line in table.lines), default=0)
        heads = max(map(len, table.headers))
        if first + heads + 2 <= width:
            assert max(map(len, lines), default=0) <= width
    assert [line.split() for line in plain(table)[1:]] == [" ".join(line).split() for line in table.lines]


@pytest.mark.parametrize(
    ("text", "ascii_text"),
    [("10 ± 2", "10 +/- 2"), ("naïve…", "naive..."), ("漢", "?"), ("a → b", "a -> b"), ("x", "x")],
)
def test_letters_that_an_encoding_lacks_are_replaced(text, ascii_text):
    class Stream:
        encoding = "ascii"

    assert readable(text, Stream()) == ascii_text
    Stream.encoding = "utf-8"
    assert readable(text, Stream()) == text
    Stream.encoding = "no such encoding"
    assert readable(text, Stream()).isascii()


def test_columns_take_two_places_for_wide_letters():
    table = Cells(["name", "n"], ["name", "n"], [["漢字", "1"], ["ab", "22"]], [False, True], [False, False])
    assert [cells(line) for line in plain(table)] == [8, 8, 8]


def test_left_out_columns_are_the_last_optional_ones():
    rows = [[f"name{n}", "1" * 20, "2" * 20, "3" * 20] for n in range(30)]
    headers = ["name", "first", "second", "third"]
    table = Cells(headers, headers, rows, [False, True, True, True], [False, True, False, True])
    shown = fit(table, 60)
    assert re.search(r"left out to fit 60 columns: third$", shown[-1])
    assert all("2" * 20 in line and "1" * 20 in line for line in shown[1:-1])


def test_rows_of_one_group_stand_under_a_heading():
    """Where that is what makes them fit: no column is left out, and the name is said once."""
    rows = [[f"a-domain-of-a-long-name-{n // 3}", f"agent{n}", "1" * 20, "2" * 20] for n in range(6)]
    headers = ["domain", "agent", "first", "second"]
    table = Cells(headers, headers, rows, [False, False, True, True], [False, False, False, True])
    assert fit(table, 100) == plain(table)
    shown = fit(table, 60)
    assert shown[0].split() == ["agent", "first", "second"] and max(map(len, shown)) <= 60
    assert shown[1] == "domain: a-domain-of-a-long-name-0" and shown[5] == "domain: a-domain-of-a-long-name-1"
    assert [line.split()[0] for line in (*shown[2:5], *shown[6:])] == [f"agent{n}" for n in range(6)]


def test_short_headers_are_taken_where_fewer_lines_fold():
    rows = [["name", "1", "a text of several words that folds"] for _ in range(3)]
    headers, short = ["name", "observations", "what"], ["name", "obs", "what"]
    table = Cells(headers, short, rows, [False, True, False], [False] * 3)
    assert fit(table, 60)[0].split() == headers
    shown = fit(table, 46)
    assert shown[0].split() == short and len(shown) == 4 and max(map(len, shown)) <= 46


def test_paths_are_shown_by_their_shortest_distinct_endings():
    names = ["gridworld:2", "far/away/tiger.POMDP", "far/off/tiger.POMDP", "team/", "tiger.POMDP"]
    shown = distinct_endings(names)
    assert list(shown.values()) == [
        "gridworld:2",
        "away/tiger.POMDP",
        "off/tiger.POMDP",
        "team",
        "tiger.POMDP",
    ]
    assert list(distinct_endings(["team", "team/", "/"]).values()) == ["team", "team/", "/"]
    assert distinct_endings(["a/b/tiger.POMDP"]) == {"a/b/tiger.POMDP": "tiger.POMDP"}
    table = Table([{"domain": "a/b/tiger.POMDP", "path": "a/b/tiger.POMDP"}])
    assert repr(table).split()[2:] == ["tiger.POMDP", "a/b/tiger.POMDP"]
    assert "a/b/tiger.POMDP,a/b" in table.to_csv() and '"domain": "a/b/tiger.POMDP"' in table.to_json()


def test_an_error_folds_between_words_on_a_terminal():
    text, code = screen_of(["-m", "jatpo", "solve", "gridwrold", "--rules", "as_run"], 60, colour=False)
    assert code == 2 and max(map(len, text.splitlines())) <= 60
    assert "gridworld" in text and " ".join(text.split()).startswith("jatpo: no domain or file is called")
