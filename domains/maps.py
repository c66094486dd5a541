"""The maps of the paper's mazes as text: `#` blocked, `.` open, `S` start, `G` goal. Row 0 is the top."""

from __future__ import annotations

from jatpo import memory

PAIR_BYTES = 2000  # that a state, a pair of cells, takes while a model is built
NTU = """
###S##
#G..G#
S.##.#
#.##.S
#G..G#
##S###
"""

ISR = """
#.#S#.#.#
.....G...
#.#####.#
..#####.S
#.#####.#
S.#####..
#.#G###.#
G........
##..#.#.#
##.S#####
"""

MIT = """
##S#.#.#####.#G##
#...............#
S.#.###.##.####.G
#...............#
##S#.#.#####.#G##
"""

PENTAGON = """
#S.......S#
#.###.###.#
#.###.###.#
#.##...G#.#
#....#....G
#.##...##.#
#.###.###.#
#.###..##.#
G.........#
"""

CIT = """
###..........#
####.#######.#
####...####..#
.###.#.......#
.....#.###G#.#
.#####..G###.#
.######.####.#
.#####.......G
.#####.###.###
.###.......###
.....#####S###
S###S#########
"""


def open_map(width: int, height: int) -> str:
    """A map without walls."""
    cells = width * height
    memory.require(cells**2 * PAIR_BYTES, f"a grid of {width} x {height} cells", "make it smaller")
    return "\n".join(["." * width] * height)


def scaled_map(text: str, size: int) -> str:
    """The map with `size` x `size` cells for each of its cells; a mark (G, S) stays in the middle one, up and left."""
    rows = [row.strip() for row in text.strip().splitlines()]
    middle = (size - 1) // 2
    open_cells = sum(len(row) - row.count("#") for row in rows) * size**2
    memory.require(open_cells**2 * PAIR_BYTES, f"a maze of {open_cells} cells", "make it smaller")

    def line(row: str, inner: int) -> str:
        return "".join(
            mark if mark in "#." or inner == column == middle else "."
            for mark in row
            for column in range(size)
        )

    return "\n".join(line(row, inner) for row in rows for inner in range(size))
