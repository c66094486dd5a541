"""`jatpo convert`, `jatpo info`, `jatpo check`: models and policies in files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.output import print_json, print_table
from jatpo.errors import JatpoError

if TYPE_CHECKING:
    from jatpo.files.library import UserLibrary

SOURCE_HELP = (
    "A .POMDP file, a library (directory or TOML file), a domain, or a model of it such as gridworld:0."
)
RULES_HELP = "Rule set of a domain: as_run or as_written."
POLICIES = (".alpha", ".policy", ".policyx")


def convert(
    source: Annotated[
        str, typer.Argument(help="A .POMDP file or a model such as gridworld:0; or a policy file.")
    ],
    target: Annotated[
        Path, typer.Argument(help="The file to write: .POMDP, or .alpha or .policy for a policy.")
    ],
    rules: Annotated[str, typer.Option(help=RULES_HELP)] = "as_run",
) -> None:
    """Write a model or a policy in another format; the suffixes say which."""
    if Path(source).suffix.lower() in POLICIES:
        _convert_policy(source, target)
        return
    from jatpo.files import write_pomdp

    if target.suffix.lower() != ".pomdp":
        raise JatpoError(f"a model cannot be written as '{target.name}': give the target the suffix .POMDP")
    library = _resolve(source, rules)
    if library.num_models > 1:
        remedy = f"name one, such as {source}:0" if library.domain else "name one of its files"
        raise JatpoError(f"'{source}' has {library.num_models} models and a file holds one: {remedy}")
    write_pomdp(library.models[0], target)
    print(f"{target}: {_sizes(library.models[0])}")


def _convert_policy(source: str, target: Path) -> None:
    from jatpo.files import read_policy, write_policy

    if target.suffix.lower() not in POLICIES:
        raise JatpoError(f"a policy cannot be written as '{target.name}': use the suffix .alpha or .policy")
    policy = read_policy(source)
    write_policy(policy, target)
    vectors, states = policy.vectors.shape
    print(f"{target}: {vectors} vectors over {states} states")


def info(
    source: Annotated[str, typer.Argument(metavar="FILE", help=SOURCE_HELP)],
    rules: Annotated[str, typer.Option(help=RULES_HELP)] = "as_run",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the sizes, sparsity, reach and memory of models, and what looks odd about them."""
    from jatpo.files.summary import summary

    library = _resolve(source, rules, quiet=json)
    models = [
        {"label": label, **summary(model)}
        for label, model in zip(library.labels, library.models, strict=True)
    ]
    if json:
        print_json({"name": library.name, "notes": library.notes, "models": models})
    elif len(models) == 1:
        print_table(("fact", "value"), list(_facts(models[0]).items()), title=library.name)
    else:
        rows = [list(_brief(model).values()) for model in models]
        print_table(list(_brief(models[0])), rows, title=f"{library.name}: {len(models)} models")
    if not json:
        for model in models:
            for warning in model["warnings"]:
                print(f"{model['label']}: {warning}")


def check(
    source: Annotated[str, typer.Argument(metavar="FILE", help=SOURCE_HELP)],
    rules: Annotated[str, typer.Option(help=RULES_HELP)] = "as_run",
) -> None:
    """Say whether models are right: ok, or the first thing that is wrong and exit code 2."""
    if Path(source).suffix.lower() in POLICIES:
        from jatpo.files import read_policy

        vectors, states = read_policy(source).vectors.shape
        print(f"ok: {vectors} vectors over {states} states")
        return
    library = _resolve(source, rules)
    for label, model in zip(library.labels, library.models, strict=True):
        print(f"ok: {label}, {_sizes(model)}")


def _resolve(source: str, rules: str, quiet: bool = False) -> UserLibrary:
    """The library of `source`, with its notes printed on standard error."""
    from jatpo.files import resolve

    library = resolve(source, rules)
    if not quiet:
        for note in library.notes:
            print(f"jatpo: note: {note}", file=sys.stderr)
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
