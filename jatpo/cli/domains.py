"""`jatpo domains`: the list of domains, one domain in detail, how its models differ, exact returns.

Everything here is NumPy; jax is not imported.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jatpo.cli.options import domain_names
from jatpo.cli.output import TEXT, Form, exports
from jatpo.errors import JatpoError, unknown
from jatpo.registry import set_aside_broken
from jatpo.screen import folded
from jatpo.tables import Column, Table

if TYPE_CHECKING:
    from jatpo.domains.compare import Comparison, Rows
    from jatpo.domains.domain import Domain
    from jatpo.domains.parameters import Parameter
    from jatpo.domains.scene import Scene

COMPARE_NOTES = """
teammate: states in which it acts differently; rewards: states; dynamics, sensors: rows (action, state)
max: largest total variation (rewards: largest difference)
evidence: whether any history distinguishes the two models; never: none does, or their states only have other numbers; \
unknown: none of those that were compared does, and the models are too large to compare all
"""


@exports
def domains(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A domain to show, as in gridworld or gridworld:size=7; default: a list of all.",
            autocompletion=domain_names,
        ),
    ] = None,
    rules: Annotated[
        str,
        typer.Option(help="as_run (the rules behind the published tables) or as_written (the paper's text)."),
    ] = "as_run",
    model: Annotated[int | None, typer.Option(help="Only this model; default: all models.")] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="All models of the pool; default: those of the paper's main table.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Show what differs between every two models, and which coincide."),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Show the exact expected returns of the value-iteration and random agents."
        ),
    ] = False,
    form: Form = TEXT,
) -> None:
    """List the domains, or show one: its map, its models, its rules."""
    from jatpo.domains.domain import get
    from jatpo.domains.parameters import RULES, parse

    if rules not in RULES:
        raise unknown("rule set", rules, RULES)
    if name is None:
        asked = {"--compare": compare, "--exact": exact, "--pool": pool, "--model": model is not None}
        for option in (option for option, given in asked.items() if given):
            raise JatpoError(f"{option} needs a domain: name one, as in 'jatpo domains gridworld {option}'")
        _list(rules, form)
        return
    if compare and exact:
        raise JatpoError("--compare and --exact are two views: choose one of them")
    if _show_simulators(name, form):
        return
    name, number, parameters = parse(name)
    domain, model = get(name), number if model is None else model
    domain = domain.changed(**parameters) if parameters else domain
    view = _compare if compare else _exact if exact else _show
    view(domain, rules, _chosen(domain, rules, model, pool), form)


def _chosen(domain: Domain, rules: str, model: int | None, pool: bool) -> list[int]:
    """The models a view is about."""
    count = len(domain.labels(rules))
    if model is None:
        return list(range(count if pool else min(count, domain.models)))
    if not 0 <= model < count:
        raise JatpoError(f"domain '{domain.name}' has no model {model}; choose from 0 to {count - 1}")
    return [model]


# The list


def _list(rules: str, form: Form) -> None:
    from jatpo.domains.domain import get, known, names

    broken = set_aside_broken()
    rows = []
    for name in names():
        try:
            rows.append(_facts(get(name), rules))
        except JatpoError as error:
            broken.append(f"domain '{name}': {error}")
        except Exception as error:  # the code of a user's domain
            broken.append(f"domain '{name}' fails with {type(error).__name__}: {error}")
    for text in broken:
        print(f"jatpo: note: {text}", file=sys.stderr)
    listed = [
        {**row, "states": ", ".join(map(str, sorted(set(row["states"]), reverse=True)))} for row in rows
    ]
    shown = [
        Column("name", "domain"),
        "models",
        Column("pool", optional=True),
        "states",
        Column("actions", short="act."),
        Column("observations", short="obs."),
        "noise",
        Column("horizon", optional=True),
        Column("discount", optional=True),
        Column("summary", "what", optional=True),
    ]
    table = Table(listed, shown, f"Domains under the rules {rules}")
    if form.chosen:
        form.write([table], rows)
        return
    print(table)
    others = ", ".join(name for name in known() if name not in names())
    print(folded("\n'jatpo domains NAME' shows one of them; rule sets: as_run, as_written (--rules)."))
    print(folded(f"'all' does not include {others}."))
    print(folded("Libraries of simulators, such as torus-pursuit and foraging, are shown in the same way."))


def _show_simulators(text: str, form: Form) -> bool:
    """Show a library of simulators and its parameters, if `text` names one."""
    from jatpo.domains.domain import known

    if text.partition(":")[0] in known():
        return False
    from jatpo.files import load  # noqa: F401 - enters the built-in ones
    from jatpo.simulators.simulator_catalogue import SIMULATORS, build
    from jatpo.simulators.simulator_catalogue import known as simulated

    if not simulated(text):
        return False
    library, entered = build(text), SIMULATORS.get(text.partition(":")[0])
    table = Table.of(("parameter", "default"), list(entered.defaults.items()))
    if form.chosen:
        facts = {"name": library.name, "summary": entered.summary, "horizon": library.horizon}
        form.write([table], {**facts, "models": list(library.labels), "parameters": dict(entered.defaults)})
        return True
    print(folded(f"{library.name}: {entered.summary}\n"))
    print(f"models   {library.num_models}: {', '.join(library.labels)}")
    print(f"actions  {', '.join(library.names[0].actions or ()) or library.num_actions}")
    print(f"horizon  {library.horizon}\n\n{table}")
    print(folded("\n'jatpo evaluate', 'jatpo watch' and 'jatpo experiment simulators' run it."))
    return True


def _facts(domain: Domain, rules: str) -> dict[str, Any]:
    """The sizes and settings of a domain; `states` has one entry for each model of the main table."""
    labels = domain.labels(rules)
    sizes = [_sizes(domain, model, rules) for model in range(min(domain.models, len(labels)))]
    return {
        "name": domain.name,
        "summary": domain.summary,
        "rules": rules,
        "models": len(sizes),
        "pool": len(labels),
        "states": [size[0] for size in sizes],
        "actions": sizes[0][1],
        "observations": sizes[0][2],
        "noise": domain.noise,
        "horizon": domain.horizon,
        "beliefs": domain.beliefs,
        "tolerance": domain.tolerance,
        "discount": domain.discount(rules),
    }


def _sizes(domain: Domain, model: int, rules: str) -> tuple[int, int, int]:
    """States, actions, observations of a model, without planning for its teammate."""
    built = domain.structure(model, rules)
    process = getattr(built, "mmdp", built)  # a World keeps its states and actions there
    return len(process.states), len(process.actions), len(built.observations)


# One domain


def _show(domain: Domain, rules: str, models: list[int], form: Form) -> None:
    from jatpo.domains.compare import compare_all
    from jatpo.domains.scene import scene
    from jatpo.domains.text import render_text

    shown, labels = scene(domain, models[0], rules), domain.labels(rules)
    picture = render_text(shown, _example(shown))
    differs = _differing(compare_all([domain.description(k, rules) for k in models]))
    parameters = list(domain.parameters.values())
    models_table = Table.of(("model", "label"), [(k, labels[k]) for k in models], domain.name)
    if form.chosen:
        listed = [{"model": k, "label": labels[k], "states": _sizes(domain, k, rules)[0]} for k in models]
        settings = [part.to_json() for part in parameters]
        extra = {"map": picture, "models": listed, "differences": differs, "parameters": settings}
        form.write([models_table, *_rules_tables(parameters)], _facts(domain, rules) | extra)
        return
    print(folded(f"{domain.name}: {domain.summary}\n"))
    _print_picture(shown, picture, f"model {models[0]}, rules {rules}")
    print(f"{_variables(domain.structure(models[0], rules))}\n")
    print(replace(models_table, title=""))
    if len(labels) > len(models):
        print(f"{len(labels)} models are in the pool (--pool).")
    if len(models) > 1:
        words = ", ".join(differs) or "nothing: they coincide exactly"
        print(folded(f"\nThe models differ in {words} (--compare shows how much)."))
    if not any(part.differs for part in parameters):
        print("\nThe rule sets agree.")
    for table in _rules_tables(parameters):
        print(f"\n{table}")


def _example(shown: Scene) -> int | None:
    """A state to show where the empty stage is uninformative: one in the middle with all agents apart."""
    if shown.stage is None or shown.stage.fixed_goals:
        return None
    where = list(zip(*(part.tolist() for part in shown.stage.positions.values()), strict=True))
    apart = [x for x, spots in enumerate(where) if len(set(spots)) == len(spots) and min(spots) >= 0]
    return apart[len(apart) // 2] if apart else 0


def _print_picture(shown: Scene, picture: str, caption: str) -> None:
    from jatpo.domains.text import legend

    if shown.stage is None:
        states = ", ".join(shown.states[:8]) + (", ..." if len(shown.states) > 8 else "")
        print(f"{caption}: states {states}")
    else:
        print(f"{picture}\n\n" + folded(f"{legend(shown.stage)}   ({caption})"))


def _variables(built: Any) -> str:
    """The state variables of a world with the number of their values."""
    variables = getattr(built, "variables", {})
    listed = ", ".join(f"{name} ({len(values)})" for name, values in variables.items())
    return f"State variables (values): {listed}" if listed else ""


def _differing(pairs: list[Comparison]) -> list[str]:
    """What differs between some two models, in words."""
    words = {"teammate": "teammate", "reward": "rewards", "transition": "dynamics", "observation": "sensors"}
    found = ["state space"] if any(not pair.comparable for pair in pairs) else []
    for field, word in words.items():
        rows: list[Rows] = [part for pair in pairs if (part := getattr(pair, field)) is not None]
        found += [word] if any(row.differ for row in rows) else []
    return found + (["start"] if any(pair.start for pair in pairs) else [])


def _rules_tables(parameters: list[Parameter]) -> list[Table]:
    """The parameters in which the rule sets differ, then those they share; no table without rows."""
    differing = [
        (part.name, _brief(part.as_run), _brief(part.as_written), _meaning(part))
        for part in parameters
        if part.differs
    ]
    shared = [(part.name, _brief(part.as_run), _meaning(part)) for part in parameters if not part.differs]
    tables = [
        Table.of(("parameter", "as_run", "as_written", "meaning"), differing, "The rule sets differ in"),
        Table.of(("parameter", "value", "meaning"), shared, "Other parameters"),
    ]
    return [table for table in tables if len(table)]


def _meaning(part: Parameter) -> str:
    """The help with the words a value may be; a single one stands beside numbers."""
    if not part.choices:
        return part.help
    lead = "or " if len(part.choices) == 1 else ""
    return f"{part.help} ({lead}{', '.join(part.choices)})"


def _brief(value: Any) -> str:
    """A value in one line; a map is shown above already."""
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return "(the map)" if "\n" in text else text


# Two views


def _compare(domain: Domain, rules: str, models: list[int], form: Form) -> None:
    from jatpo.domains.compare import compare_all, groups

    if len(models) < 2:
        remedy = "leave out --model" if len(domain.labels(rules)) > 1 else "it has only one"
        raise JatpoError(f"--compare needs two models of '{domain.name}': {remedy}")
    pairs = compare_all([domain.description(k, rules) for k in models])
    together = groups(pairs, len(models))
    titles = ("models", "teammate", "rewards", "dynamics", "sensors", "start", "coincide", "evidence")
    table = Table.of(titles, [_pair(pair) for pair in pairs], f"{domain.name}, rules {rules}: what differs")
    if form.chosen:
        data = {"domain": domain.name, "rules": rules, "pairs": pairs, "groups": together}
        form.write([table], data)
        return
    print(table)
    print(folded(COMPARE_NOTES))
    if len(together) == 1:
        print(f"All {len(models)} models coincide exactly.")
    elif len(together) == len(models):
        print("No two models coincide.")
    for group in together if len(together) > 1 else []:
        if len(group) > 1:
            print(f"Models {', '.join(map(str, group))} coincide exactly.")


def _pair(pair: Comparison) -> tuple[Any, ...]:
    """One line of the comparison."""
    evidence = {True: "possible", False: "never", None: "unknown"}[pair.distinguishable]
    label = f"{pair.first}-{pair.second}"
    if not pair.comparable:
        return (label, *["other states"] * 5, pair.coincide, evidence)
    parts = (pair.teammate, pair.reward, pair.transition, pair.observation)
    start = f"max {pair.start:.2g}" if pair.start else "same"
    return (label, *map(_rows, parts), start, pair.coincide, evidence)


def _rows(rows: Rows | None) -> str | None:
    if rows is None:
        return None
    return f"{rows.differ} of {rows.total}, max {rows.largest:.3g}" if rows.differ else "same"


def _exact(domain: Domain, rules: str, models: list[int], form: Form) -> None:
    from jatpo.domains.exact import exact_returns

    labels, horizon = domain.labels(rules), domain.horizon
    returns = {k: exact_returns(domain.description(k, rules), horizon) for k in models}
    lines: list[tuple[Any, ...]] = [(k, *(f"{part:z.2f}" for part in returns[k]), labels[k]) for k in models]
    mean = (sum(part) / len(models) for part in zip(*returns.values(), strict=True))
    lines.append(("mean", *(f"{part:z.2f}" for part in mean), ""))
    titles = ("model", "value iteration", "random", "optimal value", "label")
    table = Table.of(titles, lines, f"{domain.name}, rules {rules}: exact returns over {horizon} steps")
    if form.chosen:
        facts = {"domain": domain.name, "rules": rules, "horizon": horizon}
        form.write(
            [table], [{"model": k, **returns[k]._asdict(), "label": labels[k], **facts} for k in models]
        )
        return
    print(table)
    note = f"the optimal value knows the state and is discounted by {domain.discount(rules):g}"
    print(folded(f"\nReturns are undiscounted; {note}."))
