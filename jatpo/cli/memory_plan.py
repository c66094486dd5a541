"""`jatpo plan`: what a library takes of memory before anything is solved, whether that fits, and what to change."""

from __future__ import annotations

from typing import Annotated

import typer

from jatpo.cli.options import Rules
from jatpo.cli.output import TEXT, Form, exports
from jatpo.cli.solving import DEFAULTS, SOLVER_OPTIONS, Solving, solves
from jatpo.tables import Table

TITLES = {"models": "the models", "solve": "to solve a model", "play": "to play trials"}


def plan(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A domain, a file or a library.")],
    rules: Rules = "as_run",
    vectors: Annotated[int, typer.Option(min=1, help="Alpha vectors of each model's policy.")] = 256,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Devices to play on; default: those of this machine.")
    ] = None,
    belief: Annotated[
        str, typer.Option(help="How agents hold beliefs: dense, scaled, support=N or compacting=N.")
    ] = "dense",
    solving: Solving = DEFAULTS,
    form: Form = TEXT,
) -> None:
    """Show the memory that models, belief points, vectors and trials need; exit with 2 if they do not fit."""
    import jax

    from jatpo import beliefs, memory
    from jatpo.evaluate import footprint
    from jatpo.files import load_tables
    from jatpo.solve.defaults import choose_for

    library = load_tables(name, rules=rules)
    choice = choose_for(library, solving.request())
    number = jax.local_device_count() if devices is None else devices
    parts = footprint.footprint(library, choice.solver, vectors, number, beliefs.representation(belief))
    free, needed = memory.free_bytes(), footprint.stage_bytes(parts)
    rows: list[tuple[str, str, int | None, str | None]] = [
        (TITLES[part.stage], part.name, part.number, memory.readable(part.nbytes)) for part in parts
    ]
    if not any(part.stage == "solve" for part in parts):
        rows.append((TITLES["solve"], f"solver '{choice.solver.name}' grows with what it visits", None, None))
    rows += [(f"at once {TITLES[stage]}", "", None, memory.readable(size)) for stage, size in needed.items()]
    title = f"{library.name}: {library.num_models} models, {library.num_states} states, solver {choice.solver.name}"
    table = Table.of(("for", "what", "number", "bytes"), rows, title)
    if form.chosen:
        facts = [{"stage": p.stage, "what": p.name, "number": p.number, "bytes": p.nbytes} for p in parts]
        form.write([table], {"name": library.name, "parts": facts, "needed": needed, "free": free})
    else:
        print(table)
        print(f"\n{memory.readable(free)} of memory are free.")
    footprint.check(parts, f"'{library.name}'", free)


plan = exports(solves(plan, SOLVER_OPTIONS))
