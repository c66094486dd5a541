"""`jatpo convert`, `jatpo info`, `jatpo check`: models and policies in files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.output import TEXT, Form, exports
from jatpo.errors import JatpoError
from jatpo.screen import folded, visible
from jatpo.tables import Table

if TYPE_CHECKING:
    from jatpo.library import Library

SOURCE_HELP = (
    "A .POMDP file, a library (directory or TOML file), a domain, or a model of it such as gridworld:0."
)
RULES_HELP = "Rule set of a domain: as_run or as_written."


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A model file or a model such as gridworld:0; or a policy file."
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="The file to write: .POMDP for a model, .alpha or .policy for a policy."
        ),
    ],
    rules: Annotated[str, typer.Option(help=RULES_HELP)] = "as_run",
) -> None:
    """Write a model or a policy in another format, chosen by the suffix."""
    from jatpo.files import formats, read_policy

    if _is_policy(source):
        form, value = formats.find(target, "policy", write=True), read_policy(source)
        vectors, states = value.vectors.shape
        sizes = f"{vectors} vectors over {states} states"
    else:
        library = _load(source, rules)
        form, value = formats.find(target, "model", write=True), library.member(0)
        if library.num_models > 1:
            remedy = f"name one, such as {source}:0" if library.domain else "name one of its files"
            raise JatpoError(f"'{source}' has {library.num_models} models, but a file holds one: {remedy}")
        sizes = _sizes(value)
    assert form.write is not None  # of the formats that can be written
    form.write(value, target)
    print(f"{visible(str(target))}: {sizes}")


def _is_policy(source: str) -> bool:
    """Whether `source` is a policy file by its suffix."""
    from jatpo.files import formats, load  # noqa: F401 - imports the built-in formats

    return formats.holds(source) == "policy"


@exports
def info(
    source: Annotated[str, typer.Argument(metavar="FILE", help=SOURCE_HELP)],
    rules: Annotated[str, typer.Option(help=RULES_HELP)] = "as_run",
    form: Form = TEXT,
) -> None:
    """Show the sizes, sparsity, reach and memory of models, and warnings about them."""
    from jatpo.files.summary import summary

    library = _load(source, rules, quiet=form.chosen)
    models = [
        {"label": label, **summary(model)}
        for label, model in zip(library.labels, library.members, strict=True)
    ]
    table = Table([_brief(model) for model in models], title=f"{library.name}: {len(models)} models")
    if len(models) == 1:
        table = Table.of(("fact", "value"), list(_facts(models[0]).items()), library.name)
    if form.chosen:
        form.write([table], {"name": library.name, "notes": library.notes, "models": models})
        return
    print(table)
    for model in models:
        for warning in model["warnings"]:
            print(folded(visible(f"{model['label']}: {warning}")))


def check(
    source: Annotated[str, typer.Argument(metavar="FILE", help=SOURCE_HELP)],
    rules: Annotated[str, typer.Option(help=RULES_HELP)] = "as_run",
) -> None:
    """Validate models: print ok, or the first error with exit code 2."""
    if _is_policy(source):
        from jatpo.files import read_policy

        vectors, states = read_policy(source).vectors.shape
        print(f"ok: {vectors} vectors over {states} states")
        return
    library = _load(source, rules)
    for label, model in zip(library.labels, library.members, strict=True):
        print(f"ok: {visible(label)}, {_sizes(model)}")


def _load(source: str, rules: str, quiet: bool = False) -> Library:
    """The library of `source`, with its notes printed on standard error."""
    from jatpo.files import load_tables

    library = load_tables(source, rules=rules)
    if not quiet:
        for note in library.notes:
            print(folded(f"jatpo: note: {visible(note)}", sys.stderr), file=sys.stderr)
    return library


def _sizes(model: Any) -> str:
    return f"{model.num_states} states, {model.num_actions} actions, {model.num_observations} observations"


def _facts(model: dict[str, Any]) -> dict[str, Any]:
    """The facts of one model in words."""
    from jatpo.memory import readable

    blocked = "too large to build" if model["blocked_bytes"] is None else readable(model["blocked_bytes"])
    density = f"{model['transition_entries']} non-zeros, {100 * model['transition_density']:.3g} % of all"
    seen = f"{model['observation_entries']} non-zeros, {100 * model['observation_density']:.3g} % of all"
    return {
        "states": model["states"],
        "actions": model["actions"],
        "observations": model["observations"],
        "discount": model["discount"],
        "transition": f"{density}, at most {model['most_successors']} successors",
        "observation": seen,
        "observation classes": model["observation_classes"],
        "start states": model["start_states"],
        "reachable states": model["reachable_states"],
        "absorbing states": model["absorbing_states"],
        "reward": f"{model['reward_least']:g} to {model['reward_most']:g}",
        "storage": model["storage"],
        "dense memory": readable(model["dense_bytes"]),
        "blocked memory": blocked,
    }


def _brief(model: dict[str, Any]) -> dict[str, Any]:
    """One line of a library."""
    from jatpo.memory import readable

    columns = (
        "label",
        "states",
        "actions",
        "observations",
        "discount",
        "observation_classes",
        "reachable_states",
    )
    brief = {column.replace("_", " "): model[column] for column in columns}
    blocked = model["blocked_bytes"]
    return {
        **brief,
        "dense": readable(model["dense_bytes"]),
        "blocked": None if blocked is None else readable(blocked),
    }
