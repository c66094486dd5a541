"""`jatpo run`: a whole study, described in one TOML file, with one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jatpo.cli.options import Quiet
from jatpo.cli.output import TEXT, Form, exports


@exports
def run(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY.toml", help="Libraries, agents, trials, seeds, experiments.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for results and report; the same command resumes there; default: results/NAME."
        ),
    ] = None,
    form: Form = TEXT,
    quiet: Quiet = False,
) -> None:
    """Run a study from a file: every experiment with every seed, and one report of all.

    The file is described in docs/study.md.
    """
    from jatpo.cli.experiments import registered
    from jatpo.cli.progress import Steps
    from jatpo.evaluate.study_file import read_study, run_study
    from jatpo.report import study_page

    registered()
    found = read_study(study)
    directory = out or Path("results") / "".join(c if c.isalnum() or c in "-_." else "-" for c in found.name)
    with Steps(found.name, quiet) as progress:
        finished = run_study(found, directory, progress)
    report = study_page.write(directory, found, finished)
    if form.chosen:
        raw = [each.tables[name] for each in finished for name in each.part.experiment.main()]
        rows = [
            {"experiment": each.part.label, "seed": each.seed, "tables": dict(each.tables)}
            for each in finished
        ]
        data = [{**row, "tables": {name: t.rows for name, t in row["tables"].items()}} for row in rows]
        form.write([table for each in finished for table in each.shown], data, raw)
        return
    for each in finished:
        print(f"{each.part.label}, seed {each.seed}\n")
        print("\n\n".join(map(str, each.shown)), end="\n\n")
    print(f"The report is {report}; open it in a browser.")
