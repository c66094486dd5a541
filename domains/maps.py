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
