"""`jatpo plot`: the figures of a directory of results as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jatpo.errors import JatpoError, unknown

if TYPE_CHECKING:
    from jatpo.report.panels import Figure
    from jatpo.report.results import Results

FORMATS = ("svg", "pdf", "png")
PAPER = "#ffffff"


def plot(
    directory: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="A directory that reproduce, evaluate or experiment wrote."),
    ],
    figure: Annotated[
        str | None, typer.Option(help="Only this figure: table, returns, relative, differences, ...")
    ] = None,
    format: Annotated[str, typer.Option(help="svg, pdf or png.")] = "svg",
    out: Annotated[Path | None, typer.Option(help="Where to write; default: RESULTS/figures.")] = None,
    transparent: Annotated[
        bool, typer.Option("--transparent", help="Make the background transparent; default: white.")
    ] = False,
) -> None:
    """Draw the figures of a run again, from its tables."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)

    from jatpo.disk import write_whole
    from jatpo.report import style
    from jatpo.report.figures import FIGURES
    from jatpo.report.panels import assemble
    from jatpo.report.results import load

    if figure is not None and figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    results = load(directory)
    with style.styled():
        for name in [figure] if figure else FIGURES:
            made = drawn(name, results, directory)
            if made is None:
                if figure:
                    raise JatpoError(
                        f"{directory} has no data for the figure '{name}': leave out --figure to see which it has"
                    )
                continue
            path = (out or directory / "figures") / f"{name}.{format}"
            write_whole(path, style.to_bytes(assemble(made), format, "none" if transparent else PAPER))
            print(path)


def drawn(name: str, results: Results, directory: Path) -> Figure | None:
    """A figure, None without data for it; tables whose columns are not those it needs are refused."""
    from jatpo.report.figures import FIGURES

    try:
        return FIGURES[name](results)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise JatpoError(
            f"the figure '{name}' cannot be drawn from the tables in {directory} ({type(error).__name__}: {error}): "
            "run the command that made them again"
        ) from error
